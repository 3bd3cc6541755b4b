#pragma once

#include "cuda/library/entry.hpp"

#include <nccl.h>

namespace phantora::nccl {

using library::Api;

inline constexpr library::Failures<ncclResult_t> failures{
    ncclUnhandledCudaError, ncclUnhandledCudaError, ncclInternalError};

template <class Body>
ncclResult_t entry(Api api, Body&& body) noexcept {
  return library::guarded(failures, api, body);
}

}  // namespace phantora::nccl
