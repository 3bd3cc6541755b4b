#include "simulation/complete_part.hpp"

#include <phantora/error.hpp>
#include <phantora/simulation/recorder.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>

namespace phantora {
namespace {

// What threads do.
struct Launched {
  StreamId stream;
  QueryIndex query = 0;
};
struct Recorded {
  StreamId stream;
  MarkerId marker;
};
struct Waited {
  StreamId stream;
  MarkerId marker;
};
struct InGraph {
  StreamId stream;
  bool inside = false;
};
struct Called {
  StreamId stream;
  std::size_t call = 0;  ///< in Impl::calls_
};
struct Exchanged {
  StreamId stream;
  std::size_t messages = 0;  ///< in Impl::messages_
};
/// A range begins.
struct Begun {
  std::uint64_t range = 0;
};
struct Ended {
  std::size_t begin = 0;  ///< the entry
  std::string name{};
};
struct Held {
  GpuIndex gpu = 0;
  Bytes taken{}, given_back{};
};
struct Synchronized {
  MarkerId marker;
  std::optional<Time> until{};  ///< the thread's clock when it went on
};
/// A loop of queries that ended when the marker had completed.
struct Polled {
  MarkerId marker;
  Time completed{}, until{};
};
/// A part of such a loop.
struct Nothing {};
using What = std::variant<Nothing, Launched, Recorded, Waited, InGraph, Called, Exchanged, Begun,
                          Ended, Held, Synchronized, Polled>;

struct Entry {
  static constexpr std::uint32_t no_lane = ~std::uint32_t{0};
  ProcessIndex process = 0;
  std::uint32_t lane = 0;  ///< of the process; no_lane while its thread has used no GPU
  Time clock{};            ///< of its thread when it did so
  What what{};
};

/// What a thread does with one GPU. Where a thread's clock falls back, another has its number now.
struct Lane {
  GpuIndex gpu = 0;
  std::uint32_t number = 0;  ///< of the workload's thread
  /// Where its clock went on, in order.
  struct Point {
    Time clock{};
    std::size_t entry = 0;  ///< after which it stood there
  };
  std::vector<Point> points{};
};

struct Process {
  std::vector<Lane> lanes{};
  std::map<std::pair<std::uint32_t, GpuIndex>, std::uint32_t> lane_of{};  ///< by thread and GPU
  std::map<std::uint32_t, std::size_t> blocked{};  ///< by thread: the entry that it blocks in
  struct Question {
    Recorder::Caller caller;
    MarkerId marker;
  };
  std::map<std::uint32_t, Question> asking{};  ///< by thread
  /// A thread asks about a stream again and again and does nothing else.
  struct Loop {
    MarkerId marker;  ///< that it asked about first
    StreamId stream;
    Time since{};
    std::size_t entry = 0;  ///< that comes next
  };
  std::map<std::uint32_t, Loop> loops{};  ///< by thread
  struct Ranges {
    std::uint32_t lane = Entry::no_lane;  ///< that the thread used last
    std::vector<std::size_t> unplaced{};  ///< entries from before it used one
  };
  std::map<std::uint32_t, Ranges> ranges{};      ///< by thread
  std::map<std::uint64_t, std::size_t> begun{};  ///< ranges: their first entries
  std::map<GpuIndex, Bytes> held{}, contexts{};
};

}  // namespace

class Recorder::Impl {
 public:
  Impl(const Session& session, std::size_t gpus, std::size_t most)
      : session_{session}, most_{most}, lanes_(gpus), stream_numbers_(gpus) {}

  [[nodiscard]] bool full() const { return entries_.size() >= most_; }

  void add_query(QueryIndex query, const KernelQuery& asked) { queries_.emplace(query, asked); }
  void add_stream(StreamId stream, GpuIndex gpu, ProcessIndex process, int priority) {
    PHANTORA_EXPECTS(gpu < stream_numbers_.size(), "no GPU " + std::to_string(gpu));
    streams_[stream] = {gpu, stream_numbers_[gpu]++, priority};
    (void)this->process(process);
  }
  void add_communicator(CommunicatorId communicator, std::vector<GpuIndex> gpus) {
    const std::uint32_t instance = instances_[gpus]++;
    communicators_.emplace(communicator, std::pair{std::move(gpus), instance});
  }

  void launch(const Caller& caller, StreamId stream, QueryIndex query) {
    note(caller, stream, Launched{stream, query});
  }
  void record(const Caller& caller, StreamId stream, MarkerId marker) {
    markers_[marker] = stream;
    note(caller, stream, Recorded{stream, marker});
  }
  void wait(const Caller& caller, StreamId stream, MarkerId marker) {
    note(caller, stream, Waited{stream, marker});
  }
  void graph(const Caller& caller, StreamId stream, bool inside) {
    note(caller, stream, InGraph{stream, inside});
  }
  void collective(const Caller& caller, StreamId stream, CommunicatorId communicator,
                  std::span<const GroupedCollective> group) {
    calls_.push_back({communicator, {group.begin(), group.end()}});
    note(caller, stream, Called{stream, calls_.size() - 1});
  }
  void send_recv(const Caller& caller, StreamId stream, CommunicatorId communicator,
                 std::span<const SendRecv> group) {
    messages_.push_back({communicator, {group.begin(), group.end()}});
    note(caller, stream, Exchanged{stream, messages_.size() - 1});
  }
  void begin_range(const Caller& caller, std::uint64_t range) {
    name(caller, Begun{range});
    process(caller.process).begun.insert_or_assign(range, entries_.size() - 1);
  }
  void end_range(const Caller& caller, std::uint64_t range, std::string_view name) {
    if (!process(caller.process).begun.contains(range)) begin_range(caller, range);
    const std::size_t begin = process(caller.process).begun.extract(range).mapped();
    this->name(caller, Ended{begin, std::string{name}});
  }
  void hold(ProcessIndex number, GpuIndex gpu, Bytes taken, Bytes given_back) {
    PHANTORA_EXPECTS(gpu < lanes_.size(), "no GPU " + std::to_string(gpu));
    Process& process = this->process(number);
    Bytes& held = process.held[gpu];
    held = held + taken - given_back;
    PHANTORA_EXPECTS(held >= Bytes{}, "a process gives back what it took");
    entries_.push_back({.process = number, .what = Held{gpu, taken, given_back}});
  }
  void hold_context(ProcessIndex number, GpuIndex gpu, Bytes size, bool made) {
    PHANTORA_EXPECTS(gpu < lanes_.size(), "no GPU " + std::to_string(gpu));
    Process& process = this->process(number);
    auto& contexts = contexts_[gpu];
    const bool first = made ? contexts++ == 0 : --contexts == 0;
    if (made) {
      process.contexts[gpu] = size;
    } else {
      process.contexts.erase(gpu);
    }
    if (first) return;
    entries_.push_back(
        {.process = number, .what = Held{gpu, made ? size : Bytes{}, made ? Bytes{} : size}});
  }
  void end(ProcessIndex number) {
    for (const auto& [gpu, size] : std::map{process(number).contexts})
      hold_context(number, gpu, size, false);
    for (const auto& [gpu, held] : std::map{process(number).held})
      if (held > Bytes{}) hold(number, gpu, {}, held);
  }

  void synchronize(const Caller& caller, MarkerId marker) {
    const auto stream = markers_.find(marker);
    if (stream == markers_.end()) return;  // one that nobody has recorded has come
    note(caller, stream->second, Synchronized{marker});
    process(caller.process).blocked[caller.thread] = entries_.size() - 1;
  }
  void query(const Caller& caller, MarkerId marker) {
    if (!markers_.contains(marker)) return;
    process(caller.process)
        .asking.insert_or_assign(caller.thread, Process::Question{caller, marker});
  }

  void answered(const Answer& answer) {
    Process& process = this->process(answer.process);
    if (const auto blocked = process.blocked.extract(answer.thread)) {
      Entry& entry = entries_[blocked.mapped()];
      std::get<Synchronized>(entry.what).until = answer.clock;
      go_on(process.lanes[entry.lane], answer.clock, blocked.mapped());
    } else if (const auto asking = process.asking.extract(answer.thread)) {
      looked(process, asking.mapped().caller, asking.mapped().marker, answer.done);
    }
  }

  [[nodiscard]] Workload workload() const;

 private:
  template <class T>
  void note(const Caller& caller, StreamId stream, const T& what) {
    const auto known = streams_.find(stream);
    PHANTORA_EXPECTS(known != streams_.end(), "no stream " + std::to_string(stream.value));
    Process& process = this->process(caller.process);
    // Who asks whether a stream is done records a marker for it.
    const auto loop = process.loops.find(caller.thread);
    if (loop != process.loops.end() &&
        !(std::is_same_v<T, Recorded> && loop->second.stream == stream))
      process.loops.erase(loop);
    note(caller, known->second.gpu, what);
  }
  void note(const Caller& caller, GpuIndex gpu, const What& what) {
    PHANTORA_EXPECTS(gpu < lanes_.size(), "no GPU " + std::to_string(gpu));
    Process& process = this->process(caller.process);
    const std::uint32_t lane = lane_of(process, caller, gpu);
    Process::Ranges& ranges = process.ranges[caller.thread];
    ranges.lane = lane;
    for (const std::size_t entry : std::exchange(ranges.unplaced, {})) {
      entries_[entry].lane = lane;
      go_on(process.lanes[lane], entries_[entry].clock, entry);
    }
    entries_.push_back({caller.process, lane, caller.clock, what});
    go_on(process.lanes[lane], caller.clock, entries_.size() - 1);
  }
  /// Where a range begins or ends.
  void name(const Caller& caller, const What& what) {
    Process& process = this->process(caller.process);
    Process::Ranges& ranges = process.ranges[caller.thread];
    if (ranges.lane != Entry::no_lane) return note(caller, process.lanes[ranges.lane].gpu, what);
    ranges.unplaced.push_back(entries_.size());
    entries_.push_back({caller.process, Entry::no_lane, caller.clock, what});
  }
  Process& process(ProcessIndex number) {
    if (number >= processes_.size()) processes_.resize(number + std::size_t{1});
    return processes_[number];
  }
  std::uint32_t lane_of(Process& process, const Caller& caller, GpuIndex gpu) {
    const auto [known, fresh] = process.lane_of.try_emplace({caller.thread, gpu});
    if (!fresh) {
      const auto& points = process.lanes[known->second].points;
      if (points.empty() || points.back().clock <= caller.clock) return known->second;
    }
    known->second = static_cast<std::uint32_t>(process.lanes.size());
    process.lanes.push_back({.gpu = gpu, .number = lanes_[gpu]++});
    return known->second;
  }
  static void go_on(Lane& lane, Time clock, std::size_t entry) {
    if (lane.points.empty() || lane.points.back().clock < clock)
      lane.points.push_back({clock, entry});
  }

  /// A thread has asked about a marker, and goes on at the same clock.
  void looked(Process& process, const Caller& caller, MarkerId marker, bool done) {
    const StreamId stream = markers_.at(marker);
    const auto known = process.loops.find(caller.thread);
    const bool goes_on = known != process.loops.end() && known->second.stream == stream;
    if (!done) {
      if (!goes_on)
        process.loops.insert_or_assign(
            caller.thread, Process::Loop{marker, stream, caller.clock, entries_.size()});
      return;
    }
    if (!goes_on) return;
    const Process::Loop loop = known->second;
    process.loops.erase(known);
    const auto completed = session_.completion(loop.marker);
    if (!completed || *completed > caller.clock) return;  // it asked about an earlier one
    Caller began = caller;
    began.clock = loop.since;
    const std::uint32_t lane = lane_of(process, caller, streams_.at(stream).gpu);
    for (std::size_t i = loop.entry; i < entries_.size(); ++i) {
      Entry& entry = entries_[i];
      if (entry.process == caller.process && entry.lane == lane &&
          std::holds_alternative<Recorded>(entry.what))
        entry.what = Nothing{};
    }
    std::erase_if(process.lanes[lane].points,
                  [&](const Lane::Point& point) { return point.entry >= loop.entry; });
    entries_.push_back(
        {caller.process, lane, loop.since, Polled{loop.marker, *completed, caller.clock}});
    go_on(process.lanes[lane], caller.clock, entries_.size() - 1);
  }

  class Writer;

  const Session& session_;
  std::size_t most_;
  std::vector<Process> processes_{};
  std::vector<Entry> entries_{};      ///< in the order in which they were heard
  std::vector<std::uint32_t> lanes_;  ///< by GPU: how many
  struct Stream {
    GpuIndex gpu = 0;
    StreamNumber number = 0;
    int priority = 0;
  };
  std::map<GpuIndex, int> contexts_{};        ///< how many
  std::vector<StreamNumber> stream_numbers_;  ///< by GPU: how many
  std::unordered_map<StreamId, Stream> streams_{};
  std::unordered_map<MarkerId, StreamId> markers_{};
  std::unordered_map<QueryIndex, KernelQuery> queries_{};
  /// Ranks' GPUs, and how many communicators there had been of these.
  std::unordered_map<CommunicatorId, std::pair<std::vector<GpuIndex>, std::uint32_t>>
      communicators_{};
  std::map<std::vector<GpuIndex>, std::uint32_t> instances_{};
  std::vector<std::pair<CommunicatorId, std::vector<GroupedCollective>>> calls_{};
  std::vector<std::pair<CommunicatorId, std::vector<SendRecv>>> messages_{};
};

/// Turns what was told into a workload.
class Recorder::Impl::Writer {
 public:
  explicit Writer(const Impl& told) : told_{told}, present_(told.lanes_.size()) {}

  Workload write() && {
    const std::map<std::size_t, Origin> origins = this->origins();
    for (const auto& [_, origin] : origins) marks_.try_emplace(origin.entry);
    for (const Entry& entry : told_.entries_)
      if (const auto* ended = std::get_if<Ended>(&entry.what); ended != nullptr && has_time(entry))
        marks_.try_emplace(ended->begin);
    Clocks clocks = start();
    for (std::size_t i = 0; i < told_.entries_.size(); ++i) {
      const Entry& entry = told_.entries_[i];
      if (const auto* held = std::get_if<Held>(&entry.what)) {
        write(*held);
        continue;
      }
      if (entry.lane == Entry::no_lane) continue;
      const Lane& lane = told_.processes_[entry.process].lanes[entry.lane];
      if (has_time(entry)) {
        at(lane);
        Time& clock = clocks[entry.process][entry.lane];
        if (const auto origin = origins.find(i); origin != origins.end()) {
          workload_.synchronize(lane.gpu, *marks_.at(origin->second.entry));
          clock = origin->second.clock;
        }
        go_on(lane, clock, entry.clock);
        std::visit([&](const auto& what) { write(lane, clock, what); }, entry.what);
      }
      if (const auto mark = marks_.find(i); mark != marks_.end()) {
        at(lane);
        mark->second = workload_.mark(lane.gpu);
      }
    }
    return std::move(workload_);
  }

 private:
  /// Of the lanes of each process, where they have come.
  using Clocks = std::vector<std::vector<Time>>;
  /// What an entry goes on from, where that is another lane.
  struct Origin {
    std::size_t entry = 0;  ///< where that lane was
    Time clock{};
  };

  [[nodiscard]] Clocks start() const {
    Clocks clocks;
    for (const Process& process : told_.processes_) clocks.emplace_back(process.lanes.size());
    return clocks;
  }
  /// By entry.
  [[nodiscard]] std::map<std::size_t, Origin> origins() const {
    std::map<std::size_t, Origin> origins;
    Clocks clocks = start();
    for (std::size_t i = 0; i < told_.entries_.size(); ++i) {
      const Entry& entry = told_.entries_[i];
      if (!has_time(entry)) continue;
      const std::vector<Lane>& lanes = told_.processes_[entry.process].lanes;
      Time& clock = clocks[entry.process][entry.lane];
      Time best = clock;
      for (std::uint32_t other = 0; other < lanes.size() && best < entry.clock; ++other) {
        if (other == entry.lane) continue;
        const auto& points = lanes[other].points;
        auto point = std::upper_bound(
            points.begin(), points.end(), entry.clock,
            [](Time it, const Lane::Point& reached) { return it < reached.clock; });
        while (point != points.begin() && std::prev(point)->entry >= i) --point;
        if (point == points.begin() || (--point)->clock <= best) continue;
        best = point->clock;
        origins[i] = {point->entry, point->clock};
      }
      clock = until(entry);
    }
    return origins;
  }
  static bool has_time(const Entry& entry) {
    return entry.lane != Entry::no_lane && !std::holds_alternative<Nothing>(entry.what) &&
           !std::holds_alternative<Held>(entry.what);
  }
  static Time until(const Entry& entry) {
    if (const auto* it = std::get_if<Synchronized>(&entry.what))
      return it->until.value_or(entry.clock);
    if (const auto* it = std::get_if<Polled>(&entry.what)) return it->until;
    return entry.clock;
  }

  void at(const Lane& lane) {
    if (std::exchange(present_[lane.gpu], lane.number) != lane.number)
      workload_.thread(lane.gpu, lane.number);
  }
  void go_on(const Lane& lane, Time& clock, Time until) {
    if (until > clock) workload_.host(lane.gpu, until - clock);
    clock = std::max(clock, until);
  }

  /// Its priority is told with the first that it is given.
  StreamNumber number(StreamId id) {
    const Stream& stream = told_.streams_.at(id);
    if (stream.priority != 0 && prioritized_.insert(id).second)
      workload_.prioritize(stream.gpu, stream.priority, stream.number);
    return stream.number;
  }
  Workload::Event event(MarkerId marker) const {
    const auto known = events_.find(marker);
    if (known == events_.end())
      throw Error{"a stream waits for what nobody has recorded yet: no workload can say so"};
    return known->second;
  }
  Workload::GroupNumber group(CommunicatorId communicator) {
    const auto& [gpus, instance] = told_.communicators_.at(communicator);
    return workload_.group(gpus, instance);
  }

  static void write(const Lane&, Time, const Nothing&) {}
  static void write(const Lane&, Time, const Begun&) {}
  static void write(const Lane&, Time, const Held&) {}
  void write(const Lane& lane, Time, const Launched& it) {
    const auto [kernel, fresh] = kernels_.try_emplace(it.query);
    if (fresh) kernel->second = workload_.kernel(told_.queries_.at(it.query));
    workload_.launch(lane.gpu, kernel->second, number(it.stream));
  }
  void write(const Lane& lane, Time, const Recorded& it) {
    events_[it.marker] = workload_.record(lane.gpu, number(it.stream));
  }
  void write(const Lane& lane, Time, const Waited& it) {
    workload_.wait(lane.gpu, event(it.marker), number(it.stream));
  }
  void write(const Lane& lane, Time, const InGraph& it) {
    workload_.graph(lane.gpu, it.inside, number(it.stream));
  }
  void write(const Lane& lane, Time, const Called& it) {
    const auto& [communicator, operations] = told_.calls_[it.call];
    workload_.collectives(lane.gpu, group(communicator), operations, number(it.stream));
  }
  void write(const Lane& lane, Time, const Exchanged& it) {
    const auto& [communicator, parts] = told_.messages_[it.messages];
    workload_.exchange(lane.gpu, group(communicator), parts, number(it.stream));
  }
  void write(const Lane& lane, Time, const Ended& it) {
    // Where a thread began it that used no GPU, it has no length.
    const std::optional<Workload::Event>& begin = marks_.at(it.begin);
    workload_.range(lane.gpu, begin ? *begin : workload_.mark(lane.gpu), it.name);
  }
  void write(const Held& it) {
    // What is given back need not be pieces as they were taken: pieces go until it is enough, and
    // what is too much of the last comes again.
    std::vector<Piece>& pieces = pieces_[it.gpu];
    Bytes left = it.given_back;
    const auto alike = std::find_if(pieces.rbegin(), pieces.rend(),
                                    [&](const Piece& piece) { return piece.size == left; });
    if (left > Bytes{} && alike != pieces.rend()) std::swap(*alike, pieces.back());
    while (left > Bytes{}) {
      if (pieces.empty()) throw Error{"processes give back memory that they did not take"};
      const Piece piece = pieces.back();
      pieces.pop_back();
      workload_.free(piece.block);
      left = left - piece.size;
    }
    take(it.gpu, Bytes{} - left);
    take(it.gpu, it.taken);
  }
  void take(GpuIndex gpu, Bytes size) {
    if (size > Bytes{}) pieces_[gpu].push_back({size, workload_.allocate(gpu, size)});
  }
  void write(const Lane& lane, Time& clock, const Synchronized& it) {
    if (!it.until) return;
    workload_.synchronize(lane.gpu, event(it.marker));
    clock = *it.until;
  }
  void write(const Lane& lane, Time& clock, const Polled& it) {
    workload_.synchronize(lane.gpu, event(it.marker));
    clock = std::max(clock, it.completed);
    go_on(lane, clock, it.until);
  }

  const Impl& told_;
  Workload workload_{};
  std::vector<std::uint32_t> present_;  ///< by GPU: the thread that the list is at
  /// Of entries that others go on from, or that begin ranges; made when they are come to.
  std::map<std::size_t, std::optional<Workload::Event>> marks_{};
  std::unordered_map<QueryIndex, Workload::KernelNumber> kernels_{};
  std::unordered_map<MarkerId, Workload::Event> events_{};
  std::unordered_set<StreamId> prioritized_{};
  struct Piece {
    Bytes size{};
    Workload::Block block{};
  };
  std::map<GpuIndex, std::vector<Piece>> pieces_{};
};

Workload Recorder::Impl::workload() const { return Writer{*this}.write(); }

Recorder::Recorder(const Session& session, std::size_t gpus, std::size_t most)
    : impl_{std::make_unique<Impl>(session, gpus, most)} {}
Recorder::Recorder(Recorder&&) noexcept = default;
Recorder& Recorder::operator=(Recorder&&) noexcept = default;
Recorder::~Recorder() = default;

void Recorder::add_query(QueryIndex query, const KernelQuery& asked) {
  impl_->add_query(query, asked);
}
void Recorder::add_stream(StreamId stream, GpuIndex gpu, ProcessIndex process, int priority) {
  impl_->add_stream(stream, gpu, process, priority);
}
void Recorder::add_communicator(CommunicatorId communicator, std::vector<GpuIndex> gpus) {
  impl_->add_communicator(communicator, std::move(gpus));
}
void Recorder::graph(const Caller& caller, StreamId stream, bool inside) {
  if (!impl_->full()) impl_->graph(caller, stream, inside);
}
void Recorder::launch(const Caller& caller, StreamId stream, QueryIndex query) {
  if (!impl_->full()) impl_->launch(caller, stream, query);
}
void Recorder::record(const Caller& caller, StreamId stream, MarkerId marker) {
  if (!impl_->full()) impl_->record(caller, stream, marker);
}
void Recorder::wait(const Caller& caller, StreamId stream, MarkerId marker) {
  if (!impl_->full()) impl_->wait(caller, stream, marker);
}
void Recorder::collective(const Caller& caller, StreamId stream, CommunicatorId communicator,
                          std::span<const GroupedCollective> group) {
  if (!impl_->full()) impl_->collective(caller, stream, communicator, group);
}
void Recorder::send_recv(const Caller& caller, StreamId stream, CommunicatorId communicator,
                         std::span<const SendRecv> group) {
  if (!impl_->full()) impl_->send_recv(caller, stream, communicator, group);
}
void Recorder::begin_range(const Caller& caller, std::uint64_t range) {
  if (!impl_->full()) impl_->begin_range(caller, range);
}
void Recorder::end_range(const Caller& caller, std::uint64_t range, std::string_view name) {
  if (!impl_->full()) impl_->end_range(caller, range, name);
}
void Recorder::hold(ProcessIndex process, GpuIndex gpu, Bytes taken, Bytes given_back) {
  if (!impl_->full()) impl_->hold(process, gpu, taken, given_back);
}
void Recorder::hold_context(ProcessIndex process, GpuIndex gpu, Bytes size, bool made) {
  if (!impl_->full()) impl_->hold_context(process, gpu, size, made);
}
void Recorder::end(ProcessIndex process) {
  if (!impl_->full()) impl_->end(process);
}
void Recorder::synchronize(const Caller& caller, MarkerId marker) {
  if (!impl_->full()) impl_->synchronize(caller, marker);
}
void Recorder::query(const Caller& caller, MarkerId marker) {
  if (!impl_->full()) impl_->query(caller, marker);
}
void Recorder::answered(const Answer& answer) { impl_->answered(answer); }
Workload Recorder::workload() const {
  detail::WorkloadDocument document = detail::document_of(impl_->workload());
  detail::keep_complete_part(document);
  return Workload{std::move(document)};
}

}  // namespace phantora
