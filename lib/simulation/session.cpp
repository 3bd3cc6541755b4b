#include "observer_list.hpp"
#include "simulation/device.hpp"
#include "simulation/next_events.hpp"
#include "simulation/price_list.hpp"

#include <phantora/error.hpp>
#include <phantora/network/flow_network.hpp>
#include <phantora/simulation/session.hpp>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <queue>
#include <unordered_map>
#include <utility>

namespace phantora {
namespace {

using detail::Device;
using detail::NextEvents;
using detail::PricedKernel;
using detail::StreamOp;
using detail::StreamQueue;

/// One rank's presence in a collective or in a group of sends and receives.
struct Part {
  Rendezvous::Place place{};
  StreamQueue* stream = nullptr;
  std::uint64_t tag = 0;
  Time reached = never;
};

/// A collective, or one message of a send/recv group, from the first rank that calls it.
struct Operation {
  std::uint64_t id = 0;   ///< of its meeting
  std::size_t ranks = 0;  ///< of its communicator
  /// The same in every run, whichever rank's call arrives first: it chooses routes and breaks ties.
  std::uint64_t key = 0;
  std::string name;
  std::vector<std::uint64_t> parts{};  ///< those that exist so far
  std::uint64_t identity = 0;          ///< equal for equal work
  CollectivePlan plan{};
  std::shared_ptr<const RankMessages> first;  ///< of a message: those of the rank that came first
  std::uint64_t started = 0;                  ///< its place among those that have; 0: not yet
  std::vector<GpuIndex> gpus{};               ///< of its ranks, once it has started
  std::size_t slowest = 0;                    ///< of these: the one whose kernels slow it most
  /// None of them slows it by a greater factor.
  double slowdown_bound = std::numeric_limits<double>::infinity();
  bool slowdown_is_due = false;  ///< it may be another than before
  std::size_t unfinished_flows = 0;
  Time finish{};  ///< latest completion of its flows so far
  struct MovingFlow {
    FlowId id{};
    Bandwidth alone{};  ///< its rate where nothing else shares its links
  };
  std::vector<MovingFlow> flows{};
  double slowdown = 1.0;
};

// Thread blocks of a kernel that sends and receives (NCCL on NVLink 4).
constexpr int most_message_channels = 32;

/// A rank's send/recv group: done when all its messages are.
struct Group {
  StreamQueue* stream = nullptr;
  std::uint64_t tag = 0;
  Time reached = never;
  std::vector<Rendezvous::Place> messages{};
  int send_channels = 0, receive_channels = 0;
  std::size_t unfinished = 0;
};

struct MarkerState {
  Device* device = nullptr;  ///< where it was recorded
  std::optional<Time> completed{};
  std::vector<StreamQueue*> waiting{};
  int waits = 0;                          ///< appended and not yet reached by their streams
  std::vector<std::uint64_t> requests{};  ///< that it has held up
  bool dropped = false;
  [[nodiscard]] bool forgettable() const { return dropped && completed && waits == 0; }
};

struct CommunicatorState {
  std::vector<GpuIndex> gpus;
  Communicator communicator;
  std::uint64_t key = 0;  ///< of its GPUs, and of how many it has had before
};

struct Request {
  ProcessIndex process = 0;
  std::uint32_t thread = 0;
  Time clock{};
  MarkerId marker{};
  bool query = false;
  bool held_up = false;  ///< its marker knows of it
};

/// A query, in the order in which they are answered where nothing else can happen.
struct Asked {
  Time clock{};
  ProcessIndex process = 0;
  std::uint32_t thread = 0;
  std::uint64_t request = 0;
  auto operator<=>(const Asked&) const = default;
};

// splitmix64's finaliser (Steele, Lea, Flood, OOPSLA 2014) over a running key.
std::uint64_t mixed(std::uint64_t key, std::uint64_t value) {
  key = (key ^ value) + 0x9e3779b97f4a7c15ULL;
  key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9ULL;
  key = (key ^ (key >> 27)) * 0x94d049bb133111ebULL;
  return key ^ (key >> 31);
}

}  // namespace

class Session::Impl final : public detail::DeviceEvents, private FlowObserver {
 public:
  Impl(const Cluster& cluster, std::vector<detail::PricedModel> models, DeviceTiming timing,
       NcclVariables nccl)
      : cluster_{cluster},
        prices_{cluster_, std::move(models)},
        timing_{timing},
        nccl_{std::move(nccl)},
        view_{cluster_.topology.view()},
        network_{view_},
        network_events_{network_.subscribe(*this)},
        slowdowns_(cluster_.gpus.size(), 1.0),
        moving_on_(cluster_.gpus.size()) {
    schedule_failures(cluster_, network_);
    for (GpuIndex i = 0; i < cluster_.gpus.size(); ++i) {
      devices_.emplace_back(i, prices_.model(i).sm_count, timing_, *this);
    }
  }

  // --- Appending ---

  QueryIndex add_query(const KernelQuery& query, GpuIndex gpu) {
    PHANTORA_EXPECTS(gpu < devices_.size(), "no GPU " + std::to_string(gpu));
    return prices_.add(query, gpu);
  }

  void launch(StreamId id, Time issued, QueryIndex query) {
    const std::uint64_t kernel = prices_.kernel_on(stream(id).device->index(), query);
    append(id, {StreamOp::Kind::kernel, issued, kernel});
  }

  void add_stream(StreamId id, GpuIndex gpu, ProcessIndex process) {
    PHANTORA_EXPECTS(gpu < devices_.size(), "no GPU " + std::to_string(gpu));
    PHANTORA_EXPECTS(!streams_.contains(id), "stream " + std::to_string(id.value) + " exists");
    streams_.emplace(id, &devices_[gpu].add_stream(id, process));
  }

  void drop_stream(StreamId id) {
    StreamQueue& queue = stream(id);
    streams_.erase(id);
    queue.device->drop_stream(queue);
  }

  [[nodiscard]] Time last_issued(StreamId id) const { return stream(id).issued; }

  void append(StreamId id, StreamOp op) {
    StreamQueue& queue = stream_at(id, op.issued);
    queue.issued = op.issued;
    if (op.kind == StreamOp::Kind::marker) {
      MarkerState& marker = markers_[MarkerId{op.argument}];
      // Until now those that wait for it were taken to wait for another GPU.
      if (marker.device == nullptr)
        for (StreamQueue* waiting : marker.waiting)
          if (waiting->device == queue.device) queue.device->add_foreign_wait(-1);
      marker.device = queue.device;
    } else if (op.kind == StreamOp::Kind::wait) {
      ++markers_[MarkerId{op.argument}].waits;
    } else if (op.kind == StreamOp::Kind::host_function) {
      ++queued_host_functions_;
    }
    queue.device->append(queue, op);
  }

  void host_function_done(std::uint64_t ticket, Time finished) {
    const auto found = host_functions_.find(ticket);
    PHANTORA_EXPECTS(found != host_functions_.end(), "no host function runs under this ticket");
    StreamQueue* queue = found->second;
    host_functions_.erase(found);
    queue->device->host_function_finished(*queue, std::max(finished, queue->end));
  }

  CommunicatorId add_communicator(std::vector<GpuIndex> gpus) {
    std::vector<NodeId> nodes;
    for (const GpuIndex gpu : gpus) {
      PHANTORA_EXPECTS(gpu < devices_.size(), "no GPU " + std::to_string(gpu));
      nodes.push_back(cluster_.gpus[gpu]);
    }
    Communicator plans{cluster_, std::move(nodes), nccl_};
    std::uint64_t key = generations_[gpus]++;
    for (const GpuIndex gpu : gpus) key = mixed(key, gpu);
    const CommunicatorId id{next_communicator_++};
    rendezvous_.add_communicator(id, gpus.size());
    communicators_.emplace(id, CommunicatorState{std::move(gpus), std::move(plans), key});
    return id;
  }

  void drop_communicator(CommunicatorId id) {
    (void)communicator_of(id);
    communicators_.erase(id);
    rendezvous_.drop_communicator(id);
  }

  void collective(StreamId id, Time issued, CommunicatorId communicator, int rank,
                  std::span<const GroupedCollective> group, std::uint64_t tag) {
    PHANTORA_EXPECTS(!group.empty(), "a group has operations");
    CommunicatorState& state = communicator_of(communicator);
    expect_rank(state, rank, stream_at(id, issued));
    std::optional<CollectivePlan> plan;
    if (rendezvous_.is_first(communicator, rank)) plan = state.communicator.plan(group);
    const Rendezvous::Called called = rendezvous_.collective(communicator, rank, group, issued);
    Operation& operation = operations_[called.place.meeting];
    if (plan) {
      operation.id = called.place.meeting;
      operation.ranks = state.gpus.size();
      operation.name = name_of(group);
      operation.key = mixed(state.key, called.number);
      operation.identity = state.key;
      for (const GroupedCollective& it : group)
        operation.identity = ~mixed(mixed(operation.identity, static_cast<std::uint64_t>(it.op)),
                                    static_cast<std::uint64_t>(it.total.count()));
      operation.plan = *std::move(plan);
    }
    const std::uint64_t part = ++last_part_;
    parts_[part] = {.place = called.place, .stream = &stream(id), .tag = tag};
    operation.parts.push_back(part);
    append(id, {StreamOp::Kind::collective, issued, part});
  }

  void send_recv(StreamId id, Time issued, CommunicatorId communicator, int rank,
                 std::span<const SendRecv> group, std::uint64_t tag) {
    CommunicatorState& state = communicator_of(communicator);
    expect_rank(state, rank, stream_at(id, issued));
    const int ranks = static_cast<int>(state.gpus.size());
    for (const SendRecv& message : group) {
      PHANTORA_EXPECTS(message.src_rank == rank || message.dst_rank == rank,
                       "a rank's group has its own messages");
      PHANTORA_EXPECTS(std::min(message.src_rank, message.dst_rank) >= 0 &&
                           std::max(message.src_rank, message.dst_rank) < ranks,
                       "messages go between ranks of the communicator");
      PHANTORA_EXPECTS(message.size >= Bytes{0}, "a size is not negative");
    }
    const std::uint64_t group_id = ++last_part_;
    Group& mine = groups_[group_id];
    mine.stream = &stream(id);
    mine.tag = tag;
    const auto all = std::make_shared<const RankMessages>(rank, group);
    for (const SendRecv& message : group) {
      for (const bool sends : {true, false}) {
        if ((sends ? message.src_rank : message.dst_rank) != rank) continue;
        const Rendezvous::Called called = rendezvous_.message(communicator, message, sends, issued);
        Operation& operation = operations_[called.place.meeting];
        if (called.first) {
          operation.id = called.place.meeting;
          operation.ranks = state.gpus.size();
          operation.name = "send_recv";
          operation.key =
              mixed(mixed(mixed(~state.key, static_cast<std::uint64_t>(message.src_rank)),
                          static_cast<std::uint64_t>(message.dst_rank)),
                    called.number);
          operation.first = all;
        } else {
          if (message.size.count() > 0 && message.src_rank != message.dst_rank) {
            const RankMessages &sender = sends ? *all : *operation.first,
                               &receiver = sends ? *operation.first : *all;
            operation.plan = state.communicator.plan(message, sender, receiver);
          }
          operation.first.reset();
        }
        operation.parts.push_back(group_id);
        mine.messages.push_back(called.place);
        (sends ? mine.send_channels : mine.receive_channels) +=
            state.communicator.channels(message);
      }
    }
    mine.unfinished = mine.messages.size();
    append(id, {StreamOp::Kind::collective, issued, group_id});
  }

  // --- Blocking calls ---

  void request(const Request& request) {
    requests_.emplace(++last_request_, request);
    if (request.query)
      asked_.insert({request.clock, request.process, request.thread, last_request_});
    answerable_.push_back(last_request_);
  }

  [[nodiscard]] std::optional<Time> completion(MarkerId marker) const {
    const auto found = markers_.find(marker);
    return found == markers_.end() ? std::nullopt : found->second.completed;
  }

  void drop(MarkerId marker) {
    const auto found = markers_.find(marker);
    if (found == markers_.end()) return;
    found->second.dropped = true;
    if (found->second.forgettable()) markers_.erase(found);
  }

  std::vector<Answer> advance(std::span<const Time> bounds) {
    bounds_.assign(bounds.begin(), bounds.end());
    // A thread that asks about a marker goes on at its own clock.
    for (const Asked& query : asked_) {
      if (query.process >= bounds_.size()) bounds_.resize(query.process + 1, never);
      bounds_[query.process] = std::min(bounds_[query.process], query.clock);
    }
    Time horizon = never;
    for (const Time bound : bounds_) horizon = std::min(horizon, bound);

    std::vector<Answer> answers = answer_locally();
    if (!answers.empty()) return answers;
    while (true) {
      const Time next = next_event();
      if (next > horizon || next == never) break;
      process(next);
      answers = collect();
      if (!answers.empty()) return answers;
    }
    if (horizon != never) simulated_to_ = std::max(simulated_to_, horizon);
    return collect_settled([&](const Request& request) { return request.clock <= horizon; });
  }

  std::optional<std::vector<Answer>> force(Time until) {
    if (requests_.empty() && queued_host_functions_ == 0) return std::nullopt;
    std::vector<Answer> answers;
    while (answers.empty() && due_host_functions_.empty()) {
      const Time next = next_event();
      // A query that would be answered before this event is the smallest answer.
      if (!asked_.empty() && asked_.begin()->clock < std::min(next, until)) {
        const Asked query = *asked_.begin();
        forget(requests_.find(query.request));
        return std::vector{Answer{query.process, query.thread, query.clock, false}};
      }
      if (next >= until) return std::nullopt;
      process(next);
      answers = collect();
    }
    for (std::size_t i = 1; i < answers.size(); ++i) forced_extra_.push_back(answers[i]);
    if (answers.size() > 1) answers.resize(1);
    return answers;
  }

  [[nodiscard]] std::uint64_t late_operations() const {
    std::uint64_t late = 0;
    for (const Device& device : devices_) late += device.late_operations();
    return late;
  }
  [[nodiscard]] Time now() const noexcept { return simulated_to_; }
  [[nodiscard]] Time awaited() const {
    const Time next = next_event();
    return asked_.empty() ? next : std::min(next, asked_.begin()->clock);
  }
  [[nodiscard]] const GpuUse& use(GpuIndex gpu) const {
    PHANTORA_EXPECTS(gpu < devices_.size(), "no GPU " + std::to_string(gpu));
    return devices_[gpu].use();
  }
  [[nodiscard]] Subscription subscribe(SessionObserver& observer) {
    return observers_.subscribe(observer);
  }
  std::vector<std::uint64_t> finished_collectives() { return std::exchange(finished_tags_, {}); }
  std::vector<std::pair<std::uint64_t, Time>> due_host_functions() {
    return std::exchange(due_host_functions_, {});
  }
  [[nodiscard]] std::vector<OpenCall> open_calls() const { return rendezvous_.open_calls(); }
  [[nodiscard]] std::vector<std::string> incomplete_collectives() const;
  [[nodiscard]] std::vector<std::string> obstacles() const;

 private:
  [[nodiscard]] StreamQueue& stream(StreamId id) const {
    const auto found = streams_.find(id);
    PHANTORA_EXPECTS(found != streams_.end(), "no stream " + std::to_string(id.value));
    return *found->second;
  }
  /// A stream on which something is issued at an instant.
  [[nodiscard]] StreamQueue& stream_at(StreamId id, Time issued) const {
    StreamQueue& queue = stream(id);
    PHANTORA_EXPECTS(issued >= queue.issued, "nothing is issued on stream " +
                                                 std::to_string(id.value) +
                                                 " before what was issued on it last");
    return queue;
  }
  [[nodiscard]] CommunicatorState& communicator_of(CommunicatorId id) {
    const auto found = communicators_.find(id);
    PHANTORA_EXPECTS(found != communicators_.end(), "no communicator " + std::to_string(id.value));
    return found->second;
  }
  static void expect_rank(const CommunicatorState& state, int rank, const StreamQueue& queue) {
    PHANTORA_EXPECTS(rank >= 0 && static_cast<std::size_t>(rank) < state.gpus.size(),
                     "no rank " + std::to_string(rank) + " in a communicator of " +
                         std::to_string(state.gpus.size()));
    const GpuIndex gpu = state.gpus[static_cast<std::size_t>(rank)];
    PHANTORA_EXPECTS(queue.device->index() == gpu, "rank " + std::to_string(rank) + " is on GPU " +
                                                       std::to_string(gpu) + ", stream " +
                                                       std::to_string(queue.id.value) + " on GPU " +
                                                       std::to_string(queue.device->index()));
  }

  // --- What devices tell ---

  const PricedKernel& kernel(std::uint64_t kernel) override { return prices_.kernel(kernel); }

  void marker_completed(MarkerId marker, Time at) override {
    MarkerState& state = markers_[marker];
    state.completed = at;
    answerable_.insert(answerable_.end(), state.requests.begin(), state.requests.end());
    state.requests.clear();
    for (StreamQueue* waiting : std::exchange(state.waiting, {})) {
      if (waiting->device != state.device) waiting->device->add_foreign_wait(-1);
      waiting->device->wake(*waiting, at);
      --state.waits;
    }
    if (state.forgettable()) markers_.erase(marker);
  }

  std::optional<Time> marker_awaited(MarkerId marker, StreamQueue& waiting) override {
    MarkerState& state = markers_.at(marker);
    if (state.completed) {
      const Time at = *state.completed;
      --state.waits;
      if (state.forgettable()) markers_.erase(marker);
      return at;
    }
    state.waiting.push_back(&waiting);
    if (waiting.device != state.device) waiting.device->add_foreign_wait(+1);
    return std::nullopt;
  }

  int collective_sms(std::uint64_t part) override {
    const auto group = groups_.find(part);
    if (group == groups_.end()) return operations_.at(parts_.at(part).place.meeting).plan.channels;
    // One kernel runs all messages; a channel serves one in each direction.
    return std::min(most_message_channels,
                    std::max(group->second.send_channels, group->second.receive_channels));
  }

  void collective_reached(std::uint64_t part, StreamQueue&, Time at) override {
    // The rest of the cluster may not have got here: the network acts on it in global order.
    reached_.emplace(at, part);
  }

  void host_function_reached(std::uint64_t ticket, StreamQueue& queue, Time at) override {
    host_functions_[ticket] = &queue;
    --queued_host_functions_;
    due_host_functions_.emplace_back(ticket, at);
  }

  void span(const Span& span) override {
    observers_.for_each([&](SessionObserver* observer) { observer->on_span(span); });
  }

  void rescheduled(const Device& device) override {
    device_events_.set(device.index(), device.next_event());
  }

  void slowdown_changed(const Device& device) override {
    const double slowdown = slowdowns_[device.index()] = device.collective_slowdown();
    for (Operation* operation : moving_on_[device.index()]) {
      // What another than the slowest does below that changes nothing.
      const bool slower = slowdown > operation->slowdown_bound;
      if (slower) operation->slowdown_bound = slowdown;
      if (slower || operation->gpus[operation->slowest] == device.index()) slowdown_due(*operation);
    }
  }

  [[nodiscard]] bool wants_link_loads() const override { return false; }
  void on_flow_finish(FlowId flow, Time completion) override {
    finished_flows_.emplace_back(flow, completion);
  }

  // --- Simulation ---

  [[nodiscard]] Time next_event() const {
    Time next = std::min(network_.next_event(), device_events_.earliest());
    if (!reached_.empty()) next = std::min(next, reached_.begin()->first);
    if (!finishing_.empty()) next = std::min(next, finishing_.begin()->first);
    return next;
  }

  /// Everything that happens at `now`, which is next_event().
  void process(Time now) {
    simulated_to_ = std::max(simulated_to_, now);
    for (GpuIndex gpu = 0; (gpu = device_events_.first_due(gpu, now)) != NextEvents::none; ++gpu)
      devices_[gpu].process(now);
    while (!reached_.empty() && reached_.begin()->first <= now) {
      const auto [at, part] = *reached_.begin();
      reached_.erase(reached_.begin());
      part_reached(part, at);
    }
    if (network_.next_event() <= now) advance_network(now);
    while (!finishing_.empty() && finishing_.begin()->first <= now) {
      const auto [at, operation] = *finishing_.begin();
      finishing_.erase(finishing_.begin());
      finish(operation, at);
    }
    update_slowdowns(now);
  }

  void part_reached(std::uint64_t id, Time at) {
    if (const auto group = groups_.find(id); group != groups_.end()) {
      group->second.reached = at;
      if (group->second.messages.empty()) {
        finish_group(id, at);
        return;
      }
      for (const Rendezvous::Place message : std::vector{group->second.messages})
        place_reached(message, at);
      return;
    }
    Part& part = parts_.at(id);
    part.reached = at;
    place_reached(part.place, at);
  }

  void place_reached(Rendezvous::Place place, Time at) {
    if (const auto last = rendezvous_.reached(place, at))
      start(operations_.at(place.meeting), *last);
  }

  void start(Operation& operation, Time at) {
    at = std::max(at, simulated_to_);  // earlier only if its last part was issued late
    operation.started = ++started_;
    for (const std::uint64_t part : operation.parts) {
      const auto group = groups_.find(part);
      const StreamQueue* queue =
          group == groups_.end() ? parts_.at(part).stream : group->second.stream;
      operation.gpus.push_back(queue->device->index());
      moving_on_[operation.gpus.back()].push_back(&operation);
    }
    slowdown_due(operation);
    operation.finish = at + operation.plan.latency;
    for (FlowSpec& spec : operation.plan.flows) {
      spec.start = at + operation.plan.latency;
      spec.key = operation.key;
      double alone = spec.rate_cap.bytes_per_second();
      for (const LinkUse& use : spec.links) {
        alone = std::min(
            alone, view_.capacities()[use.link.value].bytes_per_second() / use.bytes_per_byte);
      }
      const FlowId flow = network_.start(spec);
      flow_owner_[flow] = operation.id;
      operation.flows.push_back({flow, Bandwidth{alone}});
    }
    operation.unfinished_flows = operation.flows.size();
    operation.plan.flows.clear();
    if (operation.flows.empty()) finishing_.emplace(operation.finish, operation.id);
  }

  void advance_network(Time now) {
    network_.advance_to(now);
    for (const auto& [flow, completion] : std::exchange(finished_flows_, {})) {
      const auto owner = flow_owner_.find(flow);
      // A change at this very instant, as of a cap, has the network tell of it once more.
      if (owner == flow_owner_.end()) continue;
      Operation& operation = operations_.at(owner->second);
      flow_owner_.erase(owner);
      ended_flows_.emplace_back(flow, now);
      operation.finish = std::max(operation.finish, completion);
      if (--operation.unfinished_flows == 0) finishing_.emplace(operation.finish, operation.id);
    }
    network_.commit(now);
    // Only what ended before that cannot be told once more.
    while (!ended_flows_.empty() && ended_flows_.front().second < now) {
      network_.forget(ended_flows_.front().first);
      ended_flows_.pop_front();
    }
  }

  void finish(std::uint64_t id, Time at) {
    Operation& operation = operations_.at(id);
    for (const std::uint64_t part : operation.parts) {
      const auto group = groups_.find(part);
      if (group == groups_.end()) {
        const Part& done = parts_.at(part);
        done.stream->device->collective_finished(*done.stream, operation.name, operation.identity,
                                                 done.reached, at);
        if (done.tag != 0) finished_tags_.push_back(done.tag);
        parts_.erase(part);
      } else if (--group->second.unfinished == 0) {
        finish_group(part, at);
      }
    }
    for (const GpuIndex gpu : operation.gpus) std::erase(moving_on_[gpu], &operation);
    if (operation.slowdown_is_due) std::erase(slowdowns_due_, &operation);
    operations_.erase(id);
  }

  void finish_group(std::uint64_t id, Time at) {
    const Group& group = groups_.at(id);
    group.stream->device->collective_finished(*group.stream, "send_recv", ~std::uint64_t{0},
                                              group.reached, at);
    if (group.tag != 0) finished_tags_.push_back(group.tag);
    groups_.erase(id);
  }

  void slowdown_due(Operation& operation) {
    if (std::exchange(operation.slowdown_is_due, true)) return;
    slowdowns_due_.push_back(&operation);
  }

  double slowdown_of(Operation& operation) const {
    double most = 1.0;
    std::size_t place = operation.slowest;
    // Most often, the next one is as slow as the slowest was.
    for (std::size_t i = 0; i < operation.gpus.size() && most < operation.slowdown_bound; ++i) {
      const double slowdown = slowdowns_[operation.gpus[place]];
      if (slowdown > most) {
        most = slowdown;
        operation.slowest = place;
      }
      if (++place == operation.gpus.size()) place = 0;
    }
    operation.slowdown_bound = most;
    return most;
  }

  /// Kernels on any of its GPUs slow a collective: its flows' caps follow, in the order in which
  /// collectives started.
  void update_slowdowns(Time now) {
    std::vector<Operation*> due = std::exchange(slowdowns_due_, {});
    std::sort(due.begin(), due.end(),
              [](const Operation* a, const Operation* b) { return a->started < b->started; });
    for (Operation* const it : due) {
      Operation& operation = *it;
      operation.slowdown_is_due = false;
      const double slowdown = slowdown_of(operation);
      if (slowdown == operation.slowdown) continue;
      operation.slowdown = slowdown;
      for (const Operation::MovingFlow& flow : operation.flows) {
        if (!flow_owner_.contains(flow.id)) continue;
        network_.set_rate_cap(flow.id, now, flow.alone / slowdown);
      }
    }
  }

  // --- Answers ---

  /// Devices that nothing outside influences run ahead as far as their own processes allow.
  std::vector<Answer> answer_locally() {
    for (const auto& [_, request] : requests_) {
      const auto marker = markers_.find(request.marker);
      if (marker == markers_.end() || marker->second.completed) continue;
      Device* device = marker->second.device;
      if (device == nullptr) continue;
      const Time bound = local_bound(*device);
      while (!device->coupled()) {
        const Time next = device->next_event();
        if (next > bound || next == never) break;
        device->process(next);
        if (!request.query && completion(request.marker)) break;
      }
    }
    return collect_settled([&](const Request& request) {
      const auto marker = markers_.find(request.marker);
      if (marker == markers_.end() || marker->second.device == nullptr) return true;
      const Device& device = *marker->second.device;
      return !device.coupled() && request.clock <= local_bound(device);
    });
  }

  [[nodiscard]] Time local_bound(const Device& device) const {
    Time bound = never;
    for (const ProcessIndex process : device.processes()) {
      if (process < bounds_.size()) bound = std::min(bound, bounds_[process]);
    }
    return bound;
  }

  /// Takes out the requests whose marker is known.
  std::vector<Answer> collect() {
    return answer(std::exchange(answerable_, {}), [](const Request&) { return false; });
  }

  /// And queries about the rest whose device `settled` up to their clock.
  template <class Settled>
  std::vector<Answer> collect_settled(Settled settled) {
    std::vector<std::uint64_t> requests = std::exchange(answerable_, {});
    for (const Asked& query : asked_) requests.push_back(query.request);
    return answer(std::move(requests), settled);
  }

  /// In the order in which they were made.
  template <class Settled>
  std::vector<Answer> answer(std::vector<std::uint64_t> requests, Settled settled) {
    std::vector<Answer> answers = std::exchange(forced_extra_, {});
    std::sort(requests.begin(), requests.end());
    requests.erase(std::unique(requests.begin(), requests.end()), requests.end());
    for (const std::uint64_t id : requests) {
      const auto found = requests_.find(id);
      if (found == requests_.end()) continue;  // force() has answered it
      Request& request = found->second;
      const auto marker = markers_.find(request.marker);
      // Nobody recorded it, or it was dropped after completion: CUDA calls that done.
      const bool known = marker == markers_.end() || marker->second.completed.has_value();
      const Time completed = known && marker != markers_.end() ? *marker->second.completed : Time{};
      if (!known && !(request.query && settled(request))) {
        if (!std::exchange(request.held_up, true)) marker->second.requests.push_back(id);
        continue;
      }
      const bool done = known && (!request.query || completed <= request.clock);
      const Time clock = request.query ? request.clock : std::max(completed, request.clock);
      answers.push_back({request.process, request.thread, clock, done});
      forget(found);
    }
    return answers;
  }

  void forget(std::map<std::uint64_t, Request>::iterator found) {
    const auto& [id, request] = *found;
    if (request.query) asked_.erase({request.clock, request.process, request.thread, id});
    if (request.held_up) {
      const auto marker = markers_.find(request.marker);
      if (marker != markers_.end()) std::erase(marker->second.requests, id);
    }
    requests_.erase(found);
  }

  Cluster cluster_;
  detail::PriceList prices_;
  DeviceTiming timing_;
  NcclVariables nccl_;
  NetworkView view_;
  FlowNetwork network_;
  Subscription network_events_;
  std::deque<Device> devices_{};
  std::unordered_map<StreamId, StreamQueue*> streams_{};
  std::unordered_map<MarkerId, MarkerState> markers_{};
  std::unordered_map<std::uint64_t, StreamQueue*> host_functions_{};
  std::vector<std::pair<std::uint64_t, Time>> due_host_functions_{};
  std::unordered_map<CommunicatorId, CommunicatorState> communicators_{};
  std::uint64_t next_communicator_ = 0;
  std::map<std::vector<GpuIndex>, std::uint64_t> generations_{};
  Rendezvous rendezvous_{};
  std::unordered_map<std::uint64_t, Operation> operations_{};  ///< by meeting
  std::unordered_map<std::uint64_t, Part> parts_{};
  std::unordered_map<std::uint64_t, Group> groups_{};
  std::uint64_t last_part_ = 0;
  std::uint64_t started_ = 0;                         ///< operations so far
  NextEvents device_events_{};                        ///< by GPU
  std::vector<double> slowdowns_{};                   ///< of collectives, by GPU
  std::vector<std::vector<Operation*>> moving_on_{};  ///< by GPU
  std::vector<Operation*> slowdowns_due_{};
  std::set<std::pair<Time, std::uint64_t>> reached_{};
  std::set<std::pair<Time, std::uint64_t>> finishing_{};
  std::unordered_map<FlowId, std::uint64_t> flow_owner_{};
  std::vector<std::pair<FlowId, Time>> finished_flows_{};
  std::deque<std::pair<FlowId, Time>> ended_flows_{};  ///< not forgotten yet, and since when
  std::vector<std::uint64_t> finished_tags_{};
  std::uint64_t queued_host_functions_ = 0;      ///< whose turn has not come
  std::map<std::uint64_t, Request> requests_{};  ///< by when they were made
  std::uint64_t last_request_ = 0;
  std::set<Asked> asked_{};                  ///< of these
  std::vector<std::uint64_t> answerable_{};  ///< of these: new, or their marker has completed
  std::vector<Answer> forced_extra_{};
  std::vector<Time> bounds_{};
  Time simulated_to_{};
  ObserverList<SessionObserver> observers_{};
};

std::vector<std::string> Session::Impl::obstacles() const {
  std::vector<std::string> lines;
  std::map<std::uint64_t, const Operation*> moving;
  for (const auto& [_, operation] : operations_)
    if (operation.started > 0) moving.emplace(operation.started, &operation);
  for (const auto& [_, operation] : moving) {
    for (const Operation::MovingFlow& flow : operation->flows) {
      const auto link = network_.bottleneck(flow.id);
      if (!link || network_.rate(flow.id) > Bandwidth{0.0}) continue;
      lines.push_back(operation->name + " on a communicator of " +
                      std::to_string(operation->ranks) + " ranks: stalled, " +
                      cluster_.topology.name(*link) + " is down and no route avoids it");
      break;
    }
  }
  std::map<std::pair<StreamId, MarkerId>, const StreamQueue*> waiting;
  for (const auto& [marker, state] : markers_) {
    if (state.device != nullptr) continue;
    for (const StreamQueue* queue : state.waiting)
      waiting.emplace(std::pair{queue->id, marker}, queue);
  }
  for (const auto& [ids, queue] : waiting) {
    lines.push_back("stream " + std::to_string(ids.first.value) + " of GPU " +
                    std::to_string(queue->device->index()) + " waits for marker " +
                    std::to_string(ids.second.value) + ", which nobody has recorded");
  }
  return lines;
}

std::vector<std::string> Session::Impl::incomplete_collectives() const {
  std::vector<std::string> lines = obstacles();
  for (std::string& line : rendezvous_.incomplete()) lines.push_back(std::move(line));
  return lines;
}

Session::Session(const Cluster& cluster, const GpuCosts& costs, DeviceTiming timing,
                 NcclVariables nccl)
    : impl_{std::make_unique<Impl>(cluster, detail::models_of(cluster, costs), timing,
                                   std::move(nccl))} {}
Session::Session(const Cluster& cluster, const GpuModel& gpu, KernelCostModel costs,
                 DeviceTiming timing, NcclVariables nccl)
    : impl_{std::make_unique<Impl>(cluster, detail::only_model(cluster, gpu, std::move(costs)),
                                   timing, std::move(nccl))} {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Subscription Session::subscribe(SessionObserver& observer) { return impl_->subscribe(observer); }
QueryIndex Session::add_query(const KernelQuery& query, GpuIndex gpu) {
  return impl_->add_query(query, gpu);
}
void Session::add_stream(StreamId stream, GpuIndex gpu, ProcessIndex process) {
  impl_->add_stream(stream, gpu, process);
}
void Session::launch(StreamId stream, Time issued, QueryIndex query) {
  impl_->launch(stream, issued, query);
}
void Session::drop_stream(StreamId stream) { impl_->drop_stream(stream); }
Time Session::last_issued(StreamId stream) const { return impl_->last_issued(stream); }
void Session::record(StreamId stream, Time issued, MarkerId marker) {
  impl_->append(stream, {StreamOp::Kind::marker, issued, marker.value});
}
void Session::wait(StreamId stream, Time issued, MarkerId marker) {
  impl_->append(stream, {StreamOp::Kind::wait, issued, marker.value});
}
void Session::host_function(StreamId stream, Time issued, std::uint64_t ticket) {
  impl_->append(stream, {StreamOp::Kind::host_function, issued, ticket});
}
void Session::host_function_done(std::uint64_t ticket, Time finished) {
  impl_->host_function_done(ticket, finished);
}
std::vector<std::uint64_t> Session::finished_collectives() { return impl_->finished_collectives(); }
std::vector<std::pair<std::uint64_t, Time>> Session::due_host_functions() {
  return impl_->due_host_functions();
}
CommunicatorId Session::add_communicator(std::vector<GpuIndex> gpus) {
  return impl_->add_communicator(std::move(gpus));
}
void Session::drop_communicator(CommunicatorId communicator) {
  impl_->drop_communicator(communicator);
}
void Session::collective(StreamId stream, Time issued, CommunicatorId communicator, int rank,
                         std::span<const GroupedCollective> group, std::uint64_t tag) {
  impl_->collective(stream, issued, communicator, rank, group, tag);
}
void Session::collective(StreamId stream, Time issued, CommunicatorId communicator, int rank,
                         CollectiveOp op, Bytes total, int root, std::uint64_t tag) {
  const GroupedCollective alone{op, total, root};
  impl_->collective(stream, issued, communicator, rank, std::span{&alone, 1}, tag);
}
void Session::send_recv(StreamId stream, Time issued, CommunicatorId communicator, int rank,
                        std::span<const SendRecv> group, std::uint64_t tag) {
  impl_->send_recv(stream, issued, communicator, rank, group, tag);
}
void Session::synchronize(ProcessIndex process, std::uint32_t thread, Time clock, MarkerId marker) {
  impl_->request({process, thread, clock, marker, false});
}
void Session::query(ProcessIndex process, std::uint32_t thread, Time clock, MarkerId marker) {
  impl_->request({process, thread, clock, marker, true});
}
std::optional<Time> Session::completion(MarkerId marker) const { return impl_->completion(marker); }
void Session::drop(MarkerId marker) { impl_->drop(marker); }
std::vector<Answer> Session::advance(std::span<const Time> bounds) {
  return impl_->advance(bounds);
}
std::optional<std::vector<Answer>> Session::force(Time until) { return impl_->force(until); }
std::uint64_t Session::late_operations() const { return impl_->late_operations(); }
Time Session::now() const noexcept { return impl_->now(); }
Time Session::awaited() const { return impl_->awaited(); }
const GpuUse& Session::use(GpuIndex gpu) const { return impl_->use(gpu); }
std::vector<OpenCall> Session::open_calls() const { return impl_->open_calls(); }
std::vector<std::string> Session::incomplete_collectives() const {
  return impl_->incomplete_collectives();
}
std::vector<std::string> Session::obstacles() const { return impl_->obstacles(); }

}  // namespace phantora
