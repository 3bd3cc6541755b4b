#include "run/rank_link.hpp"

#include "channel/handshake.hpp"

#include <array>
#include <cstring>
#include <stdexcept>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

namespace phantora::run {
namespace {

using channel::Op;
using channel::Record;

/// A link and the other end of its socket.
class RankLinkTest : public testing::Test {
 protected:
  RankLinkTest() {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
      throw std::runtime_error{"no sockets"};
    link = RankLink{UniqueFd{ends[0]}};
    rank = UniqueFd{ends[1]};
  }
  void say(const auto& message) {
    ASSERT_EQ(::send(rank.get(), &message, sizeof message, 0),
              static_cast<ssize_t>(sizeof message));
  }
  void welcome() {
    const auto other = make_shared_memory<channel::HostShared>("test");
    ASSERT_TRUE(link.welcome({.process = 4}, other.descriptor.get(), other.descriptor.get()));
  }
  /// Writes from the count at which the ring stands, as a rank does.
  void append(const Record& record, std::span<const std::byte> payload = {}) {
    std::vector<std::byte> bytes(sizeof record + payload.size());
    std::memcpy(bytes.data(), &record, sizeof record);
    if (!payload.empty()) std::memcpy(bytes.data() + sizeof record, payload.data(), payload.size());
    channel::RankShared& shared = *link.shared();
    for (std::size_t i = 0; i < bytes.size(); ++i)
      shared.ring[(shared.written + i) % channel::ring_bytes] = bytes[i];
    shared.written += (bytes.size() + sizeof record - 1) / sizeof record * sizeof record;
  }
  std::vector<std::uint64_t> taken() {
    std::vector<std::uint64_t> all;
    link.take([&](const Record& record, std::span<const std::byte> payload) {
      all.push_back(record.a);
      for (const std::byte byte : payload) all.push_back(static_cast<std::uint64_t>(byte));
    });
    return all;
  }

  RankLink link{UniqueFd{}};
  UniqueFd rank;
};

TEST_F(RankLinkTest, TheFirstMessageIsAHello) {
  EXPECT_FALSE(link.receive_hello());
  EXPECT_GE(link.descriptor(), 0);  // it may still come
  say(channel::Hello{.pid = 7, .rank = 3, .host = 1});
  const auto hello = link.receive_hello();
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->pid, 7);
  EXPECT_EQ(hello->rank, 3);
}

TEST_F(RankLinkTest, WhoeverSaysSomethingElseIsLeft) {
  say(channel::Hello{.layout_version = channel::version + 1, .pid = 7});
  EXPECT_FALSE(link.receive_hello());
  EXPECT_EQ(link.descriptor(), -1);
  EXPECT_FALSE(link.has_records());
}

TEST_F(RankLinkTest, BellsAreTakenUntilTheOtherEndIsClosed) {
  say(channel::doorbell);
  say(channel::doorbell);
  EXPECT_TRUE(link.receive_bells());
  EXPECT_TRUE(link.receive_bells());
  rank = UniqueFd{};
  EXPECT_FALSE(link.receive_bells());
}

TEST_F(RankLinkTest, RecordsGoRoundTheEndOfTheRing) {
  welcome();
  link.shared()->written = link.shared()->consumed = channel::ring_bytes - sizeof(Record);
  const std::array payload{std::byte{8}, std::byte{9}};
  append({.op = Op::counter, .a = 1, .payload_bytes = payload.size()}, payload);
  append({.op = Op::counter, .a = 2});
  EXPECT_TRUE(link.has_records());
  EXPECT_EQ(taken(), (std::vector<std::uint64_t>{1, 8, 9, 2}));
  EXPECT_FALSE(link.has_records());
  EXPECT_TRUE(taken().empty());
  EXPECT_EQ(link.shared()->space.value(), 1U);
}

TEST_F(RankLinkTest, RecordsThatCannotBeAreRefused) {
  welcome();
  link.shared()->written = 2 * channel::ring_bytes;
  EXPECT_THROW(taken(), std::logic_error);
  link.shared()->written = 0;
  append({.op = Op::counter, .payload_bytes = 1000});
  EXPECT_THROW(taken(), std::logic_error);
}

TEST_F(RankLinkTest, DeliveriesGoOutInPartsAndAreCounted) {
  welcome();
  std::vector<std::byte> data(8'000'000, std::byte{5});  // more than a socket takes
  link.send({.kind = channel::Delivery::Kind::result, .bytes = 8'000'000, .ticket = 1}, data);
  EXPECT_TRUE(link.has_outgoing());
  link.reply(2, {.clock_ps = 50, .value = 6});
  EXPECT_EQ(link.shared()->threads[2].reply.deliveries, 1U);
  channel::Welcome first{};
  channel::SharedMemories memories{};
  ASSERT_TRUE(channel::receive_welcome(rank.get(), first, memories));
  for (const int memory : memories) ::close(memory);
  EXPECT_EQ(first.process, 4);
  std::size_t got = 0;
  while (link.has_outgoing()) {
    link.flush();
    std::array<std::byte, 65536> part{};
    for (ssize_t read = 0; (read = recv(rank.get(), part.data(), part.size(), 0)) > 0;)
      got += static_cast<std::size_t>(read);
  }
  EXPECT_EQ(got, sizeof(channel::Delivery) + data.size());
}

TEST_F(RankLinkTest, AnAnswerMovesTheClockOfWhoHasOne) {
  welcome();
  channel::ThreadSlot& slot = link.shared()->threads[1];
  slot.clock_ps = 30;
  link.reply(1, {.clock_ps = 20, .value = 6});
  EXPECT_EQ(slot.clock_ps, 30);
  EXPECT_EQ(slot.reply.value, 6);
  link.reply(1, {.clock_ps = 40});
  EXPECT_EQ(slot.clock_ps, 40);
  EXPECT_EQ(slot.replies.value(), 2U);
  slot.state = channel::ThreadState::background;
  link.reply(1, {.clock_ps = 90});
  EXPECT_EQ(slot.clock_ps, 40);
}

TEST_F(RankLinkTest, AfterItsEndNothingHappens) {
  welcome();
  link.close();
  EXPECT_EQ(link.shared(), nullptr);
  link.send({}, {});
  link.reply(0, {});
  EXPECT_FALSE(link.has_outgoing());
  EXPECT_TRUE(taken().empty());
}

}  // namespace
}  // namespace phantora::run
