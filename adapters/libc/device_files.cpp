// The files of NVIDIA's driver, for programs that look whether they are there before they ask CUDA
// (JAX does): each simulated host has /dev/nvidia0 ..., /dev/nvidiactl and /dev/nvidia-uvm. Nothing
// can be read from them; who opens them speaks to the driver itself, which is not simulated.

#include "libc/real.hpp"
#include "rank/runtime/process.hpp"

#include <charconv>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

using phantora::libc::Real;
namespace rank = phantora::rank;

namespace {

constinit Real<int (*)(const char*, int)> real_access{"access"};
constinit Real<int (*)(int, const char*, int, int)> real_faccessat{"faccessat"};
constinit Real<int (*)(const char*, struct stat*)> real_stat{"stat"};
constinit Real<int (*)(const char*, struct stat*)> real_lstat{"lstat"};
constinit Real<int (*)(int, const char*, struct stat*, int)> real_fstatat{"fstatat"};
constinit Real<int (*)(int, const char*, struct stat*)> real_xstat{"__xstat", "GLIBC_2.2.5"};
constinit Real<int (*)(int, const char*, struct stat*)> real_lxstat{"__lxstat", "GLIBC_2.2.5"};
constinit Real<int (*)(int, int, const char*, struct stat*, int)> real_fxstatat{"__fxstatat",
                                                                                "GLIBC_2.4"};
constinit Real<int (*)(int, const char*, int, unsigned, struct statx*)> real_statx{"statx"};

bool is_number_of_gpu(std::string_view text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && number >= 0 &&
         number < rank::physical_device_count();
}

/// Whether the driver of this process's simulated host has a file of this name.
bool is_device_file(const char* path) {
  constexpr std::string_view prefix = "/dev/nvidia";
  if (path == nullptr || std::strncmp(path, prefix.data(), prefix.size()) != 0) return false;
  if (rank::settings() == nullptr) return false;
  const std::string_view rest = path + prefix.size();
  return rest == "ctl" || rest == "-uvm" || is_number_of_gpu(rest);
}

/// A character device that anybody may read and write, as those of the driver are.
const char* shown(const char* path) { return is_device_file(path) ? "/dev/null" : path; }

}  // namespace

extern "C" {

int access(const char* path, int mode) { return real_access(shown(path), mode); }
int faccessat(int folder, const char* path, int mode, int flags) {
  return real_faccessat(folder, shown(path), mode, flags);
}

int stat(const char* path, struct stat* out) { return real_stat(shown(path), out); }
int lstat(const char* path, struct stat* out) { return real_lstat(shown(path), out); }
int fstatat(int folder, const char* path, struct stat* out, int flags) {
  return real_fstatat(folder, shown(path), out, flags);
}
int statx(int folder, const char* path, int flags, unsigned mask, struct statx* out) {
  return real_statx(folder, shown(path), flags, mask, out);
}

// On x86-64 both kinds of struct are one.
static_assert(sizeof(struct stat) == sizeof(struct stat64));
int stat64(const char* path, struct stat64* out) {
  return stat(path, reinterpret_cast<struct stat*>(out));
}
int lstat64(const char* path, struct stat64* out) {
  return lstat(path, reinterpret_cast<struct stat*>(out));
}
int fstatat64(int folder, const char* path, struct stat64* out, int flags) {
  return fstatat(folder, path, reinterpret_cast<struct stat*>(out), flags);
}

// What programs call that were built with a glibc before 2.33.
int __xstat(int version, const char* path, struct stat* out) {
  return real_xstat(version, shown(path), out);
}
int __lxstat(int version, const char* path, struct stat* out) {
  return real_lxstat(version, shown(path), out);
}
int __fxstatat(int version, int folder, const char* path, struct stat* out, int flags) {
  return real_fxstatat(version, folder, shown(path), out, flags);
}
int __xstat64(int version, const char* path, struct stat64* out) {
  return __xstat(version, path, reinterpret_cast<struct stat*>(out));
}
int __lxstat64(int version, const char* path, struct stat64* out) {
  return __lxstat(version, path, reinterpret_cast<struct stat*>(out));
}
int __fxstatat64(int version, int folder, const char* path, struct stat64* out, int flags) {
  return __fxstatat(version, folder, path, reinterpret_cast<struct stat*>(out), flags);
}

}  // extern "C"
