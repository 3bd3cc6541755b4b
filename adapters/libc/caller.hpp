#pragma once

#include <algorithm>
#include <string_view>

#include <dlfcn.h>

namespace phantora::libc {

/// The file name of the library or program that contains `address`; empty if that is not known.
inline std::string_view library_of(const void* address) noexcept {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return {};
  std::string_view file = info.dli_fname;
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
