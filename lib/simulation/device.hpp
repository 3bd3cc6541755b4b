#pragma once

#include "simulation/next_events.hpp"

#include <phantora/error.hpp>
#include <phantora/simulation/device_timing.hpp>
#include <phantora/simulation/observer.hpp>

#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

/// One GPU's streams in time. Private to Session.
namespace phantora::detail {

class Device;

/// A kernel with its price, as a device runs it.
struct PricedKernel {
  std::string name;
  Duration duration{};
  Duration stddev{};  ///< CostEstimate::stddev
  CostSource source{};
  using Limit = KernelLimit;
  Limit limit = Limit::memory;
  /// Share of the GPU's SMs that it can fill, in (0, 1].
  double demand = 1.0;
  /// Share of the memory's peak bandwidth that it draws, in [0, 1].
  double memory_share = 0.0;
  /// CostEstimate::power_share
  double power_share = 0.0;
  /// Which way over PCIe, where a copy goes over it.
  enum class Way : std::uint8_t { none, to_device, to_host } way = Way::none;
  std::uint64_t identity = 0;  ///< Span::identity
};

struct StreamOp {
  enum class Kind : std::uint8_t { kernel, marker, wait, collective, host_function, graph } kind{};
  Time issued{};
  /// Priced kernel, marker, collective part or ticket; whether what follows is of a graph.
  std::uint64_t argument = 0;
  std::uint64_t tag = 0;  ///< of a kernel: Span::tag
};

/// An in-order queue. The head is either in progress or waits for its start.
struct StreamQueue {
  StreamId id{};
  ProcessIndex process = 0;
  int priority = 0;  ///< the least number goes first
  Device* device = nullptr;
  std::uint32_t slot = 0;  ///< among those of its device
  bool dropped = false;    ///< to be forgotten once all is done
  std::deque<StreamOp> ops{};
  Time issued{};              ///< the latest of them, done or not
  Time end{};                 ///< of the last operation that completed
  bool after_kernel = false;  ///< that operation occupied the GPU: the next one has a gap
  bool in_graph = false;      ///< kernels follow what a graph says, not the last of the stream
  enum class State : std::uint8_t {
    idle,
    running,
    in_collective,
    awaiting_sms,
    waiting,
    in_host_function
  } state{};
  // While running: `remaining` ps of full-speed work at `segment_start`, moved only when the
  // rate's bits change, so that the completion does not depend on who looked when.
  const PricedKernel* kernel = nullptr;
  Time start{};  ///< of the kernel; while awaiting SMs, when the collective could have started
  int sms = 0;   ///< that the collective at the head holds, or awaits
  Time segment_start{};
  double remaining = 0;
  double rate = 0;
  double crowding = 1;  ///< by how much others that fill SMs slow it
  Time completion = never;

  /// Refuses an operation that is issued before the last.
  void expect_in_order(Time at) const {
    PHANTORA_EXPECTS(at >= issued, "nothing is issued on stream " + std::to_string(id.value) +
                                       " before what was issued on it last");
  }
};

/// What a device tells the session.
class DeviceEvents {
 public:
  DeviceEvents() = default;
  DeviceEvents(const DeviceEvents&) = delete;
  DeviceEvents& operator=(const DeviceEvents&) = delete;
  virtual ~DeviceEvents() = default;
  virtual const PricedKernel& kernel(std::uint64_t kernel) = 0;
  virtual void marker_completed(MarkerId marker, Time at) = 0;
  /// The marker's completion, or nothing: then `stream` is woken (Device::wake) when it comes.
  virtual std::optional<Time> marker_awaited(MarkerId marker, StreamQueue& stream) = 0;
  /// Thread blocks of a collective, each of which fills an SM.
  virtual int collective_sms(std::uint64_t part) = 0;
  virtual void collective_reached(std::uint64_t part, StreamQueue& stream, Time at) = 0;
  virtual void host_function_reached(std::uint64_t ticket, StreamQueue& stream, Time at) = 0;
  virtual void span(const Span& span) = 0;
  /// The device's next_event() may have changed.
  virtual void rescheduled(const Device& device) = 0;
  /// The device's collective_slowdown() has changed.
  virtual void slowdown_changed(const Device& device) = 0;
};

/// Kernels of different streams share the SMs: each runs at full speed while their demands fit, and
/// at demand's share otherwise. Those of streams of another priority take what those before them
/// leave, which may be nothing.
///
/// Blocks are dispatched in the order of launches and keep their SM until they end. So a collective
/// begins once the kernels before it leave as many SMs as it has channels, and then withholds them
/// from kernels until its end, also while it waits for other ranks.
///
/// Copies hold no SMs. Those that go the same way over PCIe take turns, in the order in which they
/// came; those within the device share its memory's bandwidth with one another and with kernels
/// that memory holds up.
/// @note Approximation: a kernel leaves its SMs at its end, not in its last wave; to kernels of a
///   higher priority at once, and not as its blocks end.
class Device {
 public:
  Device(GpuIndex index, int sm_count, const DeviceTiming& timing, DeviceEvents& events)
      : index_{index}, sm_count_{sm_count}, timing_{timing}, events_{events} {}

  StreamQueue& add_stream(StreamId id, ProcessIndex process, int priority);
  /// Nothing more is appended to it.
  void drop_stream(StreamQueue& stream);
  void append(StreamQueue& stream, StreamOp op);

  /// The next instant at which something here changes by itself; `never` if nothing does.
  [[nodiscard]] Time next_event() const noexcept { return next_events_.earliest(); }
  /// Handles everything that happens at `now` (== next_event()).
  void process(Time now);

  /// The marker that `stream`'s head waits for completed at `at`.
  void wake(StreamQueue& stream, Time at);
  /// @param done  what was done, but for what the device knows: its GPU, process, stream and kind.
  void collective_finished(StreamQueue& stream, const Span& done);
  void host_function_finished(StreamQueue& stream, Time at);

  /// True while something beyond this GPU's own streams influences it: then its time must not run
  /// ahead of the global one.
  [[nodiscard]] bool coupled() const noexcept { return pending_collectives_ + foreign_waits_ > 0; }
  void add_foreign_wait(int change) noexcept { foreign_waits_ += change; }

  /// The factor by which kernels that run here now slow a collective (>= 1).
  [[nodiscard]] double collective_slowdown() const noexcept { return collective_slowdown_; }
  [[nodiscard]] GpuIndex index() const noexcept { return index_; }
  [[nodiscard]] const GpuUse& use() const noexcept { return use_; }
  [[nodiscard]] std::uint64_t late_operations() const noexcept { return late_operations_; }
  [[nodiscard]] const std::set<ProcessIndex>& processes() const noexcept { return processes_; }

 private:
  [[nodiscard]] Time head_start(const StreamQueue& stream) const;
  [[nodiscard]] Time next_of(const StreamQueue& stream) const;
  void forget_dropped();
  /// Its next_of() may have changed.
  void reschedule(const StreamQueue& stream);
  void start_head(StreamQueue& stream, Time now);
  void complete_kernel(StreamQueue& stream, Time now);
  /// Whether the kernels that started before a collective was ready leave it its SMs.
  [[nodiscard]] bool has_sms_for(const StreamQueue& collective) const;
  void dispatch_collective(StreamQueue& stream, Time at);
  /// Collectives that wait for SMs start where there are some now.
  void dispatch_waiting(Time now);
  void update_rates(Time now);
  /// Lets the averaged power follow what was drawn until `now`.
  void follow_power(Time now);
  /// By how much the clock that the power limit leaves makes kernels of tensor cores longer.
  [[nodiscard]] double power_stretch() const;
  /// By how much a copy is slower than alone; infinity while it waits for its turn.
  [[nodiscard]] double copy_slowdown(const StreamQueue& copy) const;
  /// Divides the SMs among the kernels that run.
  /// @return the share of the memory's bandwidth that they draw then.
  double share_sms();
  /// By how much what draws on memory is slower while copies do, too.
  [[nodiscard]] double memory_crowding(double kernels) const;
  void count(int& counter, int change, Time now);

  GpuIndex index_;
  int sm_count_;
  const DeviceTiming& timing_;
  DeviceEvents& events_;
  std::vector<std::unique_ptr<StreamQueue>> streams_{};  ///< by slot
  NextEvents next_events_{};                             ///< of these
  std::size_t dropped_ = 0;                              ///< of these
  int awaiting_sms_ = 0;                                 ///< of these
  std::vector<StreamQueue*> active_{};                   ///< running kernels, by stream
  std::set<ProcessIndex> processes_{};
  int pending_collectives_ = 0;  ///< dispatched and not finished
  int held_sms_ = 0;             ///< by these
  int foreign_waits_ = 0;
  double collective_slowdown_ = 1.0;
  double power_drawn_ = 0.0;     ///< by running kernels, as a share of the limit
  double power_averaged_ = 0.0;  ///< over DeviceTiming::power_window
  Time power_followed_to_{};
  int running_kernels_ = 0, running_copies_ = 0;
  Time processed_to_{};
  Time counted_to_{};
  std::uint64_t late_operations_ = 0;
  GpuUse use_{};
};

}  // namespace phantora::detail
