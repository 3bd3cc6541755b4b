#include "simulation/protobuf_wire.hpp"

#include <phantora/error.hpp>
#include <phantora/kernels/kernel_work.hpp>
#include <phantora/simulation/traces.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace phantora {
namespace {

using detail::WireMessage;
using detail::WireReader;
using Json = nlohmann::json;

// et_def.proto of schema 0.0.4: https://github.com/mlcommons/chakra, schema/protobuf/et_def.proto.
// Names of attributes and their types: src/feeder/et_feeder_node.cpp there.
enum NodeField : unsigned {
  id_field = 1,
  name_field = 2,
  type_field = 3,
  control_field = 4,
  data_field = 5,
  duration_field = 7,
  attribute_field = 10
};
enum NodeType : std::uint64_t {
  invalid_node = 0,
  memory_load = 2,
  memory_store = 3,
  computation = 4,
  sending = 5,
  receiving = 6,
  collective_node = 7
};
enum ValueField : unsigned {
  double_value = 3,
  float_value = 5,
  int32_value = 7,
  int64_value = 9,
  uint32_value = 11,
  uint64_value = 13,
  sint32_value = 15,
  sint64_value = 17,
  fixed32_value = 19,
  sfixed64_value = 25,
  bool_value = 27,
  string_value = 29
};
/// CollectiveCommType's numbers of CollectiveOp, in its order.
constexpr std::array<std::uint64_t, 8> collective_types{0, 2, 7, 5, 1, 6, 3, 4};
constexpr std::uint64_t reduce_scatter_block = 8, barrier = 9;

// --- Writing ---

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

// --- Reading ---

struct Node {
  std::uint64_t id = 0;
  std::size_t at = 0;  ///< in its file
  std::string name{};
  std::uint64_t type = invalid_node;
  std::vector<std::uint64_t> after{};
  std::uint64_t micros = 0;
  std::map<std::string, std::int64_t, std::less<>> numbers{};
  std::string group{};
  [[nodiscard]] std::optional<std::int64_t> number(std::string_view key) const {
    const auto found = numbers.find(key);
    if (found == numbers.end()) return std::nullopt;
    return found->second;
  }
};

/// Ranks, and which of the groups of these ranks.
struct Group {
  std::vector<Rank> ranks{};
  std::uint32_t instance = 0;
};

class RankReader {
 public:
  RankReader(TraceWorkload& result, const std::map<std::string, Group>& groups, std::string source,
             Rank rank, std::size_t ranks)
      : w_{result.workload},
        notes_{result.notes},
        groups_{groups},
        source_{std::move(source)},
        rank_{rank},
        ranks_{ranks} {}

  void read(std::string_view bytes) {
    parse(bytes);
    sort();
    issue();
    for (const auto& [what, count] : missing_)
      notes_.push_back(source_ + ": " + std::to_string(count) + " " + what);
  }

 private:
  [[noreturn]] void fail(std::size_t at, std::string_view field, std::string_view expected) const {
    throw ConfigError{source_ + ": byte " + std::to_string(at) + ": " + std::string{field} +
                      ": expected " + std::string{expected}};
  }
  [[noreturn]] void fail(const Node& node, std::string_view field,
                         std::string_view expected) const {
    fail(node.at,
         "node " + std::to_string(node.id) + " (" + node.name.substr(0, 60) +
             "): " + std::string{field},
         expected);
  }

  // --- From bytes ---

  void parse(std::string_view bytes) {
    WireReader file{bytes};
    for (bool first = true; !file.at_end(); first = false) {
      const std::size_t at = file.position();
      const auto length = file.varint();
      const auto message = length ? file.take(*length) : std::nullopt;
      if (!message) fail(at, "message", "its length and as many bytes");
      // The first tells the schema's version.
      if (!first) nodes_.push_back(node(*message, file.position() - message->size()));
    }
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (!places_.emplace(nodes_[i].id, i).second)
        fail(nodes_[i], "id", "one that no other node has");
  }

  Node node(std::string_view bytes, std::size_t at) const {
    Node node{.at = at};
    WireReader reader{bytes, at};
    while (const auto field = reader.next()) {
      switch (field->number) {
        case id_field:
          node.id = field->value;
          break;
        case name_field:
          node.name = field->text;
          break;
        case type_field:
          node.type = field->value;
          break;
        case control_field:
        case data_field:
          depend(node, *field);
          break;
        case duration_field:
          node.micros = field->value;
          break;
        case attribute_field:
          attribute(node, field->text, field->at);
          break;
        default:
          break;
      }
    }
    if (reader.failed()) fail(reader.position(), "node", "a field of a protocol buffer");
    // 11 days, so that sums hold.
    if (node.micros > 1'000'000'000'000) fail(node, "duration_micros", "at most 1e12");
    return node;
  }
  void depend(Node& node, const WireReader::Field& field) const {
    if (!field.is_text) {
      node.after.push_back(field.value);
      return;
    }
    WireReader list{field.text, field.at};
    while (!list.at_end()) {
      const auto id = list.varint();
      if (!id) fail(list.position(), "data_deps", "ids of nodes");
      node.after.push_back(*id);
    }
  }
  void attribute(Node& node, std::string_view bytes, std::size_t at) const {
    WireReader reader{bytes, at};
    std::string name;
    std::optional<std::int64_t> value;
    while (const auto field = reader.next()) {
      const auto bits = static_cast<std::int64_t>(field->value);
      if (field->number == 1) {
        name = field->text;
      } else if (field->number == string_value) {
        if (name == "pg_name") node.group = field->text;
      } else if (field->is_text) {
        continue;  // lists
      } else if (field->number == double_value) {
        if (std::abs(field->real()) < 9e18) value = static_cast<std::int64_t>(field->real());
      } else if (field->number == sint32_value || field->number == sint64_value) {
        value = static_cast<std::int64_t>(field->value >> 1U) ^ -(bits & 1);
      } else if (field->number >= int32_value && field->number <= bool_value) {
        value = bits;
      }
    }
    if (reader.failed()) fail(reader.position(), "attr", "a field of a protocol buffer");
    if (value) node.numbers[name] = *value;
  }

  // --- In an order that its dependencies allow ---

  void sort() {
    std::vector<std::vector<std::size_t>> next(nodes_.size());
    std::vector<std::size_t> left(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      auto& after = nodes_[i].after;
      std::sort(after.begin(), after.end());
      after.erase(std::unique(after.begin(), after.end()), after.end());
      for (std::uint64_t& id : after) {
        const auto found = places_.find(id);
        if (found == places_.end())
          fail(nodes_[i], "data_deps", "ids of nodes, not " + std::to_string(id));
        next[found->second].push_back(i);
        id = found->second;  // from now on, its place
      }
      left[i] = after.size();
    }
    std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (left[i] == 0) ready.push(i);
    while (!ready.empty()) {
      const std::size_t i = ready.top();
      ready.pop();
      order_.push_back(i);
      for (const std::size_t follower : next[i])
        if (--left[follower] == 0) ready.push(follower);
    }
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (left[i] > 0) fail(nodes_[i], "data_deps", "nodes that do not wait for one another");
  }

  // --- As operations ---

  [[nodiscard]] bool communicates(const Node& node) const {
    return node.type == collective_node || node.type == sending || node.type == receiving;
  }
  [[nodiscard]] bool computes(const Node& node) const {
    return node.type == computation || node.type == memory_load || node.type == memory_store;
  }
  [[nodiscard]] bool of_host(const Node& node) const {
    // As the feeder has it: what does not say so is the host's.
    return node.type == computation && node.number("is_cpu_op").value_or(1) != 0;
  }

  void issue() {
    stands_for_.resize(nodes_.size());
    std::set<std::size_t> awaited;
    for (const std::size_t i : order_) {
      // What takes no time stands for what it comes after.
      auto& stands = stands_for_[i];
      if (computes(nodes_[i]) || communicates(nodes_[i])) {
        stands = {i};
      } else {
        ++missing_["nodes that are neither computation nor communication, taken as no time"];
        stands = before(i);
      }
    }
    gather_kernels();
    for (const std::size_t i : order_)
      if (!of_host(nodes_[i])) streams_[i] = stream_of(nodes_[i]);
    for (const std::size_t i : order_)
      if (computes(nodes_[i]) || communicates(nodes_[i]))
        for (const std::size_t other : before(i))
          if (has_to_wait(i, other)) awaited.insert(kernel_of(other));
    std::uint32_t thread = 0;
    for (const std::size_t i : order_) {
      const Node& node = nodes_[i];
      if (!computes(node) && !communicates(node)) continue;
      if (thread_of(node) != thread) w_.thread(rank_, thread = thread_of(node));
      if (of_host(node)) {
        for (const std::size_t other : before(i))
          if (has_to_wait(i, other)) w_.synchronize(rank_, events_.at(kernel_of(other)));
        if (const Duration time = duration(node); time > Duration{}) w_.host(rank_, time);
        if (awaited.count(i) == 1) events_[i] = w_.mark(rank_);
      } else if (kernel_of(i) == i) {  // others are issued with the first of their kernel
        issue_kernel(i, awaited.count(i) == 1);
      }
    }
  }

  /// Whether the order of the list and of a stream is not enough.
  [[nodiscard]] bool has_to_wait(std::size_t i, std::size_t other) const {
    if (of_host(nodes_[other]))
      return of_host(nodes_[i]) && thread_of(nodes_[i]) != thread_of(nodes_[other]);
    return of_host(nodes_[i]) || streams_.at(kernel_of(i)) != streams_.at(kernel_of(other));
  }

  [[nodiscard]] std::vector<std::size_t> before(std::size_t i) const {
    std::set<std::size_t> all;
    for (const std::uint64_t other : nodes_[i].after) {
      const auto& stands = stands_for_[static_cast<std::size_t>(other)];
      all.insert(stands.begin(), stands.end());
    }
    return {all.begin(), all.end()};
  }

  /// Communications that run as one kernel: those that say so, and that follow on the same.
  void gather_kernels() {
    std::map<std::pair<std::int64_t, std::vector<std::uint64_t>>, std::size_t> first;
    for (const std::size_t i : order_) {
      const Node& node = nodes_[i];
      const auto kernel = node.number("kernel");
      if (!communicates(node) || !kernel) continue;
      const auto [found, fresh] = first.try_emplace({*kernel, node.after}, i);
      const Node& one = nodes_[found->second];
      if ((one.type == collective_node) != (node.type == collective_node) ||
          one.group != node.group)
        continue;
      kernels_[i] = found->second;
      members_[found->second].push_back(i);
    }
  }
  [[nodiscard]] std::size_t kernel_of(std::size_t i) const {
    const auto found = kernels_.find(i);
    return found == kernels_.end() ? i : found->second;
  }

  void issue_kernel(std::size_t i, bool awaited) {
    const Node& node = nodes_[i];
    const auto found = members_.find(i);
    const std::vector<std::size_t> members =
        found == members_.end() ? std::vector{i} : found->second;
    const StreamNumber stream = streams_.at(i);
    std::set<std::size_t> waits;
    for (const std::size_t other : before(i))
      if (has_to_wait(i, other)) waits.insert(kernel_of(other));
    for (const std::size_t other : waits) w_.wait(rank_, events_.at(other), stream);
    if (node.type == collective_node) {
      collective(members, stream);
    } else if (communicates(node)) {
      messages(members, stream);
    } else {
      w_.launch(rank_, kernel(node), stream);
    }
    if (awaited) events_[i] = w_.record(rank_, stream);
  }

  [[nodiscard]] std::uint32_t thread_of(const Node& node) const {
    const std::int64_t thread = node.number("thread").value_or(0);
    // As many have clocks of their own.
    if (thread < 0 || thread > 0xFFFF) fail(node, "thread", "a number of 16 bits");
    return static_cast<std::uint32_t>(thread);
  }
  StreamNumber stream_of(const Node& node) {
    if (const auto told = node.number("stream")) {
      if (*told < 0 || *told > 0xFFFFFFFFLL) fail(node, "stream", "a number of 32 bits");
      return static_cast<StreamNumber>(*told);
    }
    std::string key = "compute";
    if (node.type == collective_node) key = "group " + node.group;
    if (node.type == sending) key = "to " + std::to_string(node.number("comm_dst").value_or(-1));
    if (node.type == receiving)
      key = "from " + std::to_string(node.number("comm_src").value_or(-1));
    return made_.try_emplace(key, static_cast<StreamNumber>(made_.size())).first->second;
  }

  [[nodiscard]] Duration duration(const Node& node) const {
    constexpr std::int64_t most = 1'000'000'000'000'000'000;
    if (const auto exact = node.number("duration_ps")) {
      if (*exact < 0 || *exact > most) fail(node, "duration_ps", "0 to 1e18");
      return Duration{*exact};
    }
    return Duration{static_cast<std::int64_t>(node.micros) * 1'000'000};
  }
  [[nodiscard]] Kernel kernel(const Node& node) const {
    const double flops = static_cast<double>(node.number("num_ops").value_or(0));
    const double bytes = static_cast<double>(node.number("tensor_size").value_or(0));
    const Duration time = duration(node);
    const std::string name = node.name.empty() ? "kernel" : node.name;
    if (time == Duration{} && (flops > 0 || bytes > 0) && flops >= 0 && bytes >= 0)
      return custom({.name = "chakra " + name,
                     .bytes = bytes,
                     .flops = flops,
                     .arithmetic = Arithmetic::half});
    const std::int64_t limit =
        node.number("limit").value_or(static_cast<std::int64_t>(KernelLimit::memory));
    if (limit < 0 || limit > 2) fail(node, "limit", "0 to 2");
    return known_time(time, name, static_cast<KernelLimit>(limit));
  }

  [[nodiscard]] Bytes size(const Node& node, std::string_view field) const {
    const auto bytes = node.number(field);
    if (!bytes || *bytes < 0 || *bytes > (std::int64_t{1} << 50U))
      fail(node, field, "0 to 2^50 bytes");
    return Bytes{*bytes};
  }
  [[nodiscard]] Rank rank(const Node& node, std::string_view field) const {
    const auto value = node.number(field);
    if (!value || *value < 0 || *value >= static_cast<std::int64_t>(ranks_))
      fail(node, field, "a rank below " + std::to_string(ranks_));
    return static_cast<Rank>(*value);
  }
  [[nodiscard]] const Group& group(const Node& node) const {
    // Without a file of groups there is one.
    const auto found = groups_.find(groups_.size() == 1 ? std::string{} : node.group);
    if (found == groups_.end())
      fail(node, "pg_name", "a name of the groups, not \"" + node.group + "\"");
    const std::vector<Rank>& ranks = found->second.ranks;
    if (std::find(ranks.begin(), ranks.end(), rank_) == ranks.end())
      fail(node, "pg_name", "a group that this rank is in");
    return found->second;
  }

  void collective(const std::vector<std::size_t>& members, StreamNumber stream) {
    const Group& of = group(nodes_[members.front()]);
    const std::vector<Rank>& ranks = of.ranks;
    std::vector<GroupedCollective> operations;
    for (const std::size_t i : members) {
      const Node& node = nodes_[i];
      const auto type = static_cast<std::uint64_t>(node.number("comm_type").value_or(-1));
      GroupedCollective one{.op = CollectiveOp::all_reduce, .total = Bytes{1}};
      if (type != barrier) {
        const auto known = std::find(collective_types.begin(), collective_types.end(),
                                     type == reduce_scatter_block ? collective_types[2] : type);
        if (known == collective_types.end()) fail(node, "comm_type", "0 to 9");
        one.op = static_cast<CollectiveOp>(known - collective_types.begin());
        one.total = size(node, "comm_size");
        if (one.op == CollectiveOp::all_gather || one.op == CollectiveOp::gather)
          one.total = one.total * static_cast<std::int64_t>(ranks.size());
        if (node.number("total_size")) one.total = size(node, "total_size");
      }
      const auto root = node.number("root").value_or(0);
      if (root < 0 || root >= static_cast<std::int64_t>(ranks.size()))
        fail(node, "root", "a place in the group");
      one.root = static_cast<int>(root);
      one.type = static_cast<int>(node.number("element_type").value_or(0));
      operations.push_back(one);
    }
    w_.collectives(rank_, w_.group(ranks, of.instance), operations, stream);
  }

  void messages(const std::vector<std::size_t>& members, StreamNumber stream) {
    std::vector<SendRecv> parts;
    const Node& first = nodes_[members.front()];
    // Those that name no group are between two.
    const bool named = !first.group.empty() && groups_.size() > 1;
    for (const std::size_t i : members) {
      const Node& node = nodes_[i];
      const bool sends = node.type == sending;
      const Rank from = node.number("comm_src") || !sends ? rank(node, "comm_src") : rank_;
      const Rank to = node.number("comm_dst") || sends ? rank(node, "comm_dst") : rank_;
      if ((sends ? from : to) != rank_)
        fail(node, sends ? "comm_src" : "comm_dst", "this rank, " + std::to_string(rank_));
      const Bytes bytes = size(node, "comm_size");
      if (!named) {
        if (from == to) fail(node, "comm_dst", "another rank");
        if (sends)
          w_.send(rank_, to, bytes, stream);
        else
          w_.receive(rank_, from, bytes, stream);
        continue;
      }
      const std::vector<Rank>& ranks = group(node).ranks;
      const auto place = [&](Rank of, std::string_view field) {
        const auto found = std::find(ranks.begin(), ranks.end(), of);
        if (found == ranks.end()) fail(node, field, "a rank of the group");
        return static_cast<int>(found - ranks.begin());
      };
      parts.push_back({place(from, "comm_src"), place(to, "comm_dst"), bytes});
    }
    if (!named) return;
    const Group& of = group(first);
    w_.exchange(rank_, w_.group(of.ranks, of.instance), parts, stream);
  }

  Workload& w_;
  std::vector<std::string>& notes_;
  const std::map<std::string, Group>& groups_;  ///< and "", all ranks
  std::string source_;
  Rank rank_;
  std::size_t ranks_;
  std::vector<Node> nodes_{};
  std::map<std::uint64_t, std::size_t> places_{};
  std::vector<std::size_t> order_{};
  std::vector<std::vector<std::size_t>> stands_for_{};
  std::map<std::size_t, std::size_t> kernels_{};
  std::map<std::size_t, std::vector<std::size_t>> members_{};
  std::map<std::size_t, StreamNumber> streams_{};
  std::map<std::size_t, Workload::Event> events_{};
  std::map<std::string, StreamNumber> made_{};
  std::map<std::string, int> missing_{};
};

std::map<std::string, Group> read_groups(const std::string& text, std::size_t ranks,
                                         const std::string& source) {
  std::map<std::string, Group> groups;
  for (Rank rank = 0; rank < ranks; ++rank) groups[""].ranks.push_back(rank);
  if (text.empty()) return groups;
  const Json json = Json::parse(text, nullptr, false);
  const std::string place = source + ": groups";
  std::map<std::vector<Rank>, std::uint32_t> instances;
  if (!json.is_object()) throw ConfigError{place + ": expected lists of ranks by name, as JSON"};
  for (const auto& [name, list] : json.items()) {
    const std::string expected =
        place + ": " + name + ": expected a list of different ranks below " + std::to_string(ranks);
    if (!list.is_array() || list.empty()) throw ConfigError{expected};
    std::set<Rank> distinct;
    std::vector<Rank> group;
    for (const Json& rank : list) {
      if (!rank.is_number_unsigned() || rank.get<std::uint64_t>() >= ranks ||
          !distinct.insert(rank.get<Rank>()).second)
        throw ConfigError{expected};
      group.push_back(rank.get<Rank>());
    }
    groups[name] = {group, instances[group]++};
  }
  return groups;
}

std::optional<std::string> contents(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  if (!file) return std::nullopt;
  return std::string{std::istreambuf_iterator<char>{file}, {}};
}
void save(const std::string& path, const std::string& bytes) {
  std::ofstream file{path, std::ios::binary};
  file << bytes;
  file.close();
  if (!file) throw Error{path + ": cannot be written"};
}

}  // namespace

ChakraTrace to_chakra(const Workload& workload, const KernelCostModel& costs) {
  ChakraTrace trace;
  for (Rank rank = 0; rank < workload.rank_count(); ++rank)
    trace.ranks.push_back(RankWriter{workload, rank, costs}.write());
  Json groups = Json::object();
  for (std::size_t i = 0; i < workload.groups().size(); ++i)
    groups[std::to_string(i + 1)] = workload.groups()[i];
  if (!groups.empty()) trace.groups = groups.dump(1) + "\n";
  return trace;
}

void write_chakra(const Workload& workload, const KernelCostModel& costs,
                  const std::string& prefix) {
  const ChakraTrace trace = to_chakra(workload, costs);
  for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank)
    save(prefix + "." + std::to_string(rank) + ".et", trace.ranks[rank]);
  if (!trace.groups.empty()) save(prefix + ".groups.json", trace.groups);
}

TraceWorkload from_chakra(const ChakraTrace& trace, std::string_view source) {
  TraceWorkload result;
  const auto groups = read_groups(trace.groups, trace.ranks.size(), std::string{source});
  for (Rank rank = 0; rank < trace.ranks.size(); ++rank)
    RankReader{result, groups, std::string{source} + "." + std::to_string(rank) + ".et", rank,
               trace.ranks.size()}
        .read(trace.ranks[rank]);
  result.recorded.resize(result.workload.rank_count());
  return result;
}

TraceWorkload read_chakra(const std::string& prefix) {
  ChakraTrace trace;
  while (auto bytes = contents(prefix + "." + std::to_string(trace.ranks.size()) + ".et"))
    trace.ranks.push_back(std::move(*bytes));
  if (trace.ranks.empty())
    throw ConfigError{prefix + ".0.et: expected an execution trace, cannot be read"};
  trace.groups = contents(prefix + ".groups.json").value_or("");
  return from_chakra(trace, prefix);
}

}  // namespace phantora
