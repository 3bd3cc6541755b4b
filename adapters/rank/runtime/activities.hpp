#pragma once

#include "channel/wire.hpp"
#include "rank/runtime/api_call.hpp"
#include "rank/runtime/spin_lock.hpp"
#include "rank/runtime/timeline.hpp"

#include <phantora/units.hpp>

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

/// What a profiler inside the program is told: its calls, and what these made the GPU do, in
/// virtual time. CUPTI's stand-in puts it into CUPTI's words (cuda/cupti).
namespace phantora::rank {

struct HostThread;

/// A call of the program's. Operations and other notes refer to it by its number.
struct CallActivity {
  CalledFunction function{};
  std::uint32_t thread = 0;  ///< what pthread_self() is, as far as that goes in 32 bits
  std::uint32_t call = 0;    ///< from 1
  Time start{}, end{};
};

/// The program gave a number of its own to what `call` does
/// (cuptiActivityPushExternalCorrelationId).
struct NamedCallActivity {
  std::uint32_t kind = 0;
  std::uint64_t number = 0;
  std::uint32_t call = 0;
};

/// A kernel, copy or fill.
struct LaunchActivity {
  const KernelQuery* query = nullptr;
  KernelCode code{};
  const Stream* stream = nullptr;
  std::uint32_t call = 0;
  Time start{}, end{};
};

/// NCCL's kernel.
struct CollectiveActivity {
  channel::Collective op{};  ///< send or recv: of messages of any kind
  channel::DataType type{};
  bool tree = false;
  const Stream* stream = nullptr;
  std::uint32_t call = 0;
  Time start{}, end{};
};

/// A thread, or a stream, waited.
struct WaitActivity {
  enum class For : std::uint8_t { event, event_on_stream, stream, device } kind{};
  int device = 0;
  const Stream* stream = nullptr;  ///< that is waited for, or that waits
  Marker marker = 0;
  std::uint32_t call = 0;
  Time start{}, end{};
};

/// The program recorded an event.
struct EventActivity {
  const Stream* stream = nullptr;
  Marker marker = 0;
  std::uint32_t call = 0;
};

using Activity = std::variant<CallActivity, NamedCallActivity, LaunchActivity, CollectiveActivity,
                              WaitActivity, EventActivity>;

/// The notes of this process. Costs a look at a number while nobody wants any.
class Activities {
 public:
  enum Kind : unsigned {
    launches = 1,  ///< also of collectives
    calls = 2,
    named_calls = 4,
    waits = 8,
    events = 16,
  };
  /// @param kinds  of Kind, together; none: nothing more is noted.
  void want(unsigned kinds) noexcept { wanted_.store(kinds, std::memory_order_relaxed); }
  [[nodiscard]] bool wants(unsigned kinds) const noexcept {
    return (wanted_.load(std::memory_order_relaxed) & kinds) != 0;
  }
  [[nodiscard]] bool wants_any() const noexcept {
    return wanted_.load(std::memory_order_relaxed) != 0;
  }

  /// The calling thread's outermost call begins and ends.
  void call_begins(HostThread& thread, const CalledFunction& function, Time now);
  void call_ends(HostThread& thread, Time now);
  /// What the calling thread calls from now on is `number` to the program, of its kind `kind`.
  static void push_number(std::uint32_t kind, std::uint64_t number);
  /// The number that was pushed last; nothing if there is none.
  static std::optional<std::uint64_t> pop_number(std::uint32_t kind);

  /// What an interned kernel is besides its query.
  void describe(QueryId id, const KernelQuery* query, const KernelCode& code);
  /// The tag for the engine; 0: nobody wants to know of it.
  std::uint64_t launched(HostThread& thread, const Stream& stream, QueryId query) {
    return wants(launches) ? note_launch(thread, stream, query) : 0;
  }
  std::uint64_t launched(HostThread& thread, const CollectiveCall& call);
  void waited(HostThread& thread, WaitActivity wait);
  void recorded(HostThread& thread, const Stream& stream, Marker marker);

  /// Streams with something of which the end is not known.
  [[nodiscard]] std::vector<Stream*> unfinished();
  /// These have ended.
  void finish(std::span<const channel::TaggedSpan> spans);
  /// All that is known from begin to end, in the order in which it came to be known.
  [[nodiscard]] std::vector<Activity> take();

 private:
  std::uint32_t call_of(HostThread& thread);
  std::uint64_t note_launch(HostThread& thread, const Stream& stream, QueryId query);
  std::uint64_t await(Activity activity);
  void note(Activity activity);

  std::atomic<unsigned> wanted_{0};
  std::atomic<std::uint32_t> last_call_{0};
  SpinLock mutex_{};
  std::deque<std::pair<const KernelQuery*, KernelCode>> queries_{};  ///< by id
  std::uint64_t last_tag_ = 0;
  std::map<std::uint64_t, Activity> unfinished_{};  ///< by tag
  std::vector<Activity> finished_{};
};

/// Activities::want, and the program's readings of the processor's counter are followed.
void want_activities(unsigned kinds);
/// What the engine knows up to the calling thread's clock included. Once connected.
std::vector<Activity> take_activities();

}  // namespace phantora::rank
