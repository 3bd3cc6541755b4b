#include <phantora/error.hpp>
#include <phantora/kernels/builtin_cost_model.hpp>
#include <phantora/kernels/gpu_model.hpp>
#include <phantora/simulation/simulation.hpp>
#include <phantora/simulation/traces.hpp>
#include <phantora/simulation/transformer.hpp>

#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace phantora {
namespace {

using namespace std::chrono_literals;

const KernelCostModel& costs() {
  static const KernelCostModel model = builtin_cost_model(gpu_model("h200"));
  return model;
}
Duration makespan(const Workload& workload) {
  return Simulation{parse_cluster("h200:2x8")}.run(workload).makespan;
}

// --- Protocol buffers by hand, to be independent of the library's ---

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80U; value >>= 7U) bytes += static_cast<char>(value | 0x80U);
  return bytes + static_cast<char>(value);
}
std::string number(int field, std::uint64_t value) {
  return varint(static_cast<std::uint64_t>(field) << 3U) + varint(value);
}
std::string text(int field, const std::string& value) {
  return varint(static_cast<std::uint64_t>(field) << 3U | 2U) + varint(value.size()) + value;
}
std::string attribute(const std::string& name, int field, std::uint64_t value) {
  return text(10, text(1, name) + number(field, value));
}
std::string node(int id, int type, const std::string& more) {
  const std::string bytes = number(1, static_cast<std::uint64_t>(id)) +
                            text(2, "n" + std::to_string(id)) +
                            number(3, static_cast<std::uint64_t>(type)) + more;
  return varint(bytes.size()) + bytes;
}
/// After the metadata.
std::string file(const std::vector<std::string>& nodes) {
  std::string bytes = varint(7) + text(1, "0.0.4");
  for (const std::string& it : nodes) bytes += it;
  return bytes;
}
std::string gpu(std::uint64_t micros) { return number(7, micros) + attribute("is_cpu_op", 27, 0); }
std::string after(std::uint64_t id) { return number(5, id); }
constexpr int compute = 4, send = 5, receive = 6, collective = 7;

TEST(Chakra, IsWrittenAsTheSchemaSays) {
  Workload w;
  w.launch(0, known_time(2600us, "k"), 3);
  const ChakraTrace trace = to_chakra(w, costs());
  ASSERT_EQ(trace.ranks.size(), 1U);
  const std::string expected = number(1, 1) + text(2, "k") + number(3, compute) +
                               attribute("is_cpu_op", 27, 0) + number(7, 2600) +
                               attribute("duration_ps", 9, 2'600'000'000) +
                               attribute("limit", 9, 1) + attribute("stream", 9, 3);
  EXPECT_EQ(trace.ranks[0], varint(7) + text(1, "0.0.4") + varint(expected.size()) + expected);
  EXPECT_EQ(trace.groups, "");
}

TEST(Chakra, ComesBackWithTheSameTime) {
  const TransformerShape small{.layers = 4,
                               .hidden = 1024,
                               .heads = 16,
                               .mlp = 4096,
                               .vocabulary = 32000,
                               .sequence = 1024,
                               .experts = 8};
  for (const auto& way :
       {Parallelism{.tensor = 2, .pipeline = 2, .data = 2, .batch = 8, .context = 2},
        Parallelism{.pipeline = 2,
        .data = 4,
        .batch = 8,
        .expert = 4,
        .chunks = 2,
        .schedule = PipelineSchedule::zero_bubble,
        .sharding = Sharding::parameters}}) {
    const Workload w = training_steps(small, way);
    const TraceWorkload back = from_chakra(to_chakra(w, costs()));
    EXPECT_TRUE(back.notes.empty());
    // How much of the GPU a kernel takes, which matters beside communication, is not written down.
    EXPECT_NEAR(to_seconds(makespan(back.workload)), to_seconds(makespan(w)),
                1e-3 * to_seconds(makespan(w)));
    // And its trace is the same trace.
    EXPECT_EQ(to_chakra(back.workload, costs()).ranks.size(), w.rank_count());
  }
}

TEST(Chakra, KeepsHostsStreamsAndGroupsOfCalls) {
  Workload w;
  const std::vector<Rank> both{1, 0};
  const std::vector<GroupedCollective> grouped{{CollectiveOp::reduce, 5_MiB, 1, 7},
                                               {CollectiveOp::all_gather, Bytes{1000001}},
                                               {CollectiveOp::barrier}};
  const std::vector<SendRecv> parts{{0, 1, 1_MiB}, {1, 0, 2_MiB}, {0, 0, 3_B}, {1, 1, 3_B}};
  for (const Rank rank : both) {
    const std::vector<SendRecv> mine{parts[0], parts[1], parts[rank == 1 ? 2 : 3]};
    w.host(rank, 10us).launch(rank, known_time(1500ns), 2).order(rank, 2, 5);
    w.collectives(rank, both, grouped, 5).exchange(rank, both, mine, 5);
    w.launch(rank, known_time(100us), 2).synchronize(rank).host(rank, 30us);
    w.launch(rank, gemm(1024, 1024, 1024), 0);
  }
  const Workload back = from_chakra(to_chakra(w, costs())).workload;
  EXPECT_EQ(back.calls().size(), 1U);
  EXPECT_EQ(back.calls()[0].operations.size(), 3U);
  EXPECT_EQ(back.calls()[0].operations[0].type, 7);
  EXPECT_EQ(back.calls()[0].operations[1].total, Bytes{1000001});
  EXPECT_EQ(back.calls()[0].operations[2].op, CollectiveOp::barrier);
  EXPECT_EQ(back.messages().size(), 2U);
  EXPECT_EQ(makespan(back), makespan(w));
}

TEST(Chakra, KeepsThreadsAndGroupsOfTheSameRanks) {
  Workload w;
  const std::vector<Rank> both{0, 1};
  for (const Rank rank : both) {
    const auto first = w.group(both, 0), second = w.group(both, 1);
    const std::vector<GroupedCollective> one{{CollectiveOp::all_reduce, 1_MiB}},
        other{{CollectiveOp::all_reduce, 2_MiB}};
    // The ranks call their two groups in another order, each on a stream of its own.
    w.host(rank, 10us).thread(rank, 1).host(rank, 50us);
    const Workload::Event mark = w.mark(rank);
    w.thread(rank, 0).synchronize(rank, mark).host(rank, 5us);
    if (rank == 0)
      w.collectives(rank, first, one, 1).collectives(rank, second, other, 2);
    else
      w.collectives(rank, second, other, 2).collectives(rank, first, one, 1);
  }
  const TraceWorkload back = from_chakra(to_chakra(w, costs()));
  EXPECT_EQ(makespan(back.workload), makespan(w));
  EXPECT_EQ(back.workload.instances(), w.instances());
}

TEST(Chakra, RoundedTimesKeepTheirSum) {
  Workload w;
  for (int i = 0; i < 1000; ++i) w.launch(0, known_time(1400ns));
  const std::string bytes = to_chakra(w, costs()).ranks[0];
  // What a reader of the whole microseconds alone adds up.
  std::uint64_t sum = 0;
  for (std::size_t at = 8; at < bytes.size();) {
    const auto length = static_cast<unsigned char>(bytes[at]);
    ASSERT_LT(length, 128);
    const std::string one = bytes.substr(at + 1, length);
    sum += static_cast<unsigned char>(one[one.find("is_cpu_op") + 9 + 4]);
    at += length + 1U;
  }
  EXPECT_EQ(sum, 1400U);
}

TEST(Chakra, ReadsTracesOfOthers) {
  // No streams: kernels take turns, and so do the collectives of a group, beside them. The last
  // kernel waits for the collective; node 5 is metadata and stands for what it waits for.
  const auto rank = [](bool first) {
    return file(
        {node(1, compute, gpu(100)),
         node(2, collective,
              after(1) + attribute("is_cpu_op", 27, 0) + attribute("comm_type", 9, 0) +
                  attribute("comm_size", 9, 64 << 20)),
         node(3, compute, gpu(200) + after(1)), node(5, 1, after(2)),
         node(4, compute, gpu(50) + after(5)),
         first ? node(6, send,
                      attribute("comm_dst", 7, 1) + attribute("comm_size", 9, 1 << 20) +
                          attribute("comm_tag", 7, 9) + after(4))
               : node(6, receive,
                      attribute("comm_src", 7, 0) + attribute("comm_size", 9, 1 << 20) + after(4)),
         node(7, compute, number(7, 1000))});
  };
  const TraceWorkload trace = from_chakra({{rank(true), rank(false)}, ""}, "t");
  EXPECT_EQ(trace.notes.size(), 2U);
  EXPECT_EQ(trace.notes[0],
            "t.0.et: 1 nodes that are neither computation nor communication, taken as no time");
  const Workload& w = trace.workload;
  EXPECT_EQ(w.describe(0, 3), "all_reduce of 67108864 bytes by ranks 0, 1");
  // The host's 1 ms hides all the rest, which has no time to begin but its own.
  const Report report = Simulation{parse_cluster("h200:1x2")}.run(w);
  EXPECT_EQ(report.makespan, 1ms);
  EXPECT_GT(report.ranks[0].computing, 350us);
}

TEST(Chakra, KernelsWithoutATimeCostTheirWork) {
  const TraceWorkload trace = from_chakra(
      {{file({node(1, compute,
                   attribute("is_cpu_op", 27, 0) + attribute("num_ops", 9, 1'000'000'000'000) +
                       attribute("tensor_size", 13, 1000))})},
       ""});
  const double seconds = to_seconds(makespan(trace.workload));
  EXPECT_GT(seconds, 1e12 / 989e12);
  EXPECT_LT(seconds, 2 * 1e12 / 989e12);
}

TEST(Chakra, GroupsAreThoseOfTheFile) {
  const auto rank = [](const std::string& name) {
    return file({node(1, collective,
                      attribute("is_cpu_op", 27, 0) + attribute("comm_type", 9, 2) +
                          attribute("comm_size", 9, 1024) +
                          text(10, text(1, "pg_name") + text(29, name)))});
  };
  const std::string groups = R"({"7": [0, 2], "8": [1, 3]})";
  const Workload w = from_chakra({{rank("7"), rank("8"), rank("7"), rank("8")}, groups}).workload;
  // comm_size is what a rank gives.
  EXPECT_EQ(w.describe(0, 0), "all_gather of 2048 bytes by ranks 0, 2");
  EXPECT_EQ(w.describe(3, 0), "all_gather of 2048 bytes by ranks 1, 3");
}

std::string error_of(const ChakraTrace& trace) {
  try {
    (void)from_chakra(trace, "t");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Chakra, ErrorsNamePlaceAndField) {
  EXPECT_EQ(error_of({{"\x09"}, ""}),
            "t.0.et: byte 0: message: expected its length and as many bytes");
  EXPECT_EQ(error_of({{file({node(1, compute, ""), node(1, compute, "")})}, ""}),
            "t.0.et: byte 18: node 1 (n1): id: expected one that no other node has");
  EXPECT_EQ(error_of({{file({node(1, compute, after(2))})}, ""}),
            "t.0.et: byte 9: node 1 (n1): data_deps: expected ids of nodes, not 2");
  EXPECT_EQ(
      error_of({{file({node(1, compute, after(2)), node(2, compute, after(1))})}, ""}),
      "t.0.et: byte 9: node 1 (n1): data_deps: expected nodes that do not wait for one another");
  EXPECT_EQ(error_of({{file({node(1, collective, attribute("comm_type", 9, 0))})}, ""}),
            "t.0.et: byte 9: node 1 (n1): comm_size: expected 0 to 2^50 bytes");
  EXPECT_EQ(error_of({{file({node(1, collective, attribute("comm_type", 9, 10))})}, ""}),
            "t.0.et: byte 9: node 1 (n1): comm_type: expected 0 to 9");
  EXPECT_EQ(error_of({{file({node(1, send, attribute("comm_dst", 7, 1))})}, ""}),
            "t.0.et: byte 9: node 1 (n1): comm_dst: expected a rank below 1");
  EXPECT_EQ(error_of({{file({})}, "[]"}), "t: groups: expected lists of ranks by name, as JSON");
  EXPECT_EQ(error_of({{file({})}, R"({"a": [0, 0]})"}),
            "t: groups: a: expected a list of different ranks below 1");
  EXPECT_THROW((void)read_chakra("no/such"), ConfigError);
  // A trace has no words for one rank's wait for another's event.
  Workload w;
  w.wait(1, w.record(0));
  EXPECT_THROW((void)to_chakra(w, costs()), ConfigError);
}

TEST(Chakra, IsSavedAndLoaded) {
  const std::string prefix = ::testing::TempDir() + "chakra_test";
  const Workload w = training_steps({.layers = 1, .hidden = 1024, .heads = 16, .mlp = 2048},
                                    {.tensor = 2, .batch = 1});
  write_chakra(w, costs(), prefix);
  EXPECT_EQ(makespan(read_chakra(prefix).workload), makespan(w));
  std::ifstream groups{prefix + ".groups.json"};
  std::string line;
  std::getline(groups, line);
  EXPECT_EQ(line, "{");
}

TEST(Chakra, ReadsAnyBytesOrRefusesThem) {
  Workload w;
  const std::vector<Rank> both{0, 1};
  const std::vector<SendRecv> parts{{0, 1, 1_MiB}, {1, 0, 2_MiB}};
  for (const Rank rank : both) {
    w.launch(rank, gemm(1024, 1024, 1024)).order(rank, 0, 1).exchange(rank, both, parts, 1);
    w.synchronize(rank).host(rank, 5us).launch(rank, known_time(3us), 1);
  }
  w.all_reduce(both, 1_MiB, 1);
  const ChakraTrace trace = to_chakra(w, costs());
  for (std::size_t cut = 1; cut < trace.ranks[0].size(); ++cut) {
    ChakraTrace shorter = trace;
    shorter.ranks[0].resize(cut);
    try {
      (void)from_chakra(shorter);  // between two messages
    } catch (const ConfigError&) {
    }
  }
  std::mt19937_64 random{1};
  int read_again = 0;
  for (int i = 0; i < 20'000; ++i) {
    ChakraTrace changed = trace;
    std::string& bytes = i % 10 == 0 ? changed.groups : changed.ranks[random() % 2];
    for (std::uint64_t n = random() % 3 + 1; n > 0; --n) {
      const std::size_t at = random() % bytes.size();
      switch (random() % 3) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.erase(at, random() % 4 + 1);
          break;
        default:
          bytes.insert(at, 1, static_cast<char>(random()));
      }
    }
    try {
      const Workload back = from_chakra(changed).workload;
      EXPECT_LE(back.rank_count(), 2U);
      ++read_again;
    } catch (const ConfigError&) {
    }
  }
  EXPECT_GT(read_again, 1'000);
}

}  // namespace
}  // namespace phantora
