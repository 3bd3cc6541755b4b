#pragma once

#include "rank/timeline.hpp"

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

#include <nccl.h>

/// What an ncclComm_t points to.
struct ncclComm {
  std::uint64_t handle = 0;  ///< of join_communicator; 0 as long as the group that makes it is open
  phantora::rank::CommunicatorInfo info{};
  /// Answers of ncclCommGetAsyncError that still say "in progress": a non-blocking operation is
  /// seen once as running, so that the program takes the way that it takes with the real library.
  std::atomic<int> in_progress{0};
  std::mutex mutex{};
  std::map<int, double> multipliers{};  ///< of ncclRedOpCreatePreMulSum, by operator
  int next_operator = ncclNumOps;
};

namespace phantora::nccl {

/// The first words of every version of ncclConfig_t, and those that we heed.
bool blocking(const ncclConfig_t* config);

}  // namespace phantora::nccl
