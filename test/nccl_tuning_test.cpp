#include "collectives/nccl_tuning.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace phantora {
namespace {

TuningShape one_host(int ranks, int cc, double nvlink, bool nvls) {
  return {.ranks = ranks,
          .nodes = 1,
          .compute_capability = cc,
          .nvlink = nvlink,
          .pcie = 48,
          .nvls = nvls};
}
TuningShape h200(int ranks) { return one_host(ranks, 90, 370.8, false); }

const std::map<std::string, TunedOp> op_names{{"Broadcast", TunedOp::broadcast},
                                              {"Reduce", TunedOp::reduce},
                                              {"AllGather", TunedOp::all_gather},
                                              {"ReduceScatter", TunedOp::reduce_scatter},
                                              {"AllReduce", TunedOp::all_reduce}};

TEST(NcclTuning, ReproducesEveryCellThatNcclLogs) {
  // The log prints three tables side by side: tree, ring, collnet_direct; then collnet_chain, nvls,
  // nvls_tree; then pat. Each cell is "latency/ bandwidth", one decimal.
  std::ifstream file{PHANTORA_TEST_DATA "/nccl_tuning_h200.txt"};
  ASSERT_TRUE(file);
  const std::vector<std::vector<Algorithm>> blocks{
      {Algorithm::tree, Algorithm::ring, Algorithm::collnet_direct},
      {Algorithm::collnet_chain, Algorithm::nvls, Algorithm::nvls_tree},
      {Algorithm::pat}};
  std::size_t block = blocks.size() - 1, cells = 0;
  int ranks = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream in{line};
    std::string word;
    in >> word;
    if (word == "ranks") in >> ranks;
    if (word == "Algorithm") block = (block + 1) % blocks.size();
    const auto op = op_names.find(word);
    if (op == op_names.end()) continue;
    const NcclTuning tuning{h200(ranks)};
    for (const Algorithm algorithm : blocks[block]) {
      for (const Protocol protocol : {Protocol::ll, Protocol::ll128, Protocol::simple}) {
        std::string latency, bandwidth;
        in >> word >> latency >> bandwidth;
        ASSERT_EQ(word, "|") << line;
        const auto& cell = tuning.cell(op->second, algorithm, protocol);
        // Half of the last printed digit, and a little for what float arithmetic rounds there.
        EXPECT_NEAR(cell.latency_us, std::stod(latency), 0.0501)
            << ranks << ' ' << line << to_string(algorithm) << to_string(protocol);
        EXPECT_NEAR(cell.bandwidth, std::stod(bandwidth), 0.0501)
            << ranks << ' ' << line << to_string(algorithm) << to_string(protocol);
        ++cells;
      }
    }
  }
  EXPECT_EQ(cells, 4U * 5 * 7 * 3);
}

TEST(NcclTuning, ReproducesEveryChoiceThatNcclLogs) {
  std::ifstream file{PHANTORA_TEST_DATA "/nccl_choices_h200.txt"};
  ASSERT_TRUE(file);
  std::size_t choices = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream in{line};
    int ranks = 0, channels = 0;
    std::int64_t bytes = 0;
    std::string op, algorithm, protocol;
    in >> ranks >> op >> bytes >> algorithm >> protocol >> channels;
    const NcclTuning tuning{h200(ranks)};
    const auto choice = tuning.choose(op_names.at(op), bytes, {});
    EXPECT_EQ(choice.algorithm, algorithm == "RING" ? Algorithm::ring : Algorithm::tree) << line;
    EXPECT_EQ(choice.protocol, protocol == "LL"      ? Protocol::ll
                               : protocol == "LL128" ? Protocol::ll128
                                                     : Protocol::simple)
        << line;
    const int predicted = tuning.most_channels(choice.algorithm, choice.protocol, bytes, 64);
    const NcclTuning::Task task{op_names.at(op), choice.algorithm, choice.protocol, bytes,
                                predicted};
    EXPECT_EQ(tuning.deal(std::span{&task, 1}, 64).front().count, channels) << line;
    ++choices;
  }
  EXPECT_GT(choices, 200U);
}

TEST(NcclTuning, NeighboursOfAGroupShareAtMostAChannel) {
  // Of any group: channels in order, without gaps, none beyond the last.
  const NcclTuning tuning{one_host(4, 90, 370.8, false)};
  int shared = 0, full = 0;
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
    std::mt19937_64 random{seed};
    const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
    const int limit = static_cast<int>(1 + below(30));
    std::vector<NcclTuning::Task> tasks(static_cast<std::size_t>(1 + below(40)));
    for (NcclTuning::Task& it : tasks) {
      it.op = static_cast<TunedOp>(below(NcclTuning::ops));
      it.protocol = static_cast<Protocol>(below(NcclTuning::protocols));
      it.bytes = std::int64_t{1} << below(28);
      it.bytes += below(static_cast<std::uint64_t>(it.bytes));
      it.most_channels = tuning.most_channels(it.algorithm, it.protocol, it.bytes, limit);
    }
    const int all = std::min(limit, tuning.channels());
    int next = 0;
    for (const NcclTuning::Channels& it : tuning.deal(tasks, limit)) {
      ASSERT_GE(it.count, 1) << "seed " << seed;
      ASSERT_TRUE(it.first == next || it.first + 1 == next) << "seed " << seed;
      shared += it.first + 1 == next;
      next = it.first + it.count;
      ASSERT_LE(next, all) << "seed " << seed;
    }
    full += next == all;
  }
  EXPECT_GT(shared, 1000);
  EXPECT_GT(full, 1000);
}

TEST(NcclTuning, KnowsOtherBoxes) {
  // Ring graph, channels, bus GB/s as NCCL finds them on whole HGX hosts.
  const NcclTuning a100{one_host(8, 80, 240, false)};
  EXPECT_EQ(a100.ring().channels, 12);
  EXPECT_EQ(a100.ring().intra, 20);
  EXPECT_EQ(a100.channels(), 24);
  EXPECT_NEAR(a100.cell(TunedOp::all_reduce, Algorithm::ring, Protocol::simple).bandwidth, 137,
              0.5);

  const NcclTuning h100{one_host(8, 90, 370.8, true)};
  EXPECT_EQ(h100.nvls().intra, 40);
  EXPECT_NEAR(h100.cell(TunedOp::all_reduce, Algorithm::nvls, Protocol::simple).bandwidth, 272,
              0.5);
  EXPECT_NEAR(h100.cell(TunedOp::all_gather, Algorithm::nvls, Protocol::simple).bandwidth, 208,
              0.5);

  const NcclTuning b200{one_host(8, 100, 721.8, true)};
  EXPECT_EQ(b200.ring().channels, 16);
  EXPECT_EQ(b200.ring().intra, 45);
  EXPECT_EQ(b200.channels(), 32);
  EXPECT_NEAR(b200.cell(TunedOp::all_reduce, Algorithm::nvls, Protocol::simple).bandwidth, 474,
              0.5);

  const NcclTuning nodes{{.ranks = 32,
                          .nodes = 4,
                          .compute_capability = 90,
                          .nvlink = 370.8,
                          .nic = 48,
                          .pcie = 48,
                          .nics = 8,
                          .nvls = true}};
  EXPECT_EQ(nodes.ring().channels, 8);
  EXPECT_EQ(nodes.ring().intra, 45);
  EXPECT_EQ(nodes.channels(), 16);
}

TEST(NcclTuning, KnowsTheCellsOfWholeHosts) {
  // us and GB/s of LL, LL128 and Simple that the model of NCCL 2.28.9 gives for the graphs of whole
  // HGX A100 and H100 hosts: its own code (src/graph/tuning.cc), run apart from the rest of NCCL on
  // the graphs of the research notes.
  struct Row {
    int cc, ranks;
    std::vector<TunedOp> ops;
    Algorithm algorithm;
    std::array<NcclTuning::Cell, 3> cells;
  };
  const std::vector<TunedOp> ar{TunedOp::all_reduce},
      one_way{TunedOp::all_gather, TunedOp::reduce_scatter},
      rooted{TunedOp::broadcast, TunedOp::reduce};
  const auto ring = Algorithm::ring, tree = Algorithm::tree, nvls = Algorithm::nvls;
  const std::vector<Row> rows{
      {80, 8, rooted, ring, {{{7.2, 87.7}, {15.9, 220.8}, {11.8, 240}}}},
      {80, 8, one_way, ring, {{{10.8, 100.23}, {27.3, 252.34}, {32.2, 274.29}}}},
      {80, 8, ar, ring, {{{15, 50.11}, {40.6, 126.17}, {56, 137.14}}}},
      {80, 8, ar, tree, {{{15.2, 29.05}, {31.5, 85.87}, {64.4, 110.4}}}},
      {80, 4, one_way, ring, {{{8.4, 116.93}, {19.7, 294.4}, {18.6, 320}}}},
      {80, 4, ar, ring, {{{10.2, 58.47}, {25.4, 147.2}, {28.8, 160}}}},
      {80, 4, ar, tree, {{{10.4, 29.05}, {21.5, 85.87}, {32.4, 110.4}}}},
      {90, 2, rooted, ring, {{{7.2, 141}, {15.9, 331.2}, {11.8, 360}}}},
      {90, 2, one_way, ring, {{{7.2, 282}, {15.9, 662.4}, {11.8, 720}}}},
      {90, 2, ar, ring, {{{7.8, 141}, {17.8, 331.2}, {15.2, 360}}}},
      {90, 4, one_way, ring, {{{8.4, 188}, {19.7, 441.6}, {18.6, 480}}}},
      {90, 4, ar, ring, {{{10.2, 94}, {25.4, 220.8}, {28.8, 240}}}},
      {90, 4, ar, tree, {{{10.4, 43.58}, {21.5, 128.8}, {32.4, 165.6}}}},
      {90, 8, rooted, ring, {{{7.2, 141}, {15.9, 331.2}, {11.8, 360}}}},
      {90, 8, one_way, ring, {{{10.8, 161.14}, {27.3, 378.51}, {32.2, 411.43}}}},
      {90, 8, one_way, nvls, {{{0, 0}, {0, 0}, {25, 208.25}}}},
      {90, 8, ar, ring, {{{15, 80.57}, {40.6, 189.26}, {56, 205.71}}}},
      {90, 8, ar, tree, {{{15.2, 43.58}, {31.5, 128.8}, {64.4, 165.6}}}},
      {90, 8, ar, nvls, {{{0, 0}, {0, 0}, {25, 272}}}}};
  for (const Row& row : rows) {
    const bool a100 = row.cc == 80;
    const NcclTuning tuning{one_host(row.ranks, row.cc, a100 ? 240 : 370.8, !a100)};
    for (const TunedOp op : row.ops) {
      for (const Protocol protocol : {Protocol::ll, Protocol::ll128, Protocol::simple}) {
        const auto& expected = row.cells[static_cast<std::size_t>(protocol)];
        const auto& cell = tuning.cell(op, row.algorithm, protocol);
        const std::string which = std::to_string(row.cc) + " x" + std::to_string(row.ranks) + ' ' +
                                  std::string{to_string(row.algorithm)} + ' ' +
                                  std::string{to_string(protocol)};
        EXPECT_NEAR(cell.latency_us, expected.latency_us, 0.0051) << which;
        EXPECT_NEAR(cell.bandwidth, expected.bandwidth, 0.0051) << which;
      }
    }
  }
}

std::string chosen(const NcclTuning& tuning, TunedOp op, std::int64_t bytes) {
  const auto choice = tuning.choose(op, bytes, {});
  return std::string{to_string(choice.algorithm)} + "/" + std::string{to_string(choice.protocol)};
}

TEST(NcclTuning, SwitchesWhereNcclDoes) {
  // H100 x8: all_reduce LL to about 1.1 MB, then NVLS; all_gather LL, LL128 at 16 MB, Simple.
  const NcclTuning h100{one_host(8, 90, 370.8, true)};
  EXPECT_EQ(chosen(h100, TunedOp::all_reduce, 1'000'000), "ring/ll");
  EXPECT_EQ(chosen(h100, TunedOp::all_reduce, 1'300'000), "nvls/simple");
  EXPECT_EQ(chosen(h100, TunedOp::all_gather, 4'000'000), "ring/ll");
  EXPECT_EQ(chosen(h100, TunedOp::all_gather, 16'000'000), "ring/ll128");
  EXPECT_EQ(chosen(h100, TunedOp::all_gather, 64'000'000), "ring/simple");
  // x4 and x2: never NVLS.
  for (const int ranks : {2, 4})
    for (std::int64_t bytes = 1024; bytes <= (1 << 30); bytes *= 4)
      EXPECT_TRUE(chosen(NcclTuning{one_host(ranks, 90, 370.8, true)}, TunedOp::all_reduce, bytes)
                      .starts_with("ring"));
  // A100 x8: LL to 1 MB, LL128 from 4 to 16 MB, Simple from 64 MB.
  const NcclTuning a100{one_host(8, 80, 240, false)};
  EXPECT_EQ(chosen(a100, TunedOp::all_reduce, 1 << 20), "ring/ll");
  EXPECT_EQ(chosen(a100, TunedOp::all_reduce, 4 << 20), "ring/ll128");
  EXPECT_EQ(chosen(a100, TunedOp::all_reduce, 16 << 20), "ring/ll128");
  EXPECT_EQ(chosen(a100, TunedOp::all_reduce, 64 << 20), "ring/simple");
}

TEST(NcclTuning, UnlikeHostsUseTheLeastThatEachFinds) {
  const TuningShape h200{.ranks = 16,
                         .nodes = 2,
                         .compute_capability = 90,
                         .nvlink = 370.8,
                         .nic = 48,
                         .pcie = 48,
                         .nics = 4,
                         .nvls = true};
  TuningShape l40s = h200;
  l40s.compute_capability = 89;
  l40s.nvlink = 0;
  l40s.nic = l40s.pcie = 24;
  l40s.nvls = false;
  const NcclTuning alone{l40s};
  const std::array both{h200, l40s}, turned{l40s, h200};
  for (const auto& hosts : {both, turned}) {
    const NcclTuning tuning{hosts};
    EXPECT_EQ(tuning.ring().channels,
              std::min(NcclTuning{h200}.ring().channels, alone.ring().channels));
    EXPECT_EQ(tuning.ring().intra, std::min(NcclTuning{h200}.ring().intra, alone.ring().intra));
    EXPECT_EQ(tuning.nvls().channels, 0);
    EXPECT_EQ(tuning.shape(), l40s);
    const auto& ll128 = tuning.cell(TunedOp::all_reduce, Algorithm::ring, Protocol::ll128);
    EXPECT_EQ(ll128.bandwidth, 0);
    EXPECT_GT(alone.cell(TunedOp::all_reduce, Algorithm::ring, Protocol::ll128).bandwidth, 0);
    EXPECT_EQ(tuning.cell(TunedOp::all_reduce, Algorithm::ring, Protocol::simple).latency_us,
              alone.cell(TunedOp::all_reduce, Algorithm::ring, Protocol::simple).latency_us);
  }
  // Of the same capability, LL128 stays: an H100 beside an H200.
  TuningShape h100 = h200;
  h100.nic = 24;
  const std::array hoppers{h200, h100};
  EXPECT_GT(
      NcclTuning{hoppers}.cell(TunedOp::all_reduce, Algorithm::ring, Protocol::ll128).bandwidth, 0);
}

}  // namespace
}  // namespace phantora
