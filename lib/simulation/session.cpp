#include "observer_list.hpp"
#include "simulation/answers.hpp"
#include "simulation/device.hpp"
#include "simulation/markers.hpp"
#include "simulation/next_events.hpp"
#include "simulation/price_list.hpp"
#include "simulation/traffic.hpp"

#include <phantora/error.hpp>
#include <phantora/simulation/session.hpp>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

namespace phantora {
namespace {

using detail::Answers;
using detail::Asked;
using detail::Device;
using detail::Markers;
using detail::MarkerState;
using detail::NextEvents;
using detail::PricedKernel;
using detail::Request;
using detail::StreamOp;
using detail::StreamQueue;
using detail::Traffic;

}  // namespace

class Session::Impl final : public detail::DeviceEvents {
 public:
  Impl(const Cluster& cluster, std::vector<detail::PricedModel> models, DeviceTiming timing,
       NcclVariables nccl)
      : cluster_{cluster},
        prices_{cluster_, std::move(models)},
        timing_{timing},
        traffic_{cluster_, std::move(nccl)} {
    for (GpuIndex i = 0; i < cluster_.gpus.size(); ++i) {
      devices_.emplace_back(i, prices_.model(i).sm_count, timing_, *this);
    }
  }

  QueryIndex add_query(const KernelQuery& query, GpuIndex gpu) {
    PHANTORA_EXPECTS(gpu < devices_.size(), "no GPU " + std::to_string(gpu));
    return prices_.add(query, gpu);
  }

  void launch(StreamId id, Time issued, QueryIndex query, std::uint64_t tag) {
    const std::uint64_t kernel = prices_.kernel_on(stream(id).device->index(), query);
    append(id, {StreamOp::Kind::kernel, issued, kernel, tag});
  }

  void add_stream(StreamId id, GpuIndex gpu, ProcessIndex process, int priority) {
    PHANTORA_EXPECTS(gpu < devices_.size(), "no GPU " + std::to_string(gpu));
    PHANTORA_EXPECTS(!streams_.contains(id), "stream " + std::to_string(id.value) + " exists");
    streams_.emplace(id, &devices_[gpu].add_stream(id, process, priority));
  }

  void drop_stream(StreamId id) {
    StreamQueue& queue = stream(id);
    streams_.erase(id);
    queue.device->drop_stream(queue);
  }

  [[nodiscard]] Time last_issued(StreamId id) const { return stream(id).issued; }

  void append(StreamId id, StreamOp op) {
    StreamQueue& queue = stream(id);
    queue.expect_in_order(op.issued);
    append(queue, op);
  }

  void host_function_done(std::uint64_t ticket, Time finished) {
    const auto found = host_functions_.find(ticket);
    PHANTORA_EXPECTS(found != host_functions_.end(), "no host function runs under this ticket");
    StreamQueue* queue = found->second;
    host_functions_.erase(found);
    queue->device->host_function_finished(*queue, std::max(finished, queue->end));
  }

  CommunicatorId add_communicator(std::vector<GpuIndex> gpus) {
    return traffic_.add_communicator(std::move(gpus));
  }
  void drop_communicator(CommunicatorId id) { traffic_.drop_communicator(id); }

  void collective(StreamId id, Time issued, CommunicatorId communicator, int rank,
                  std::span<const GroupedCollective> group, std::uint64_t tag) {
    StreamQueue& queue = stream(id);
    append(queue, {StreamOp::Kind::collective, issued,
                   traffic_.collective(queue, issued, communicator, rank, group, tag)});
  }

  void send_recv(StreamId id, Time issued, CommunicatorId communicator, int rank,
                 std::span<const SendRecv> group, std::uint64_t tag) {
    StreamQueue& queue = stream(id);
    append(queue, {StreamOp::Kind::collective, issued,
                   traffic_.send_recv(queue, issued, communicator, rank, group, tag)});
  }

  void request(const Request& request) { answers_.ask(request); }

  [[nodiscard]] std::optional<Time> completion(MarkerId marker) const {
    const MarkerState* const found = markers_.find(marker);
    return found == nullptr ? std::nullopt : found->completed;
  }
  void drop(MarkerId marker) { markers_.drop(marker); }

  std::vector<Answer> advance(std::span<const Time> bounds) {
    bounds_.assign(bounds.begin(), bounds.end());
    // A thread that asks about a marker goes on at its own clock.
    for (const Asked& query : answers_.queries()) {
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
      answers = answers_.collect();
      if (!answers.empty()) return answers;
    }
    if (horizon != never) simulated_to_ = std::max(simulated_to_, horizon);
    return answers_.collect_settled(
        [&](const Request& request) { return request.clock <= horizon; });
  }

  std::optional<std::vector<Answer>> force(Time until) {
    if (answers_.requests().empty() && queued_host_functions_ == 0) return std::nullopt;
    std::vector<Answer> answers;
    while (answers.empty() && due_host_functions_.empty()) {
      const Time next = next_event();
      // A query that would be answered before this event is the smallest answer.
      const std::set<Asked>& queries = answers_.queries();
      if (!queries.empty() && queries.begin()->clock < std::min(next, until))
        return std::vector{answers_.deny_first()};
      if (next >= until) return std::nullopt;
      process(next);
      answers = answers_.collect();
    }
    answers_.keep_all_but_first(answers);
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
    const std::set<Asked>& queries = answers_.queries();
    return queries.empty() ? next : std::min(next, queries.begin()->clock);
  }
  [[nodiscard]] const GpuUse& use(GpuIndex gpu) const {
    PHANTORA_EXPECTS(gpu < devices_.size(), "no GPU " + std::to_string(gpu));
    return devices_[gpu].use();
  }
  [[nodiscard]] Subscription subscribe(SessionObserver& observer) {
    return observers_.subscribe(observer);
  }
  void name_range(const NamedRange& range) {
    observers_.for_each([&](SessionObserver* observer) { observer->on_range(range); });
  }
  std::vector<std::uint64_t> finished_collectives() { return traffic_.finished(); }
  std::vector<std::pair<std::uint64_t, Time>> due_host_functions() {
    return std::exchange(due_host_functions_, {});
  }
  [[nodiscard]] std::vector<OpenCall> open_calls() const { return traffic_.open_calls(); }
  [[nodiscard]] std::vector<std::string> incomplete_collectives() const;
  [[nodiscard]] std::vector<std::string> obstacles() const;

 private:
  [[nodiscard]] StreamQueue& stream(StreamId id) const {
    const auto found = streams_.find(id);
    PHANTORA_EXPECTS(found != streams_.end(), "no stream " + std::to_string(id.value));
    return *found->second;
  }
  void append(StreamQueue& queue, StreamOp op) {
    queue.issued = op.issued;
    if (op.kind == StreamOp::Kind::marker) {
      markers_.record(MarkerId{op.argument}, *queue.device);
    } else if (op.kind == StreamOp::Kind::wait) {
      markers_.add_wait(MarkerId{op.argument});
    } else if (op.kind == StreamOp::Kind::host_function) {
      ++queued_host_functions_;
    }
    queue.device->append(queue, op);
  }

  const PricedKernel& kernel(std::uint64_t kernel) override { return prices_.kernel(kernel); }

  void marker_completed(MarkerId marker, Time at) override {
    answers_.look_again(markers_.complete(marker, at));
  }
  std::optional<Time> marker_awaited(MarkerId marker, StreamQueue& waiting) override {
    return markers_.await(marker, waiting);
  }

  int collective_sms(std::uint64_t part) override { return traffic_.sms(part); }
  void collective_reached(std::uint64_t part, StreamQueue&, Time at) override {
    traffic_.reached(part, at);
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

  void slowdown_changed(const Device& device) override { traffic_.slowdown_changed(device); }

  [[nodiscard]] Time next_event() const {
    return std::min(traffic_.next_event(), device_events_.earliest());
  }

  /// Everything that happens at `now`, which is next_event().
  void process(Time now) {
    simulated_to_ = std::max(simulated_to_, now);
    for (GpuIndex gpu = 0; (gpu = device_events_.first_due(gpu, now)) != NextEvents::none; ++gpu)
      devices_[gpu].process(now);
    traffic_.process(now, simulated_to_);
  }

  /// Devices that nothing outside influences run ahead as far as their own processes allow.
  std::vector<Answer> answer_locally() {
    for (const auto& [_, request] : answers_.requests()) {
      const MarkerState* const marker = markers_.find(request.marker);
      if (marker == nullptr || marker->completed) continue;
      Device* device = marker->device;
      if (device == nullptr) continue;
      const Time bound = local_bound(*device);
      while (!device->coupled()) {
        const Time next = device->next_event();
        if (next > bound || next == never) break;
        device->process(next);
        if (!request.query && completion(request.marker)) break;
      }
    }
    return answers_.collect_settled([&](const Request& request) {
      const MarkerState* const marker = markers_.find(request.marker);
      if (marker == nullptr || marker->device == nullptr) return true;
      const Device& device = *marker->device;
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

  Cluster cluster_;
  detail::PriceList prices_;
  DeviceTiming timing_;
  std::deque<Device> devices_{};
  detail::NextEvents device_events_{};  ///< by GPU
  std::unordered_map<StreamId, StreamQueue*> streams_{};
  Markers markers_{};
  Answers answers_{markers_};
  Traffic traffic_;
  std::unordered_map<std::uint64_t, StreamQueue*> host_functions_{};
  std::vector<std::pair<std::uint64_t, Time>> due_host_functions_{};
  std::uint64_t queued_host_functions_ = 0;  ///< whose turn has not come
  std::vector<Time> bounds_{};
  Time simulated_to_{};
  ObserverList<SessionObserver> observers_{};
};

std::vector<std::string> Session::Impl::obstacles() const {
  std::vector<std::string> lines = traffic_.stalled();
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
  for (std::string& line : traffic_.incomplete()) lines.push_back(std::move(line));
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
void Session::name_range(const NamedRange& range) { impl_->name_range(range); }
QueryIndex Session::add_query(const KernelQuery& query, GpuIndex gpu) {
  return impl_->add_query(query, gpu);
}
void Session::add_stream(StreamId stream, GpuIndex gpu, ProcessIndex process, int priority) {
  impl_->add_stream(stream, gpu, process, priority);
}
void Session::launch(StreamId stream, Time issued, QueryIndex query, std::uint64_t tag) {
  impl_->launch(stream, issued, query, tag);
}
void Session::drop_stream(StreamId stream) { impl_->drop_stream(stream); }
Time Session::last_issued(StreamId stream) const { return impl_->last_issued(stream); }
void Session::record(StreamId stream, Time issued, MarkerId marker) {
  impl_->append(stream, {StreamOp::Kind::marker, issued, marker.value});
}
void Session::wait(StreamId stream, Time issued, MarkerId marker) {
  impl_->append(stream, {StreamOp::Kind::wait, issued, marker.value});
}
void Session::graph(StreamId stream, Time issued, bool inside) {
  impl_->append(stream, {StreamOp::Kind::graph, issued, inside ? 1U : 0U});
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
