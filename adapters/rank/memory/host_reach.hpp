#pragma once

#include <cstddef>

/// Host memory that a device can reach: page-locked, registered, managed. Kernels that are not
/// executed leave it as it is, which the user has to be told.
namespace phantora::rank {

void device_reaches(const void* base, std::size_t bytes);
void device_leaves(const void* base);
/// Whether `address` lies in such memory.
bool reached_by_device(const void* address);

}  // namespace phantora::rank
