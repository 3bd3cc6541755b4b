#include "collectives/communicator_impl.hpp"

#include <tuple>

namespace phantora {

/// The links of one message. Between rails NCCL crosses over NVLink first (PXN), so that the
/// message stays on the rail of its destination.
Route Communicator::Impl::message_way(int from, int to, const Capacity& capacity) const {
  const std::size_t here = node_of(from), there = node_of(to);
  const Node& source = nodes_[here];
  if (here != there && pxn_ && source.nvlink) {
    const auto& ranks = nodes_[there].ranks;
    const auto place =
        static_cast<std::size_t>(std::find(ranks.begin(), ranks.end(), to) - ranks.begin());
    if (place < source.ranks.size() && source.ranks[place] != from) {
      const int relay = source.ranks[place];
      Route found = way(gpu(from), gpu(relay), 0, capacity);
      const Route rest = way(gpu(relay), gpu(to), static_cast<std::uint64_t>(to), capacity);
      found.links.insert(found.links.end(), rest.links.begin(), rest.links.end());
      found.latency += rest.latency;
      return found;
    }
  }
  return way(gpu(from), gpu(to), static_cast<std::uint64_t>(to), capacity);
}

/// The same where all links are up, found once for pairs that talk again and again.
Route Communicator::Impl::known_message_way(int from, int to) const {
  // Neighbours in pipelines and rings are one or two for each rank. Where all ranks talk to all,
  // what is kept does not grow with the square of the ranks.
  constexpr std::size_t kept_for_each_rank = 16;
  const std::lock_guard lock{mutex_};
  if (const auto known = message_ways_.find({from, to}); known != message_ways_.end())
    return known->second;
  Route found = message_way(from, to, {});
  if (message_ways_.size() < kept_for_each_rank * ranks_.size())
    message_ways_.emplace(std::pair{from, to}, found);
  return found;
}

int Communicator::Impl::channels_of_message(double bytes, Protocol protocol) const {
  const int all = message_channels();
  // Each peer gets an even part of the channels, more if its parts would be too large.
  int fewest = all;
  while (fewest > 1 && fewest * size() > all) fewest /= 2;
  if (!tuning_) return fewest;
  const double step = message_step_bytes[static_cast<std::size_t>(protocol)];
  int channels =
      static_cast<int>(std::clamp(std::ceil(bytes / (step / 8)), 1.0, static_cast<double>(fewest)));
  while (channels <= all / 2 && bytes / channels > step * 32) channels *= 2;
  return channels;
}

Protocol Communicator::Impl::message_protocol(double bytes) const {
  // Over a network a peer has two channels.
  const int of_peer = nodes_.size() == 1 ? message_channels() : std::min(message_channels(), 2);
  return tuning_ && bytes <= of_peer * message_ll_bytes ? Protocol::ll : Protocol::simple;
}

Communicator::Impl::Messages Communicator::Impl::messages(double bytes, int turns, int peers,
                                                          Traffic traffic) const {
  if (!tuning_) return {.channels = channels_of_message(bytes, Protocol::simple)};
  Messages how{.protocol = message_protocol(bytes)};
  how.channels = channels_of_message(bytes, how.protocol);
  const auto p = static_cast<std::size_t>(how.protocol);
  const double step = message_step_bytes[p];
  const double sent = bytes * turns * peers;
  const double paired = traffic.paired;
  // The rate of a message that is paired for a part of its time, and alone for the rest.
  double rate = how.channels * peers /
                (paired / message_channel_rate[p] + (1 - paired) / unpaired_channel_rate[p]);
  const double base =
      one_way_base_us[p] + traffic.returned * (message_base_us[p] - one_way_base_us[p]);
  how.latency_us = base + (turns - 1) * (base - message_kernel_us) + message_peer_us * (peers - 1);
  if (how.protocol == Protocol::ll) {
    rate = std::min(rate, messages_ll_rate);
  } else {
    const double nvlink = tuning_->shape().nvlink * 1e9;
    const double share = nvlink > 0 ? paired * std::min(1.0, rate / nvlink) : 0;
    how.latency_us +=
        message_step_us * traffic.returned * std::min(1.0, bytes / how.channels / step) +
        message_crowd_us * share * share * sent / (sent + message_crowd_half_bytes);
  }
  how.rate = Bandwidth{rate / peers};
  return how;
}

int Communicator::Impl::channels(const SendRecv& message) const {
  const auto bytes = static_cast<double>(message.size.count());
  if (bytes <= 0) return 0;
  // A rank copies to itself with Simple.
  return channels_of_message(
      bytes, message.src_rank == message.dst_rank ? Protocol::simple : message_protocol(bytes));
}

CollectivePlan Communicator::Impl::plan(const SendRecv& message, const RankMessages& sender,
                                        const RankMessages& receiver) const {
  const int from = message.src_rank, to = message.dst_rank;
  PHANTORA_EXPECTS(from >= 0 && from < size() && to >= 0 && to < size(),
                   "a message joins ranks of the communicator");
  CollectivePlan plan{.algorithm = Algorithm::point_to_point, .channels = channels(message)};
  if (from == to || message.size <= Bytes{0}) {
    if (tuning_) plan.latency = microseconds(message_base_us[0]);
    return plan;
  }
  // Messages to one peer go one after the other; here they go at once, each at a part of the rate.
  PHANTORA_EXPECTS(sender.sent.contains(to) && receiver.received.contains(from),
                   "both ranks tell of a message");
  const auto [bytes, turns] = sender.sent.at(to);
  const double part = static_cast<double>(message.size.count()) / bytes;
  // A block sends `ahead` ranks on, and gets from as many ranks before.
  const int ahead = (to - from + size()) % size();
  const auto covered = [&, all = bytes](const auto& others, int peer) {
    const auto other = others.find((peer + size()) % size());
    return other == others.end() ? 0.0 : std::min(1.0, other->second.bytes / all);
  };
  const Traffic traffic{
      .paired = (covered(sender.received, from - ahead) + covered(receiver.sent, to + ahead)) / 2,
      .returned = std::min(1.0, receiver.sent_to_others / receiver.received_from_others)};
  const int peers = static_cast<int>(sender.sent.size() - sender.sent.count(from));
  const Messages how = messages(bytes / turns, turns, peers, traffic);
  const double overhead =
      nvlink_message + (peers > 1 ? traffic.paired * (nvlink_messages - nvlink_message) : 0);
  const Route route = with_overheads(known_message_way(from, to), overhead);
  FlowSpec flow{.size = message.size, .shares = how.channels * part};
  double wire = 1;
  if (tuning_) {
    flow.rate_cap = Bandwidth{how.rate.bytes_per_second() * part};
    plan.latency = microseconds(how.latency_us);
    wire = protocol_overhead[static_cast<std::size_t>(how.protocol)];
  } else {
    flow.latency = route.latency;
  }
  lay(flow, scaled(route.links, wire), [this, from, to, overhead, wire](const Capacity& capacity) {
    return scaled(message_route(from, to, overhead, capacity).links, wire);
  });
  plan.protocol = how.protocol;
  plan.flows.push_back(std::move(flow));
  return plan;
}

CollectivePlan Communicator::Impl::plan(std::span<const SendRecv> group) const {
  std::vector<RankMessages> ranks;
  for (int rank = 0; rank < size(); ++rank) ranks.emplace_back(rank, group);
  CollectivePlan all{.algorithm = Algorithm::point_to_point,
                     .latency = tuning_ ? microseconds(message_base_us[0]) : Duration{}};
  // By rank and round: in round d a rank sends d ranks on, and gets from d ranks before.
  std::map<std::pair<int, int>, int> channels;
  std::uint64_t key = 0;
  Duration longest{};
  for (const SendRecv& message : group) {
    CollectivePlan one = plan(message, ranks.at(static_cast<std::size_t>(message.src_rank)),
                              ranks.at(static_cast<std::size_t>(message.dst_rank)));
    const int ahead = (message.dst_rank - message.src_rank + size()) % size();
    for (const int rank : {message.src_rank, message.dst_rank}) {
      int& of_round = channels[{rank, ahead}];
      of_round = std::max(of_round, one.channels);
    }
    for (FlowSpec& flow : one.flows) {
      flow.key = key++;
      flow.latency += one.latency;  // less the latency of all, below
      all.latency = all.flows.empty() ? one.latency : std::min(all.latency, one.latency);
      all.flows.push_back(std::move(flow));
      if (one.latency < longest) continue;
      longest = one.latency;
      all.protocol = one.protocol;
    }
  }
  std::map<int, int> used;  // of each rank
  for (const auto& [round, count] : channels) {
    int& of_rank = used[round.first];
    of_rank = std::min(of_rank + count, message_channels());
    all.channels = std::max(all.channels, of_rank);
  }
  for (FlowSpec& flow : all.flows) flow.latency -= all.latency;
  return all;
}

const std::vector<LinkUse>& Communicator::Impl::exchange_uses(CollectiveOp op, int root) const {
  const std::lock_guard lock{mutex_};
  const auto [known, added] =
      exchanges_.try_emplace({op, op == CollectiveOp::all_to_all ? 0 : root});
  if (added) known->second = lay_exchange(op, root, {});
  return known->second;
}

std::vector<LinkUse> Communicator::Impl::lay_exchange(CollectiveOp op, int root,
                                                      const Capacity& capacity) const {
  LinkLoads loads;
  const double part = 1.0 / size();
  // A root sends or receives, not both.
  const double overhead = op == CollectiveOp::all_to_all ? nvlink_messages : nvlink_message;
  for (int from = 0; from < size(); ++from) {
    for (int to = 0; to < size(); ++to) {
      if (from == to || (op == CollectiveOp::gather && to != root) ||
          (op == CollectiveOp::scatter && from != root))
        continue;
      loads.add(message_route(from, to, overhead, capacity).links, part);
    }
  }
  return std::move(loads).uses();
}

/// An exchange in which all pairs move alike: one flow, as NCCL runs it in rounds.
CollectivePlan Communicator::Impl::exchange(CollectiveOp op, Bytes total, int root) const {
  CollectivePlan plan{.algorithm = Algorithm::point_to_point};
  if (size() == 1 || total == Bytes{0}) {
    if (tuning_) plan.latency = microseconds(message_base_us[0]);
    return plan;
  }
  const int peers = size() - 1;
  const Messages how =
      messages(static_cast<double>(total.count()) / size(), 1, peers,
               op == CollectiveOp::all_to_all ? Traffic{.paired = 1, .returned = 1} : Traffic{});
  // A rank copies its own part as if to a peer, with Simple.
  plan.channels = std::min(
      message_channels(),
      how.channels * peers +
          channels_of_message(static_cast<double>(total.count()) / size(), Protocol::simple));
  plan.protocol = how.protocol;
  FlowSpec flow{.size = total, .shares = static_cast<double>(plan.channels)};
  double wire = 1;
  if (tuning_) {
    plan.latency = microseconds(how.latency_us);
    wire = protocol_overhead[static_cast<std::size_t>(how.protocol)];
    double rate = how.rate.bytes_per_second() * peers;
    if (!aligned(total) && how.protocol == Protocol::simple)
      rate =
          std::min({rate, how.channels * peers * unaligned_message_rate, unaligned_messages_rate});
    flow.rate_cap = Bandwidth{rate * size() / peers};
  }
  lay(flow, scaled(exchange_uses(op, root), wire),
      [this, op, root, wire](const Capacity& capacity) {
        return scaled(lay_exchange(op, root, capacity), wire);
      });
  plan.flows.push_back(std::move(flow));
  return plan;
}

RankMessages::RankMessages(int rank, std::span<const SendRecv> group) {
  for (const SendRecv& message : group) {
    const auto bytes = static_cast<double>(message.size.count());
    if (bytes <= 0) continue;
    const bool others = message.src_rank != message.dst_rank;
    if (message.src_rank == rank) {
      sent[message.dst_rank].bytes += bytes;
      ++sent[message.dst_rank].messages;
      if (others) sent_to_others += bytes;
    }
    if (message.dst_rank == rank) {
      received[message.src_rank].bytes += bytes;
      ++received[message.src_rank].messages;
      if (others) received_from_others += bytes;
    }
  }
}

}  // namespace phantora
