#pragma once

#include "cuda/driver/context.hpp"
#include "cuda/driver/stream.hpp"
#include "rank/runtime/api_call.hpp"
#include "rank/runtime/process.hpp"
#include "rank/runtime/refusal.hpp"

#include <exception>
#include <new>
#include <string>

/// What the entry points of NVIDIA's math libraries and of NCCL do around their own work.
namespace phantora::library {

#define PHANTORA_EXPORT extern "C" __attribute__((visibility("default")))

using rank::Api;

/// How a library says that something went wrong outside of the call's arguments.
template <class Status>
struct Failures {
  Status not_initialized, out_of_memory, internal;
};

/// Runs `body`, charged as `api`, on the current device's context; no exception leaves.
template <class Status, class Body>
Status guarded(const Failures<Status>& failures, Api api, Body&& body) noexcept {
  const rank::ApiCall call{api};
  try {
    if (!rank::simulated()) return failures.not_initialized;
    if (!driver::activate(rank::current_device())) return failures.out_of_memory;
    return body();
  } catch (const rank::Refusal&) {
    return failures.internal;
  } catch (const std::bad_alloc&) {
    return failures.out_of_memory;
  } catch (const std::exception& error) {
    rank::warn_once(error.what(), std::string{"internal error in a library call: "} + error.what());
    return failures.internal;
  }
}

}  // namespace phantora::library
