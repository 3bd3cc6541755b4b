#pragma once

#include <cstddef>

/// One memory at several addresses (cuMemMap of one allocation into two ranges). All of
/// device_memory.hpp goes by what is said here.
namespace phantora::rank {

/// What is read and written at `address` is at `home` instead.
void show(void* address, void* home, std::size_t bytes);
/// No more.
void show_nothing(void* address);

}  // namespace phantora::rank
