#pragma once

#include <algorithm>
#include <cerrno>
#include <string_view>

#include <dlfcn.h>
#include <link.h>

namespace phantora::libc {

/// The file name of the library or program that contains `address`; empty if that is not known.
/// Asked at each wait and sleep: dladdr() would look through all symbols of the library for the
/// nearest one, which takes a millisecond in those of PyTorch.
inline std::string_view library_of(const void* address) noexcept {
  dl_find_object found{};
  if (_dl_find_object(const_cast<void*>(address), &found) != 0) return {};
  std::string_view file = found.dlfo_link_map->l_name;
  if (file.empty()) return program_invocation_short_name;  // the program itself has no name there
  file.remove_prefix(std::min(file.size(), file.rfind('/') + 1));
  return file;
}

/// PyTorch's own retries and pollers sleep while something outside happens; how often depends on
/// the machine, so that their sleeping must not move time. What the program sleeps does.
inline bool is_infrastructure(std::string_view library) noexcept {
  return library.starts_with("libtorch") || library.starts_with("libc10") ||
         library.starts_with("libgloo") || library.starts_with("libstdc++");
}

}  // namespace phantora::libc
