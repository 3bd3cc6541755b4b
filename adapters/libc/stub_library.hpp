#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// A shared library of functions that only say that they were called.
namespace phantora::libc {

struct Stub {
  std::string name;
  std::uint64_t result = 0;  ///< what the function returns
};

/// The bytes of an ELF file for this process: each function calls `called` with its own name, which
/// stays valid, and returns its result. Its symbols have no version, and so satisfy a reference to
/// any.
std::vector<std::byte> stub_library(const std::vector<Stub>& stubs,
                                    void (*called)(const char* name));

/// Makes the functions visible to all libraries that are loaded from now on. False, with the
/// dynamic linker's reason in dlerror(), if it cannot be done.
bool load(const std::vector<std::byte>& library);

}  // namespace phantora::libc
