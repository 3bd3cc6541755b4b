#include "simulation/chakra.hpp"
#include "simulation/protobuf_wire.hpp"

#include <phantora/error.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <queue>
#include <set>
#include <utility>

namespace phantora::detail::chakra {
namespace {

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

class RankReader {
 public:
  RankReader(TraceWorkload& result, const Groups& groups, std::string source, Rank rank,
             std::size_t ranks)
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
      // A barrier of PyTorch's is an all-reduce, but for one that was written here, with its bytes.
      GroupedCollective one{.op = CollectiveOp::all_reduce, .total = Bytes{1}};
      if (type != barrier || node.number("total_size")) {
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
  const Groups& groups_;  ///< and "", all ranks
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

}  // namespace

void read_rank(TraceWorkload& result, const Groups& groups, const std::string& source, Rank rank,
               std::size_t ranks, std::string_view bytes) {
  RankReader{result, groups, source, rank, ranks}.read(bytes);
}

}  // namespace phantora::detail::chakra
