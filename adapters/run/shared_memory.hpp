#pragma once

#include "run/unique_fd.hpp"

#include <phantora/error.hpp>

#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include <sys/mman.h>

namespace phantora::run {

struct Unmap {
  template <class T>
  void operator()(T* mapped) const noexcept {
    munmap(mapped, sizeof *mapped);
  }
};
template <class T>
using Mapped = std::unique_ptr<T, Unmap>;

/// Anonymous memory that goes with its last user: our mapping, and those of whoever is given the
/// descriptor.
template <class T>
struct SharedMemory {
  UniqueFd descriptor{};
  Mapped<T> memory{};
};

/// @throws Error if the kernel gives none.
template <class T>
SharedMemory<T> make_shared_memory(const char* name) {
  SharedMemory<T> made{.descriptor = UniqueFd{memfd_create(name, MFD_CLOEXEC)}};
  if (made.descriptor.get() < 0 || ftruncate(made.descriptor.get(), sizeof(T)) != 0)
    throw Error{std::string{"cannot make shared memory: "} + std::strerror(errno)};
  void* address =
      mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED, made.descriptor.get(), 0);
  if (address == MAP_FAILED)
    throw Error{std::string{"cannot map shared memory: "} + std::strerror(errno)};
  made.memory.reset(new (address) T);
  return made;
}

}  // namespace phantora::run
