#pragma once

#include "channel/wire.hpp"
#include "rank/memory/data_queue.hpp"
#include "rank/runtime/activities.hpp"
#include "rank/runtime/legacy_order.hpp"
#include "rank/runtime/mutex.hpp"
#include "rank/runtime/reached_markers.hpp"
#include "rank/runtime/spin_lock.hpp"
#include "rank/runtime/thread_clocks.hpp"
#include "rank/runtime/timeline.hpp"

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>

namespace phantora::rank {

/// The streams of this process, and the order of what is in them: in time, which the engine is told
/// of, and in data. timeline.hpp says what the functions mean; each is called on the thread whose
/// record it is given, once there is a connection.
class Streams {
 public:
  /// @param physical  the host's index of a device as the process counts them.
  Streams(ThreadClocks& clocks, DataQueue& data, Activities& activities,
          int (*physical)(int device))
      : clocks_{clocks}, data_{data}, activities_{activities}, physical_{physical} {}
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  Stream& legacy(HostThread& thread, int device);
  Stream& per_thread(HostThread& thread, int device);
  Stream& create(HostThread& thread, int device, unsigned flags, int priority);
  void destroy(Stream& stream) { legacy_order_.remove(stream); }
  void order_with_legacy(HostThread& thread, Stream& stream) {
    if (legacy_order_.concerns(stream)) join_legacy(thread, stream);
  }

  QueryId intern(HostThread& thread, const KernelQuery& query, const KernelCode& code);
  void launch(HostThread& thread, Stream& stream, QueryId query);
  void meet(HostThread& thread, Stream& stream, std::span<const int> devices);
  Marker record(HostThread& thread, Stream& stream);
  void forget(HostThread& thread, Marker marker);
  void wait(HostThread& thread, Stream& stream, Marker marker);

  void synchronize(HostThread& thread, Marker marker);
  void synchronize(HostThread& thread, Stream& stream);
  void synchronize_device(HostThread& thread, int device);
  bool done(HostThread& thread, Marker marker);
  bool done(HostThread& thread, Stream& stream);
  std::optional<Duration> elapsed(HostThread& thread, Marker start, Marker end);

  // A record is completed where it is, not in a copy: launches are many, and reading 16 bytes that
  // were written as two words waits for both to have left the core.
  /// Appends an operation of another kind; `record` lacks the stream.
  void append(HostThread& thread, Stream& stream, channel::Record&& record,
              std::span<const std::byte> payload = {});
  /// Appends what belongs to no stream.
  void append(HostThread& thread, channel::Record&& record,
              std::span<const std::byte> payload = {});
  /// Asks the engine, and waits for the answer, in virtual time too.
  channel::Reply ask(HostThread& thread, channel::Record record,
                     std::span<const std::byte> payload = {});
  /// Does `operation` to data when everything before it in `stream` has been done.
  template <class F>
  void enqueue(HostThread& thread, Stream& stream, F&& operation) {
    if (data_.idle()) {
      operation();
    } else {
      next_data(thread, stream).append(stream, DataQueue::Operation{std::forward<F>(operation)});
    }
  }
  /// The queue of data, where the next operation on `stream` may be appended.
  DataQueue& next_data(HostThread& thread, Stream& stream);
  /// Whether an operation on `stream` would be held back now.
  bool holds_back(HostThread& thread, Stream& stream);

 private:
  struct Entry : Stream {
    std::atomic<std::uint64_t> settled{0};  ///< operations that a blocking call has seen complete
    SpinLock marking;                       ///< its markers' numbers grow along the stream
    /// The marker that whoever asked about the whole stream last found complete, and how many
    /// operations it comes after. With marking held.
    Marker found_complete = 0;
    std::uint64_t found_after = 0;
  };
  static Entry& entry_of(Stream& stream) { return static_cast<Entry&>(stream); }

  Entry& add(HostThread& thread, int device, unsigned flags, int priority, bool legacy);
  void join_legacy(HostThread& thread, Stream& stream);
  Entry& touched(HostThread& thread, Stream& stream);
  Marker append_marker(HostThread& thread, Entry& stream);
  void append_wait(HostThread& thread, const Stream& stream, Marker marker);
  [[nodiscard]] bool known_complete(HostThread& thread, Marker marker) const;

  ThreadClocks& clocks_;
  DataQueue& data_;
  Activities& activities_;
  int (*physical_)(int);
  Mutex mutex_{};
  std::deque<Entry> all_{};
  std::map<int, Entry*> legacy_{};
  std::map<std::pair<int, unsigned long>, Entry*> per_thread_{};
  LegacyOrder legacy_order_{};
  std::atomic<Marker> last_marker_{0};
  ReachedMarkers reached_{};
  Mutex queries_mutex_{};
  std::map<KernelQuery, QueryId> queries_{};
};

}  // namespace phantora::rank
