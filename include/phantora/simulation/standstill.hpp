#pragma once

#include <phantora/units.hpp>

#include <set>
#include <string>
#include <vector>

namespace phantora {

/// What the ranks of a run do at an instant at which nothing moves, as whoever runs them has seen
/// it: for a user who has to find out why.
struct Standstill {
  /// A rank, and what it does: "waits for its GPU".
  struct Doing {
    int rank = 0;        ///< of the run
    std::string what{};  ///< in words
  };
  /// Somebody who has not called what others wait for.
  struct Missing {
    std::string name{};  ///< "rank 3"
    std::string does{};  ///< instead, in words
  };
  /// An operation of a communicator that not all of its ranks have called.
  struct Operation {
    std::string what{};              ///< "all_reduce of 64 bytes"
    std::set<int> group{};           ///< ranks of the run that share the communicator
    std::set<int> waiting{};         ///< those of them that have called it
    Time since{};                    ///< when the first of them called
    std::vector<Missing> missing{};  ///< whose call is awaited
  };
  /// A communicator that not all of its ranks have joined, or split.
  struct Joining {
    std::string call{};       ///< "ncclCommInitRank of 4 ranks"
    std::set<int> waiting{};  ///< ranks of the run that have called it
    /// Places in the new communicator that nobody has asked for, where it is made under an id.
    std::vector<int> free_places{};
    std::vector<Missing> missing{};  ///< where it is made of one that has members
  };

  std::vector<Operation> operations{};   ///< begun and not complete
  std::vector<std::string> obstacles{};  ///< in the network, as Session::obstacles() says them
  std::vector<Joining> joining{};        ///< communicators that are being made
  std::vector<Doing> ranks{};            ///< those that have not ended
  std::set<int> ended{};                 ///< ranks of the run
};

/// "rank 3", "ranks 0, 2, 4-15".
std::string rank_list(const std::set<int>& ranks);
/// "1.500000 s".
std::string seconds_in_words(Time time);

/// A line for each call that waits for other ranks, and for whom; each begins with a line break.
std::string open_operations(const Standstill& seen);
/// A line for all ranks that do the same; likewise.
std::string what_ranks_do(const Standstill& seen);
/// Why a run that cannot go on does not: all of it, and advice where the program is to blame.
std::string stall_in_words(const Standstill& seen);

}  // namespace phantora
