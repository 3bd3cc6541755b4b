#include "simulation/workload_form.hpp"

#include <phantora/error.hpp>
#include <phantora/simulation/workload.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace phantora {
namespace {

// As many as a cluster may have nodes (topologies.hpp), so that a wrong number shows itself before
// it asks for memory.
constexpr Rank most_ranks = 1U << 22U;
constexpr std::size_t most_operations = 0xffff'ffff;
using detail::form::most_instances;
using detail::form::most_threads;

std::string name(Rank rank) { return "rank " + std::to_string(rank); }

/// Where the table has the entry of that key; made by `make` where it has none.
template <class Key, class Table, class Numbers, class Make>
std::uint32_t interned(const Key& key, Table& table, Numbers& numbers, Make make) {
  const auto found = numbers.find(key);
  if (found != numbers.end()) return found->second;
  const auto number = static_cast<std::uint32_t>(table.size());
  table.push_back(make());
  numbers.emplace(key, number);
  return number;
}

std::string listed(std::span<const Rank> group) {
  constexpr std::size_t most = 8;
  std::string text = group.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (i == most && group.size() > most + 1)
      return text + " ... " + std::to_string(group.back()) + " (" + std::to_string(group.size()) +
             ")";
    text += (i > 0 ? ", " : "") + std::to_string(group[i]);
  }
  return text;
}

// What calls and messages are looked up by.
using Key = std::vector<std::int64_t>;
Key key(std::uint32_t group, std::span<const GroupedCollective> operations) {
  Key key{group};
  for (const GroupedCollective& one : operations)
    key.insert(key.end(),
               {static_cast<std::int64_t>(one.op), one.total.count(), one.root, one.type});
  return key;
}
Key key(std::uint32_t group, std::span<const SendRecv> parts) {
  Key key{group};
  for (const SendRecv& part : parts)
    key.insert(key.end(), {part.src_rank, part.dst_rank, part.size.count()});
  return key;
}

std::string text(Bytes size) { return std::to_string(size.count()) + " bytes"; }

}  // namespace

Workload::RankList& Workload::rank_list(Rank rank) {
  PHANTORA_EXPECTS(rank < most_ranks, "no " + name(rank));
  if (rank >= ranks_.size()) ranks_.resize(rank + std::size_t{1});
  return ranks_[rank];
}

Workload& Workload::append(Rank rank, StreamNumber stream, Operation operation) {
  RankList& list = rank_list(rank);
  PHANTORA_EXPECTS(list.operations.size() < most_operations,
                   name(rank) + " has as many operations as can be");
  note(list, stream);
  list.operations.push_back(operation);
  return *this;
}

void Workload::note(RankList& list, StreamNumber stream) {
  if (std::find(list.streams.begin(), list.streams.end(), stream) == list.streams.end())
    list.streams.push_back(stream);
}

Workload::KernelNumber Workload::kernel(const Kernel& kernel) {
  PHANTORA_EXPECTS(!kernel.known || kernel.known->duration >= Duration{},
                   "a kernel's time is not negative");
  return {interned(detail::key_of(kernel), kernels_, kernel_numbers_, [&] { return kernel; })};
}

Workload& Workload::launch(Rank rank, const Kernel& kernel, StreamNumber stream) {
  return launch(rank, this->kernel(kernel), stream);
}

Workload& Workload::launch(Rank rank, KernelNumber kernel, StreamNumber stream) {
  PHANTORA_EXPECTS(kernel.value < kernels_.size(), "the workload has no kernel of that number");
  return append(rank, stream, Launch{stream, kernel.value});
}

Workload& Workload::graph(Rank rank, bool inside, StreamNumber stream) {
  return append(rank, stream, Graph{stream, inside});
}

Workload& Workload::prioritize(Rank rank, std::int32_t priority, StreamNumber stream) {
  return append(rank, stream, Priority{stream, priority});
}

Workload::GroupNumber Workload::group(std::span<const Rank> ranks, std::uint32_t instance) {
  PHANTORA_EXPECTS(instance < most_instances,
                   "a group has no instance " + std::to_string(instance));
  const std::pair key{std::vector<Rank>(ranks.begin(), ranks.end()), instance};
  const auto known = group_numbers_.find(key);
  if (known != group_numbers_.end()) return {known->second};
  for (const Rank rank : ranks) PHANTORA_EXPECTS(rank < most_ranks, "no " + name(rank));
  expect_distinct(key.first);
  instances_.push_back(instance);
  return {interned(key, groups_, group_numbers_, [&] { return key.first; })};
}

int Workload::expect_group(Rank rank, std::uint32_t group) const {
  PHANTORA_EXPECTS(group < groups_.size(), "the workload has no group of that number");
  const std::vector<Rank>& ranks = groups_[group];
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  PHANTORA_EXPECTS(found != ranks.end(), name(rank) + " is not in the group of " + listed(ranks));
  return static_cast<int>(found - ranks.begin());
}

std::uint32_t Workload::call(std::uint32_t group, std::span<const GroupedCollective> operations) {
  PHANTORA_EXPECTS(!operations.empty(), "a call has collectives");
  const int ranks = static_cast<int>(groups_[group].size());
  for (const GroupedCollective& operation : operations) {
    PHANTORA_EXPECTS(operation.total >= Bytes{}, "a collective's size is not negative");
    PHANTORA_EXPECTS(
        operation.root >= 0 && operation.root < ranks,
        "a group of " + std::to_string(ranks) + " has no root " + std::to_string(operation.root));
  }
  return interned(key(group, operations), calls_, call_numbers_, [&] {
    return Call{group, {operations.begin(), operations.end()}};
  });
}

Workload& Workload::collective(std::span<const Rank> group, CollectiveOp op, Bytes total,
                               StreamNumber stream, int root) {
  const GroupedCollective alone{op, total, root};
  const Collective part{stream, call(this->group(group, 0).value, {&alone, 1})};
  for (const Rank rank : group) append(rank, stream, part);
  return *this;
}

Workload& Workload::collective(Rank rank, std::span<const Rank> group, CollectiveOp op, Bytes total,
                               StreamNumber stream, int root) {
  const GroupedCollective alone{op, total, root};
  return collectives(rank, group, {&alone, 1}, stream);
}

Workload& Workload::collectives(Rank rank, std::span<const Rank> group,
                                std::span<const GroupedCollective> operations,
                                StreamNumber stream) {
  return collectives(rank, this->group(group, 0), operations, stream);
}

Workload& Workload::collectives(Rank rank, GroupNumber group,
                                std::span<const GroupedCollective> operations,
                                StreamNumber stream) {
  (void)expect_group(rank, group.value);
  return append(rank, stream, Collective{stream, call(group.value, operations)});
}

Workload& Workload::exchange(Rank rank, std::span<const Rank> group,
                             std::span<const SendRecv> parts, StreamNumber stream) {
  return exchange(rank, this->group(group, 0), parts, stream);
}

Workload& Workload::exchange(Rank rank, GroupNumber group, std::span<const SendRecv> parts,
                             StreamNumber stream) {
  const std::uint32_t number = group.value;
  expect_messages(rank, expect_group(rank, number), parts);
  const int ranks = static_cast<int>(groups_[number].size());
  for (const SendRecv& part : parts) {
    PHANTORA_EXPECTS(std::min(part.src_rank, part.dst_rank) >= 0 &&
                         std::max(part.src_rank, part.dst_rank) < ranks,
                     "messages go between ranks of the group");
    PHANTORA_EXPECTS(part.size >= Bytes{}, "a message's size is not negative");
  }
  const auto make = [&] { return Messages{number, {parts.begin(), parts.end()}}; };
  return append(rank, stream,
                Exchange{stream, interned(key(number, parts), messages_, message_numbers_, make)});
}

Workload& Workload::send(Rank rank, Rank to, Bytes size, StreamNumber stream) {
  PHANTORA_EXPECTS(rank != to, name(rank) + " sends nothing to itself");
  // One group of both directions, as PyTorch makes a communicator of two.
  const std::array<Rank, 2> pair{std::min(rank, to), std::max(rank, to)};
  const int mine = rank < to ? 0 : 1;
  const SendRecv part{mine, 1 - mine, size};
  return exchange(rank, pair, {&part, 1}, stream);
}

Workload& Workload::receive(Rank rank, Rank from, Bytes size, StreamNumber stream) {
  PHANTORA_EXPECTS(rank != from, name(rank) + " receives nothing from itself");
  const std::array<Rank, 2> pair{std::min(rank, from), std::max(rank, from)};
  const int mine = rank < from ? 0 : 1;
  const SendRecv part{1 - mine, mine, size};
  return exchange(rank, pair, {&part, 1}, stream);
}

void Workload::expect_distinct(const std::vector<Rank>& group) {
  PHANTORA_EXPECTS(!group.empty(), "a group has ranks");
  std::vector<Rank> sorted = group;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    PHANTORA_EXPECTS(twice == sorted.end(), "a group has each rank once, " + name(*twice) + " too");
}

void Workload::expect_messages(Rank rank, int place, std::span<const SendRecv> parts) {
  for (const SendRecv& part : parts)
    PHANTORA_EXPECTS(part.src_rank == place || part.dst_rank == place,
                     "a message of " + name(rank) + " has it as sender or receiver");
}

void Workload::expect_held(Rank rank, const RankList& list, std::uint32_t block) {
  PHANTORA_EXPECTS(block < list.blocks.size(),
                   name(rank) + " has allocated no block " + std::to_string(block));
  PHANTORA_EXPECTS(list.blocks[block],
                   "block " + std::to_string(block) + " of " + name(rank) + " has been freed");
}

Workload::Event Workload::record(Rank rank, StreamNumber stream) {
  append(rank, stream, Record{stream});
  std::vector<bool>& events = ranks_[rank].events;
  events.push_back(false);
  return {rank, static_cast<std::uint32_t>(events.size() - 1)};
}

void Workload::expect_event(Event event) const {
  PHANTORA_EXPECTS(event.rank < ranks_.size() && event.number < ranks_[event.rank].events.size(),
                   name(event.rank) + " has recorded no event " + std::to_string(event.number));
}

void Workload::expect_recorded(Event event) const {
  expect_event(event);
  PHANTORA_EXPECTS(!ranks_[event.rank].events[event.number],
                   "streams wait for streams, and event " + std::to_string(event.number) + " of " +
                       name(event.rank) + " is in no stream");
}

Workload& Workload::wait(Rank rank, Event event, StreamNumber stream) {
  expect_recorded(event);
  return append(rank, stream, Wait{stream, event});
}

Workload& Workload::order(Rank rank, StreamNumber before, StreamNumber after) {
  return wait(rank, record(rank, before), after);
}

Workload& Workload::host(Rank rank, Duration time) {
  PHANTORA_EXPECTS(time >= Duration{}, "a host's time is not negative");
  rank_list(rank).operations.emplace_back(Host{time});
  return *this;
}

Workload& Workload::scale_host_time(double factor) {
  PHANTORA_EXPECTS(std::isfinite(factor) && factor >= 0,
                   "a factor is a number that is not negative");
  for (RankList& list : ranks_)
    for (Operation& operation : list.operations)
      if (auto* host = std::get_if<Host>(&operation))
        host->time = Duration{std::llround(static_cast<double>(host->time.count()) * factor)};
  return *this;
}

Workload& Workload::synchronize(Rank rank, Event event) {
  expect_event(event);
  rank_list(rank).operations.emplace_back(Synchronize{event});
  return *this;
}

Workload& Workload::synchronize(Rank rank, StreamNumber stream) {
  return synchronize(rank, record(rank, stream));
}

Workload& Workload::synchronize(Rank rank) {
  std::vector<Event> ends;
  for (const StreamNumber stream : std::vector{rank_list(rank).streams})
    ends.push_back(record(rank, stream));
  for (const Event end : ends) synchronize(rank, end);
  return *this;
}

Workload& Workload::thread(Rank rank, std::uint32_t number) {
  PHANTORA_EXPECTS(number < most_threads, "a host has no thread " + std::to_string(number));
  rank_list(rank).operations.emplace_back(Thread{number});
  return *this;
}

Workload::Event Workload::mark(Rank rank) {
  RankList& list = rank_list(rank);
  list.operations.emplace_back(Mark{});
  list.events.push_back(true);
  return {rank, static_cast<std::uint32_t>(list.events.size() - 1)};
}

void Workload::expect_marked(Event event) const {
  expect_event(event);
  PHANTORA_EXPECTS(ranks_[event.rank].events[event.number],
                   "ranges begin at marks, and event " + std::to_string(event.number) + " of " +
                       name(event.rank) + " is in a stream");
}

Workload& Workload::range(Rank rank, Event begin, std::string_view name) {
  expect_marked(begin);
  rank_list(rank).operations.emplace_back(Range{begin, label(name)});
  return *this;
}

std::uint32_t Workload::label(std::string_view text) {
  return interned(text, labels_, label_numbers_, [&] { return std::string{text}; });
}

Workload::Block Workload::allocate(Rank rank, Bytes size, std::string_view label) {
  PHANTORA_EXPECTS(size >= Bytes{}, "a block's size is not negative");
  RankList& list = rank_list(rank);
  list.operations.emplace_back(Allocate{size, this->label(label)});
  list.blocks.push_back(true);
  return {rank, static_cast<std::uint32_t>(list.blocks.size() - 1)};
}

Workload& Workload::free(Block block) {
  PHANTORA_EXPECTS(block.rank < ranks_.size(), "no " + name(block.rank));
  RankList& list = ranks_[block.rank];
  expect_held(block.rank, list, block.number);
  list.blocks[block.number] = false;
  list.operations.emplace_back(Free{block.number});
  return *this;
}

Workload& Workload::end_step(StreamNumber stream) {
  for (Rank rank = 0; rank < ranks_.size(); ++rank) end_step(rank, stream);
  return *this;
}

Workload& Workload::end_step(Rank rank, StreamNumber stream) {
  return append(rank, stream, StepEnd{stream});
}

Workload& Workload::set_origin(Origin origin) {
  origin_ = std::move(origin);
  return *this;
}

Workload::Workload(detail::WorkloadDocument document)
    : kernels_{std::move(document.kernels)},
      groups_{std::move(document.groups)},
      instances_{std::move(document.instances)},
      calls_{std::move(document.calls)},
      messages_{std::move(document.messages)},
      labels_{std::move(document.labels)},
      origin_{std::move(document.origin)} {
  for (std::vector<Operation>& operations : document.ranks) {
    RankList& list = ranks_.emplace_back();
    list.operations = std::move(operations);
    for (const Operation& operation : list.operations) {
      const bool mark = std::holds_alternative<Mark>(operation);
      if (mark || std::holds_alternative<Record>(operation)) list.events.push_back(mark);
    }
  }
  // The tables: whoever adds to the workload finds what is there.
  for (std::uint32_t i = 0; i < kernels_.size(); ++i)
    kernel_numbers_.emplace(detail::key_of(kernels_[i]), i);
  for (std::uint32_t i = 0; i < groups_.size(); ++i)
    group_numbers_.emplace(std::pair{groups_[i], instances_[i]}, i);
  for (std::uint32_t i = 0; i < calls_.size(); ++i)
    call_numbers_.emplace(key(calls_[i].group, calls_[i].operations), i);
  for (std::uint32_t i = 0; i < messages_.size(); ++i)
    message_numbers_.emplace(key(messages_[i].group, messages_[i].parts), i);
  for (std::uint32_t i = 0; i < labels_.size(); ++i) label_numbers_.emplace(labels_[i], i);

  detail::Misfit place{.table = "groups"};
  try {
    for (; place.entry < groups_.size(); ++place.entry) expect_distinct(groups_[place.entry]);
    place = {.table = "ranks"};
    for (; place.entry < ranks_.size(); ++place.entry) {
      RankList& list = ranks_[place.entry];
      place.operation = 0;
      for (const Operation& operation : list.operations) {
        adopt(static_cast<Rank>(place.entry), list, operation);
        ++*place.operation;
      }
    }
  } catch (const ArgumentError& error) {
    const std::string_view what = error.what();
    place.what = what.substr(0, what.rfind(" ("));  // without the place in our source
    throw place;
  }
}

void Workload::adopt(Rank rank, RankList& list, const Operation& operation) const {
  std::visit(
      [&](const auto& it) {
        using T = std::decay_t<decltype(it)>;
        if constexpr (requires { it.stream; }) note(list, it.stream);
        if constexpr (std::is_same_v<T, Synchronize>) expect_event(it.event);
        if constexpr (std::is_same_v<T, Wait>) expect_recorded(it.event);
        if constexpr (std::is_same_v<T, Range>) expect_marked(it.event);
        if constexpr (std::is_same_v<T, Collective>) expect_group(rank, calls_[it.call].group);
        if constexpr (std::is_same_v<T, Exchange>) {
          const Messages& messages = messages_[it.messages];
          expect_messages(rank, expect_group(rank, messages.group), messages.parts);
        }
        if constexpr (std::is_same_v<T, Allocate>) list.blocks.push_back(true);
        if constexpr (std::is_same_v<T, Free>) {
          expect_held(rank, list, it.block);
          list.blocks[it.block] = false;
        }
      },
      operation);
}

std::size_t Workload::operation_count() const noexcept {
  std::size_t count = 0;
  for (const RankList& list : ranks_) count += list.operations.size();
  return count;
}

std::span<const Workload::Operation> Workload::operations(Rank rank) const& {
  PHANTORA_EXPECTS(rank < ranks_.size(), "no " + name(rank));
  return ranks_[rank].operations;
}

std::string Workload::describe(Rank rank, std::size_t operation) const {
  const auto list = operations(rank);
  PHANTORA_EXPECTS(operation < list.size(),
                   name(rank) + " has no operation " + std::to_string(operation));
  struct Words {
    const Workload& workload;
    std::string operator()(const Launch& it) const {
      return "launch of " + workload.kernels_[it.kernel].query.name;
    }
    std::string operator()(const Collective& it) const {
      const Call& call = workload.calls_[it.call];
      std::string words;
      for (const GroupedCollective& one : call.operations)
        words +=
            (words.empty() ? "" : ", ") + std::string{to_string(one.op)} + " of " + text(one.total);
      return words + " by " + listed(workload.groups_[call.group]);
    }
    std::string operator()(const Exchange& it) const {
      const Messages& messages = workload.messages_[it.messages];
      const std::vector<Rank>& group = workload.groups_[messages.group];
      if (messages.parts.empty()) return "no messages";
      const SendRecv& first = messages.parts.front();
      std::string words = "message of " + text(first.size) + " from rank " +
                          std::to_string(group[static_cast<std::size_t>(first.src_rank)]) +
                          " to rank " +
                          std::to_string(group[static_cast<std::size_t>(first.dst_rank)]);
      if (messages.parts.size() > 1)
        words += " and " + std::to_string(messages.parts.size() - 1) + " more";
      return words;
    }
    std::string operator()(const Record&) const { return "record"; }
    std::string operator()(const Wait& it) const {
      return "wait for event " + std::to_string(it.event.number) + " of " + name(it.event.rank);
    }
    std::string operator()(const Synchronize& it) const {
      return "synchronize with event " + std::to_string(it.event.number) + " of " +
             name(it.event.rank);
    }
    std::string operator()(const Host&) const { return "host"; }
    std::string operator()(const Allocate& it) const { return "allocate " + text(it.size); }
    std::string operator()(const Free& it) const {
      return "free block " + std::to_string(it.block);
    }
    std::string operator()(const StepEnd&) const { return "end of a step"; }
    std::string operator()(const Mark&) const { return "mark"; }
    std::string operator()(const Graph& it) const {
      return it.inside ? "kernels of a graph" : "end of a graph";
    }
    std::string operator()(const Priority& it) const {
      return "priority " + std::to_string(it.priority);
    }
    std::string operator()(const Thread& it) const { return "thread " + std::to_string(it.number); }
    std::string operator()(const Range& it) const { return "range " + workload.labels_[it.label]; }
  };
  return std::visit(Words{*this}, list[operation]);
}

}  // namespace phantora
