#pragma once

#include <phantora/collectives/operation.hpp>
#include <phantora/error.hpp>
#include <phantora/ids.hpp>
#include <phantora/units.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace phantora {

/// Ranks of a communicator call different collectives where they have to call the same.
class Disagreement : public Error {
 public:
  /// One of two ranks that disagree.
  struct Side {
    int rank = 0;  ///< of the communicator
    /// What it calls: the first that is unlike, or its whole group where groups have not as many.
    std::vector<GroupedCollective> calls{};
  };
  /// @param number  of the communicator's collectives, from 1.
  Disagreement(std::size_t ranks, std::uint64_t number, Side lower, Side higher);

  std::uint64_t number = 0;  ///< of the communicator's collectives, from 1
  Side lower, higher;        ///< by rank, whichever was heard first
};

/// What a group of collectives is called: as its operations are, if they are of a kind.
std::string_view name_of(std::span<const GroupedCollective> group) noexcept;

/// An operation that some ranks of a communicator have called and others have not.
struct OpenCall {
  CommunicatorId communicator{};          ///< whose ranks meet
  std::string what{};                     ///< "all_reduce of 64 bytes"
  std::vector<int> waiting{}, missing{};  ///< ranks of the communicator
  Time since{};                           ///< when the first of them called
};

/// Where the calls of ranks meet that together are one operation: the collectives of a communicator
/// in the order in which each rank calls them, and the messages of each pair of ranks.
///
/// Each rank first calls an operation, which only queues it, and later reaches it, when all is done
/// that it queued before. A meeting is in the book until all have reached it. Knows nothing of time
/// but what it is told.
class Rendezvous {
 public:
  /// One rank's place in one meeting.
  struct Place {
    std::uint64_t meeting = 0;  ///< counted from 1, in the order in which they were first called
    std::uint32_t slot = 0, index = 0;  ///< the book's own
  };
  /// What became of a call.
  struct Called {
    Place place{};             ///< what reached() takes
    std::uint64_t number = 0;  ///< of the communicator's groups, or of its pair's messages, from 0
    bool first = false;        ///< nobody has called it before
    bool last = false;         ///< everybody has called it now
  };

  /// @throws ArgumentError if there is a communicator of that id.
  void add_communicator(CommunicatorId communicator, std::size_t ranks);
  /// No rank calls it again. What is in the book stays there.
  void drop_communicator(CommunicatorId communicator);

  /// Whether nobody has called yet what `rank` calls next.
  [[nodiscard]] bool is_first(CommunicatorId communicator, int rank) const;
  /// `rank` calls its next group of collectives.
  /// @throws Disagreement if another rank's group of that number is another one; nothing changes.
  Called collective(CommunicatorId communicator, int rank, std::span<const GroupedCollective> group,
                    Time at);
  /// One side of a message calls.
  Called message(CommunicatorId communicator, const SendRecv& message, bool sends, Time at);
  /// @return when the last of all did, if all have now: the meeting is over.
  std::optional<Time> reached(Place place, Time at);

  /// What others have not called yet, by communicator, oldest first.
  [[nodiscard]] std::vector<OpenCall> open_calls() const;
  /// What some have reached and others have not, in order of the first call; one line each.
  [[nodiscard]] std::vector<std::string> incomplete() const;

 private:
  struct Presence {
    bool called = false;
    Time reached = never;
  };
  struct Meeting {
    std::uint64_t id = 0;
    CommunicatorId communicator{};
    std::size_t ranks = 0;                   ///< of the communicator
    std::vector<GroupedCollective> group{};  ///< of collectives; else it is the message
    SendRecv message{};
    std::uint64_t before = 0;         ///< operations of the communicator, or messages of the pair
    Time since{};                     ///< the earliest call
    std::vector<Presence> present{};  ///< by rank; of a message: of its sender and its receiver
    std::size_t called = 0, reached = 0;
    Time last_reached{};
  };
  struct Channel {
    std::deque<std::uint32_t> sends, receives;  ///< slots of those whose other side has not called
    std::uint64_t messages = 0;
  };
  struct Communicator {
    std::vector<std::uint64_t> groups;  ///< called so far, by rank
    std::deque<std::uint32_t> open{};   ///< slots of those that some rank has not called
    std::uint64_t first_open = 0;       ///< its number
    std::uint64_t operations = 0;       ///< of all groups so far
    std::map<std::pair<int, int>, Channel> channels{};
  };

  static void expect_agreement(const Meeting& meeting, int rank,
                               std::span<const GroupedCollective> group);
  std::uint32_t open_meeting(CommunicatorId communicator, std::size_t ranks, std::size_t places);
  Called call(std::uint32_t slot, std::uint32_t index, std::uint64_t number, Time at);

  std::unordered_map<CommunicatorId, Communicator> communicators_{};
  std::deque<Meeting> meetings_{};     ///< by slot
  std::vector<std::uint32_t> free_{};  ///< slots of meetings that are over
  std::uint64_t last_meeting_ = 0;
};

}  // namespace phantora
