#include "spans.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <variant>

namespace phantora::python {
namespace {

constexpr ProcessIndex simulation = 1;  // the first process is the simulation itself

}  // namespace

void Spans::on_span(const Span& span) {
  all.push_back({.rank = span.process - simulation,
                 .lane = static_cast<std::uint32_t>(span.stream.value),
                 .kind = static_cast<std::uint8_t>(span.kind),
                 .name = name(span.name),
                 .start = span.start,
                 .end = span.end});
}

void Spans::on_range(const NamedRange& range) {
  all.push_back({.rank = range.process - simulation,
                 .lane = static_cast<std::uint32_t>(range.thread),
                 .kind = 3,
                 .name = name(range.name),
                 .start = range.start,
                 .end = range.end});
}

std::uint32_t Spans::name(std::string_view text) {
  const auto known = numbers_.find(text);
  if (known != numbers_.end()) return known->second;
  names.emplace_back(text);
  return numbers_.emplace(text, static_cast<std::uint32_t>(names.size() - 1)).first->second;
}

void Spans::finish(const Workload& workload) {
  // A rank's streams have ids in the order of their numbers, and each that does anything has spans.
  std::vector<std::set<std::uint32_t>> ids(workload.rank_count());
  for (const One& one : all)
    if (one.kind != 3) ids[one.rank].insert(one.lane);
  std::map<std::uint32_t, StreamNumber> number_of;
  for (Rank rank = 0; rank < ids.size(); ++rank) {
    std::set<StreamNumber> numbers;
    for (const Workload::Operation& operation : workload.operations(rank)) {
      std::visit(
          [&](const auto& it) {
            using T = std::decay_t<decltype(it)>;
            if constexpr (std::is_same_v<T, Workload::Launch> ||
                          std::is_same_v<T, Workload::Collective> ||
                          std::is_same_v<T, Workload::Exchange>)
              numbers.insert(it.stream);
          },
          operation);
    }
    auto number = numbers.begin();
    for (const std::uint32_t id : ids[rank]) number_of[id] = *number++;
  }
  for (One& one : all)
    if (one.kind != 3) one.lane = number_of.at(one.lane);
  std::sort(all.begin(), all.end(), [](const One& a, const One& b) {
    return std::tie(a.start, a.rank, a.kind, a.lane, a.end) <
           std::tie(b.start, b.rank, b.kind, b.lane, b.end);
  });
}

}  // namespace phantora::python
