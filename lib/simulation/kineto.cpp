#include <phantora/error.hpp>
#include <phantora/simulation/device_timing.hpp>
#include <phantora/simulation/traces.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <istream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace phantora {
namespace {

using Json = nlohmann::json;

/// A call of the CUDA API.
struct Call {
  std::string name{};
  Duration start{}, end{};
  std::int64_t correlation = 0;
  std::int64_t thread = 0;
};
/// What NCCL was asked for.
struct Communication {
  std::string what{}, type{}, ranks{};
  std::int64_t in = 0, out = 0;  ///< elements
  std::int64_t source = -1, destination = -1;
};
/// A kernel, copy or fill.
struct Work {
  std::string name{};
  Duration start{}, end{};
  std::int64_t correlation = 0;
  StreamNumber stream = 0;
  std::optional<Communication> communication{};
};
/// What CUPTI tells of a synchronisation, by the correlation of its call.
struct Synchronisation {
  std::string kind{};
  std::int64_t stream = -1, awaited_stream = -1, record = -1;
};
struct Profile {
  std::string source{};
  std::optional<std::int64_t> rank{};
  std::vector<Call> calls{};
  std::vector<Work> works{};
  std::map<std::int64_t, Synchronisation> synchronisations{};
  std::vector<Duration> step_ends{};
};

bool begins(std::string_view text, std::string_view with) {
  return text.substr(0, with.size()) == with;
}

// --- Reading ---

/// An event of the file, and where it is.
class Event {
 public:
  Event(const Json& event, const std::string& source, std::size_t number)
      : event_{event}, source_{source}, number_{number} {}

  [[noreturn]] void fail(std::string_view field, std::string_view expected) const {
    const auto name = event_.find("name");
    throw ConfigError{source_ + ": event " + std::to_string(number_) +
                      (name != event_.end() && name->is_string()
                           ? " (" + name->get<std::string>().substr(0, 60) + ")"
                           : "") +
                      ": " + std::string{field} + ": expected " + std::string{expected}};
  }
  [[nodiscard]] std::string text(const char* field) const {
    const auto found = event_.find(field);
    return found != event_.end() && found->is_string() ? found->get<std::string>() : "";
  }
  /// Microseconds.
  [[nodiscard]] Duration time(const char* field) const {
    const auto found = event_.find(field);
    // A year is 3e13 of them, and what Duration holds 9e12: profiles count from the start of the
    // machine or of the profile.
    if (found == event_.end() || !found->is_number() || !(found->get<double>() >= 0) ||
        !(found->get<double>() <= 4e12))
      fail(field, "a time in microseconds of at most 4e12 from the first event");
    return Duration{std::llround(found->get<double>() * 1e6)};
  }
  [[nodiscard]] std::optional<std::int64_t> argument(const char* field) const {
    const Json* value = find_argument(field);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number() || !(std::abs(value->get<double>()) <= 9e15))
      fail(std::string{"args: "} + field, "a whole number of at most 9e15");
    return value->is_number_float() ? static_cast<std::int64_t>(value->get<double>())
                                    : value->get<std::int64_t>();
  }
  [[nodiscard]] std::string argument_text(const char* field) const {
    const Json* value = find_argument(field);
    return value != nullptr && value->is_string() ? value->get<std::string>() : "";
  }
  [[nodiscard]] std::int64_t thread() const {
    const auto found = event_.find("tid");
    return found != event_.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
  }

 private:
  [[nodiscard]] const Json* find_argument(const char* field) const {
    const auto arguments = event_.find("args");
    if (arguments == event_.end() || !arguments->is_object()) return nullptr;
    const auto found = arguments->find(field);
    return found == arguments->end() ? nullptr : &*found;
  }

  const Json& event_;
  const std::string& source_;
  std::size_t number_;
};

void add_event(Profile& profile, const Json& json, std::size_t number, double origin) {
  Json shifted;
  const Json* event_json = &json;
  // Times are counted from the first event: some profiles count from 1970.
  if (const auto ts = json.find("ts"); ts != json.end() && ts->is_number()) {
    shifted = json;
    shifted["ts"] = ts->get<double>() - origin;
    event_json = &shifted;
  }
  const Event event{*event_json, profile.source, number};
  if (event.text("ph") != "X") return;
  const std::string kind = event.text("cat"), name = event.text("name");
  const bool work = kind == "kernel" || kind == "gpu_memcpy" || kind == "gpu_memset";
  const bool call = kind == "cuda_runtime" || kind == "cuda_driver";
  const auto start_and_end = [&](auto& of) {
    of.start = event.time("ts");
    of.end = of.start + event.time("dur");
  };
  if (call) {
    Call it{.name = name,
            .correlation = event.argument("correlation").value_or(0),
            .thread = event.thread()};
    start_and_end(it);
    profile.calls.push_back(std::move(it));
  } else if (work) {
    Work it{.name = name, .correlation = event.argument("correlation").value_or(0)};
    start_and_end(it);
    const std::int64_t stream = event.argument("stream").value_or(0);
    if (stream < 0 || stream > 0xFFFFFFFF) event.fail("args: stream", "a number of 32 bits");
    it.stream = static_cast<StreamNumber>(stream);
    if (!event.argument_text("Collective name").empty())
      it.communication = Communication{
          event.argument_text("Collective name"),       event.argument_text("dtype"),
          event.argument_text("Process Group Ranks"),   event.argument("In msg nelems").value_or(0),
          event.argument("Out msg nelems").value_or(0), event.argument("Src Rank").value_or(-1),
          event.argument("Dst Rank").value_or(-1)};
    profile.works.push_back(std::move(it));
  } else if (kind == "cuda_sync") {
    profile.synchronisations[event.argument("correlation").value_or(0)] = {
        event.argument_text("cuda_sync_kind"), event.argument("stream").value_or(-1),
        event.argument("wait_on_stream").value_or(-1),
        event.argument("wait_on_cuda_event_record_corr_id").value_or(-1)};
  } else if (kind == "user_annotation" && begins(name, "ProfilerStep#")) {
    profile.step_ends.push_back(event.time("ts") + event.time("dur"));
  }
}

Profile read_profile(std::istream& text, std::string_view source) {
  Profile profile{.source = std::string{source}};
  // Of a profile of gigabytes most events are of no use here: each is looked at when it has been
  // read, and what is of none is dropped.
  static const std::set<std::string, std::less<>> useful{
      "cuda_runtime", "cuda_driver", "kernel",         "gpu_memcpy",
      "gpu_memset",   "cuda_sync",   "user_annotation"};
  std::vector<std::pair<std::size_t, Json>> events;
  std::size_t number = 0;
  std::string key;
  bool list = false;  // the older form: the events alone
  const Json::parser_callback_t keep = [&](int depth, Json::parse_event_t what, Json& value) {
    if (depth == 0 && what == Json::parse_event_t::array_start) list = true;
    if (depth == 1 && what == Json::parse_event_t::key) key = value.get<std::string>();
    const bool in_list = depth == (list ? 1 : 2) && (list || key == "traceEvents");
    if (!in_list || what != Json::parse_event_t::object_end) return true;
    const auto kind = value.find("cat");
    if (kind != value.end() && kind->is_string() &&
        useful.count(kind->get_ref<const std::string&>()) == 1)
      events.emplace_back(number, std::move(value));
    ++number;
    return false;
  };
  Json rest;
  try {
    rest = Json::parse(text, keep);
  } catch (const Json::exception& error) {
    throw ConfigError{profile.source + ": expected a profile of PyTorch as JSON: " + error.what()};
  }
  if (!list &&
      (!rest.is_object() || !rest.contains("traceEvents") || !rest["traceEvents"].is_array()))
    throw ConfigError{profile.source + ": traceEvents: expected a list of events"};
  if (const auto about = rest.is_object() ? rest.find("distributedInfo") : rest.end();
      rest.is_object() && about != rest.end() && about->is_object()) {
    const auto rank = about->find("rank");
    if (rank != about->end() && rank->is_number_integer()) profile.rank = rank->get<std::int64_t>();
  }
  double origin = HUGE_VAL;
  for (const auto& [_, event] : events)
    if (const auto ts = event.find("ts"); ts != event.end() && ts->is_number())
      origin = std::min(origin, ts->get<double>());
  for (const auto& [at, event] : events) add_event(profile, event, at, origin);
  if (profile.works.empty())
    throw ConfigError{profile.source +
                      ": traceEvents: expected kernels, copies or fills of a GPU, found none"};
  std::stable_sort(profile.calls.begin(), profile.calls.end(),
                   [](const Call& a, const Call& b) { return a.start < b.start; });
  std::stable_sort(profile.works.begin(), profile.works.end(),
                   [](const Work& a, const Work& b) { return a.start < b.start; });
  return profile;
}

// --- Communication ---

std::optional<std::int64_t> bytes_of(std::string_view type) {
  static const std::map<std::string_view, std::int64_t> types{
      {"Byte", 1},        {"Char", 1}, {"Bool", 1},     {"Float8_e4m3fn", 1},
      {"Float8_e5m2", 1}, {"Half", 2}, {"BFloat16", 2}, {"Int", 4},
      {"Float", 4},       {"Long", 8}, {"Double", 8}};
  const auto found = types.find(type);
  if (found == types.end()) return std::nullopt;
  return found->second;
}

/// As ProcessGroupNCCL calls them.
std::optional<CollectiveOp> collective_of(std::string_view name) {
  static const std::map<std::string_view, CollectiveOp> names{
      {"allreduce", CollectiveOp::all_reduce},
      {"allreduce_coalesced", CollectiveOp::all_reduce},
      {"allreduce_barrier", CollectiveOp::all_reduce},
      {"_allgather_base", CollectiveOp::all_gather},
      {"all_gather", CollectiveOp::all_gather},
      {"allgather", CollectiveOp::all_gather},
      {"allgather_into_tensor_coalesced", CollectiveOp::all_gather},
      {"_reduce_scatter_base", CollectiveOp::reduce_scatter},
      {"reduce_scatter", CollectiveOp::reduce_scatter},
      {"reduce_scatter_tensor_coalesced", CollectiveOp::reduce_scatter},
      {"broadcast", CollectiveOp::broadcast},
      {"_broadcast_oop", CollectiveOp::broadcast},
      {"reduce", CollectiveOp::reduce},
      {"_reduce_oop", CollectiveOp::reduce},
      {"all_to_all", CollectiveOp::all_to_all},
      {"all_to_allv", CollectiveOp::all_to_all},
      {"gather", CollectiveOp::gather},
      {"scatter", CollectiveOp::scatter}};
  const auto found = names.find(name);
  if (found == names.end()) return std::nullopt;
  return found->second;
}

/// "[0, 1]"; nothing where PyTorch cut a long list short.
std::optional<std::vector<std::int64_t>> ranks_of(const std::string& text) {
  const Json list = Json::parse(text, nullptr, false);
  if (!list.is_array() || list.empty()) return std::nullopt;
  std::vector<std::int64_t> ranks;
  for (const Json& rank : list) {
    if (!rank.is_number_integer()) return std::nullopt;
    ranks.push_back(rank.get<std::int64_t>());
  }
  return ranks;
}

// --- A rank's list ---

class Replay {
 public:
  /// @param ranks  of the profiles' ranks: those of the workload.
  Replay(Workload& workload, const Profile& profile, Rank rank,
         const std::map<std::int64_t, Rank>& ranks)
      : w_{workload}, p_{profile}, rank_{rank}, ranks_{ranks} {}

  /// @return the recorded length.
  Duration write(std::vector<std::string>& notes) {
    connect();
    find_waits();
    issue();
    for (const auto& [what, count] : missing_)
      notes.push_back(p_.source + ": " + std::to_string(count) + " " + what);
    return end_ - begin_;
  }

 private:
  /// Something that the host does, when.
  struct Action {
    enum Kind : std::uint8_t { step_end, launch, wait, block } kind = launch;
    Duration at{};
    std::size_t call = 0;              ///< of block and wait
    std::vector<std::size_t> works{};  ///< launched, waited for
    StreamNumber stream = 0;           ///< that waits
  };

  /// Which calls launched which works, and when the works were issued.
  void connect() {
    std::map<std::int64_t, std::size_t> calls;
    for (std::size_t i = 0; i < p_.calls.size(); ++i) calls.emplace(p_.calls[i].correlation, i);
    begin_ = p_.works.front().start;
    if (!p_.calls.empty()) begin_ = std::min(begin_, p_.calls.front().start);
    for (const Call& call : p_.calls) end_ = std::max(end_, call.end);
    std::map<std::size_t, Action> launches;
    issued_.resize(p_.works.size());
    for (std::size_t i = 0; i < p_.works.size(); ++i) {
      const Work& work = p_.works[i];
      end_ = std::max(end_, work.end);
      // A kernel starts that much after its launch, if its stream is idle.
      Duration at = work.start - DeviceTiming{}.launch_latency;
      const auto found = calls.find(work.correlation);
      if (found == calls.end()) {
        ++missing_["kernels, copies or fills without a call, taken as launched when they started"];
        at = std::max(at, begin_);
        actions_.push_back({.at = at, .works = {i}});
      } else {
        const Call& call = p_.calls[found->second];
        at = std::clamp(at, call.start, std::max(call.start, call.end));
        Action& launch = launches[found->second];
        launch.at = launch.works.empty() ? at : std::min(launch.at, at);
        launch.works.push_back(i);  // several: a graph
        const bool copies = call.name.find("emcpy") != std::string::npos;
        if (copies && call.end >= work.end) blocking_[found->second].push_back(i);
      }
      issued_[i] = at;
    }
    for (auto& [_, launch] : launches) actions_.push_back(std::move(launch));
    for (const Duration at : p_.step_ends)
      actions_.push_back({.kind = Action::step_end, .at = std::max(at, begin_)});
  }

  /// The last work that a stream was given before, if any.
  [[nodiscard]] std::optional<std::size_t> last_on(std::int64_t stream, Duration before) const {
    std::optional<std::size_t> last;
    for (std::size_t i = 0; i < p_.works.size(); ++i)
      if (p_.works[i].stream == stream && issued_[i] <= before) last = i;
    return last;
  }
  [[nodiscard]] std::vector<std::size_t> last_of_all(Duration before) const {
    std::map<StreamNumber, std::size_t> last;
    for (std::size_t i = 0; i < p_.works.size(); ++i)
      if (issued_[i] <= before) last[p_.works[i].stream] = i;
    std::vector<std::size_t> works;
    for (const auto& [_, work] : last) works.push_back(work);
    return works;
  }
  /// Of those issued before and on other streams than `not_on`, the one that had ended last.
  [[nodiscard]] std::optional<std::size_t> last_ended(Duration issued_before, Duration ended_by,
                                                      std::optional<StreamNumber> not_on) const {
    std::optional<std::size_t> last;
    for (std::size_t i = 0; i < p_.works.size(); ++i) {
      if (issued_[i] > issued_before || p_.works[i].end > ended_by || p_.works[i].stream == not_on)
        continue;
      if (!last || p_.works[i].end > p_.works[*last].end) last = i;
    }
    return last;
  }

  void find_waits() {
    std::map<std::int64_t, Duration> recorded;  // events
    for (const Call& call : p_.calls)
      if (begins(call.name, "cudaEventRecord") || begins(call.name, "cuEventRecord"))
        recorded[call.correlation] = call.end;
    for (std::size_t i = 0; i < p_.calls.size(); ++i) {
      const Call& call = p_.calls[i];
      const auto told = p_.synchronisations.find(call.correlation);
      const Synchronisation* sync = told == p_.synchronisations.end() ? nullptr : &told->second;
      const auto event = [&]() -> std::optional<std::size_t> {
        if (sync == nullptr) return std::nullopt;
        const auto record = recorded.find(sync->record);
        if (record == recorded.end()) return std::nullopt;
        return last_on(sync->awaited_stream, record->second);
      };
      const auto name = [&](std::string_view what) {
        return call.name.find(what) != std::string::npos;
      };
      Action block{.kind = Action::block, .at = call.start, .call = i};
      if (const auto copies = blocking_.find(i); copies != blocking_.end()) {
        block.works = copies->second;
        for (const std::size_t work : block.works) block.at = std::max(block.at, issued_[work]);
      } else if (name("DeviceSynchronize") || name("CtxSynchronize")) {
        block.works = last_of_all(call.start);
      } else if (name("StreamSynchronize") && sync != nullptr && sync->stream >= 0) {
        if (const auto last = last_on(sync->stream, call.start)) block.works = {*last};
      } else if (name("EventSynchronize") && event()) {
        block.works = {*event()};
      } else if (name("StreamSynchronize") || name("EventSynchronize")) {
        ++missing_["synchronisations without their stream, taken as with what had ended last"];
        if (const auto last = last_ended(call.start, call.end, std::nullopt)) block.works = {*last};
      } else if (name("StreamWaitEvent")) {
        stream_waits(call, sync, event());
        continue;
      } else {
        continue;
      }
      if (!block.works.empty()) actions_.push_back(std::move(block));
    }
  }

  void stream_waits(const Call& call, const Synchronisation* sync,
                    std::optional<std::size_t> awaited) {
    Action wait{.kind = Action::wait, .at = call.end};
    if (sync != nullptr && sync->stream >= 0 && awaited) {
      wait.stream = static_cast<StreamNumber>(sync->stream);
      wait.works = {*awaited};
    } else {
      // Who waits is the next that the thread launches, for what had ended last before it began.
      std::optional<std::size_t> next;
      for (const Action& action : actions_) {
        if (action.kind != Action::launch || action.at < call.end) continue;
        const std::size_t work = action.works.front();
        if (thread_of(work) == call.thread && (!next || issued_[work] < issued_[*next]))
          next = work;
      }
      if (!next) return;
      const auto last = last_ended(call.end, p_.works[*next].start, p_.works[*next].stream);
      if (!last) return;
      ++missing_["waits of streams without their events, guessed from what followed on what"];
      wait.stream = p_.works[*next].stream;
      wait.works = {*last};
    }
    actions_.push_back(std::move(wait));
  }
  [[nodiscard]] std::optional<std::int64_t> thread_of(std::size_t work) {
    if (threads_.empty())
      for (const Call& call : p_.calls) threads_.emplace(call.correlation, call.thread);
    const auto found = threads_.find(p_.works[work].correlation);
    if (found == threads_.end()) return std::nullopt;
    return found->second;
  }

  void issue() {
    std::stable_sort(actions_.begin(), actions_.end(),
                     [](const Action& a, const Action& b) { return a.at < b.at; });
    std::set<std::size_t> awaited;
    for (const Action& action : actions_)
      if (action.kind == Action::wait || action.kind == Action::block)
        awaited.insert(action.works.begin(), action.works.end());
    std::map<std::size_t, Workload::Event> events;
    Duration clock = begin_;
    StreamNumber last_stream = 0;
    const auto work_until = [&](Duration at) {
      if (at > clock) w_.host(rank_, at - clock);
      clock = std::max(clock, at);
    };
    for (const Action& action : actions_) {
      work_until(action.at);
      if (action.kind == Action::step_end) {
        w_.end_step(rank_, last_stream);
      } else if (action.kind == Action::launch) {
        for (const std::size_t i : action.works) {
          launch(p_.works[i]);
          last_stream = p_.works[i].stream;
          if (awaited.count(i) == 1) events[i] = w_.record(rank_, p_.works[i].stream);
        }
      } else {
        Duration came = action.at;
        for (const std::size_t i : action.works) {
          const auto event = events.find(i);
          if (event == events.end()) continue;  // of a thread that launched it meanwhile
          if (action.kind == Action::wait) {
            w_.wait(rank_, event->second, action.stream);
          } else {
            w_.synchronize(rank_, event->second);
            came = std::max(came, p_.works[i].end);
          }
        }
        if (action.kind == Action::block) {
          // What the call took beyond.
          const Duration end = p_.calls[action.call].end;
          clock = std::max(clock, std::min(came, end));
          work_until(end);
        }
      }
    }
    work_until(end_of_calls());
  }
  [[nodiscard]] Duration end_of_calls() const {
    Duration end = begin_;
    for (const Call& call : p_.calls) end = std::max(end, call.end);
    return end;
  }

  void launch(const Work& work) {
    if (work.communication && communicate(work)) return;
    Kernel kernel = known_time(work.end - work.start, work.name);
    // It was recorded with what ran at its side: it is not to lose SMs or bandwidth again.
    kernel.known->demand = 1e-6;
    kernel.known->memory_share = 0.0;
    w_.launch(rank_, kernel, work.stream);
  }

  bool communicate(const Work& work) {
    const Communication& it = *work.communication;
    const auto ranks = ranks_of(it.ranks);
    const auto size = bytes_of(it.type);
    const auto op = collective_of(it.what);
    const bool message = it.what == "send" || it.what == "recv";
    constexpr std::int64_t most = std::int64_t{1} << 48U;  // so that bytes do not overflow
    std::vector<Rank> group;
    if (ranks && size && it.in >= 0 && it.out >= 0 && it.in < most && it.out < most) {
      for (const std::int64_t rank : *ranks)
        if (const auto known = ranks_.find(rank); known != ranks_.end())
          group.push_back(known->second);
    }
    const bool here = std::find(group.begin(), group.end(), rank_) != group.end();
    const std::set<Rank> distinct(group.begin(), group.end());
    if ((!op && !message) || !ranks || group.size() < 2 || group.size() != ranks->size() ||
        distinct.size() != group.size() || !here) {
      ++missing_
          ["communications that are kernels of recorded length, since not all ranks of their "
           "group or not all of their fields are there"];
      return false;
    }
    if (op) {
      w_.collective(rank_, group, *op, Bytes{std::max(it.in, it.out) * *size}, work.stream);
      return true;
    }
    // The other side, in the group.
    const bool sends = it.what == "send";
    const auto other = ranks_.find(sends ? it.destination : it.source);
    if (other == ranks_.end() || other->second == rank_ || distinct.count(other->second) == 0) {
      ++missing_
          ["messages that are kernels of recorded length, since their other side is not "
           "there"];
      return false;
    }
    const Bytes bytes{(sends ? it.in : it.out) * *size};
    if (sends)
      w_.send(rank_, other->second, bytes, work.stream);
    else
      w_.receive(rank_, other->second, bytes, work.stream);
    return true;
  }

  Workload& w_;
  const Profile& p_;
  Rank rank_;
  const std::map<std::int64_t, Rank>& ranks_;
  Duration begin_{}, end_{};
  std::vector<Action> actions_{};
  std::vector<Duration> issued_{};  ///< works, when their calls came to it
  std::map<std::size_t, std::vector<std::size_t>>
      blocking_{};                                  ///< copies that their calls wait for
  std::map<std::int64_t, std::int64_t> threads_{};  ///< by correlation
  std::map<std::string, int> missing_{};
};

TraceWorkload convert(std::vector<Profile> profiles) {
  // By the ranks that they name, if all do.
  std::set<std::int64_t> named;
  for (const Profile& profile : profiles)
    if (profile.rank) named.insert(*profile.rank);
  TraceWorkload result;
  if (named.size() == profiles.size()) {
    std::sort(profiles.begin(), profiles.end(),
              [](const Profile& a, const Profile& b) { return *a.rank < *b.rank; });
  } else {
    if (profiles.size() > 1)
      result.notes.emplace_back(
          "not every profile names a rank of its own: ranks are as they come");
    for (std::size_t i = 0; i < profiles.size(); ++i)
      profiles[i].rank = static_cast<std::int64_t>(i);
  }
  std::map<std::int64_t, Rank> ranks;
  for (const Profile& profile : profiles)
    ranks.emplace(*profile.rank, static_cast<Rank>(ranks.size()));
  for (const Profile& profile : profiles)
    result.recorded.push_back(
        Replay{result.workload, profile, ranks.at(*profile.rank), ranks}.write(result.notes));
  return result;
}

}  // namespace

TraceWorkload read_kineto(std::istream& profile, std::string_view source) {
  std::vector<Profile> profiles;
  profiles.push_back(read_profile(profile, source));
  return convert(std::move(profiles));
}

TraceWorkload read_kineto(std::span<const std::string> paths) {
  std::vector<Profile> profiles;
  for (const std::string& path : paths) {
    std::ifstream file{path, std::ios::binary};
    if (!file) throw ConfigError{path + ": expected a profile of PyTorch, cannot be read"};
    profiles.push_back(read_profile(file, path));
  }
  if (profiles.empty()) throw ConfigError{"expected profiles of PyTorch, there is none"};
  return convert(std::move(profiles));
}

}  // namespace phantora
