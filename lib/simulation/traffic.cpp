#include "simulation/traffic.hpp"

#include <phantora/error.hpp>

#include <algorithm>
#include <cmath>

namespace phantora::detail {
namespace {

// Thread blocks of a kernel that sends and receives (NCCL on NVLink 4).
constexpr int most_message_channels = 32;
// Of all groups of sends and receives: what their messages are is not told apart.
constexpr std::uint64_t message_identity = ~std::uint64_t{0};

// splitmix64's finaliser (Steele, Lea, Flood, OOPSLA 2014) over a running key.
std::uint64_t mixed(std::uint64_t key, std::uint64_t value) {
  key = (key ^ value) + 0x9e3779b97f4a7c15ULL;
  key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9ULL;
  key = (key ^ (key >> 27)) * 0x94d049bb133111ebULL;
  return key ^ (key >> 31);
}

/// Refuses a rank that the communicator does not have, or that is on another GPU than the stream.
void expect_rank(const std::vector<GpuIndex>& gpus, int rank, const StreamQueue& queue) {
  PHANTORA_EXPECTS(
      rank >= 0 && static_cast<std::size_t>(rank) < gpus.size(),
      "no rank " + std::to_string(rank) + " in a communicator of " + std::to_string(gpus.size()));
  const GpuIndex gpu = gpus[static_cast<std::size_t>(rank)];
  PHANTORA_EXPECTS(queue.device->index() == gpu, "rank " + std::to_string(rank) + " is on GPU " +
                                                     std::to_string(gpu) + ", stream " +
                                                     std::to_string(queue.id.value) + " on GPU " +
                                                     std::to_string(queue.device->index()));
}

}  // namespace

Traffic::Traffic(const Cluster& cluster, NcclVariables nccl)
    : cluster_{cluster},
      nccl_{std::move(nccl)},
      view_{cluster_.topology.view()},
      network_{view_},
      network_events_{network_.subscribe(*this)},
      slowdowns_(cluster_.gpus.size(), 1.0),
      moving_on_(cluster_.gpus.size()) {
  schedule_failures(cluster_, network_);
}

CommunicatorId Traffic::add_communicator(std::vector<GpuIndex> gpus) {
  std::vector<NodeId> nodes;
  for (const GpuIndex gpu : gpus) {
    PHANTORA_EXPECTS(gpu < cluster_.gpus.size(), "no GPU " + std::to_string(gpu));
    nodes.push_back(cluster_.gpus[gpu]);
  }
  KnownPlans plans{Communicator{cluster_, std::move(nodes), nccl_}, view_};
  std::uint64_t key = generations_[gpus]++;
  for (const GpuIndex gpu : gpus) key = mixed(key, gpu);
  const CommunicatorId id{next_communicator_++};
  rendezvous_.add_communicator(id, gpus.size());
  communicators_.emplace(id, CommunicatorState{std::move(gpus), std::move(plans), key});
  return id;
}

void Traffic::drop_communicator(CommunicatorId id) {
  (void)communicator_of(id);
  communicators_.erase(id);
  rendezvous_.drop_communicator(id);
}

Traffic::CommunicatorState& Traffic::communicator_of(CommunicatorId id) {
  const auto found = communicators_.find(id);
  PHANTORA_EXPECTS(found != communicators_.end(), "no communicator " + std::to_string(id.value));
  return found->second;
}
std::uint64_t Traffic::collective(StreamQueue& stream, Time issued, CommunicatorId communicator,
                                  int rank, std::span<const GroupedCollective> group,
                                  std::uint64_t tag) {
  PHANTORA_EXPECTS(!group.empty(), "a group has operations");
  CommunicatorState& state = communicator_of(communicator);
  stream.expect_in_order(issued);
  expect_rank(state.gpus, rank, stream);
  std::shared_ptr<const KnownPlan> known;
  if (rendezvous_.is_first(communicator, rank)) known = state.plans.of(group);
  const Rendezvous::Called called = rendezvous_.collective(communicator, rank, group, issued);
  Operation& operation = operation_of(called, state.gpus.size());
  if (called.first) {
    operation.name = name_of(group);
    operation.key = mixed(state.key, called.number);
    operation.identity = state.key;
    for (const GroupedCollective& it : group)
      operation.identity = ~mixed(mixed(operation.identity, static_cast<std::uint64_t>(it.op)),
                                  static_cast<std::uint64_t>(it.total.count()));
    operation.known = std::move(known);
    operation.parts.reserve(operation.ranks);
  }
  Part& part = add_part(stream, tag);
  part.sms = operation.known->plan.channels;
  part.places.assign(1, called.place);
  part.unfinished = 1;
  operation.parts.push_back(&part);
  return part.slot;
}

std::uint64_t Traffic::send_recv(StreamQueue& stream, Time issued, CommunicatorId communicator,
                                 int rank, std::span<const SendRecv> group, std::uint64_t tag) {
  CommunicatorState& state = communicator_of(communicator);
  stream.expect_in_order(issued);
  expect_rank(state.gpus, rank, stream);
  const int ranks = static_cast<int>(state.gpus.size());
  for (const SendRecv& message : group) {
    PHANTORA_EXPECTS(message.src_rank == rank || message.dst_rank == rank,
                     "a rank's group has its own messages");
    PHANTORA_EXPECTS(std::min(message.src_rank, message.dst_rank) >= 0 &&
                         std::max(message.src_rank, message.dst_rank) < ranks,
                     "messages go between ranks of the communicator");
    PHANTORA_EXPECTS(message.size >= Bytes{0}, "a size is not negative");
  }
  Part& part = add_part(stream, tag);
  part.places.reserve(group.size());
  int send_channels = 0, receive_channels = 0;
  const auto all = std::make_shared<const RankMessages>(rank, group);
  for (const SendRecv& message : group) {
    for (const bool sends : {true, false}) {
      if ((sends ? message.src_rank : message.dst_rank) != rank) continue;
      const Rendezvous::Called called = rendezvous_.message(communicator, message, sends, issued);
      Operation& operation = operation_of(called, state.gpus.size());
      if (called.first) {
        operation.name = "send_recv";
        operation.identity = message_identity;
        operation.message = true;
        operation.key = mixed(mixed(mixed(~state.key, static_cast<std::uint64_t>(message.src_rank)),
                                    static_cast<std::uint64_t>(message.dst_rank)),
                              called.number);
        operation.first = all;
        operation.parts.reserve(2);
      } else {
        if (message.size.count() > 0 && message.src_rank != message.dst_rank) {
          const RankMessages &sender = sends ? *all : *operation.first,
                             &receiver = sends ? *operation.first : *all;
          operation.known = state.plans.of(message, sender, receiver);
        }
        operation.first.reset();
      }
      operation.parts.push_back(&part);
      part.places.push_back(called.place);
      (sends ? send_channels : receive_channels) += state.plans.channels(message);
    }
  }
  // One kernel runs all messages; a channel serves one in each direction.
  part.sms = std::min(most_message_channels, std::max(send_channels, receive_channels));
  part.unfinished = part.places.size();
  return part.slot;
}

Traffic::Operation& Traffic::operation_of(const Rendezvous::Called& called, std::size_t ranks) {
  const std::uint32_t meeting = called.place.slot;
  if (called.first) {
    if (meeting >= meets_at_.size()) meets_at_.resize(meeting + 1);
    const std::uint32_t slot = operations_.take();
    meets_at_[meeting] = &operations_[slot];
    meets_at_[meeting]->slot = slot;
    meets_at_[meeting]->id = called.place.meeting;
    meets_at_[meeting]->ranks = ranks;
  }
  return *meets_at_[meeting];
}

void Traffic::Part::renew() {
  Part anew;
  anew.places = std::move(places);
  anew.places.clear();
  *this = std::move(anew);
}

void Traffic::Operation::renew() {
  Operation anew;
  anew.parts = std::move(parts);
  anew.parts.clear();
  anew.gpus = std::move(gpus);
  anew.gpus.clear();
  anew.flows = std::move(flows);
  anew.flows.clear();
  *this = std::move(anew);
}

Traffic::Part& Traffic::add_part(StreamQueue& stream, std::uint64_t tag) {
  const std::uint32_t slot = parts_.take();
  Part& part = parts_[slot];
  part.id = ++last_part_;
  part.slot = slot;
  part.stream = &stream;
  part.gpu = stream.device->index();
  part.tag = tag;
  return part;
}

Time Traffic::next_event() const {
  return std::min({network_.next_event(), reached_.next(), finishing_.next()});
}

void Traffic::process(Time now, Time simulated_to) {
  while (reached_.next() <= now) {
    const auto [at, part] = reached_.take();
    part_reached(*part, at, simulated_to);
  }
  if (network_.next_event() <= now) advance_network(now);
  while (finishing_.next() <= now) {
    const auto [at, operation] = finishing_.take();
    finish(*operation, at);
  }
  update_slowdowns(now);
}

void Traffic::slowdown_changed(const Device& device) {
  const double slowdown = slowdowns_[device.index()] = device.collective_slowdown();
  for (Operation* operation : moving_on_[device.index()]) {
    // What another than the slowest does below that changes nothing.
    const bool slower = slowdown > operation->slowdown_bound;
    if (slower) operation->slowdown_bound = slowdown;
    if (slower || operation->gpus[operation->slowest] == device.index()) slowdown_due(*operation);
  }
}

void Traffic::part_reached(Part& part, Time at, Time simulated_to) {
  part.reached = at;
  if (part.places.empty()) {
    finish_part(part, {.name = "send_recv", .identity = message_identity, .end = at});
    return;
  }
  for (const Rendezvous::Place place : part.places) {
    if (const auto last = rendezvous_.reached(place, at))
      // Earlier only if its last part was issued late.
      start(*meets_at_[place.slot], std::max(*last, simulated_to));
  }
}

void Traffic::start(Operation& operation, Time at) {
  operation.started = ++started_;
  operation.gpus.reserve(operation.parts.size());
  for (const Part* const part : operation.parts) {
    operation.gpus.push_back(part->gpu);
    moving_on_[operation.gpus.back()].push_back(&operation);
  }
  slowdown_due(operation);
  operation.finish = at;
  if (operation.known) {
    const auto& [plan, alone] = *operation.known;
    operation.finish += plan.latency;
    operation.flows.reserve(plan.flows.size());
    for (std::size_t i = 0; i < plan.flows.size(); ++i) {
      FlowSpec flow = plan.flows[i];
      flow.start = operation.finish;
      flow.key = operation.key;
      operation.flows.push_back({network_.start(std::move(flow)), alone[i]});
      flow_owner_[operation.flows.back().id] = &operation;
    }
  }
  operation.unfinished_flows = operation.flows.size();
  if (operation.flows.empty()) finishing_.add(operation.finish, operation.id, operation);
}

void Traffic::advance_network(Time now) {
  network_.advance_to(now);
  for (const auto& [flow, completion] : finished_flows_) {
    const auto owner = flow_owner_.find(flow);
    // A change at this very instant, as a flow that starts, has the network tell of it once more.
    if (owner == flow_owner_.end()) continue;
    Operation& operation = *owner->second;
    flow_owner_.erase(owner);
    ended_flows_.emplace_back(flow, now);
    operation.finish = std::max(operation.finish, completion);
    if (--operation.unfinished_flows == 0)
      finishing_.add(operation.finish, operation.id, operation);
  }
  finished_flows_.clear();
  // A commit costs as much as a small instant, whatever there is to commit.
  constexpr int instants_per_commit = 64;
  if (++uncommitted_instants_ < instants_per_commit) return;
  uncommitted_instants_ = 0;
  network_.commit(now);
  // Only what ended before that cannot be told once more.
  while (!ended_flows_.empty() && ended_flows_.front().second < now) {
    network_.forget(ended_flows_.front().first);
    ended_flows_.pop_front();
  }
}

void Traffic::finish(Operation& operation, Time at) {
  for (Part* const part : operation.parts) {
    if (--part->unfinished > 0) continue;
    Span done{.name = operation.name, .identity = operation.identity, .end = at};
    if (!operation.message) done.algorithm = operation.known->plan.algorithm;
    finish_part(*part, done);
  }
  for (const GpuIndex gpu : operation.gpus) std::erase(moving_on_[gpu], &operation);
  if (operation.slowdown_is_due) std::erase(slowdowns_due_, &operation);
  operations_.give_back(operation.slot);
}

/// @param done  what has ended, but for what the part knows
void Traffic::finish_part(Part& part, Span done) {
  done.tag = part.tag;
  done.start = part.reached;
  part.stream->device->collective_finished(*part.stream, done);
  if (part.tag != 0) finished_tags_.push_back(part.tag);
  parts_.give_back(part.slot);
}

void Traffic::slowdown_due(Operation& operation) {
  if (std::exchange(operation.slowdown_is_due, true)) return;
  slowdowns_due_.push_back(&operation);
}

double Traffic::slowdown_of(Operation& operation) const {
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
void Traffic::update_slowdowns(Time now) {
  if (slowdowns_due_.empty()) return;
  std::sort(slowdowns_due_.begin(), slowdowns_due_.end(),
            [](const Operation* a, const Operation* b) { return a->started < b->started; });
  for (Operation* const it : slowdowns_due_) {
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
  slowdowns_due_.clear();
}

std::vector<std::string> Traffic::stalled() const {
  std::vector<std::string> lines;
  std::map<std::uint64_t, const Operation*> moving;
  for (std::uint32_t slot = 0; slot < operations_.size(); ++slot)
    if (const Operation& operation = operations_[slot]; operation.started > 0)
      moving.emplace(operation.started, &operation);
  for (const auto& [_, operation] : moving) {
    for (const Operation::MovingFlow& flow : operation->flows) {
      const auto link = network_.bottleneck(flow.id);
      if (!link || network_.rate(flow.id) > Bandwidth{0.0}) continue;
      lines.push_back(std::string{operation->name} + " on a communicator of " +
                      std::to_string(operation->ranks) + " ranks: stalled, " +
                      cluster_.topology.name(*link) + " is down and no route avoids it");
      break;
    }
  }
  return lines;
}

}  // namespace phantora::detail
