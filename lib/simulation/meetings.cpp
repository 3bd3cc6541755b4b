#include "simulation/meetings.hpp"

#include <phantora/error.hpp>

#include <algorithm>
#include <tuple>

namespace phantora::detail {

std::string named(const Workload& workload, Rank rank, std::size_t operation) {
  return "rank " + std::to_string(rank) + ", operation " + std::to_string(operation) + " (" +
         workload.describe(rank, operation) + ")";
}

Meetings::Meetings(const Workload& workload) : workload_{workload} {
  const auto ranks = static_cast<Rank>(workload.rank_count());
  const auto expect_ranks = [&](std::uint32_t group, Rank rank, std::size_t operation) {
    for (const Rank member : workload.groups()[group])
      if (member >= ranks)
        throw ConfigError{named(workload, rank, operation) + ": its group has rank " +
                          std::to_string(member) + ", the workload " + std::to_string(ranks) +
                          " ranks"};
  };
  // A rank's place in each group that it calls, looked up once.
  std::map<std::pair<std::uint32_t, Rank>, std::size_t> places;
  calls_.resize(workload.groups().size());
  ordinals_.resize(ranks);
  for (Rank rank = 0; rank < ranks; ++rank) {
    const auto operations = workload.operations(rank);
    ordinals_[rank].resize(operations.size());
    for (std::uint32_t i = 0; i < operations.size(); ++i) {
      if (const auto* exchange = std::get_if<Workload::Exchange>(&operations[i]))
        expect_ranks(workload.messages()[exchange->messages].group, rank, i);
      const auto* collective = std::get_if<Workload::Collective>(&operations[i]);
      if (collective == nullptr) continue;
      const std::uint32_t number = workload.calls()[collective->call].group;
      const std::vector<Rank>& group = workload.groups()[number];
      const auto [place, fresh] = places.try_emplace({number, rank});
      if (fresh) {
        expect_ranks(number, rank, i);
        place->second =
            static_cast<std::size_t>(std::find(group.begin(), group.end(), rank) - group.begin());
        calls_[number].resize(group.size());
      }
      std::vector<std::uint32_t>& mine = calls_[number][place->second];
      ordinals_[rank][i] = static_cast<std::uint32_t>(mine.size());
      mine.push_back(i);
    }
  }
  check_collectives();
  match_messages();
}

void Meetings::check_collectives() const {
  for (std::size_t number = 0; number < calls_.size(); ++number) {
    if (calls_[number].empty()) continue;
    const std::vector<Rank>& group = workload_.groups()[number];
    const auto& first = calls_[number].front();
    for (std::size_t place = 1; place < group.size(); ++place) {
      const auto& other = calls_[number][place];
      for (std::size_t i = 0; i < std::min(first.size(), other.size()); ++i) {
        const auto call = [&](Rank rank, std::uint32_t at) {
          return std::get<Workload::Collective>(workload_.operations(rank)[at]).call;
        };
        if (call(group[0], first[i]) != call(group[place], other[i]))
          throw ConfigError{named(workload_, group[place], other[i]) + " meets " +
                            named(workload_, group[0], first[i]) + ": they have to be the same"};
      }
      if (first.size() == other.size()) continue;
      const bool more = first.size() > other.size();
      const Rank rank = more ? group[0] : group[place];
      const Rank lacking = more ? group[place] : group[0];
      const std::size_t at = more ? first[other.size()] : other[first.size()];
      throw ConfigError{named(workload_, rank, at) + ": rank " + std::to_string(lacking) +
                        " takes part in " + std::to_string(std::min(first.size(), other.size())) +
                        " collectives of the group, and not in this one"};
    }
  }
}

void Meetings::match_messages() {
  struct Side {
    Party party;
    Bytes size;
  };
  struct Channel {
    std::vector<Side> sends, receives;
  };
  // By group, sender and receiver.
  std::map<std::tuple<std::uint32_t, int, int>, Channel> channels;
  for (Rank rank = 0; rank < workload_.rank_count(); ++rank) {
    const auto operations = workload_.operations(rank);
    for (std::uint32_t i = 0; i < operations.size(); ++i) {
      const auto* exchange = std::get_if<Workload::Exchange>(&operations[i]);
      if (exchange == nullptr) continue;
      ordinals_[rank][i] = static_cast<std::uint32_t>(exchanges_.size());
      exchanges_.push_back({{rank, i}});
      const Workload::Messages& messages = workload_.messages()[exchange->messages];
      const std::vector<Rank>& group = workload_.groups()[messages.group];
      for (const SendRecv& part : messages.parts) {
        Channel& channel = channels[{messages.group, part.src_rank, part.dst_rank}];
        if (group[static_cast<std::size_t>(part.src_rank)] == rank)
          channel.sends.push_back({{rank, i}, part.size});
        if (group[static_cast<std::size_t>(part.dst_rank)] == rank)
          channel.receives.push_back({{rank, i}, part.size});
      }
    }
  }
  for (const auto& [ids, channel] : channels) {
    const auto& [sends, receives] = channel;
    for (std::size_t i = 0; i < std::min(sends.size(), receives.size()); ++i) {
      const Side &from = sends[i], &to = receives[i];
      if (from.size != to.size)
        throw ConfigError{named(workload_, to.party.rank, to.party.operation) + " receives from " +
                          named(workload_, from.party.rank, from.party.operation) +
                          ": they have to be as large"};
      for (const auto& [mine, theirs] :
           {std::pair{from.party, to.party}, std::pair{to.party, from.party}})
        exchanges_[ordinals_[mine.rank][mine.operation]].push_back(theirs);
    }
    if (sends.size() == receives.size()) continue;
    const bool sent = sends.size() > receives.size();
    const Party lone = sent ? sends[receives.size()].party : receives[sends.size()].party;
    const std::vector<Rank>& group = workload_.groups()[std::get<0>(ids)];
    const auto other = static_cast<std::size_t>(sent ? std::get<2>(ids) : std::get<1>(ids));
    throw ConfigError{named(workload_, lone.rank, lone.operation) + ": rank " +
                      std::to_string(group[other]) + (sent ? " receives " : " sends ") +
                      std::to_string(std::min(sends.size(), receives.size())) +
                      " such messages, and not this one"};
  }
}

std::vector<Party> Meetings::parties(Party party) const {
  const Workload::Operation& operation = workload_.operations(party.rank)[party.operation];
  const std::uint32_t ordinal = ordinals_[party.rank][party.operation];
  const auto* collective = std::get_if<Workload::Collective>(&operation);
  if (collective == nullptr) return exchanges_[ordinal];
  const std::uint32_t number = workload_.calls()[collective->call].group;
  const std::vector<Rank>& group = workload_.groups()[number];
  std::vector<Party> parties;
  for (std::size_t place = 0; place < group.size(); ++place)
    parties.push_back({group[place], calls_[number][place][ordinal]});
  return parties;
}

}  // namespace phantora::detail
