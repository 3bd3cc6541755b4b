#include <phantora/error.hpp>
#include <phantora/kernels/builtin_cost_model.hpp>
#include <phantora/kernels/kernel_data.hpp>

#include <random>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

namespace phantora {
namespace {

using namespace std::chrono_literals;

const std::string header = "name\tgrid\tblock\tshared\tbytes\tus\tfeatures\tattributes\n";

std::vector<Measurement> read(const std::string& text) {
  std::istringstream stream{text};
  return read_measurements(stream, "data.tsv");
}

std::string complaint(const std::string& text) {
  try {
    read(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "none";
}

TEST(KernelData, ReadsEveryField) {
  const auto rows =
      read("# a comment\n" + header +
           "void f<int>(int)\t2x3x1\t128x1x1\t48\t4096\t1.5\tm=2;n=3.5\ta_type=bf16\n");
  ASSERT_EQ(rows.size(), 1U);
  const KernelQuery& query = rows[0].query;
  EXPECT_EQ(query.name, "void f<int>(int)");
  EXPECT_EQ(query.grid, (KernelQuery::Dim3{2, 3, 1}));
  EXPECT_EQ(query.block, (KernelQuery::Dim3{128, 1, 1}));
  EXPECT_EQ(query.shared_bytes, 48U);
  EXPECT_EQ(query.bytes, 4096.0);
  EXPECT_FALSE(read(header + "k\t-\t-\t0\t64\t1\t-\t-\n")[0].query.grid);
  EXPECT_EQ(query.features.at("n"), 3.5);
  EXPECT_EQ(query.attributes.at("a_type"), "bf16");
  EXPECT_EQ(rows[0].duration, Duration{1500ns});
}

TEST(KernelData, TheSpreadMayBeTold) {
  const std::string with_spread =
      "name\tgrid\tblock\tshared\tbytes\tus\tfeatures\tattributes\tstddev\n";
  EXPECT_EQ(read(with_spread + "k\t-\t-\t0\t64\t1\t-\t-\t0.25\n")[0].stddev, Duration{250ns});
  EXPECT_EQ(read(header + "k\t-\t-\t0\t64\t1\t-\t-\n")[0].stddev, Duration{});
  EXPECT_EQ(complaint(with_spread + "k\t-\t-\t0\t64\t1\t-\t-\n"),
            "data.tsv:2: field 'attributes': expected 9 fields, got 'k\t-\t-\t0\t64\t1\t-\t-'");
  EXPECT_EQ(complaint(with_spread + "k\t-\t-\t0\t64\t1\t-\t-\t-1\n"),
            "data.tsv:2: field 'stddev': expected a number >= 0, got '-1'");
}

TEST(KernelData, ErrorsNameFileLineFieldAndWhatWasExpected) {
  const std::string good = "k\t-\t-\t0\t0\t1\t-\t-\n";
  EXPECT_EQ(complaint(header + good), "none");
  EXPECT_EQ(complaint(header + good + "k\t-\t-\t0\t0\tfast\t-\t-\n"),
            "data.tsv:3: field 'us': expected a number >= 0, got 'fast'");
  EXPECT_EQ(complaint(header + "k\t-\t-\t0\t0\t0\t-\t-\n"),
            "data.tsv:2: field 'us': expected a time > 0 in microseconds, got '0'");
  EXPECT_EQ(complaint(header + "k\t2x2\t-\t0\t0\t1\t-\t-\n"),
            "data.tsv:2: field 'grid': expected XxYxZ or -, got ''");
  EXPECT_EQ(complaint(header + "k\t-\t0x1x1\t0\t0\t1\t-\t-\n"),
            "data.tsv:2: field 'block': expected XxYxZ or -, got '0x1x1'");
  EXPECT_EQ(complaint(header + "k\t-\t-\t0\t0\t1\tm\t-\n"),
            "data.tsv:2: field 'features': expected key=value;key=value or -, got 'm'");
  EXPECT_EQ(complaint(header + "k\t-\t-\t0\t0\t1\tm=-1\t-\n"),
            "data.tsv:2: field 'features': expected a number >= 0, got '-1'");
  EXPECT_EQ(complaint(header + "k\t-\t-\n"),
            "data.tsv:2: field 'block': expected 8 fields, got 'k\t-\t-'");
  EXPECT_EQ(complaint(""),
            "data.tsv:0: field 'name': expected a line that names the columns, got 'the end of the "
            "text'");
  EXPECT_EQ(complaint("name\tblock\n"),
            "data.tsv:1: field 'grid': expected this column's name, got 'block'");
}

TEST(KernelData, DamagedTextIsReadOrRefusedButNothingElse) {
  const std::string text = header +
                           "gemm\t-\t-\t0\t0\t12.5\tm=64;n=64\ttransa=N;transb=T\n"
                           "void k<4>(int)\t8x1x1\t128x1x1\t0\t65536\t2.25\tnumel=8192\t-\n";
  std::mt19937 random{7};
  int refused = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string damaged = text;
    for (auto edits = 1 + random() % 3; edits > 0; --edits) {
      const std::size_t at = random() % damaged.size();
      switch (random() % 3) {
        case 0:
          damaged[at] = static_cast<char>(random() % 256);
          break;
        case 1:
          damaged.erase(at, 1 + random() % 8);
          break;
        default:
          damaged.insert(at, damaged.substr(random() % damaged.size(), random() % 8));
          break;
      }
    }
    try {
      for (const Measurement& row : read(damaged)) ASSERT_GT(row.duration.count(), 0);
    } catch (const ConfigError&) {
      ++refused;
    }
  }
  // Most damage shows; what falls into a name or a number's digits does not.
  EXPECT_GT(refused, 1000);
  EXPECT_LT(refused, 5000);
}

TEST(KernelData, AQuotationMarkIsTheNameOfTheLineBefore) {
  const auto rows = read(header +
                         "void k<4>(int)\t8x1x1\t128x1x1\t0\t0\t2\t-\t-\n"
                         "# of the same\n"
                         "\"\t9x1x1\t128x1x1\t0\t0\t3\t-\t-\n"
                         "\"\t10x1x1\t128x1x1\t0\t0\t4\t-\t-\n");
  ASSERT_EQ(rows.size(), 3U);
  for (const Measurement& row : rows) EXPECT_EQ(row.query.name, "void k<4>(int)");
  EXPECT_EQ(complaint(header + "\"\t9x1x1\t128x1x1\t0\t0\t3\t-\t-\n"),
            "data.tsv:2: field 'name': expected a kernel's name in the first line, got '\"'");
}

TEST(KernelData, MissingFilesAreNamed) {
  try {
    read_measurements(std::filesystem::path{"no/such/file.tsv"});
    FAIL() << "expected ConfigError";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string{error.what()}.find("no/such/file.tsv"), std::string::npos);
  }
}

}  // namespace
}  // namespace phantora
