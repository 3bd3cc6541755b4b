#pragma once

#include "rank/code/code_links.hpp"
#include "rank/runtime/timeline.hpp"

#include <phantora/kernels/kernel_cost_model.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// Kernels as the program registered them, and what a launch of one means.
namespace phantora::rank {

/// A registered fat binary: what __cudaRegisterFatBinary or cuModuleLoadData was given.
/// Parsed lazily: nothing is read before the first kernel of it is launched or asked about.
struct Module {
  const void* image = nullptr;
  /// Its __device__ variables that have memory, which any of its kernels may write.
  std::vector<std::pair<void*, std::size_t>> variables{};
  /// A kernel that is not executed was launched: it may have written those that have none yet.
  mutable bool touched = false;
};
/// A variable of `module` got memory, and what it holds at first: address and bytes. Thread-safe.
void add_variable(Module& module, void* address, std::size_t bytes);

/// One __global__ function. Created at registration, alive until the process ends; the strings stay
/// where the program has them (tens of thousands are registered and few are launched).
struct Kernel {
  const Module* module = nullptr;
  const char* mangled = nullptr;
  const void* host_stub = nullptr;
  std::atomic<const struct KernelReading*> reading{nullptr};  ///< made at first launch
};

/// Loads and stores of global memory in a kernel's code, by thread.
struct Accesses {
  double once = 0, once_bytes = 0;          ///< outside of loops
  double repeated = 0, repeated_bytes = 0;  ///< in loops, each time
  double widest = 0;                        ///< bytes of the widest in loops
  bool multiplies_matrices = false;         ///< with tensor cores
};

/// Resources of a kernel, from its cubin for the simulated GPU's architecture.
struct KernelResources {
  /// What its machine code was compiled for (86 = sm_86), which runs on later ones of the same
  /// major number too; that of the GPU where the code is PTX or was not found.
  int architecture = 0;
  int registers = 32;
  std::size_t static_shared = 0, local = 0, constant = 0;
  int max_threads = 1024;
  std::vector<std::uint32_t> parameter_sizes;  ///< bytes, in order; empty when unknown
  /// Where each lies among all; empty when unknown.
  std::vector<std::uint32_t> parameter_offsets{};
  KernelQuery::Dim3 cluster{0, 0, 0};  ///< that it was compiled for (__cluster_dims__), or zeros
  Accesses accesses{};                 ///< of kernels that have no C++ signature
  std::string signature{};             ///< as the code tells it, where the mangled name does not
  std::size_t code_offset = 0, code_size = 0;  ///< of its machine code in the file; 0 = none
  CodeLinks links{};
  std::size_t parameters_at = 0;  ///< where its parameters begin in constant bank 0; 0 = not told
  std::vector<std::string> externals{};  ///< functions of the driver's own that its code calls
};
const KernelResources& resources(const Kernel& kernel);
/// Whether the code of `module` has a kernel of this name; true where it tells of none.
bool has_kernel(const Module& module, const char* name);
/// Of all kernels in the code of `module` for the simulated GPU.
std::vector<std::string> kernel_names(const Module& module);

struct LaunchShape {
  KernelQuery::Dim3 grid{}, block{};
  std::size_t shared_bytes = 0;
  bool operator==(const LaunchShape&) const = default;
};

/// A kernel launch: describes it to the engine (name, shape, bytes that it moves, as far as its
/// arguments tell), executes it in stream order if its operands are small and its meaning is known,
/// and otherwise makes what its pointer arguments reach unknown.
/// @param args  as in cudaLaunchKernel: one pointer per parameter.
void launch_kernel(Kernel& kernel, const LaunchShape& shape, void** args, Stream& stream);

/// Copies of cudaMemcpyAsync and cudaMemsetAsync kind, with their data and their time.
/// Device-to-host copies to pageable memory, and all with `blocking`, return when done.
enum class CopyKind : std::uint8_t {
  host_to_host,
  host_to_device,
  device_to_host,
  device_to_device
};
void copy_async(void* destination, const void* source, std::size_t bytes, CopyKind kind,
                bool host_is_pinned, bool blocking, Stream& stream);
void fill_async(void* destination, int value, std::size_t bytes, Stream& stream);

}  // namespace phantora::rank
