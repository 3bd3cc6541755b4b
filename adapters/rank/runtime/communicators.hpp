#pragma once

#include "rank/runtime/spin_lock.hpp"
#include "rank/runtime/streams.hpp"
#include "rank/runtime/timeline.hpp"

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>

namespace phantora::rank {

/// The communicators of which this process is a member, and the operations on them: in time, as one
/// record for each stream and communicator of a group, and in data where that is small.
/// timeline.hpp says what the functions mean.
class Communicators {
 public:
  Communicators(ThreadClocks& clocks, Streams& streams, Activities& activities)
      : clocks_{clocks}, streams_{streams}, activities_{activities} {}
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  std::optional<std::uint64_t> join(HostThread& thread, std::span<const std::byte, 128> unique_id,
                                    const CommunicatorInfo& place, int physical_device);
  std::uint64_t split(HostThread& thread, std::uint64_t parent, int color, int key);
  void leave(HostThread& thread, std::uint64_t communicator);
  CommunicatorInfo info(std::uint64_t communicator);
  void make_unique_id(std::span<std::byte, 128> out);
  void enqueue(HostThread& thread, std::span<const CollectiveCall> group);

 private:
  void add(std::uint64_t communicator, const CommunicatorInfo& info);
  void enqueue_data(HostThread& thread, const CollectiveCall& call, const CommunicatorInfo& info,
                    std::uint64_t ticket);

  ThreadClocks& clocks_;
  Streams& streams_;
  Activities& activities_;
  SpinLock mutex_{};
  std::unordered_map<std::uint64_t, CommunicatorInfo> all_{};
  std::atomic<std::uint64_t> last_ticket_{0};
  std::atomic<std::uint64_t> unique_ids_{0};
};

}  // namespace phantora::rank
