#pragma once

#include <phantora/units.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

/// Which ranks of a communicator have called which operation, and which have not yet: what a
/// diagnosis says. Knows nothing of time but what it is told.
namespace phantora::run {

/// One rank's call of a collective, or one send or receive.
struct OperationCall {
  std::string name;  ///< as in "all_reduce"
  Bytes size{};
  int root = 0;  ///< of collectives that have one, else 0
  Time at{};     ///< the caller's clock
};

class OpenCalls {
 public:
  /// @param ranks  of the communicator.
  explicit OpenCalls(std::size_t ranks) : called_(ranks) {}

  /// Rank `rank` calls its next collective.
  /// @param process  names a rank of this communicator, as in "rank 3".
  /// @throws Error if another rank's call of the same number is a different operation.
  void collective(int rank, const OperationCall& call,
                  const std::function<std::string(int)>& process);
  /// Rank `from` sends to `to` (`sends`), or `to` receives from `from`.
  void message(int from, int to, bool sends, const OperationCall& call);

  struct Open {
    std::string what;                   ///< "all_reduce of 64 bytes"
    std::vector<int> waiting, missing;  ///< ranks of the communicator
    Time since{};                       ///< when the first of them called
  };
  /// The calls that other ranks have not matched, oldest first.
  [[nodiscard]] std::vector<Open> all() const;

 private:
  struct Collective {
    OperationCall call;
    std::set<int> ranks;
  };
  /// Per pair: how many more sends than receives were called (negative: receives), oldest first.
  struct Channel {
    std::deque<OperationCall> sends, receives;
  };
  std::vector<std::uint64_t> called_;  ///< collectives, per rank
  std::map<std::uint64_t, Collective> collectives_{};
  std::map<std::pair<int, int>, Channel> channels_{};
};

}  // namespace phantora::run
