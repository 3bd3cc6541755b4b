#pragma once

#include "simulation/device.hpp"

#include <phantora/cluster/cluster.hpp>
#include <phantora/collectives/communicator.hpp>
#include <phantora/network/flow_network.hpp>
#include <phantora/simulation/rendezvous.hpp>

#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <queue>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace phantora::detail {

/// Collectives and messages of all communicators, from the first rank's call to the last byte:
/// which calls meet, which flows they become, and who goes on when those have ended.
///
/// The part of a rank in a collective, or in a group of sends and receives, has an id, which stands
/// in the rank's stream.
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
  [[nodiscard]] int sms(std::uint64_t part) const { return parts_.at(part).sms; }
  /// A stream has come to a part. The rest of the cluster may not have got there: the network acts
  /// on it in global order, in process().
  void reached(std::uint64_t part, Time at) { reached_.add(at, part); }
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
    std::uint64_t id = 0;
    StreamQueue* stream = nullptr;
    std::uint64_t tag = 0;
    Time reached = never;
    int sms = 0;                              ///< that it holds at the head of its stream
    std::vector<Rendezvous::Place> places{};  ///< in each of its operations
    std::size_t unfinished = 0;               ///< of these
  };

  /// A collective, or one message of a send/recv group, from the first rank that calls it.
  struct Operation {
    std::uint64_t id = 0;   ///< of its meeting
    std::size_t ranks = 0;  ///< of its communicator
    /// The same in every run, whichever rank's call arrives first: it chooses routes and breaks
    /// ties.
    std::uint64_t key = 0;
    std::string name;
    std::vector<Part*> parts{};  ///< those that exist so far
    std::uint64_t identity = 0;  ///< equal for equal work
    bool message = false;
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

  struct CommunicatorState {
    std::vector<GpuIndex> gpus;
    Communicator communicator;
    std::uint64_t key = 0;  ///< of its GPUs, and of how many it has had before
  };

  /// What is to happen to parts or operations, in order of time.
  class Agenda {
   public:
    void add(Time at, std::uint64_t id) { heap_.emplace(at, id); }
    [[nodiscard]] Time next() const { return heap_.empty() ? never : heap_.top().first; }
    /// Takes out the first; of several at an instant that with the least id.
    std::pair<Time, std::uint64_t> take() {
      const std::pair<Time, std::uint64_t> first = heap_.top();
      heap_.pop();
      return first;
    }

   private:
    using Entry = std::pair<Time, std::uint64_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap_{};
  };

  [[nodiscard]] CommunicatorState& communicator_of(CommunicatorId id);
  Part& add_part(StreamQueue& stream, std::uint64_t tag);
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
  std::unordered_map<std::uint64_t, Operation> operations_{};  ///< by meeting
  std::unordered_map<std::uint64_t, Part> parts_{};
  std::uint64_t last_part_ = 0;
  std::uint64_t started_ = 0;                       ///< operations so far
  std::vector<double> slowdowns_;                   ///< of collectives, by GPU
  std::vector<std::vector<Operation*>> moving_on_;  ///< by GPU
  std::vector<Operation*> slowdowns_due_{};
  Agenda reached_{};    ///< parts
  Agenda finishing_{};  ///< operations
  std::unordered_map<FlowId, Operation*> flow_owner_{};
  std::vector<std::pair<FlowId, Time>> finished_flows_{};
  std::deque<std::pair<FlowId, Time>> ended_flows_{};  ///< not forgotten yet, and since when
  std::vector<std::uint64_t> finished_tags_{};
};

}  // namespace phantora::detail
