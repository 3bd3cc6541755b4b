#pragma once

#include "cuda/library/entry.hpp"
#include "rank/runtime/timeline.hpp"

#include <cudnn.h>

/// What a cudnnHandle_t points to.
struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace phantora::cudnn {

using library::Api;

inline constexpr library::Failures<cudnnStatus_t> failures{
    CUDNN_STATUS_NOT_INITIALIZED, CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED,
    CUDNN_STATUS_INTERNAL_ERROR};

/// Runs `body`, charged as `api`; no exception leaves.
template <class Body>
cudnnStatus_t entry(Api api, Body&& body) noexcept {
  return library::guarded(failures, api, body);
}

inline rank::Stream& stream_of(cudnnHandle_t handle) { return driver::stream_of(handle->stream); }

}  // namespace phantora::cudnn
