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

}  // namespace phantora::libc
