#pragma once

#include "rank/timeline.hpp"

#include <array>
#include <cstdint>
#include <string>

/// What the runtime API and the driver API share: contexts, stream handles, identities of devices.
namespace phantora::driver {

/// Makes sure that `device`'s primary context exists; the first call takes the context's own device
/// memory from the ledger.
/// @return false if the GPU has not that much memory left.
bool activate(int device);
bool active(int device) noexcept;
/// Gives the context's memory back (cudaDeviceReset).
void deactivate(int device);

/// What the null handle means: the legacy stream, or the calling thread's (API names in
/// _ptsz/_ptds).
enum class DefaultStream : std::uint8_t { legacy, per_thread };

/// The stream behind a CUstream, which cudaStream_t and the streams of all libraries are.
/// 0, 1 (legacy) and 2 (per thread) belong to the current device.
rank::Stream& stream_of(const void* handle, DefaultStream null_handle = DefaultStream::legacy);

/// PCI address of a visible device, made up but the same for every process of the host.
struct PciAddress {
  int domain = 0, bus = 0, device = 0;
};
PciAddress pci_address(int device);
std::string to_string(const PciAddress& address);  // "0000:1b:00.0"
/// The visible device at `text`, -1 if none is there.
int device_at(const std::string& text);

/// A UUID made from the host's name and the physical index.
std::array<unsigned char, 16> uuid(int device);

}  // namespace phantora::driver
