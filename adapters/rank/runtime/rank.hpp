#pragma once

#include "channel/settings.hpp"
#include "rank/memory/data_queue.hpp"
#include "rank/runtime/activities.hpp"
#include "rank/runtime/branches.hpp"
#include "rank/runtime/captures.hpp"
#include "rank/runtime/communicators.hpp"
#include "rank/runtime/followed_clock.hpp"
#include "rank/runtime/helper.hpp"
#include "rank/runtime/host_functions.hpp"
#include "rank/runtime/mutex.hpp"
#include "rank/runtime/program_ticks.hpp"
#include "rank/runtime/standing.hpp"
#include "rank/runtime/streams.hpp"
#include "rank/runtime/thread_clocks.hpp"
#include "rank/runtime/warnings.hpp"
#include "rank/small_data.hpp"

#include <phantora/kernels/gpu_model.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace phantora::rank {

/// What this process is to the simulation: the state that its entry points share. One is made at
/// the first intercepted call of a process and never destroyed, since others come from destructors
/// at its exit.
struct Rank {
  Rank();

  /// The connection; made at first use, which may wait until the engine lets this rank run.
  /// nullptr when the process does not run under `phantora run`.
  Connection* connect() {
    Connection* const made = clocks.connection();
    return made != nullptr ? made : make_connection();
  }

  /// The process's devices, as host-wide indices: those of CUDA_VISIBLE_DEVICES when CUDA is first
  /// asked.
  const std::vector<int>& devices() {
    return devices_read_.load(std::memory_order_acquire) ? devices_ : read_devices();
  }

  const std::optional<channel::Settings> settings;  ///< nothing outside of `phantora run`
  const std::size_t host;                           ///< the process's own, in settings->hosts
  const GpuModel gpu;                               ///< as all GPUs of that host are
  std::atomic<Standing> standing;
  const std::unique_ptr<FollowedClock> followed;  ///< by whoever may still join
  std::atomic<Helper*> helper{nullptr};  ///< of a process that a rank started, directly or not
  Epoch epoch;
  ThreadClocks clocks;
  DataQueue data;
  SmallData small_data;
  Activities activities;
  ProgramTicks program_ticks;
  Streams streams;
  Communicators communicators;
  Captures captures{detail::capture_count};
  Branches branches;
  HostFunctions host_functions;
  Warnings warnings;
  std::atomic<std::uint64_t> naming_threads{0};  ///< that have named a range
  std::atomic<std::uint64_t> named_ranges{0};    ///< that have begun

 private:
  Connection* make_connection();
  /// The process was forked from one of the simulation, when that one's clock showed `then`.
  void was_forked(Time then) noexcept;
  const std::vector<int>& read_devices();
  void handle_delivery(const channel::Delivery& delivery, std::span<const std::byte> bytes);

  Mutex connecting_;
  std::once_flag devices_once_;
  std::atomic<bool> devices_read_{false};
  std::vector<int> devices_;
};

namespace detail {
extern std::atomic<Rank*> the_rank;
Rank& make_rank() noexcept;
}  // namespace detail

/// This process's.
inline Rank& this_rank() noexcept {
  Rank* const made = detail::the_rank.load(std::memory_order_acquire);
  return made != nullptr ? *made : detail::make_rank();
}

/// The same where the process lives in virtual time, else nullptr. Before there is a Rank, time is
/// real: the C++ library allocates when it is loaded, which is before this library is.
inline Rank* rank_in_time() noexcept {
  Rank* const made = detail::the_rank.load(std::memory_order_acquire);
  const bool in_time =
      made != nullptr && made->standing.load(std::memory_order_relaxed) == Standing::in_time;
  return in_time ? made : nullptr;
}

}  // namespace phantora::rank
