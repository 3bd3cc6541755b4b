#pragma once

#include <phantora/simulation/workload.hpp>

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// What a written workload consists of, said once: transfer() reads or writes all of it with any
/// archive. Private to Workload.
///
/// An archive has
///
///     integer(field, value, least, most)    number(field, value)       text(field, value)
///     word(field, number, words)            optional(field, value, each)
///     list(field, size, least, most, resize, each)                     map(field, entries)
///     object(field, each): its fields have names; row(each): they have an order
namespace phantora::detail {

/// A workload as tables and lists.
struct WorkloadDocument {
  std::vector<Kernel> kernels{};
  std::vector<std::vector<Rank>> groups{};
  std::vector<std::uint32_t> instances{};  ///< of the groups
  std::vector<Workload::Call> calls{};
  std::vector<Workload::Messages> messages{};
  std::vector<std::string> labels{};
  std::vector<std::vector<Workload::Operation>> ranks{};
  Workload::Origin origin{};
};

/// The same document for equal workloads: tables hold what is used, in the order of its first use.
WorkloadDocument document_of(const Workload& workload);

/// The binary form.
std::string bytes_of(WorkloadDocument document);

/// Equal for equal kernels.
std::string key_of(const Kernel& kernel);

/// What a document that is well formed says and that cannot be: of an entry of a table, or of a
/// rank's operation.
struct Misfit {
  std::string_view table{};
  std::size_t entry = 0;
  std::optional<std::size_t> operation{};
  std::string what{};
};

namespace form {

/// 1: hosts of one thread, and groups of instance 0, as it has no words for others; 2: without an
/// origin; 3: without ranges, graphs and what kernels draw of the GPU's power; 4: without
/// priorities of streams; 5: without what kernels find in the L2 cache. What can be said in an
/// earlier version is, so that it stays equal.
inline constexpr std::int64_t latest_version = 7;
inline constexpr std::size_t kinds_of_version_1 = 10, kinds_of_version_2 = 12,
                             kinds_of_version_4 = 14;
// More than any host has threads, or NCCL communicators of the same ranks.
inline constexpr std::uint32_t most_threads = 1U << 16U, most_instances = 1U << 16U;
inline constexpr std::int64_t most_ranks = std::int64_t{1} << 22;
inline constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();
inline constexpr std::int64_t any_number = std::numeric_limits<std::uint32_t>::max();
inline constexpr std::size_t any_size = std::numeric_limits<std::size_t>::max();

inline constexpr std::array<std::string_view, 7> arithmetics{"none", "fp8",  "half", "tf32",
                                                             "fp32", "fp64", "int8"};
inline constexpr std::array<std::string_view, cost_sources> sources{
    "measured", "fitted", "roofline", "unknown", "code", "grid", "database"};
inline constexpr std::array<std::string_view, 3> limits{"arithmetic", "memory", "copy_engine"};
inline constexpr std::array<std::string_view, 9> collectives{
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",
    "all_to_all", "gather",     "scatter",        "barrier"};
/// Workload::Operation's alternatives, in its order.
inline constexpr std::array<std::string_view, std::variant_size_v<Workload::Operation>> kinds{
    "launch", "collective", "exchange", "record", "wait",  "synchronize", "host",    "allocate",
    "free",   "end_step",   "mark",     "thread", "range", "graph",       "priority"};
/// Of those, how many a version has.
std::size_t kinds_of(std::int64_t version);

/// Any type of integer.
template <class A, class T>
void integer(A& a, std::string_view field, T& value, std::int64_t least, std::int64_t most) {
  auto wide = static_cast<std::int64_t>(value);
  a.integer(field, wide, least, most);
  value = static_cast<T>(wide);
}
template <class A, class T>
void word(A& a, std::string_view field, T& value, std::span<const std::string_view> words) {
  auto number = static_cast<std::size_t>(value);
  a.word(field, number, words);
  value = static_cast<T>(number);
}
/// A place in a table.
template <class A, class Table>
void place(A& a, std::string_view field, std::uint32_t& value, const Table& table) {
  integer(a, field, value, 0, static_cast<std::int64_t>(table.size()) - 1);
}
template <class A>
void transfer(A& a, std::string_view field, Duration& time) {
  std::int64_t ps = time.count();
  a.integer(field, ps, 0, any);
  time = Duration{ps};
}
template <class A>
void transfer(A& a, std::string_view field, Bytes& size) {
  std::int64_t bytes = size.count();
  a.integer(field, bytes, 0, any);
  size = Bytes{bytes};
}
template <class A>
void transfer(A& a, std::string_view field, KernelQuery::Dim3& dim) {
  a.list(
      field, 3, 3, 3, [](std::size_t) {},
      [&](std::size_t i) {
        integer(a, {}, i == 0 ? dim.x : i == 1 ? dim.y : dim.z, 0, any_number);
      });
}
template <class A, class T, class Each>
void list(A& a, std::string_view field, std::vector<T>& entries, std::size_t least, Each each) {
  a.list(
      field, entries.size(), least, any_size, [&](std::size_t size) { entries.resize(size); },
      [&](std::size_t i) { each(entries[i]); });
}

template <class A>
void transfer(A& a, std::string_view field, std::int64_t version, CostEstimate& known) {
  a.object(field, [&] {
    transfer(a, "ps", known.duration);
    transfer(a, "stddev_ps", known.stddev);
    word(a, "source", known.source, sources);
    a.optional("limit", known.limit, [&](auto& limit) { word(a, "limit", limit, limits); });
    a.optional("demand", known.demand, [&](double& share) { a.number("demand", share); });
    a.optional("memory_share", known.memory_share,
               [&](double& share) { a.number("memory_share", share); });
    if (version > 3)
      a.optional("power_share", known.power_share,
                 [&](double& share) { a.number("power_share", share); });
  });
}

template <class A>
void transfer(A& a, std::int64_t version, Kernel& kernel) {
  KernelQuery& query = kernel.query;
  a.object({}, [&] {
    a.text("name", query.name);
    a.optional("grid", query.grid, [&](auto& grid) { transfer(a, "grid", grid); });
    transfer(a, "block", query.block);
    integer(a, "shared_bytes", query.shared_bytes, 0, any_number);
    a.number("bytes", query.bytes);
    a.number("flops", query.flops);
    word(a, "arithmetic", query.arithmetic, arithmetics);
    a.map("features", query.features);
    a.map("attributes", query.attributes);
    a.optional("known", kernel.known, [&](auto& known) { transfer(a, "known", version, known); });
    if (version > 5) {
      std::optional<KernelQuery::Operands> operands;
      if (query.operands.read > 0.0) operands = query.operands;
      a.optional("operands", operands, [&](KernelQuery::Operands& told) {
        a.object("operands", [&] {
          a.number("read", told.read);
          a.number("written", told.written);
          a.number("cold", told.cold);
        });
      });
      query.operands = operands.value_or(KernelQuery::Operands{});
    }
    if (version > 6) a.map("by_data", query.by_data);
  });
}

template <class A>
void transfer(A& a, const WorkloadDocument& document, std::int64_t version,
              Workload::Operation& operation) {
  using W = Workload;
  const auto stream = [&](auto& it) { integer(a, "stream", it.stream, 0, any_number); };
  const auto event = [&](W::Event& it) {
    integer(a, "rank", it.rank, 0, most_ranks - 1);
    integer(a, "event", it.number, 0, any_number);
  };
  a.row([&] {
    std::size_t kind = operation.index();
    a.word("kind", kind, std::span{kinds}.first(kinds_of(version)));
    if (kind != operation.index()) {
      constexpr std::array<W::Operation, kinds.size()> empty{
          W::Launch{},      W::Collective{}, W::Exchange{}, W::Record{}, W::Wait{},
          W::Synchronize{}, W::Host{},       W::Allocate{}, W::Free{},   W::StepEnd{},
          W::Mark{},        W::Thread{},     W::Range{},    W::Graph{},  W::Priority{}};
      operation = empty.at(kind);
    }
    if (auto* launch = std::get_if<W::Launch>(&operation)) {
      place(a, "kernel", launch->kernel, document.kernels);
      stream(*launch);
    } else if (auto* collective = std::get_if<W::Collective>(&operation)) {
      place(a, "call", collective->call, document.calls);
      stream(*collective);
    } else if (auto* exchange = std::get_if<W::Exchange>(&operation)) {
      place(a, "messages", exchange->messages, document.messages);
      stream(*exchange);
    } else if (auto* record = std::get_if<W::Record>(&operation)) {
      stream(*record);
    } else if (auto* wait = std::get_if<W::Wait>(&operation)) {
      event(wait->event);
      stream(*wait);
    } else if (auto* synchronize = std::get_if<W::Synchronize>(&operation)) {
      event(synchronize->event);
    } else if (auto* host = std::get_if<W::Host>(&operation)) {
      transfer(a, "ps", host->time);
    } else if (auto* allocate = std::get_if<W::Allocate>(&operation)) {
      transfer(a, "bytes", allocate->size);
      place(a, "label", allocate->label, document.labels);
    } else if (auto* free = std::get_if<W::Free>(&operation)) {
      integer(a, "block", free->block, 0, any_number);
    } else if (auto* end = std::get_if<W::StepEnd>(&operation)) {
      stream(*end);
    } else if (auto* thread = std::get_if<W::Thread>(&operation)) {
      integer(a, "number", thread->number, 0, most_threads - 1);
    } else if (auto* range = std::get_if<W::Range>(&operation)) {
      event(range->event);
      place(a, "label", range->label, document.labels);
    } else if (auto* graph = std::get_if<W::Graph>(&operation)) {
      integer(a, "inside", graph->inside, 0, 1);
      stream(*graph);
    } else if (auto* priority = std::get_if<W::Priority>(&operation)) {
      integer(a, "priority", priority->priority, std::numeric_limits<std::int32_t>::min(),
              std::numeric_limits<std::int32_t>::max());
      stream(*priority);
    }
  });
}

/// The earliest that can say it.
std::int64_t version_of(const WorkloadDocument& document);

template <class A>
void transfer(A& a, WorkloadDocument& document) {
  const auto last_of = [&](std::uint32_t group) {
    return static_cast<std::int64_t>(document.groups[group].size()) - 1;
  };
  a.object({}, [&] {
    std::int64_t version = version_of(document);
    a.integer("phantora_workload", version, 1, latest_version);
    list(a, "kernels", document.kernels, 0, [&](Kernel& kernel) { transfer(a, version, kernel); });
    list(a, "groups", document.groups, 0, [&](auto& group) {
      list(a, {}, group, 1, [&](Rank& rank) { integer(a, {}, rank, 0, most_ranks - 1); });
    });
    document.instances.resize(document.groups.size());
    if (version > 1) {
      std::size_t size = document.groups.size();
      a.list(
          "instances", size, size, size, [](std::size_t) {},
          [&](std::size_t i) { integer(a, {}, document.instances[i], 0, most_instances - 1); });
    }
    if (version > 2) a.map("origin", document.origin);
    list(a, "calls", document.calls, 0, [&](Workload::Call& call) {
      a.object({}, [&] {
        place(a, "group", call.group, document.groups);
        list(a, "operations", call.operations, 1, [&](GroupedCollective& one) {
          a.row([&] {
            word(a, "op", one.op, collectives);
            transfer(a, "bytes", one.total);
            integer(a, "root", one.root, 0, last_of(call.group));
            integer(a, "type", one.type, std::numeric_limits<int>::min(),
                    std::numeric_limits<int>::max());
          });
        });
      });
    });
    list(a, "messages", document.messages, 0, [&](Workload::Messages& messages) {
      a.object({}, [&] {
        place(a, "group", messages.group, document.groups);
        list(a, "parts", messages.parts, 0, [&](SendRecv& part) {
          a.row([&] {
            integer(a, "from", part.src_rank, 0, last_of(messages.group));
            integer(a, "to", part.dst_rank, 0, last_of(messages.group));
            transfer(a, "bytes", part.size);
          });
        });
      });
    });
    list(a, "labels", document.labels, 0, [&](std::string& label) { a.text({}, label); });
    list(a, "ranks", document.ranks, 0, [&](auto& operations) {
      list(a, {}, operations, 0,
           [&](Workload::Operation& operation) { transfer(a, document, version, operation); });
    });
  });
}

// What was expected, as errors say it.
std::string between(std::int64_t least, std::int64_t most);
std::string entries(std::size_t least, std::size_t most);
std::string one_of(std::span<const std::string_view> words);

}  // namespace form
}  // namespace phantora::detail
