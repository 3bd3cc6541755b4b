#pragma once

#include <cstddef>
#include <optional>

/// More device memory than the GPU has (--gpu-memory): allocations for which it has no room left
/// get addresses of their own, and share a pool of memory, the largest ones first.
///
/// Kernels do the same work as on a GPU with that much memory, but what is in those allocations is
/// overwritten through others: numbers are nonsense, and a kernel whose time, or whose addresses,
/// hang on them is not measured as it would be. Allocations of up to 2 MiB, where PyTorch has
/// tensors of up to 1 MiB, never share: so most indices stay right.
namespace phantora::measure {

struct DeviceAllocation {
  void* base = nullptr;
  std::size_t bytes = 0;
};
/// The shared allocation that holds `address`.
std::optional<DeviceAllocation> aliased_allocation(const void* address);

}  // namespace phantora::measure
