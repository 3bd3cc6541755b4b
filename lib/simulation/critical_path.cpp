#include "simulation/report.hpp"

#include <phantora/units.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

// From the end of a job backwards: what ended last, why it did not begin earlier, and so on. Each
// instant on the way is the end of one thing and the beginning of the next, to the picosecond.
namespace phantora::detail {
namespace {

constexpr std::size_t none = ~std::size_t{0};

class Backwards {
 public:
  Backwards(const JobRecord& job, const DeviceTiming& timing, const LinkOf& link_of)
      : job_{job}, timing_{timing}, link_of_{link_of}, ranks_(job.gpus.size()) {}

  void walk(Time end) {
    // The last to end, host or stream.
    for (Rank rank = 0; rank < ranks_.size() && at_ == never; ++rank)
      if (job_.ends[rank] == end) begin_at_end_of(rank, end);
    while (at_ > job_.start && step()) {
    }
    add(PathKind::queueing, none, {}, at_ - job_.start);
  }

  [[nodiscard]] std::vector<PathPart> parts() const {
    // Alike ones of several groups, or kernels of one name, add up.
    std::map<std::pair<PathKind, std::string>, PathPart> by_name;
    for (const auto& [_, part] : parts_) {
      const auto [sum, fresh] = by_name.try_emplace({part.kind, part.name}, part);
      if (fresh) continue;
      sum->second.count += part.count;
      sum->second.time += part.time;
    }
    std::vector<PathPart> parts;
    for (auto& [_, part] : by_name)
      if (part.time > Duration{}) parts.push_back(std::move(part));
    std::stable_sort(parts.begin(), parts.end(),
                     [](const PathPart& a, const PathPart& b) { return a.time > b.time; });
    return parts;
  }
  [[nodiscard]] Duration deviation() const {
    double variance = 0;
    for (const auto& [_, seconds] : deviations_) variance += seconds * seconds;
    return duration_from_seconds(std::sqrt(variance));
  }

 private:
  /// What of a rank's list comes before what.
  struct Lists {
    std::vector<std::size_t> on_stream{};  ///< the one before it on its stream
    std::vector<std::size_t> by_host{};    ///< the host's work or blocking call before it
    std::vector<std::size_t> events{};     ///< what records each event
    std::vector<bool> in_graph{};          ///< of each operation
    std::map<StreamNumber, bool> inside{};
    std::map<StreamNumber, std::size_t> last{};
    std::map<std::uint32_t, std::size_t> last_by_host{{0, none}};  ///< by thread
  };

  Lists& lists(Rank rank) {
    Lists& lists = ranks_[rank];
    const auto operations = job_.workload->operations(rank);
    if (!lists.by_host.empty() || operations.empty()) return lists;
    auto thread = lists.last_by_host.begin();
    lists.in_graph.resize(operations.size(), false);
    for (std::size_t i = 0; i < operations.size(); ++i) {
      lists.by_host.push_back(thread->second);
      std::size_t before = none;
      std::visit(
          [&](const auto& it) {
            using T = std::decay_t<decltype(it)>;
            if constexpr (std::is_same_v<T, Workload::Graph>) lists.inside[it.stream] = it.inside;
            if constexpr (requires { it.stream; }) {
              lists.in_graph[i] = lists.inside[it.stream];
              const auto [last, fresh] = lists.last.try_emplace(it.stream, i);
              if (!fresh) before = std::exchange(last->second, i);
            }
            if constexpr (std::is_same_v<T, Workload::Record> || std::is_same_v<T, Workload::Mark>)
              lists.events.push_back(i);
            if constexpr (std::is_same_v<T, Workload::Host> ||
                          std::is_same_v<T, Workload::Synchronize>)
              thread->second = i;
            if constexpr (std::is_same_v<T, Workload::Thread>)
              thread = lists.last_by_host.try_emplace(it.number, none).first;
          },
          operations[i]);
      lists.on_stream.push_back(before);
    }
    return lists;
  }
  [[nodiscard]] const Workload::Operation& operation(Rank rank, std::size_t i) const {
    return job_.workload->operations(rank)[i];
  }
  [[nodiscard]] const Interval& time(Rank rank, std::size_t i) const { return job_.times[rank][i]; }
  /// The instant of an event, and where it is recorded.
  std::pair<Rank, std::size_t> recorded(Workload::Event event) {
    return {event.rank, lists(event.rank).events[event.number]};
  }
  /// The host's clock behind an operation.
  [[nodiscard]] Time clock(Rank rank, std::size_t by_host) const {
    return by_host == none ? job_.start : time(rank, by_host).end;
  }

  /// Whether an operation takes its stream's time.
  static bool occupies(const Workload::Operation& it) {
    return std::holds_alternative<Workload::Launch>(it) ||
           std::holds_alternative<Workload::Collective>(it) ||
           std::holds_alternative<Workload::Exchange>(it);
  }

  /// When a stream has done its operations up to one, and what it was that ended then.
  struct Done {
    Time at{};
    Rank rank = 0;
    std::size_t operation = none;  ///< none: the beginning
    bool after_kernel = false;     ///< on this stream
  };
  Done done(Rank rank, std::size_t i) {
    Done latest{job_.start, rank, none, false};
    // Back to the last that occupied the stream, or was recorded there: all before is earlier.
    for (; i != none; i = lists(rank).on_stream[i]) {
      const Workload::Operation& it = operation(rank, i);
      if (const auto* wait = std::get_if<Workload::Wait>(&it)) {
        const auto [other, record] = recorded(wait->event);
        const Time at = time(other, record).end;
        if (at > latest.at) latest = {at, other, record, false};
        continue;
      }
      const Time at = time(rank, i).end;
      if (occupies(it)) {
        if (at >= latest.at) latest = {at, rank, i, true};
        break;
      }
      // Recorded when the stream was there, or when its host did so.
      if (at > latest.at) latest = {at, rank, i, false};
    }
    return latest;
  }

  void begin_at_end_of(Rank rank, Time end) {
    at_ = end;
    Lists& all = lists(rank);
    for (const auto& [_, last] : all.last) {
      const Done it = done(rank, last);
      if (it.at == end && it.operation != none) return go(it.rank, it.operation);
    }
    for (const auto& [_, last] : all.last_by_host)
      if (last != none && time(rank, last).end == end) return go(rank, last);
    go(rank, none);
  }
  void go(Rank rank, std::size_t i) {
    rank_ = rank;
    operation_ = i;
  }

  /// From the end of one thing to its beginning. @return whether there was one.
  bool step() {
    if (operation_ == none) return false;
    const Rank rank = rank_;
    const std::size_t i = operation_;
    const Workload::Operation& it = operation(rank, i);
    if (const auto* synchronize = std::get_if<Workload::Synchronize>(&it)) {
      const auto [other, record] = recorded(synchronize->event);
      if (time(other, record).end == at_ && time(rank, i).start < at_) {
        go(other, record);
      } else {
        go(rank, lists(rank).by_host[i]);
      }
      return true;
    }
    if (std::holds_alternative<Workload::Host>(it)) {
      add(PathKind::host, none, {}, at_ - time(rank, i).start);
      at_ = time(rank, i).start;
      go(rank, lists(rank).by_host[i]);
      return true;
    }
    const std::size_t by_host = lists(rank).by_host[i];
    const Done before = done(rank, lists(rank).on_stream[i]);
    if (!occupies(it)) {  // recorded
      if (before.at == at_ && before.operation != none) {
        go(before.rank, before.operation);
      } else {
        go(rank, by_host);
      }
      return true;
    }
    if (const auto* launch = std::get_if<Workload::Launch>(&it)) {
      add_kernel(rank, launch->kernel, at_ - time(rank, i).start);
      at_ = time(rank, i).start;
      begin(rank, i);
      return true;
    }
    // A communication moves from when the last of its ranks is there.
    Party last{rank, static_cast<std::uint32_t>(i)};
    for (const Party& party : job_.meetings->parties(last))
      if (time(party.rank, party.operation).start > time(last.rank, last.operation).start)
        last = party;
    const Time since = std::min(at_, time(last.rank, last.operation).start);
    add_communication(it, at_ - since);
    at_ = since;
    begin(last.rank, last.operation);
    return true;
  }

  /// Why something on a stream began when it did.
  void begin(Rank rank, std::size_t i) {
    const std::size_t by_host = lists(rank).by_host[i];
    const Done before = done(rank, lists(rank).on_stream[i]);
    const Time issued = clock(rank, by_host);
    const Duration gap = lists(rank).in_graph[i] ? timing_.graph_gap
                         : before.after_kernel   ? timing_.kernel_gap
                                                 : Duration{};
    const Time free = before.at + gap;
    const Time told = issued + timing_.launch_latency;
    const Time ready = std::min(at_, std::max(free, told));
    add(PathKind::queueing, none, {}, at_ - ready);
    const bool by_stream = free >= told && before.operation != none;
    const Time from = std::min(ready, by_stream ? before.at : issued);
    add(PathKind::launch, none, {}, ready - from);
    at_ = from;
    if (by_stream) {
      go(before.rank, before.operation);
    } else {
      go(rank, by_host);
    }
  }

  PathPart& add(PathKind kind, std::size_t number, const std::string& name, Duration time) {
    PathPart& part = parts_.try_emplace({kind, number}, PathPart{kind, name}).first->second;
    if (time > Duration{}) {
      ++part.count;
      part.time += time;
    }
    return part;
  }
  void add_kernel(Rank rank, std::uint32_t kernel, Duration time) {
    add(PathKind::kernel, kernel, job_.workload->kernels()[kernel].query.name, time);
    deviations_[kernel] += to_seconds(job_.prices[job_.kinds[rank]][kernel]->stddev);
  }
  void add_communication(const Workload::Operation& it, Duration time) {
    const auto* collective = std::get_if<Workload::Collective>(&it);
    // Calls and messages are numbered apart.
    const std::size_t number = collective != nullptr
                                   ? std::size_t{collective->call} * 2
                                   : std::size_t{std::get<Workload::Exchange>(it).messages} * 2 + 1;
    const auto known = parts_.find({PathKind::communication, number});
    if (known != parts_.end()) {
      add(PathKind::communication, number, {}, time);
      return;
    }
    std::string name;
    if (collective != nullptr) {
      const Workload::Call& call = job_.workload->calls()[collective->call];
      for (const GroupedCollective& one : call.operations)
        name += (name.empty() ? "" : ", ") + std::string{to_string(one.op)} + " of " +
                std::to_string(one.total.count()) + " bytes";
      name += " by " + std::to_string(job_.workload->groups()[call.group].size()) + " ranks";
    } else {
      const auto& messages = job_.workload->messages()[std::get<Workload::Exchange>(it).messages];
      for (const SendRecv& part : messages.parts)
        name +=
            (name.empty() ? "message of " : ", ") + std::to_string(part.size.count()) + " bytes";
    }
    add(PathKind::communication, number, name, time).link = link_of_(it);
  }

  const JobRecord& job_;
  const DeviceTiming& timing_;
  const LinkOf& link_of_;
  std::vector<Lists> ranks_;
  // Where we are: `at_` is the end of operation_ of rank_, or of what its host did until then.
  Time at_ = never;
  Rank rank_ = 0;
  std::size_t operation_ = none;
  std::map<std::pair<PathKind, std::size_t>, PathPart> parts_{};
  std::map<std::uint32_t, double> deviations_{};  ///< seconds, by kernel
};

}  // namespace

void find_critical_path(const JobRecord& job, const DeviceTiming& timing, const LinkOf& link_of,
                        Report& report) {
  if (report.makespan <= Duration{}) return;
  Backwards backwards{job, timing, link_of};
  backwards.walk(report.end());
  report.critical_path = backwards.parts();
  report.deviation = backwards.deviation();
}

}  // namespace phantora::detail
