#pragma once

#include "rank/runtime/api_call.hpp"
#include "rank/runtime/process.hpp"
#include "rank/runtime/timeline.hpp"

#include <atomic>
#include <functional>
#include <string>

#include <nccl.h>

/// What the NCCL entry points share. ncclComm_t points to a ncclComm.
struct ncclComm {
  std::uint64_t handle = 0;
  int ranks = 0, rank = 0, device = 0;
  std::atomic<ncclResult_t> state{ncclSuccess};
  std::atomic<bool> suspended{false};
  std::uint64_t grows = 0;  ///< larger communicators made of this one
  bool name_given = false;  ///< ncclCommGetUniqueId named the next of them
};

namespace phantora::nccl {

#define PHANTORA_EXPORT extern "C" __attribute__((visibility("default")))

/// Keeps the text for ncclGetLastError; returns `result`.
ncclResult_t fail(ncclResult_t result, std::string why) noexcept;

/// What a caller is told of the exception that is being handled.
ncclResult_t told_of_exception() noexcept;

/// Runs `body`, charged as `api`; no exception leaves.
template <class Body>
ncclResult_t entry(rank::Api api, Body&& body) noexcept {
  const rank::ApiCall call{api};
  try {
    if (!rank::simulated()) return fail(ncclSystemError, "not under phantora run");
    return body();
  } catch (...) {
    return told_of_exception();
  }
}

/// Joins the communicator that `id` names, as `rank` of `ranks`.
ncclResult_t init(ncclComm_t* comm, int ranks, const ncclUniqueId& id, int rank);

/// Operations and initialisations between ncclGroupStart and the outermost ncclGroupEnd wait here.
/// Outside of a group they are carried out at once.
ncclResult_t submit(const rank::CollectiveCall& call);
ncclResult_t submit(std::function<ncclResult_t()> initialisation);

/// A dynamic ncclRedOp_t's scalar, or what a built-in one means.
struct Operator {
  rank::Reduction reduction{};
  double premul = 1.0;
};
/// @throws std::invalid_argument for an operator that does not exist.
Operator operator_of(ncclRedOp_t op);

}  // namespace phantora::nccl
