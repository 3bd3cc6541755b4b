#pragma once

#include "rank/runtime/timeline.hpp"

#include <array>
#include <cstddef>
#include <memory>

/// Memory and events that processes of a host show each other (cudaIpc..., cuIpc...). The runtime's
/// and the driver's handles are the same 64 bytes.
///
/// Memory that was shown has its addresses and its times in every process, and takes its place
/// once; what is in it counts as unknown everywhere, since each process may write it.
namespace phantora::driver {

using IpcHandle = std::array<std::byte, 64>;

enum class IpcStatus { ok, invalid_value, invalid_handle, same_process, cannot_map, out_of_memory };

/// @param address  within memory of cudaMalloc
IpcStatus show_memory(const void* address, IpcHandle& handle);
/// The base of the allocation, as this process has it; the same for each opening.
IpcStatus open_memory(const IpcHandle& handle, void*& address);
IpcStatus close_memory(void* address);

IpcStatus show_event(rank::Event& event, IpcHandle& handle);
IpcStatus open_event(const IpcHandle& handle, std::unique_ptr<rank::Event>& event);

}  // namespace phantora::driver
