// The driver's log. Nothing is ever written to it here: who asks to be told is never called.

#include "cuda/libcuda/entry.hpp"
#include "rank/runtime/mutex.hpp"

#include <cstdint>
#include <fstream>
#include <mutex>
#include <set>

using namespace phantora::libcuda;
namespace rank = phantora::rank;

namespace {

rank::Mutex callbacks_mutex;
std::uintptr_t last_callback = 0;
std::set<std::uintptr_t> callbacks;

}  // namespace

PHANTORA_EXPORT CUresult cuLogsRegisterCallback(CUlogsCallback callback, void*,
                                                CUlogsCallbackHandle* handle) {
  return entry(Api::get_last_error, [&] {
    if (!callback) return CUDA_ERROR_INVALID_VALUE;
    const std::lock_guard lock{callbacks_mutex};
    callbacks.insert(++last_callback);
    if (handle) *handle = reinterpret_cast<CUlogsCallbackHandle>(last_callback);
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle handle) {
  return entry(Api::get_last_error, [&] {
    const std::lock_guard lock{callbacks_mutex};
    return callbacks.erase(reinterpret_cast<std::uintptr_t>(handle)) != 0
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
  });
}

PHANTORA_EXPORT CUresult cuLogsCurrent(CUlogIterator* iterator, unsigned flags) {
  return entry(Api::get_last_error, [&] {
    if (!iterator || flags) return CUDA_ERROR_INVALID_VALUE;
    *iterator = 0;
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuLogsDumpToFile(CUlogIterator*, const char* path, unsigned flags) {
  return entry(Api::get_last_error, [&] {
    if (!path || flags || !std::ofstream{path}) return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuLogsDumpToMemory(CUlogIterator*, char* buffer, std::size_t* size,
                                            unsigned flags) {
  return entry(Api::get_last_error, [&] {
    if (!buffer || !size || flags) return CUDA_ERROR_INVALID_VALUE;
    if (*size > 0) *buffer = '\0';
    *size = 0;
    return CUDA_SUCCESS;
  });
}
