#include <phantora/simulation/rendezvous.hpp>

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace phantora {
namespace {

using enum CollectiveOp;

constexpr CommunicatorId world{7};

Time at(std::int64_t ns) { return Time{std::chrono::nanoseconds{ns}}; }

GroupedCollective reduction(std::int64_t bytes) { return {all_reduce, Bytes{bytes}}; }

/// One communicator of so many ranks.
class Book {
 public:
  explicit Book(std::size_t ranks) { rendezvous.add_communicator(world, ranks); }

  Rendezvous::Called call(int rank, const GroupedCollective& one, Time when = {}) {
    return rendezvous.collective(world, rank, std::span{&one, 1}, when);
  }
  Rendezvous::Called call(int rank, const std::vector<GroupedCollective>& group) {
    return rendezvous.collective(world, rank, group, {});
  }
  std::vector<OpenCall> open() const { return rendezvous.open_calls(); }

  Rendezvous rendezvous;
};

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(Rendezvous, ACollectiveThatAllRanksCalledIsNotOpen) {
  Book book{3};
  EXPECT_TRUE(book.rendezvous.is_first(world, 2));
  EXPECT_TRUE(book.call(2, reduction(64)).first);
  EXPECT_FALSE(book.rendezvous.is_first(world, 0));
  EXPECT_TRUE(book.rendezvous.is_first(world, 2));  // its second
  EXPECT_FALSE(book.call(0, reduction(64)).last);
  const auto last = book.call(1, reduction(64));
  EXPECT_FALSE(last.first);
  EXPECT_TRUE(last.last);
  EXPECT_EQ(last.number, 0U);
  EXPECT_TRUE(book.open().empty());
}

TEST(Rendezvous, NamesWhoHasCalledAndWhoHasNotSinceTheFirst) {
  Book book{4};
  book.call(3, reduction(64), at(500));
  book.call(1, reduction(64), at(200));
  const auto open = book.open();
  ASSERT_EQ(open.size(), 1U);
  EXPECT_EQ(open[0].communicator, world);
  EXPECT_EQ(open[0].what, "all_reduce of 64 bytes");
  EXPECT_EQ(open[0].waiting, (std::vector<int>{1, 3}));
  EXPECT_EQ(open[0].missing, (std::vector<int>{0, 2}));
  EXPECT_EQ(open[0].since, at(200));
}

TEST(Rendezvous, CallsOfARankMatchInOrder) {
  Book book{2};
  const auto first = book.call(0, reduction(64));
  const auto second = book.call(0, reduction(128));
  EXPECT_LT(first.place.meeting, second.place.meeting);
  EXPECT_EQ(second.number, 1U);
  EXPECT_EQ(book.call(1, reduction(64)).place.meeting, first.place.meeting);
  const auto open = book.open();
  ASSERT_EQ(open.size(), 1U);
  EXPECT_EQ(open[0].what, "all_reduce of 128 bytes");
}

TEST(Rendezvous, OpenCallsAreByCommunicatorAndThenOldestFirst) {
  Book book{2};
  constexpr CommunicatorId earlier{3};
  book.rendezvous.add_communicator(earlier, 2);
  const std::vector<GroupedCollective> two{reduction(1), {broadcast, Bytes{2}}};
  book.call(0, two);
  book.call(0, reduction(3), at(5));
  book.rendezvous.message(world, {.src_rank = 0, .dst_rank = 1, .size = Bytes{4}}, true, at(3));
  book.rendezvous.collective(earlier, 1, two, at(900));
  std::vector<std::string> what;
  for (const OpenCall& call : book.open()) what.push_back(call.what);
  EXPECT_EQ(what, (std::vector<std::string>{"all_reduce of 1 bytes", "broadcast of 2 bytes",
                                            "all_reduce of 1 bytes", "broadcast of 2 bytes",
                                            "send of 4 bytes", "all_reduce of 3 bytes"}));
}

TEST(Rendezvous, DifferentCallsOfOneNumberAreRefusedLowerRankFirst) {
  Book book{2};
  book.call(1, reduction(64));
  try {
    book.call(0, {broadcast, Bytes{64}, 1});
    FAIL() << "accepted";
  } catch (const Disagreement& found) {
    EXPECT_STREQ(found.what(),
                 "the ranks of a communicator of 2 do not agree on its collective number 1: rank 0 "
                 "calls broadcast of 64 bytes (root 1, type 0); rank 1 calls all_reduce of 64 "
                 "bytes (root 0, type 0)");
    EXPECT_EQ(found.lower.rank, 0);
    EXPECT_EQ(found.higher.calls.at(0).op, all_reduce);
  }
  // It has left nothing behind.
  EXPECT_EQ(book.open().at(0).missing, std::vector<int>{0});
  EXPECT_TRUE(book.call(0, reduction(64)).last);
}

TEST(Rendezvous, RanksAgreeOnOperationSizeRootAndTypeWhereTheseMatter) {
  const auto agree = [](const GroupedCollective& one, const GroupedCollective& other) {
    Book book{2};
    book.call(0, one);
    return refusal([&] { book.call(1, other); }) == "nothing was refused";
  };
  const Bytes size{64};
  EXPECT_TRUE(agree({all_reduce, size}, {all_reduce, size}));
  EXPECT_FALSE(agree({all_reduce, size}, {reduce, size}));
  EXPECT_FALSE(agree({all_reduce, size}, {all_reduce, Bytes{65}}));
  for (const CollectiveOp rooted : {broadcast, reduce, gather, scatter})
    EXPECT_FALSE(agree({rooted, size, 0}, {rooted, size, 1}));
  EXPECT_TRUE(agree({all_gather, size, 0}, {all_gather, size, 1}));
  for (const CollectiveOp reduces : {all_reduce, reduce, reduce_scatter})
    EXPECT_FALSE(agree({reduces, size, 0, 1}, {reduces, size, 0, 2}));
  EXPECT_TRUE(agree({all_to_all, size, 0, 1}, {all_to_all, size, 0, 2}));  // bytes are bytes
}

TEST(Rendezvous, OfAGroupTheFirstOperationThatIsUnlikeIsNamed) {
  Book book{2};
  for (const int rank : {0, 1}) book.call(rank, reduction(8));
  book.call(0, std::vector{reduction(1), reduction(2), reduction(3)});
  EXPECT_EQ(refusal([&] {
              book.call(1, std::vector{reduction(1), reduction(9), reduction(3)});
            }),
            "the ranks of a communicator of 2 do not agree on its collective number 3: rank 0 "
            "calls all_reduce of 2 bytes (root 0, type 0); rank 1 calls all_reduce of 9 bytes "
            "(root 0, type 0)");
}

TEST(Rendezvous, GroupsOfUnequalLengthAreNamedWhole) {
  Book book{2};
  book.call(0, std::vector{reduction(1), reduction(2)});
  EXPECT_EQ(refusal([&] { book.call(1, reduction(1)); }),
            "the ranks of a communicator of 2 do not agree on its collective number 1: rank 0 "
            "calls all_reduce of 1 bytes (root 0, type 0), all_reduce of 2 bytes (root 0, type 0); "
            "rank 1 calls all_reduce of 1 bytes (root 0, type 0)");
}

TEST(Rendezvous, MessagesMatchPerPairAndDirection) {
  Book book{2};
  const SendRecv there{.src_rank = 0, .dst_rank = 1, .size = Bytes{4}},
      back{.src_rank = 1, .dst_rank = 0, .size = Bytes{4}};
  const auto send = book.rendezvous.message(world, there, true, {});
  EXPECT_TRUE(send.first);
  EXPECT_TRUE(book.rendezvous.message(world, back, false, {}).first);  // the other direction
  const auto open = book.open();
  ASSERT_EQ(open.size(), 2U);
  EXPECT_EQ(open[0].what, "send of 4 bytes");
  EXPECT_EQ(open[0].waiting, std::vector<int>{0});
  EXPECT_EQ(open[0].missing, std::vector<int>{1});
  EXPECT_EQ(open[1].what, "recv of 4 bytes");
  EXPECT_EQ(open[1].waiting, std::vector<int>{0});
  const auto receive = book.rendezvous.message(world, there, false, {});
  EXPECT_TRUE(receive.last);
  EXPECT_EQ(receive.place.meeting, send.place.meeting);
  book.rendezvous.message(world, back, true, {});
  EXPECT_TRUE(book.open().empty());
  EXPECT_EQ(book.rendezvous.message(world, there, true, {}).number, 1U);
}

TEST(Rendezvous, AMeetingEndsWhenTheLastHasReachedIt) {
  Book book{3};
  std::vector<Rendezvous::Place> places;
  for (const int rank : {2, 0, 1}) places.push_back(book.call(rank, reduction(64)).place);
  EXPECT_TRUE(book.rendezvous.incomplete().empty());  // queued, and no more
  EXPECT_FALSE(book.rendezvous.reached(places[0], at(7'000'000'000)));
  EXPECT_FALSE(book.rendezvous.reached(places[2], at(2'000'000'000)));
  EXPECT_EQ(book.rendezvous.incomplete(),
            std::vector<std::string>{"all_reduce on a communicator of 3 ranks: ranks 1, 2 wait "
                                     "since 2.000000 s, missing: 0"});
  EXPECT_EQ(book.rendezvous.reached(places[1], at(3'000'000'000)), at(7'000'000'000));
  EXPECT_TRUE(book.rendezvous.incomplete().empty());
  EXPECT_THROW(book.rendezvous.reached(places[1], at(0)), ArgumentError);
}

TEST(Rendezvous, WhatOneSideOfAMessageReachedIsIncomplete) {
  Book book{2};
  const SendRecv message{.src_rank = 0, .dst_rank = 1, .size = Bytes{4}};
  const auto send = book.rendezvous.message(world, message, true, {});
  EXPECT_FALSE(book.rendezvous.reached(send.place, at(1)));
  EXPECT_EQ(book.rendezvous.incomplete(),
            std::vector<std::string>{"send_recv on a communicator of 2 ranks: one side has called, "
                                     "the other has not"});
}

TEST(Rendezvous, WhatWasCalledOutlivesItsCommunicator) {
  Book book{2};
  const auto waits = book.call(0, reduction(1)).place;
  const auto last = book.call(1, reduction(1)).place;
  book.call(0, reduction(2));
  book.rendezvous.drop_communicator(world);
  EXPECT_THROW(book.call(1, reduction(2)), ArgumentError);
  EXPECT_EQ(book.open().at(0).what, "all_reduce of 2 bytes");
  EXPECT_FALSE(book.rendezvous.reached(waits, at(1)));
  EXPECT_EQ(book.rendezvous.reached(last, at(2)), at(2));
  // A place that is free again is another meeting's.
  book.rendezvous.add_communicator(world, 2);
  book.call(0, reduction(3));
  EXPECT_THROW(book.rendezvous.reached(waits, at(3)), ArgumentError);
}

TEST(Rendezvous, WhatCannotBeIsRefused) {
  Book book{2};
  EXPECT_THROW(book.rendezvous.add_communicator(world, 2), ArgumentError);
  EXPECT_THROW(book.rendezvous.drop_communicator(CommunicatorId{1}), ArgumentError);
  EXPECT_THROW(book.call(2, reduction(1)), ArgumentError);
  EXPECT_THROW(book.call(-1, reduction(1)), ArgumentError);
  EXPECT_THROW(book.call(0, std::vector<GroupedCollective>{}), ArgumentError);
  EXPECT_THROW(book.rendezvous.message(world, {.src_rank = 0, .dst_rank = 2}, true, {}),
               ArgumentError);
}

}  // namespace
}  // namespace phantora
