#pragma once

#include "rank/kernels/kernel_launch.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <cuda.h>

namespace phantora::driver {

/// A kernel with what the program set on it. Its address is the program's cudaKernel_t,
/// cudaFunction_t, CUkernel and CUfunction.
struct Function : rank::Kernel {
  /// cudaFuncAttributeMaxDynamicSharedMemorySize, once the program set it.
  std::atomic<int> chosen_dynamic_shared{-1};
  /// cudaFuncAttributeNonPortableClusterSizeAllowed.
  std::atomic<int> non_portable_clusters{0};
};

/// Where a parameter lies among all of a kernel's, in bytes.
struct Parameter {
  std::size_t offset = 0, size = 0;
};
/// nullopt for one that the kernel does not have.
inline std::optional<Parameter> parameter(const Function& function, std::size_t index) {
  const rank::KernelResources& kernel = rank::resources(function);
  if (index >= kernel.parameter_offsets.size()) return std::nullopt;
  return Parameter{kernel.parameter_offsets[index], kernel.parameter_sizes[index]};
}

/// Dynamic shared memory that a launch may ask for: what the program opted in to, else what the
/// kernel's own leaves of 48 KiB.
int max_dynamic_shared(const Function& function);

/// Sets what the program asks for, as the driver takes it (all attributes up to number 19 were
/// tried on an H100, driver 580.159.04): false, and nothing is set, for a value out of range and
/// for attributes that cannot be set or that there are not. Triton 3.9 asks first for one of a
/// newer CUDA, and where that is refused for more shared memory by the usual one.
bool set_attribute(Function& function, CUfunction_attribute attribute, int value);

enum class LaunchStatus : std::uint8_t {
  launched,
  bad_configuration,  ///< grid or block out of the device's range
  bad_cluster,        ///< too many blocks, or the grid is no multiple of it
  too_much_shared,    ///< more dynamic shared memory than the program opted in to
  out_of_resources,   ///< more threads than the kernel's registers or launch bounds allow
  wrong_device        ///< the stream is of another device
};

/// Whether the device can run such a launch, wherever: `launched` if so.
/// @param cluster  in blocks, as the launch asks; zeros: as the kernel was compiled
LaunchStatus check(const Function& function, const rank::LaunchShape& shape,
                   const KernelQuery::Dim3& cluster = {0, 0, 0});
/// Checks the launch as the driver does, synchronously, and hands it to the rank.
/// @param cluster  in blocks, as the launch asks; zeros: as the kernel was compiled
LaunchStatus launch(Function& function, const rank::LaunchShape& shape, void** arguments,
                    rank::Stream& stream, const KernelQuery::Dim3& cluster = {0, 0, 0});

/// Blocks of `function` that fit on one SM at once, by threads, registers and shared memory.
/// 0 if not even one does.
int blocks_per_sm(const Function& function, int threads, std::size_t dynamic_shared);
/// Clusters of so many blocks that the GPU runs at once.
int clusters_at_once(const Function& function, int threads, std::size_t dynamic_shared,
                     unsigned cluster);
/// Dynamic shared memory that each of so many blocks on one SM could have; nullopt if they do not
/// fit there without any.
std::optional<std::size_t> dynamic_shared_room(const Function& function, int blocks, int threads);

}  // namespace phantora::driver
