#pragma once

#include "rank/kernels/kernel_launch.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace phantora::driver {

/// A kernel with what the program set on it. Its address is the program's cudaKernel_t,
/// cudaFunction_t, CUkernel and CUfunction.
struct Function : rank::Kernel {
  /// cudaFuncAttributeMaxDynamicSharedMemorySize: 48 KiB until the program opts in to more.
  std::atomic<int> max_dynamic_shared{48 * 1024};
};

enum class LaunchStatus : std::uint8_t {
  launched,
  bad_configuration,  ///< grid or block out of the device's range
  too_much_shared,    ///< more dynamic shared memory than the program opted in to
  out_of_resources,   ///< more threads than the kernel's registers or launch bounds allow
  wrong_device        ///< the stream is of another device
};

/// Whether the device can run such a launch, wherever: `launched` if so.
LaunchStatus check(const Function& function, const rank::LaunchShape& shape);
/// Checks the launch as the driver does, synchronously, and hands it to the rank.
LaunchStatus launch(Function& function, const rank::LaunchShape& shape, void** arguments,
                    rank::Stream& stream);

/// Blocks of `function` that fit on one SM at once, by threads, registers and shared memory.
/// 0 if not even one does.
int blocks_per_sm(const Function& function, int threads, std::size_t dynamic_shared);

}  // namespace phantora::driver
