#include "simulation/chakra.hpp"
#include "simulation/protobuf_wire.hpp"

#include <phantora/error.hpp>
#include <phantora/kernels/kernel_work.hpp>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <variant>

namespace phantora::detail::chakra {
namespace {

class RankWriter {
 public:
  RankWriter(const Workload& workload, Rank rank, const KernelCostModel& costs)
      : w_{workload}, rank_{rank}, costs_{costs} {
    WireMessage metadata;
    metadata.text(1, "0.0.4");
    bytes_ = metadata.delimited();
  }

  std::string write() {
    for (const Workload::Operation& operation : w_.operations(rank_)) {
      std::visit([&](const auto& it) { write(it); }, operation);
      ++number_;
    }
    return std::move(bytes_);
  }

 private:
  using Ids = std::set<std::uint64_t>;

  static void attribute(WireMessage& node, std::string_view name, ValueField field,
                        std::uint64_t value) {
    WireMessage it;
    it.text(1, name);
    it.number(field, value);
    node.message(attribute_field, it);
  }
  static void attribute(WireMessage& node, std::string_view name, std::string_view value) {
    WireMessage it;
    it.text(1, name);
    it.text(string_value, value);
    node.message(attribute_field, it);
  }

  WireMessage begin(std::string_view name, NodeType type, const Ids& after, bool cpu) {
    WireMessage node;
    node.number(id_field, ++last_id_);
    node.text(name_field, name);
    node.number(type_field, type);
    std::string packed;
    for (const std::uint64_t id : after) {
      std::uint64_t rest = id;
      for (; rest >= 0x80U; rest >>= 7U) packed += static_cast<char>(rest | 0x80U);
      packed += static_cast<char>(rest);
    }
    if (!packed.empty()) node.text(data_field, packed);
    attribute(node, "is_cpu_op", bool_value, cpu ? 1 : 0);
    if (thread_ > 0) attribute(node, "thread", int64_value, thread_);
    return node;
  }
  void lasts(WireMessage& node, Duration time) {
    // What rounding took or gave is made up for by the next; none is free, since ASTRA-sim takes
    // that for a time that it has to compute.
    owed_ += to_seconds(time) * 1e6;
    const double micros = std::max(time > Duration{} ? 1.0 : 0.0, std::round(owed_));
    owed_ -= micros;
    node.number(duration_field, static_cast<std::uint64_t>(micros));
    attribute(node, "duration_ps", int64_value, static_cast<std::uint64_t>(time.count()));
  }
  void end(const WireMessage& node) { bytes_ += node.delimited(); }

  /// What the next on a stream comes after.
  Ids before(StreamNumber stream) {
    Ids ids = host_[thread_];
    for (const Ids* more : {&tails_[stream], &awaited_[stream]})
      ids.insert(more->begin(), more->end());
    return ids;
  }
  void follows(StreamNumber stream, Ids ids) {
    tails_[stream] = std::move(ids);
    awaited_[stream].clear();
  }

  void write(const Workload::Launch& it) {
    const Kernel& kernel = w_.kernels()[it.kernel];
    const auto cost = kernel.known ? kernel.known : costs_.estimate(kernel.query);
    if (!cost)
      throw CostError{"rank " + std::to_string(rank_) + ", operation " + std::to_string(number_) +
                      ", " + w_.describe(rank_, number_) + ": no cost model answers"};
    const std::string& name = kernel.query.name;
    WireMessage node = begin(name.empty() ? "kernel" : name, computation, before(it.stream), false);
    lasts(node, cost->duration);
    const auto whole = [](double value) {
      return static_cast<std::uint64_t>(std::clamp(value, 0.0, 9e18));
    };
    const KernelWork work = describe(kernel.query);
    attribute(node, "limit", int64_value,
              static_cast<std::uint64_t>(cost->limit.value_or(work.limit)));
    if (!kernel.known) {
      const double flops = work.flops + 2 * work.m * work.n * work.k * work.batch * work.repeats;
      attribute(node, "num_ops", int64_value, whole(flops));
      attribute(node, "tensor_size", uint64_value, whole(work.bytes));
    }
    attribute(node, "stream", int64_value, it.stream);
    end(node);
    follows(it.stream, {last_id_});
  }

  void write(const Workload::Collective& it) {
    const Workload::Call& call = w_.calls()[it.call];
    const auto members = w_.groups()[call.group].size();
    const Ids after = before(it.stream);
    Ids nodes;
    for (const GroupedCollective& one : call.operations) {
      WireMessage node = begin(to_string(one.op), collective_node, after, false);
      attribute(node, "comm_type", int64_value, collective_types[static_cast<std::size_t>(one.op)]);
      const bool parts = one.op == CollectiveOp::all_gather || one.op == CollectiveOp::gather;
      const auto total = static_cast<std::uint64_t>(one.total.count());
      attribute(node, "comm_size", int64_value, parts ? total / members : total);
      attribute(node, "total_size", int64_value, total);
      attribute(node, "root", int64_value, static_cast<std::uint64_t>(one.root));
      attribute(node, "element_type", int64_value, static_cast<std::uint64_t>(one.type));
      communication(node, call.group, it.stream);
      nodes.insert(last_id_);
    }
    follows(it.stream, std::move(nodes));
  }

  void write(const Workload::Exchange& it) {
    const Workload::Messages& messages = w_.messages()[it.messages];
    const std::vector<Rank>& group = w_.groups()[messages.group];
    const Ids after = before(it.stream);
    Ids nodes;
    for (const SendRecv& part : messages.parts) {
      const Rank from = group[static_cast<std::size_t>(part.src_rank)];
      const Rank to = group[static_cast<std::size_t>(part.dst_rank)];
      WireMessage node = begin(from == rank_ ? "send" : "receive",
                               from == rank_ ? sending : receiving, after, false);
      attribute(node, "comm_src", int32_value, from);
      attribute(node, "comm_dst", int32_value, to);
      attribute(node, "comm_tag", int32_value, messages.group);
      attribute(node, "comm_size", int64_value, static_cast<std::uint64_t>(part.size.count()));
      communication(node, messages.group, it.stream);
      nodes.insert(last_id_);
    }
    follows(it.stream, std::move(nodes));
  }
  void communication(WireMessage& node, std::uint32_t group, StreamNumber stream) {
    // Numbers, since ASTRA-sim makes one of a name; from 1, since 0 is all ranks there.
    attribute(node, "pg_name", std::to_string(group + 1));
    attribute(node, "stream", int64_value, stream);
    attribute(node, "kernel", int64_value, number_);
    end(node);
  }

  void write(const Workload::Record& it) { events_.push_back(before(it.stream)); }
  const Ids& event(Workload::Event event) const {
    if (event.rank == rank_ && event.number < events_.size()) return events_[event.number];
    throw ConfigError{"rank " + std::to_string(rank_) + ", operation " + std::to_string(number_) +
                      ": expected a wait for an event that this rank has recorded; an execution "
                      "trace cannot say others"};
  }
  void write(const Workload::Wait& it) {
    const Ids& ids = event(it.event);
    awaited_[it.stream].insert(ids.begin(), ids.end());
  }
  void write(const Workload::Mark&) { events_.push_back(host_[thread_]); }
  void write(const Workload::Thread& it) { thread_ = it.number; }
  void write(const Workload::Range&) {}  // it takes no time, and traces have no word for it
  void write(const Workload::Synchronize& it) {
    Ids after = host_[thread_];
    const Ids& ids = event(it.event);
    after.insert(ids.begin(), ids.end());
    host_node("synchronize", {}, after);
  }
  void write(const Workload::Host& it) { host_node("host", it.time, host_[thread_]); }
  void host_node(std::string_view name, Duration time, const Ids& after) {
    WireMessage node = begin(name, computation, after, true);
    lasts(node, time);
    end(node);
    host_[thread_] = {last_id_};
  }
  void write(const Workload::Allocate&) {}
  void write(const Workload::Free&) {}
  void write(const Workload::StepEnd&) {}
  void write(const Workload::Graph&) {}
  void write(const Workload::Priority&) {}

  const Workload& w_;
  Rank rank_;
  const KernelCostModel& costs_;
  std::size_t number_ = 0;  ///< of the operation
  std::string bytes_{};
  std::uint64_t last_id_ = 0;
  double owed_ = 0;                      ///< microseconds
  std::uint32_t thread_ = 0;             ///< of the host, that issues
  std::map<std::uint32_t, Ids> host_{};  ///< what each of its threads came after
  std::map<StreamNumber, Ids> tails_{}, awaited_{};
  std::vector<Ids> events_{};
};

}  // namespace

std::string write_rank(const Workload& workload, Rank rank, const KernelCostModel& costs) {
  return RankWriter{workload, rank, costs}.write();
}

}  // namespace phantora::detail::chakra
