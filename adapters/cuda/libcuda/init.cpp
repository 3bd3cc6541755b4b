#include "cuda/libcuda/entry.hpp"

#include <cstring>
#include <string>

#include <dlfcn.h>
#include <link.h>

using namespace phantora::libcuda;
namespace rank = phantora::rank;

namespace {

struct Text {
  const char* name;
  const char* description;
};

Text text_of(CUresult code) noexcept {
  switch (static_cast<int>(code)) {
#define PHANTORA_ERROR(number, name, description) \
  case number:                                    \
    return {#name, description};
#include "cuda/libcuda/errors.inc"
#undef PHANTORA_ERROR
    default:
      return {nullptr, nullptr};
  }
}

struct EntryPoint {
  const char* name;
  int since;  ///< CUDA version, e.g. 12030
  const char* symbol;
};
constexpr EntryPoint entry_points[] = {
#define PHANTORA_ENTRY_POINT(name, since, symbol) {name, since, symbol},
#include "exports/libcuda_entry_points.inc"
#undef PHANTORA_ENTRY_POINT
};

/// This library, whatever path it was loaded from.
void* self() {
  static void* const handle = [] {
    Dl_info info{};
    dladdr(reinterpret_cast<void*>(&text_of), &info);
    return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  }();
  return handle;
}

CUresult find(const char* name, void** function, int version, cuuint64_t flags,
              CUdriverProcAddressQueryResult* result) {
  if (!name || !function) return CUDA_ERROR_INVALID_VALUE;
  *function = nullptr;
  const char* symbol = nullptr;
  bool too_old = false;
  for (const EntryPoint& entry : entry_points) {  // revisions are in ascending order
    if (std::strcmp(entry.name, name) != 0) continue;
    if (entry.since <= version) {
      symbol = entry.symbol;
    } else {
      too_old = true;
    }
  }
  if (symbol && flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) {
    *function = dlsym(self(), (std::string{symbol} + "_ptsz").c_str());
    if (!*function) *function = dlsym(self(), (std::string{symbol} + "_ptds").c_str());
  }
  if (symbol && !*function) *function = dlsym(self(), symbol);
  if (result) {
    *result = *function ? CU_GET_PROC_ADDRESS_SUCCESS
              : too_old ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                        : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

}  // namespace

PHANTORA_EXPORT CUresult cuInit(unsigned flags) {
  return entry(Api::get_device, [&] { return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS; });
}

PHANTORA_EXPORT CUresult cuDriverGetVersion(int* version) {
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

PHANTORA_EXPORT CUresult cuGetErrorName(CUresult error, const char** text) {
  *text = text_of(error).name;
  return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

PHANTORA_EXPORT CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = text_of(error).description;
  return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

PHANTORA_EXPORT CUresult cuGetProcAddress(const char* name, void** function, int version,
                                          cuuint64_t flags,
                                          CUdriverProcAddressQueryResult* result) {  // _v2
  return entry(Api::get_last_error, [&] { return find(name, function, version, flags, result); });
}

#undef cuGetProcAddress
PHANTORA_EXPORT CUresult cuGetProcAddress(const char* name, void** function, int version,
                                          cuuint64_t flags) {
  return entry(Api::get_last_error, [&] { return find(name, function, version, flags, nullptr); });
}

PHANTORA_EXPORT CUresult cuGetExportTable(const void** table, const CUuuid*) {
  // Only a runtime that is linked into who calls asks for NVIDIA's private tables: one that could
  // not be redirected (cuda/static_runtime), or that of NVIDIA's compilers, which do without.
  if (table) *table = nullptr;
  Dl_info caller{};
  link_map* object = nullptr;
  const bool known = dladdr1(__builtin_return_address(0), &caller,
                             reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP) != 0 &&
                     caller.dli_fname;
  const std::string file = known ? caller.dli_fname : "this program";
  if (file.find("/libnv") != file.npos) return CUDA_ERROR_NOT_FOUND;
  const auto redirected = reinterpret_cast<bool (*)(const link_map*)>(
      dlsym(RTLD_DEFAULT, "phantora_runtime_redirected"));
  if (redirected && redirected(object)) return CUDA_ERROR_NOT_FOUND;
  rank::warn_once("static cudart",
                  "the CUDA runtime linked into " + file +
                      " is not simulated: its release is before CUDA 12, or nothing tells its "
                      "functions. Link it with the shared libcudart (nvcc -cudart shared)");
  return CUDA_ERROR_NOT_FOUND;
}
