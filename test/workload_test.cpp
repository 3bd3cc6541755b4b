#include <phantora/error.hpp>
#include <phantora/simulation/workload.hpp>

#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace phantora {
namespace {

using namespace std::chrono_literals;

/// Every kind of operation, and every field of a kernel.
Workload everything() {
  Workload w;
  CostEstimate known{.duration = 35us, .stddev = 1us, .source = CostSource::fitted};
  known.limit = KernelLimit::arithmetic;
  known.demand = 0.25;
  known.memory_share = 0.5;
  KernelQuery launched{.name = "void f<int>(\"x\")\n"};
  launched.grid = KernelQuery::Dim3{3, 2, 1};
  launched.block = {128, 1, 1};
  launched.shared_bytes = 7;
  launched.bytes = 1e9 / 3;
  launched.flops = 1e300;
  launched.arithmetic = Arithmetic::tf32;
  launched.features["numel"] = 0.1;
  launched.attributes["type"] = "bf16";
  const std::vector<Rank> all{2, 0, 1}, two{1, 2};
  w.launch(0, gemm(128, 256, 512)).launch(1, Kernel{launched, known}, 3).launch(2, launched);
  w.all_reduce(all, 64_MiB).collective(0, all, CollectiveOp::broadcast, 0_B, 1, 2);
  const std::vector<GroupedCollective> grouped{
      {CollectiveOp::reduce, 5_B, 2, -7}, {CollectiveOp::all_gather, 6_B}, {CollectiveOp::barrier}};
  w.collectives(2, all, grouped, 4);
  w.send(1, 2, 3_KiB).receive(2, 1, 3_KiB, 9);
  const std::vector<SendRecv> parts{{0, 1, 1_B}, {1, 0, 2_B}, {0, 0, 3_B}};
  w.exchange(1, two, parts);
  const Workload::Event event = w.record(0);
  w.wait(2, event, 5).order(1, 0, 3).host(0, 20us).synchronize(0, event).synchronize(1);
  const Workload::Block weights = w.allocate(0, 1_GB, "weights");
  w.allocate(0, 1_B);
  w.free(weights).end_step(1).end_step(2, 0);
  return w;
}

/// What version 1 of the written forms has no words for.
Workload everything_of_threads() {
  Workload w = everything();
  const std::vector<Rank> all{2, 0, 1}, two{1, 2};
  const std::vector<GroupedCollective> one{{CollectiveOp::reduce, 5_B, 2, -7}};
  w.collectives(2, w.group(all, 3), one, 4);
  const std::vector<SendRecv> parts{{0, 1, 1_B}};
  w.exchange(1, w.group(two, 1), parts);
  w.thread(0, 7).host(0, 1us);
  const Workload::Event mark = w.mark(0);
  w.thread(0, 0).synchronize(0, mark).synchronize(2, mark);
  return w;
}

template <typename T>
concept GivesViews = requires(T&& workload) {
  std::forward<T>(workload).operations(0);
  std::forward<T>(workload).kernels();
};
static_assert(GivesViews<Workload&> && GivesViews<const Workload&>);
static_assert(!GivesViews<Workload> && !GivesViews<const Workload>);

TEST(Workload, NumbersWhatItMakes) {
  Workload w;
  EXPECT_EQ(w.record(1), (Workload::Event{1, 0}));
  EXPECT_EQ(w.record(1, 5), (Workload::Event{1, 1}));
  EXPECT_EQ(w.record(0), (Workload::Event{0, 0}));
  EXPECT_EQ(w.allocate(0, 1_B), (Workload::Block{0, 0}));
  EXPECT_EQ(w.rank_count(), 2U);
  EXPECT_EQ(w.operation_count(), 4U);
}

TEST(Workload, KeepsEqualThingsOnce) {
  Workload w;
  const std::vector<Rank> pair{0, 1}, turned{1, 0};
  for (const Rank rank : pair) {
    w.launch(rank, gemm(8, 8, 8)).launch(rank, gemm(8, 8, 8)).launch(rank, gemm(8, 8, 16));
    w.allocate(rank, 1_B, "x");
  }
  w.all_reduce(pair, 1_MiB).all_reduce(pair, 1_MiB).all_reduce(turned, 1_MiB);
  EXPECT_EQ(w.kernels().size(), 2U);
  EXPECT_EQ(w.groups().size(), 2U);  // whose ranks come in another order is another communicator
  EXPECT_EQ(w.calls().size(), 2U);
  EXPECT_EQ(w.labels().size(), 1U);
  EXPECT_EQ(w.operation_count(), 2U * (4 + 3));
}

TEST(Workload, IsEqualHoweverItWasTold) {
  const auto told = [](std::vector<Rank> order) {
    Workload w;
    const std::vector<Rank> group{0, 1};
    for (const Rank rank : order) {
      w.launch(rank, gemm(8 + rank, 8, 8));
      w.collective(rank, group, CollectiveOp::all_reduce, 1_MiB);
    }
    return w;
  };
  const Workload a = told({0, 1}), b = told({1, 0});
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.hash(), b.hash());
  EXPECT_EQ(a.to_json(), b.to_json());
  Workload c = told({0, 1});
  c.host(1, Duration{1});
  EXPECT_FALSE(a == c);
  EXPECT_NE(a.hash(), c.hash());
  Workload together;
  together.launch(0, gemm(8, 8, 8)).launch(1, gemm(9, 8, 8)).all_reduce({0, 1}, 1_MiB);
  EXPECT_EQ(a, together);
}

TEST(Workload, CopiesAreIndependent) {
  Workload a = everything();
  const Workload b = a;
  EXPECT_EQ(a, b);
  a.launch(0, gemm(1, 2, 3));
  EXPECT_FALSE(a == b);
}

TEST(Workload, ComesBackAsItWasWritten) {
  const Workload w = everything();
  EXPECT_EQ(Workload::from_binary(w.to_binary()), w);
  EXPECT_EQ(Workload::from_json(w.to_json()), w);
  EXPECT_EQ(Workload::from_json(w.to_json()).to_json(), w.to_json());
  // And goes on as it would have.
  Workload read = Workload::from_json(w.to_json()), copy = w;
  for (Workload* it : {&read, &copy}) it->wait(0, it->record(1)).synchronize(2).allocate(0, 2_B);
  EXPECT_EQ(read, copy);
  EXPECT_EQ(Workload::from_binary(Workload{}.to_binary()), Workload{});
  EXPECT_EQ(Workload::from_json(Workload{}.to_json()), Workload{});
}

TEST(Workload, IsCompact) {
  // 100 launches of one kernel: the number of the kernel, that of the kind and that of the stream.
  Workload w;
  w.launch(0, gemm(8, 8, 8));
  const std::size_t one = w.to_binary().size();
  for (int i = 1; i < 100; ++i) w.launch(0, gemm(8, 8, 8));
  EXPECT_EQ(w.to_binary().size() - one, 99U * 3);
  EXPECT_EQ(sizeof(Workload::Operation), 24U);
}

TEST(Workload, IsSavedAndLoaded) {
  const Workload w = everything();
  for (const std::string name : {"workload.json", "workload.rec"}) {
    const std::string path = testing::TempDir() + name;
    w.save(path);
    EXPECT_EQ(Workload::load(path), w);
  }
  EXPECT_THROW(w.save("/no/such/folder/x"), Error);
  EXPECT_THROW((void)Workload::load("/no/such/folder/x"), ConfigError);
}

/// What version 3 has no words for.
Workload everything_of_ranges() {
  Workload w = everything_of_threads();
  const Workload::Event begin = w.mark(1);
  w.range(1, begin, "step").range(2, begin, "weights");
  CostEstimate hot{.duration = 35us};
  hot.power_share = 0.75;
  w.launch(0, Kernel{{.name = "hot"}, hot});
  return w;
}

template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(Workload, IsWrittenInTheEarliestVersionThatCanSayIt) {
  EXPECT_NE(everything().to_json().find("\"phantora_workload\": 1,"), std::string::npos);
  EXPECT_EQ(everything().to_json().find("instances"), std::string::npos);
  const Workload threads = everything_of_threads();
  EXPECT_NE(threads.to_json().find("\"phantora_workload\": 2,"), std::string::npos);
  EXPECT_EQ(Workload::from_json(threads.to_json()), threads);
  EXPECT_EQ(Workload::from_binary(threads.to_binary()), threads);
  EXPECT_EQ(Workload::from_binary(threads.to_binary()).hash(), threads.hash());
}

TEST(Workload, OperandsAreOfVersion6) {
  Workload w;
  KernelQuery query = elementwise(1 << 20, 2, ElementType::bf16);
  query.operands = {.read = 4194304, .written = 2097152, .cold = 524288};
  w.launch(0, query);
  EXPECT_NE(w.to_json().find("\"phantora_workload\": 6,"), std::string::npos);
  EXPECT_NE(w.to_json().find("\"cold\""), std::string::npos);
  EXPECT_EQ(Workload::from_json(w.to_json()), w);
  EXPECT_EQ(Workload::from_binary(w.to_binary()), w);
}

TEST(Workload, WhatDataTellIsOfVersion7) {
  Workload w;
  KernelQuery query = elementwise(1 << 20, 2, ElementType::bf16);
  query.by_data = {{"bytes", 4194304}, {"fma", 0}};
  w.launch(0, query);
  EXPECT_NE(w.to_json().find("\"phantora_workload\": 7,"), std::string::npos);
  EXPECT_NE(w.to_json().find("\"by_data\""), std::string::npos);
  EXPECT_EQ(Workload::from_json(w.to_json()), w);
  EXPECT_EQ(Workload::from_binary(w.to_binary()), w);
}

TEST(Workload, PrioritiesAreOfVersion5) {
  Workload w = everything_of_ranges();
  w.prioritize(1, -5, 3);
  EXPECT_NE(w.to_json().find("\"phantora_workload\": 5,"), std::string::npos);
  EXPECT_NE(w.to_json().find("[\"priority\",-5,3]"), std::string::npos);
  EXPECT_EQ(Workload::from_json(w.to_json()), w);
  EXPECT_EQ(Workload::from_binary(w.to_binary()), w);
  EXPECT_NE(w, everything_of_ranges());
  EXPECT_EQ(w.describe(1, w.operations(1).size() - 1), "priority -5");
}

TEST(Workload, RangesAndPowerAreOfVersion4) {
  const Workload w = everything_of_ranges();
  EXPECT_NE(w.to_json().find("\"phantora_workload\": 4,"), std::string::npos);
  EXPECT_NE(w.to_json().find("[\"range\",1,"), std::string::npos);
  EXPECT_EQ(Workload::from_json(w.to_json()), w);
  EXPECT_EQ(Workload::from_binary(w.to_binary()), w);
  EXPECT_EQ(w.describe(2, w.operations(2).size() - 1), "range weights");
  // Neither is taken for what it is not in a workload that says that it is of an earlier version.
  std::string older = w.to_json();
  older.replace(older.find("\"phantora_workload\": 4"), 22, "\"phantora_workload\": 3");
  EXPECT_NE(refusal([&] { (void)Workload::from_json(older); }).find("power_share"),
            std::string::npos);
  std::string bytes = w.to_binary();
  bytes[sizeof "PHANTORA-WORKLOAD\n" - 1] = 3;
  EXPECT_THROW((void)Workload::from_binary(bytes), ConfigError);
}

// What was written before kernels said what power they draw.
TEST(Workload, ReadsKnownKernelsOfVersion1) {
  using namespace std::string_literals;
  const std::string kernel =
      "\1k"s         // name
      "\0\3\1\1\1"s  // no grid; block
      "\0"s          // shared bytes
      + std::string(16, '\0') +
      "\0\0\0"s      // arithmetic, features, attributes
      "\1"s          // known:
      "\x05\x01\0"s  // 5 ps +- 1, measured
      "\0\0\0"s;     // no limit, demand or share of the memory
  const std::string bytes =
      "PHANTORA-WORKLOAD\n"
      "\1\1"s +
      kernel +
      "\0\0\0\0"s     // groups, calls, messages, labels
      "\1\1\0\0\0"s;  // a rank's launch
  const CostEstimate known{
      .duration = Duration{5}, .stddev = Duration{1}, .source = CostSource::measured};
  Workload w;
  w.launch(0, Kernel{{.name = "k"}, known});
  EXPECT_EQ(Workload::from_binary(bytes), w);
  EXPECT_EQ(w.to_binary(), bytes);
  // Some days' builds wrote another byte there: whatever it is taken for, it is not passed over.
  std::string one_more = bytes;
  one_more.insert(one_more.find("\0\0\0\0\1\1"s), 1, '\0');
  EXPECT_EQ(refusal([&] { (void)Workload::from_binary(one_more, "job.rec"); }),
            "job.rec: byte 59: expected the end, got 5 more bytes");
}

TEST(Workload, KeepsWhereItComesFrom) {
  const Workload::Origin origin{{"cluster", "h200:2x8"}, {"NCCL_ALGO", "Ring"}};
  Workload told = everything();
  told.set_origin(origin);
  EXPECT_EQ(told, everything());
  EXPECT_EQ(told.hash(), everything().hash());
  EXPECT_NE(told.to_json().find("\"phantora_workload\": 3,"), std::string::npos);
  EXPECT_EQ(Workload::from_json(told.to_json()).origin(), origin);
  EXPECT_EQ(Workload::from_binary(told.to_binary()).origin(), origin);
  EXPECT_EQ(Workload::from_binary(told.to_binary()), told);
  EXPECT_TRUE(everything().origin().empty());
}

TEST(Workload, TellsGroupsOfTheSameRanksApart) {
  Workload w;
  const std::vector<Rank> ranks{0, 1};
  const auto first = w.group(ranks, 0), second = w.group(ranks, 1);
  EXPECT_NE(first.value, second.value);
  EXPECT_EQ(w.group(ranks, 1).value, second.value);
  EXPECT_EQ(w.instances(), (std::vector<std::uint32_t>{0, 1}));
  Workload other = w;
  const std::vector<GroupedCollective> one{{CollectiveOp::all_reduce, 5_B}};
  w.collectives(0, first, one);
  other.collectives(0, second, one);
  EXPECT_NE(w, other);
}

TEST(Workload, ScalesWhatItsHostsWork) {
  Workload w;
  w.host(0, 3us).launch(0, gemm(8, 8, 8)).host(1, 5us);
  w.scale_host_time(0.5);
  EXPECT_EQ(std::get<Workload::Host>(w.operations(0)[0]).time, 1500ns);
  EXPECT_EQ(std::get<Workload::Host>(w.operations(1)[0]).time, 2500ns);
  EXPECT_THROW(w.scale_host_time(-1), ArgumentError);
}

TEST(Workload, StreamsDoNotWaitForHosts) {
  Workload w;
  const Workload::Event mark = w.mark(0);
  EXPECT_THROW(w.wait(0, mark), ArgumentError);
  EXPECT_THROW((void)Workload::from_json(
                   R"({"phantora_workload": 2, "kernels": [], "groups": [], "instances": [],
 "calls": [], "messages": [], "labels": [], "ranks": [[["mark"], ["wait", 0, 0, 0]]]})"),
               ConfigError);
}

TEST(Workload, RefusesWhatCannotBe) {
  using testing::PrintToString;
  Workload w;
  w.record(0);
  const auto block = w.allocate(0, 1_B);
  w.free(block);
  const std::vector<Rank> group{0, 1}, twice{0, 1, 0};
  const auto begins = [](const std::string& text, const std::string& begin) {
    EXPECT_EQ(text.substr(0, begin.size()), begin);
  };
  begins(refusal([&] { w.free(block); }), "block 0 of rank 0 has been freed");
  begins(refusal([&] { w.free({0, 7}); }), "rank 0 has allocated no block 7");
  begins(refusal([&] { w.wait(1, {0, 1}); }), "rank 0 has recorded no event 1");
  begins(refusal([&] {
           w.synchronize(0, Workload::Event{4, 0});
         }),
         "rank 4 has recorded no event 0");
  begins(refusal([&] { w.all_reduce(twice, 1_B); }), "a group has each rank once, rank 0 too");
  begins(refusal([&] { w.all_reduce(std::vector<Rank>{}, 1_B); }), "a group has ranks");
  begins(refusal([&] { w.all_reduce(group, Bytes{-1}); }), "a collective's size is not negative");
  begins(refusal([&] { w.collective(group, CollectiveOp::broadcast, 1_B, 0, 2); }),
         "a group of 2 has no root 2");
  begins(refusal([&] { w.collective(2, group, CollectiveOp::all_reduce, 1_B); }),
         "rank 2 is not in the group of ranks 0, 1");
  begins(refusal([&] { w.send(1, 1, 1_B); }), "rank 1 sends nothing to itself");
  begins(refusal([&] { w.host(0, Duration{-1}); }), "a host's time is not negative");
  begins(refusal([&] { w.range(0, {0, 9}, "step"); }), "rank 0 has recorded no event 9");
  begins(refusal([&] {
           w.launch(0, Kernel{{}, CostEstimate{.duration = Duration{-1}}});
         }),
         "a kernel's time is not negative");
  begins(refusal([&] { w.host(0xffff'ffff, Duration{1}); }), "no rank 4294967295");
  EXPECT_EQ(w.rank_count(), 1U);
  EXPECT_EQ(w.operation_count(), 3U);
}

TEST(Workload, JsonErrorsNameLineAndField) {
  const std::string good = R"({
 "phantora_workload": 1,
 "kernels": [],
 "groups": [
  [0, 1]],
 "calls": [
  {"group": 0, "operations": [["all_reduce", 1024, 0, 0]]}],
 "messages": [],
 "labels": [],
 "ranks": [
  [["host", 5],
   ["collective", 0, 0]],
  [["collective", 0, 0]]]
})";
  EXPECT_EQ(Workload::from_json(good).operation_count(), 3U);
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const auto at = text.find(from);
    EXPECT_NE(at, text.npos) << from;
    text.replace(at, from.size(), to);
    return refusal([&] { (void)Workload::from_json(text, "job.json"); });
  };
  EXPECT_EQ(changed("[\"host\", 5]", "[\"host\", -5]"),
            "job.json: line 11, ranks[0][0][1]: expected a whole number >= 0, got -5");
  EXPECT_EQ(
      changed("[\"host\", 5]", "[\"host\"]"),
      "job.json: line 11, ranks[0][0]: expected a list that goes on with: ps, got [\"host\"]");
  EXPECT_EQ(changed("[\"host\", 5]", "[\"host\", 5, 6]"),
            "job.json: line 11, ranks[0][0]: expected 2 entries, got [\"host\",5,6]");
  EXPECT_EQ(changed("[\"host\", 5]", "[\"hots\", 5]"),
            "job.json: line 11, ranks[0][0][0]: expected one of launch collective exchange record "
            "wait synchronize host allocate free end_step, got \"hots\"");
  EXPECT_EQ(changed("\"collective\", 0, 0]],", "\"collective\", 1, 0]],"),
            "job.json: line 12, ranks[0][1][1]: expected 0, got 1");
  EXPECT_EQ(changed("[\"host\", 5]", "[\"wait\", 1, 3, 0]"),
            "job.json: line 11, ranks[0][0]: rank 1 has recorded no event 3");
  EXPECT_EQ(changed("[0, 1]", "[0, 0]"),
            "job.json: line 5, groups[0]: a group has each rank once, rank 0 too");
  EXPECT_EQ(changed("[0, 1]", "[0, 2]"),
            "job.json: line 13, ranks[1][0]: rank 1 is not in the group of ranks 0, 2");
  EXPECT_EQ(changed("\"group\": 0", "\"gruop\": 0"),
            "job.json: line 7, calls[0]: expected an object with the field group, got "
            "{\"gruop\":0,\"operations\":[[\"all_reduce\",1024,0,0]]}");
  EXPECT_EQ(changed("\"labels\"", "\"lables\""),
            "job.json: line 1: expected an object with the field labels, got "
            "{\"phantora_workload\":1,\"kernels\":[],\"groups\":[[0,1]],\"calls\":[{\"group\":0,"
            "\"operat...");
  EXPECT_EQ(changed("\"messages\": []", "\"messages\": [],\n \"more\": 1"),
            "job.json: line 9, more: expected no such field; one of phantora_workload kernels "
            "groups calls messages labels ranks, got 1");
  EXPECT_EQ(changed("workload\": 1", "workload\": 8"),
            "job.json: line 2, phantora_workload: expected a whole number from 1 to 7, got 8");
  EXPECT_EQ(changed("1024", "9223372036854775808").substr(0, 44),
            "job.json: line 7, calls[0].operations[0][1]:");
  EXPECT_EQ(changed("[0, 1]", "[0, 1").substr(0, 39), "job.json: parse error at line 6, column");
}

TEST(Workload, JsonDoesNotNestWithoutEnd) {
  EXPECT_EQ(refusal([] { (void)Workload::from_json(std::string(1'000'000, '['), "job.json"); }),
            "job.json: expected lists and objects that nest up to 16 deep, got more");
}

TEST(Workload, BinaryErrorsNameByteAndField) {
  Workload w;
  w.launch(0, gemm(8, 8, 8)).host(0, Duration{5});
  std::string bytes = w.to_binary();
  EXPECT_EQ(
      refusal([&] { (void)Workload::from_binary(bytes + "x", "job.rec"); }),
      "job.rec: byte " + std::to_string(bytes.size()) + ": expected the end, got 1 more bytes");
  bytes[bytes.size() - 4] = 1;  // the launch's kernel
  EXPECT_EQ(refusal([&] { (void)Workload::from_binary(bytes, "job.rec"); }),
            "job.rec: byte " + std::to_string(bytes.size() - 4) +
                ", ranks[0][0].kernel: expected 0, got 1");
  EXPECT_EQ(refusal([&] { (void)Workload::from_binary("hello", "job.rec"); }),
            "job.rec: byte 0: expected a workload, got other bytes");
}

/// What is read is read back as it was written; what is not is refused by an Error.
template <class Read, class Write>
void survives(const std::string& text, Read read, Write write) {
  try {
    const Workload w = read(text);
    ASSERT_EQ(read(write(w)), w) << text;
    ASSERT_EQ(Workload::from_binary(w.to_binary()), w);
  } catch (const ConfigError& error) {
    ASSERT_NE(std::string_view{error.what()}.find("workload: "), std::string::npos);
  }
}

void reads_any_bytes_or_refuses_them(const Workload& w) {
  const auto json = [](const std::string& text) { return Workload::from_json(text); };
  const auto binary = [](const std::string& text) { return Workload::from_binary(text); };
  const auto to_json = [](const Workload& it) { return it.to_json(); };
  const auto to_binary = [](const Workload& it) { return it.to_binary(); };
  const std::string text = w.to_json(), bytes = w.to_binary();
  for (std::size_t cut = 0; cut < text.size() - 2; ++cut)
    EXPECT_THROW((void)json(text.substr(0, cut)), ConfigError) << cut;
  for (std::size_t cut = 0; cut < bytes.size(); ++cut)
    EXPECT_THROW((void)binary(bytes.substr(0, cut)), ConfigError) << cut;
  std::mt19937_64 random{1};
  const std::string letters = "0123456789-,[]{}\":. eE\nx\xff";
  for (int i = 0; i < 20'000; ++i) {
    std::string changed = i % 2 == 0 ? text : bytes;
    for (std::uint64_t n = random() % 3 + 1; n > 0; --n) {
      const std::size_t at = random() % changed.size();
      const char letter =
          i % 2 == 0 ? letters[random() % letters.size()] : static_cast<char>(random());
      switch (random() % 3) {
        case 0:
          changed[at] = letter;
          break;
        case 1:
          changed.erase(at, random() % 4 + 1);
          break;
        default:
          changed.insert(at, 1, letter);
      }
    }
    if (i % 2 == 0) {
      survives(changed, json, to_json);
    } else {
      survives(changed, binary, to_binary);
    }
  }
}

TEST(Workload, ReadsAnyBytesOrRefusesThem) { reads_any_bytes_or_refuses_them(everything()); }
TEST(Workload, ReadsAnyBytesOfRangesOrRefusesThem) {
  reads_any_bytes_or_refuses_them(everything_of_ranges());
}

}  // namespace
}  // namespace phantora
