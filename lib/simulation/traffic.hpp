#pragma once

#include "simulation/device.hpp"
#include "simulation/known_plans.hpp"
#include "simulation/slots.hpp"

#include <phantora/cluster/cluster.hpp>
#include <phantora/network/flow_network.hpp>
#include <phantora/simulation/rendezvous.hpp>

#include <boost/container/small_vector.hpp>

#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <memory_resource>
#include <queue>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace phantora::detail {

/// Collectives and messages of all communicators, from the first rank's call to the last byte:
/// which calls meet, which flows they become, and who goes on when those have ended.
///
/// The part of a rank in a collective, or in a group of sends and receives, has a slot, which
/// stands in the rank's stream.
class Traffic final : private FlowObserver {
 public:
  Traffic(const Cluster& cluster, NcclVariables nccl);

  CommunicatorId add_communicator(std::vector<GpuIndex> gpus);
  void drop_communicator(CommunicatorId id);

  /// @return the part that is to be appended to the stream
  std::uint64_t collective(StreamQueue& stream, Time issued, CommunicatorId communicator, int rank,
                           std::span<const GroupedCollective> group, std::uint64_t tag);
  std::uint64_t send_recv(StreamQueue& stream, Time issued, CommunicatorId communicator, int rank,
                          std::span<const SendRecv> group, std::uint64_t tag);

  /// How many SMs a part holds while it is at the head of its stream.
  [[nodiscard]] int sms(std::uint64_t part) const { return part_at(part).sms; }
  /// A stream has come to a part. The rest of the cluster may not have got there: the network acts
  /// on it in global order, in process().
  void reached(std::uint64_t part, Time at) {
    Part& reached = part_at(part);
    reached_.add(at, reached.id, reached);
  }
  /// A device's kernels slow collectives by another factor than before.
  void slowdown_changed(const Device& device);

  [[nodiscard]] Time next_event() const;
  /// Everything that happens at `now`, which is not after next_event().
  /// @param simulated_to  up to when all has been simulated: nothing starts before
  void process(Time now, Time simulated_to);

  /// Tags of what has finished since the last call.
  std::vector<std::uint64_t> finished() { return std::exchange(finished_tags_, {}); }
  [[nodiscard]] std::vector<OpenCall> open_calls() const { return rendezvous_.open_calls(); }
  /// What cannot move because a link is down, as lines for people.
  [[nodiscard]] std::vector<std::string> stalled() const;
  /// Who is missing where, as lines for people.
  [[nodiscard]] std::vector<std::string> incomplete() const { return rendezvous_.incomplete(); }

 private:
  /// A rank's part in a collective, or its group of sends and receives: done when all of its
  /// operations are.
  struct Part {
    std::uint64_t id = 0;  ///< counted from 1: which of several at an instant comes first
    std::uint32_t slot = 0;
    GpuIndex gpu = 0;  ///< of the stream
    StreamQueue* stream = nullptr;
    std::uint64_t tag = 0;
    Time reached = never;
    int sms = 0;  ///< that it holds at the head of its stream
    boost::container::small_vector<Rendezvous::Place, 1> places{};  ///< in each of its operations
    std::size_t unfinished = 0;                                     ///< of these
    void renew();
  };

  /// A collective, or one message of a send/recv group, from the first rank that calls it.
  struct Operation {
    std::uint64_t id = 0;  ///< of its meeting
    std::uint32_t slot = 0;
    std::size_t ranks = 0;  ///< of its communicator
    /// The same in every run, whichever rank's call arrives first: it chooses routes and breaks
    /// ties.
    std::uint64_t key = 0;
    std::string_view name{};
    boost::container::small_vector<Part*, 2> parts{};  ///< those that exist so far
    std::uint64_t identity = 0;                        ///< equal for equal work
    bool message = false;
    std::shared_ptr<const KnownPlan> known{};   ///< null: nothing is moved
    std::shared_ptr<const RankMessages> first;  ///< of a message: those of the rank that came first
    std::uint64_t started = 0;                  ///< its place among those that have; 0: not yet
    boost::container::small_vector<GpuIndex, 2> gpus{};  ///< of its ranks, once it has started
    std::size_t slowest = 0;  ///< of these: the one whose kernels slow it most
    /// None of them slows it by a greater factor.
    double slowdown_bound = std::numeric_limits<double>::infinity();
    bool slowdown_is_due = false;  ///< it may be another than before
    std::size_t unfinished_flows = 0;
    Time finish{};  ///< latest completion of its flows so far
    struct MovingFlow {
      FlowId id{};
      Bandwidth alone{};  ///< its rate where nothing else shares its links
    };
    boost::container::small_vector<MovingFlow, 1> flows{};
    double slowdown = 1.0;
    void renew();
  };

  struct CommunicatorState {
    std::vector<GpuIndex> gpus;
    KnownPlans plans;
    std::uint64_t key = 0;  ///< of its GPUs, and of how many it has had before
  };

  /// What is to happen to parts or operations, in order of time.
  template <class T>
  class Agenda {
   public:
    void add(Time at, std::uint64_t id, T& what) { heap_.emplace(at, id, &what); }
    [[nodiscard]] Time next() const { return heap_.empty() ? never : std::get<Time>(heap_.top()); }
    /// Takes out the first; of several at an instant that with the least id.
    std::pair<Time, T*> take() {
      const auto [at, _, what] = heap_.top();
      heap_.pop();
      return {at, what};
    }

   private:
    using Entry = std::tuple<Time, std::uint64_t, T*>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap_{};
  };

  [[nodiscard]] CommunicatorState& communicator_of(CommunicatorId id);
  [[nodiscard]] Part& part_at(std::uint64_t slot) {
    return parts_[static_cast<std::uint32_t>(slot)];
  }
  [[nodiscard]] const Part& part_at(std::uint64_t slot) const {
    return parts_[static_cast<std::uint32_t>(slot)];
  }
  Part& add_part(StreamQueue& stream, std::uint64_t tag);
  /// The operation of a meeting that is not over.
  Operation& operation_of(const Rendezvous::Called& called, std::size_t ranks);
  void part_reached(Part& part, Time at, Time simulated_to);
  void start(Operation& operation, Time at);
  void advance_network(Time now);
  void finish(Operation& operation, Time at);
  void finish_part(Part& part, Span done);
  void slowdown_due(Operation& operation);
  [[nodiscard]] double slowdown_of(Operation& operation) const;
  void update_slowdowns(Time now);

  [[nodiscard]] bool wants_rates() const override { return false; }
  [[nodiscard]] bool wants_link_loads() const override { return false; }
  void on_flow_finish(FlowId flow, Time completion) override {
    finished_flows_.emplace_back(flow, completion);
  }

  const Cluster& cluster_;
  NcclVariables nccl_;
  NetworkView view_;
  FlowNetwork network_;
  Subscription network_events_;
  std::unordered_map<CommunicatorId, CommunicatorState> communicators_{};
  std::uint64_t next_communicator_ = 0;
  std::map<std::vector<GpuIndex>, std::uint64_t> generations_{};
  Rendezvous rendezvous_{};
  Slots<Operation> operations_{};
  std::vector<Operation*> meets_at_{};  ///< by the slot of a meeting that is not over
  Slots<Part> parts_{};
  std::uint64_t last_part_ = 0;
  std::uint64_t started_ = 0;                       ///< operations so far
  std::vector<double> slowdowns_;                   ///< of collectives, by GPU
  std::vector<std::vector<Operation*>> moving_on_;  ///< by GPU
  std::vector<Operation*> slowdowns_due_{};
  Agenda<Part> reached_{};
  Agenda<Operation> finishing_{};
  std::pmr::unsynchronized_pool_resource nodes_{};  ///< of flow_owner_
  std::pmr::unordered_map<FlowId, Operation*> flow_owner_{&nodes_};
  std::vector<std::pair<FlowId, Time>> finished_flows_{};
  int uncommitted_instants_ = 0;  ///< of the network
  std::deque<std::pair<FlowId, Time>> ended_flows_{};  ///< not forgotten yet, and since when
  std::vector<std::uint64_t> finished_tags_{};
};

}  // namespace phantora::detail
