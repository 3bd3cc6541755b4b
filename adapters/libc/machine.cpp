// What a rank sees of its machine: the simulated hosts' names, and our libraries in place of
// NVIDIA's.

#include "libc/elf_file.hpp"
#include "libc/real.hpp"
#include "libc/unknown_names.hpp"
#include "rank/runtime/process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include <netdb.h>
#include <sys/utsname.h>
#include <unistd.h>

using namespace phantora;
using namespace phantora::libc;

namespace {

constinit Real<void* (*)(const char*, int)> real_dlopen{"dlopen"};
constinit Real<int (*)(utsname*)> real_uname{"uname"};
constinit Real<int (*)(char*, std::size_t)> real_gethostname{"gethostname"};
constinit Real<int (*)(const char*, const char*, const addrinfo*, addrinfo**)> real_getaddrinfo{
    "getaddrinfo"};

/// The SONAMEs of the libraries that stand in for NVIDIA's: opening any file of such a name, at
/// whatever path, opens ours.
constexpr std::array<const char*, 30> replaced = {"libcudart.so.12",
                                                  "libcudart.so.13",
                                                  "libcublas.so.12",
                                                  "libcublas.so.13",
                                                  "libcublasLt.so.12",
                                                  "libcublasLt.so.13",
                                                  "libcudnn.so.9",
                                                  "libcufft.so.11",
                                                  "libcufft.so.12",
                                                  "libcusparse.so.12",
                                                  "libcusparseLt.so.0",
                                                  "libcusolver.so.11",
                                                  "libcusolver.so.12",
                                                  "libcurand.so.10",
                                                  "libcupti.so.12",
                                                  "libcupti.so.13",
                                                  "libcufile.so.0",
                                                  "libnccl.so.2",
                                                  "libnvshmem_host.so.3",
                                                  "libcuda.so.1",
                                                  "libcudnn_ops.so.9",
                                                  "libcudnn_cnn.so.9",
                                                  "libcudnn_adv.so.9",
                                                  "libcudnn_graph.so.9",
                                                  "libcudnn_heuristic.so.9",
                                                  "libcudnn_engines_precompiled.so.9",
                                                  "libcudnn_engines_runtime_compiled.so.9",
                                                  "libcufftw.so.12",
                                                  "libcusolverMg.so.12",
                                                  "libnvblas.so.13"};

/// A library that two releases of CUDA have, both of which are preloaded.
struct OfTwoReleases {
  std::string_view name, other;
  const char* nowhere;  ///< what is opened in its place where the program is of the other release
};
constexpr OfTwoReleases of_two_releases[] = {
    {"libcudart.so.12", "libcudart.so.13", "/none/libcudart.so.12"},
    {"libcudart.so.13", "libcudart.so.12", "/none/libcudart.so.13"},
    {"libcublas.so.12", "libcublas.so.13", "/none/libcublas.so.12"},
    {"libcublas.so.13", "libcublas.so.12", "/none/libcublas.so.13"},
    {"libcublasLt.so.12", "libcublasLt.so.13", "/none/libcublasLt.so.12"},
    {"libcublasLt.so.13", "libcublasLt.so.12", "/none/libcublasLt.so.13"}};

/// Whether files of the process were linked with the other release's library, and none with this
/// one's: then the machine would not have it. cuDNN's frontend asks for one release after the other
/// and takes the first.
bool is_of_another_release(const OfTwoReleases& library) {
  bool other = false;
  for (const std::string& path : loaded_files()) {
    const auto elf = ElfFile::open(path);
    if (!elf) continue;
    for (const std::string_view needed : elf->needed()) {
      if (needed == library.name) return false;
      other = other || needed == library.other;
    }
  }
  return other;
}

const char* redirected(const char* file) {
  if (file == nullptr || rank::settings() == nullptr) return file;
  std::string_view name = file;
  for (const OfTwoReleases& library : of_two_releases) {
    if (name == library.name && is_of_another_release(library)) return library.nowhere;
  }
  name.remove_prefix(name.rfind('/') == name.npos ? 0 : name.rfind('/') + 1);
  if (name == "libcuda.so") return "libcuda.so.1";
  if (name == "libnvidia-ml.so" || name == "libnvidia-ml.so.1") return "libnvidia-ml.so.1";
  const auto* const found = std::find(replaced.begin(), replaced.end(), name);
  if (found != replaced.end()) return *found;
  // Parts of cuDNN that later releases have: whoever loads all of a folder (Transformer Engine)
  // calls cuDNN itself.
  return name.starts_with("libcudnn_") && name.ends_with(".so.9") ? "libcudnn.so.9" : file;
}

/// nullptr in a process of no simulated host.
const char* simulated_host_name() {
  return rank::settings() != nullptr ? rank::host_name().c_str() : nullptr;
}

bool names_simulated_host(std::string_view name) {
  const channel::Settings* const told = rank::settings();
  return told != nullptr &&
         std::any_of(told->hosts.begin(), told->hosts.end(),
                     [&](const channel::HostFacts& host) { return host.name == name; });
}

}  // namespace

extern "C" {

/// A tail call, so that the C library still sees the caller's return address: it decides whose
/// RPATH applies.
__attribute__((optimize("O2"))) void* dlopen(const char* file, int mode) {
  answer_unknown_names(file, __builtin_return_address(0));
  return real_dlopen.get()(redirected(file), mode);
}

int gethostname(char* name, std::size_t length) {
  const char* simulated = simulated_host_name();
  if (simulated == nullptr) return real_gethostname(name, length);
  const std::size_t needed = std::strlen(simulated) + 1;
  std::memcpy(name, simulated, std::min(needed, length));
  if (needed <= length) return 0;
  errno = ENAMETOOLONG;
  return -1;
}

/// All simulated hosts are this machine.
int getaddrinfo(const char* node, const char* service, const addrinfo* hints, addrinfo** out) {
  const bool ours = node != nullptr && names_simulated_host(node);
  return real_getaddrinfo(ours ? "127.0.0.1" : node, service, hints, out);
}

int uname(utsname* out) {
  const int result = real_uname(out);
  if (const char* simulated = simulated_host_name(); result == 0 && simulated != nullptr) {
    const std::size_t length = std::min(std::strlen(simulated), sizeof out->nodename - 1);
    std::memcpy(out->nodename, simulated, length);
    out->nodename[length] = '\0';
  }
  return result;
}

}  // extern "C"
