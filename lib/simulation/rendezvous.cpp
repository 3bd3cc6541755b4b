#include <phantora/simulation/rendezvous.hpp>

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <tuple>
#include <utility>

namespace phantora {
namespace {

bool one_of(CollectiveOp op, std::initializer_list<CollectiveOp> ops) {
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

/// Whether two ranks' calls can be the same operation.
bool agree(const GroupedCollective& a, const GroupedCollective& b) {
  using enum CollectiveOp;
  const bool rooted = one_of(a.op, {broadcast, reduce, gather, scatter});
  const bool reduces = one_of(a.op, {all_reduce, reduce_scatter, reduce});
  return a.op == b.op && a.total == b.total && (!rooted || a.root == b.root) &&
         (!reduces || a.type == b.type);
}

std::string size_text(std::string_view operation, Bytes size) {
  return std::string{operation} + " of " + std::to_string(size.count()) + " bytes";
}

std::string text_of(const Disagreement::Side& side) {
  std::string text = "rank " + std::to_string(side.rank) + " calls ";
  const char* separator = "";
  for (const GroupedCollective& call : side.calls) {
    text += separator + size_text(to_string(call.op), call.total) + " (root " +
            std::to_string(call.root) + ", type " + std::to_string(call.type) + ")";
    separator = ", ";
  }
  return text;
}

/// The one of that id, of a map that may be const.
auto& known(auto& communicators, CommunicatorId id) {
  const auto found = communicators.find(id);
  PHANTORA_EXPECTS(found != communicators.end(), "no communicator " + std::to_string(id.value));
  return found->second;
}

std::size_t index_of(int rank, std::size_t ranks) {
  PHANTORA_EXPECTS(
      rank >= 0 && static_cast<std::size_t>(rank) < ranks,
      "no rank " + std::to_string(rank) + " in a communicator of " + std::to_string(ranks));
  return static_cast<std::size_t>(rank);
}

}  // namespace

std::string_view name_of(std::span<const GroupedCollective> group) noexcept {
  const bool alike = std::all_of(group.begin(), group.end(), [&](const GroupedCollective& call) {
    return call.op == group.front().op;
  });
  return alike ? to_string(group.front().op) : "collectives";
}

Disagreement::Disagreement(std::size_t ranks, std::uint64_t place, Side one, Side other)
    : Error{"the ranks of a communicator of " + std::to_string(ranks) +
            " do not agree on its collective number " + std::to_string(place) + ": " +
            text_of(one) + "; " + text_of(other)},
      number{place},
      lower{std::move(one)},
      higher{std::move(other)} {}

void Rendezvous::add_communicator(CommunicatorId communicator, std::size_t ranks) {
  const auto [_, added] = communicators_.try_emplace(communicator);
  PHANTORA_EXPECTS(added, "communicator " + std::to_string(communicator.value) + " exists");
  communicators_.at(communicator).groups.resize(ranks);
}

void Rendezvous::drop_communicator(CommunicatorId communicator) {
  (void)known(communicators_, communicator);
  communicators_.erase(communicator);
}

bool Rendezvous::is_first(CommunicatorId communicator, int rank) const {
  const Communicator& all = known(communicators_, communicator);
  return all.groups[index_of(rank, all.groups.size())] == all.first_open + all.open.size();
}

Rendezvous::Called Rendezvous::collective(CommunicatorId communicator, int rank,
                                          std::span<const GroupedCollective> group, Time at) {
  PHANTORA_EXPECTS(!group.empty(), "a group has operations");
  Communicator& all = known(communicators_, communicator);
  const std::size_t ranks = all.groups.size(), index = index_of(rank, ranks);
  const std::uint64_t number = all.groups[index];
  if (number == all.first_open + all.open.size()) {
    all.open.push_back(open_meeting(communicator, ranks, ranks));
    Meeting& meeting = meetings_[all.open.back()];
    meeting.group.assign(group.begin(), group.end());
    meeting.before = all.operations;
    all.operations += group.size();
  }
  const std::uint32_t slot = all.open[number - all.first_open];
  Meeting& meeting = meetings_[slot];
  expect_agreement(meeting, rank, group);
  ++all.groups[index];
  const Called called = call(slot, static_cast<std::uint32_t>(index), number, at);
  // What all have called, all have called in order.
  if (called.last) {
    all.open.pop_front();
    ++all.first_open;
  }
  return called;
}

Rendezvous::Called Rendezvous::message(CommunicatorId communicator, const SendRecv& message,
                                       bool sends, Time at) {
  Communicator& all = known(communicators_, communicator);
  for (const int rank : {message.src_rank, message.dst_rank})
    (void)index_of(rank, all.groups.size());
  Channel& channel = all.channels[{message.src_rank, message.dst_rank}];
  std::deque<std::uint32_t>& ours = sends ? channel.sends : channel.receives;
  std::deque<std::uint32_t>& theirs = sends ? channel.receives : channel.sends;
  const bool first = theirs.empty();
  const std::uint32_t slot =
      first ? open_meeting(communicator, all.groups.size(), 2) : theirs.front();
  Meeting& meeting = meetings_[slot];
  if (first) {
    ours.push_back(slot);
    meeting.group.clear();
    meeting.message = message;
    meeting.before = channel.messages++;
  } else {
    theirs.pop_front();
  }
  return call(slot, sends ? 0U : 1U, meeting.before, at);
}

std::uint32_t Rendezvous::open_meeting(CommunicatorId communicator, std::size_t ranks,
                                       std::size_t places) {
  auto slot = static_cast<std::uint32_t>(meetings_.size());
  if (free_.empty()) {
    meetings_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  Meeting& meeting = meetings_[slot];
  meeting.id = ++last_meeting_;
  meeting.communicator = communicator;
  meeting.ranks = ranks;
  meeting.present.assign(places, {});
  meeting.called = meeting.reached = 0;
  meeting.last_reached = {};
  return slot;
}

Rendezvous::Called Rendezvous::call(std::uint32_t slot, std::uint32_t index, std::uint64_t number,
                                    Time at) {
  Meeting& meeting = meetings_[slot];
  meeting.present[index].called = true;
  meeting.since = meeting.called == 0 ? at : std::min(meeting.since, at);
  ++meeting.called;
  return {.place = {meeting.id, slot, index},
          .number = number,
          .first = meeting.called == 1,
          .last = meeting.called == meeting.present.size()};
}

void Rendezvous::expect_agreement(const Meeting& meeting, int rank,
                                  std::span<const GroupedCollective> group) {
  const auto [one, other] =
      std::mismatch(meeting.group.begin(), meeting.group.end(), group.begin(), group.end(), agree);
  if (one == meeting.group.end() && other == group.end()) return;
  const auto first_here = std::find_if(meeting.present.begin(), meeting.present.end(),
                                       [](const Presence& presence) { return presence.called; });
  Disagreement::Side known{static_cast<int>(first_here - meeting.present.begin()), meeting.group};
  Disagreement::Side heard{rank, {group.begin(), group.end()}};
  std::uint64_t number = meeting.before + 1;
  if (known.calls.size() == heard.calls.size()) {
    number += static_cast<std::uint64_t>(one - meeting.group.begin());
    known.calls = {*one};
    heard.calls = {*other};
  }
  if (heard.rank < known.rank) std::swap(known, heard);
  throw Disagreement{meeting.ranks, number, std::move(known), std::move(heard)};
}

std::optional<Time> Rendezvous::reached(Place place, Time at) {
  Meeting& meeting = meetings_.at(place.slot);
  PHANTORA_EXPECTS(meeting.id == place.meeting, "a meeting that is not over");
  Presence& presence = meeting.present.at(place.index);
  PHANTORA_EXPECTS(presence.called && presence.reached == never, "called, and not yet reached");
  presence.reached = at;
  meeting.last_reached = std::max(meeting.last_reached, at);
  if (++meeting.reached < meeting.present.size()) return std::nullopt;
  meeting.id = 0;
  free_.push_back(place.slot);
  return meeting.last_reached;
}

std::vector<OpenCall> Rendezvous::open_calls() const {
  std::vector<const Meeting*> open;
  for (const Meeting& meeting : meetings_)
    if (meeting.id != 0 && meeting.called < meeting.present.size()) open.push_back(&meeting);
  std::sort(open.begin(), open.end(), [](const Meeting* a, const Meeting* b) {
    const auto order = [](const Meeting& meeting) {
      const bool message = meeting.group.empty();
      return std::tuple{meeting.communicator,
                        meeting.since,
                        message,
                        message ? meeting.message.src_rank : 0,
                        message ? meeting.message.dst_rank : 0,
                        meeting.id};
    };
    return order(*a) < order(*b);
  });

  std::vector<OpenCall> calls;
  for (const Meeting* meeting : open) {
    OpenCall call{.communicator = meeting->communicator, .since = meeting->since};
    if (meeting->group.empty()) {
      const SendRecv& message = meeting->message;
      const bool sends = meeting->present.front().called;
      call.what = size_text(sends ? "send" : "recv", message.size);
      call.waiting = {sends ? message.src_rank : message.dst_rank};
      call.missing = {sends ? message.dst_rank : message.src_rank};
      calls.push_back(std::move(call));
      continue;
    }
    for (std::size_t rank = 0; rank < meeting->ranks; ++rank)
      (meeting->present[rank].called ? call.waiting : call.missing)
          .push_back(static_cast<int>(rank));
    for (const GroupedCollective& one : meeting->group) {
      call.what = size_text(to_string(one.op), one.total);
      calls.push_back(call);
    }
  }
  return calls;
}

std::vector<std::string> Rendezvous::incomplete() const {
  std::map<std::uint64_t, const Meeting*> reached;
  for (const Meeting& meeting : meetings_)
    if (meeting.id != 0 && meeting.reached > 0) reached.emplace(meeting.id, &meeting);
  std::vector<std::string> lines;
  for (const auto& [_, meeting] : reached) {
    const std::string_view name = meeting->group.empty() ? "send_recv" : name_of(meeting->group);
    std::string line =
        std::string{name} + " on a communicator of " + std::to_string(meeting->ranks) + " ranks";
    if (meeting->group.empty()) {
      lines.push_back(line + ": one side has called, the other has not");
      continue;
    }
    std::string waiting, missing;
    Time since = never;
    for (std::size_t rank = 0; rank < meeting->ranks; ++rank) {
      const Time at = meeting->present[rank].reached;
      since = std::min(since, at);
      std::string& list = at == never ? missing : waiting;
      list += (list.empty() ? "" : ", ") + std::to_string(rank);
    }
    lines.push_back(line + ": ranks " + waiting + " wait since " +
                    std::to_string(to_seconds(since.time_since_epoch())) +
                    " s, missing: " + missing);
  }
  return lines;
}

}  // namespace phantora
