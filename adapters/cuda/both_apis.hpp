#pragma once

// The runtime API and the driver API have functions that do the same, under names of their own and
// with types of their own. Their sources are compiled for both; here is what all of them need.

#ifdef PHANTORA_DRIVER_API

#include "cuda/libcuda/entry.hpp"

#define PHANTORA_API(name) cu##name

namespace phantora::both_apis {
using namespace phantora::libcuda;
using Status = CUresult;
}  // namespace phantora::both_apis

#else

#include "cuda/cudart/stream_argument.hpp"

#define PHANTORA_API(name) cuda##name

namespace phantora::both_apis {
using namespace phantora::cudart;
using Status = cudaError_t;
}  // namespace phantora::both_apis

#endif

namespace phantora::both_apis {
namespace {

constexpr Status success{};
[[noreturn]] inline void refuse(rank::Refusal::Status status) { throw rank::Refusal{status}; }
/// A condition that CUDA asks of its arguments.
inline void expect(bool valid) {
  if (!valid) refuse(rank::Refusal::invalid_value);
}

}  // namespace
}  // namespace phantora::both_apis
