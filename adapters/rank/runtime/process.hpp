#pragma once

#include "channel/settings.hpp"

#include <phantora/kernels/gpu_model.hpp>
#include <phantora/units.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

/// What this process is in the simulated cluster.
namespace phantora::rank {

/// True once this process runs under `phantora run` and the engine can be reached.
/// Entry points return cudaErrorNoDevice / CUDA_ERROR_NO_DEVICE when it is false.
bool simulated() noexcept;

/// GPUs of this process's simulated host (after CUDA_VISIBLE_DEVICES). Connects on first use.
int device_count();

/// The GPUs of this process's simulated host, which are alike.
const GpuModel& gpu();

/// What the launcher told; nullptr in a process that `phantora run` has not started.
const channel::Settings* settings() noexcept;

/// Name of the simulated host, e.g. "h200-0". Only where settings() are.
const std::string& host_name();

/// Calling thread's current device; 0 at first.
int current_device() noexcept;
void set_current_device(int device) noexcept;

/// GPUs of this process's simulated host, whatever CUDA_VISIBLE_DEVICES says.
int physical_device_count();

/// Host-wide index of a visible device: CUDA_VISIBLE_DEVICES undone.
int physical_device(int device);
/// The other way round; -1 if it is hidden from this process.
int visible_device(int physical);

/// The memory ledger of one simulated GPU, shared by all processes of the host.
/// reserve() returns false when the GPU's capacity would be exceeded.
bool reserve_memory(int device, std::size_t bytes) noexcept;
/// The same of what a context takes, which each process has on every GPU that it uses.
bool reserve_context(int device, std::size_t bytes) noexcept;
void release_context(int device, std::size_t bytes) noexcept;
void release_memory(int device, std::size_t bytes) noexcept;
struct MemoryInfo {
  std::size_t free = 0;
  std::size_t total = 0;
};
MemoryInfo memory_info(int device) noexcept;

/// Says `message` once per process on stderr, prefixed "phantora: ".
void warn_once(const char* key, const std::string& message);

/// An entry point that is not implemented was called: logged once by name, counted in the report.
void unsupported(const char* entry_point) noexcept;

/// A stretch of time that the program names begins on the calling thread, now.
/// @return its number, for note_range().
std::uint64_t begin_range(Time now);
/// It ends on the calling thread. @param range  0: a mark, which begins where it ends.
void note_range(std::uint64_t range, std::string_view name, Time start, Time end);

/// Adds to a counter of the report, e.g. "unknown_reads".
void count(const char* counter, std::uint64_t n = 1) noexcept;

}  // namespace phantora::rank
