#include "cuda/cudart/entry.hpp"

#include <string>

namespace phantora::cudart {
namespace {

thread_local cudaError_t latest = cudaSuccess;

struct Text {
  const char* name;
  const char* description;
};

Text text_of(cudaError_t code) noexcept {
  switch (static_cast<int>(code)) {
#define PHANTORA_ERROR(number, name, description) \
  case number:                                    \
    return {#name, description};
#include "cuda/cudart/errors.inc"
#undef PHANTORA_ERROR
    default:
      return {"unrecognized error code", "unrecognized error code"};
  }
}

}  // namespace

cudaError_t remember(cudaError_t status) noexcept {
  // "Not ready" is an answer, which an H200 does not keep (test/native/h200/errors.txt).
  if (status != cudaSuccess && status != cudaErrorNotReady) latest = status;
  return status;
}

cudaError_t last_error(bool clear) noexcept {
  const cudaError_t status = latest;
  if (clear) latest = cudaSuccess;
  return status;
}

void report(const std::exception& error) noexcept {
  try {
    rank::warn_once(error.what(), std::string{"internal error in a CUDA call: "} + error.what());
  } catch (...) {  // no memory left to say so
  }
}

}  // namespace phantora::cudart

using namespace phantora::cudart;

PHANTORA_EXPORT cudaError_t cudaGetLastError() {
  const phantora::rank::ApiCall call{Api::get_last_error,
                                     {phantora::rank::Interface::runtime, __func__}};
  return last_error(true);
}

PHANTORA_EXPORT cudaError_t cudaPeekAtLastError() {
  const phantora::rank::ApiCall call{Api::get_last_error,
                                     {phantora::rank::Interface::runtime, __func__}};
  return last_error(false);
}

PHANTORA_EXPORT const char* cudaGetErrorName(cudaError_t error) { return text_of(error).name; }

PHANTORA_EXPORT const char* cudaGetErrorString(cudaError_t error) {
  return text_of(error).description;
}
