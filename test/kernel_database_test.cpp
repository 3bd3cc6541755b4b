#include <phantora/error.hpp>
#include <phantora/kernels/kernel_database.hpp>
#include <phantora/kernels/kernels.hpp>

#include <csignal>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace phantora {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using Access = KernelDatabase::Access;

/// A folder of the test's own.
class KernelDatabaseTest : public testing::Test {
 protected:
  KernelDatabaseTest() {
    std::string name = fs::temp_directory_path() / "phantora-database-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~KernelDatabaseTest() override { fs::remove_all(folder_); }

  [[nodiscard]] fs::path path(const char* name = "my.db") const { return folder_ / name; }
  /// What opening it says.
  [[nodiscard]] static std::string refusal(const fs::path& path, Access access = Access::read) {
    try {
      const KernelDatabase opened{path, access};
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "opened";
  }
  void write_bytes(const fs::path& path, std::uint64_t offset, const std::string& bytes) const {
    std::fstream file{path, std::ios::in | std::ios::out | std::ios::binary};
    file.seekp(static_cast<std::streamoff>(offset));
    file << bytes;
  }

  fs::path folder_;
};

KernelSource h200(std::string id = "one") {
  return {.gpu = "NVIDIA H200",
          .driver = "580.1",
          .libraries = "cublas 13.1",
          .command = "python train.py",
          .date = "2026-11-22T11:00:00Z",
          .id = std::move(id)};
}
MeasuredKernel product(std::int64_t size, DurationCounts durations) {
  return {gemm(size, size, size), std::move(durations)};
}

TEST_F(KernelDatabaseTest, KeepsWhatWasMeasured) {
  {
    KernelDatabase database{path(), Access::write};
    database.add(h200(), std::vector{product(64, {{3us, 1}, {5us, 2}})});
    database.add(h200(), std::vector{product(64, {{5us, 1}}), product(128, {{9us, 1}})});
  }
  const KernelDatabase database{path()};
  EXPECT_EQ(database.gpus(), std::vector<std::string>{"NVIDIA H200"});
  ASSERT_EQ(database.sources().size(), 1U);
  EXPECT_EQ(database.sources()[0].command, "python train.py");
  EXPECT_EQ(database.sources()[0].driver, "580.1");
  const auto kernels = database.kernels();
  ASSERT_EQ(kernels.size(), 2U);
  const MeasuredKernel& small = kernels[kernels[0].query == gemm(64, 64, 64) ? 0 : 1];
  EXPECT_EQ(small.query, gemm(64, 64, 64));
  EXPECT_EQ(small.durations, (DurationCounts{{3us, 1}, {5us, 3}}));
}

TEST(MeasuredKernel, Statistics) {
  const MeasuredKernel kernel = product(64, {{2us, 1}, {4us, 2}, {10us, 1}});
  EXPECT_EQ(kernel.count(), 4U);
  EXPECT_EQ(kernel.total(), 20us);
  EXPECT_EQ(kernel.mean(), 5us);
  EXPECT_EQ(kernel.median(), 4us);
  EXPECT_EQ(kernel.least(), 2us);
  EXPECT_EQ(kernel.stddev(), Duration{3'464'102});  // sqrt((9 + 1 + 1 + 25) / 3) us
  EXPECT_EQ(product(64, {{2us, 1}}).stddev(), 0us);
}

TEST_F(KernelDatabaseTest, PricesTheVeryQueries) {
  KernelDatabase database{path(), Access::write};
  database.add(h200(), std::vector{product(64, {{3us, 1}, {5us, 1}})});
  const KernelCostModel model = database.model(gpu_model("h200"));
  const auto price = model.estimate(gemm(64, 64, 64));
  ASSERT_TRUE(price);
  EXPECT_EQ(price->duration, 4us);
  EXPECT_EQ(price->stddev, Duration{1'414'214});
  EXPECT_EQ(price->source, CostSource::database);
  EXPECT_TRUE(price->limit);  // so that others that run beside it are slowed as by any kernel
  EXPECT_FALSE(model.estimate(gemm(64, 64, 72)));
  EXPECT_FALSE(database.model(gpu_model("h100")).estimate(gemm(64, 64, 64)));
}

TEST_F(KernelDatabaseTest, PricesTriedConvolutionsAsTheyRan) {
  KernelQuery first{
      .name = "conv_fwd",
      .features = {{"n", 8}, {"c", 64}, {"h", 8}, {"w", 8}, {"k", 64}, {"r", 3}, {"s", 3}},
      .attributes = {{"type", "bf16"}}};
  KernelQuery tried = first;
  tried.attributes["plan"] = "tried";
  KernelDatabase database{path(), Access::write};
  database.add(h200(), std::vector{MeasuredKernel{first, {{7us, 3}}}});
  const auto model = database.model(gpu_model("h200"));
  EXPECT_EQ(model.estimate(tried)->duration, Duration{7us});
  EXPECT_EQ(model.estimate(tried)->source, CostSource::database);
  tried.features["k"] = 128;
  EXPECT_FALSE(model.estimate(tried));
}

// Several processes, each of which adds to one kernel of all and to one of its own.
TEST_F(KernelDatabaseTest, TakesSeveralWriters) {
  constexpr int writers = 6, rounds = 25;
  std::vector<pid_t> children;
  for (int writer = 0; writer < writers; ++writer) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      int status = 1;
      try {
        KernelDatabase database{path(), Access::write};
        for (int round = 0; round < rounds; ++round)
          database.add(h200("writer " + std::to_string(writer)),
                       std::vector{product(64, {{3us, 1}}), product(128 + writer, {{5us, 2}})});
        status = 0;
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
      }
      _exit(status);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  const KernelDatabase database{path()};
  EXPECT_EQ(database.sources().size(), static_cast<std::size_t>(writers));
  const auto kernels = database.kernels();
  ASSERT_EQ(kernels.size(), static_cast<std::size_t>(writers + 1));
  for (const MeasuredKernel& kernel : kernels) {
    const bool common = kernel.query == gemm(64, 64, 64);
    EXPECT_EQ(kernel.count(), static_cast<std::uint64_t>(rounds * (common ? writers : 2)));
  }
}

// Killed at any moment: what add() had returned for is there, and nothing is half there.
TEST_F(KernelDatabaseTest, SurvivesKilledWriters) {
  std::uint64_t told_of_all = 0;
  for (int attempt = 0; attempt < 8; ++attempt) {
    int told[2];
    ASSERT_EQ(pipe(told), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      KernelDatabase database{path(), Access::write};
      for (;;) {
        database.add(h200(), std::vector{product(64, {{3us, 1}}), product(128, {{5us, 1}})});
        if (write(told[1], "+", 1) != 1) _exit(1);
      }
    }
    close(told[1]);
    std::uint64_t added = 0;
    for (char c = 0; added < 3 + static_cast<std::uint64_t>(attempt) && read(told[0], &c, 1) == 1;)
      ++added;
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    for (char c = 0; read(told[0], &c, 1) == 1;) ++added;
    close(told[0]);
    told_of_all += added;
    const KernelDatabase database{path()};
    const auto kernels = database.kernels();
    ASSERT_EQ(kernels.size(), 2U);
    EXPECT_EQ(kernels[0].count(), kernels[1].count());
    // It may have been killed between the transaction and the word of it.
    EXPECT_GE(kernels[0].count(), told_of_all);
    EXPECT_LE(kernels[0].count(), told_of_all + static_cast<std::uint64_t>(attempt) + 1);
  }
}

TEST_F(KernelDatabaseTest, MergesWithoutCountingTwice) {
  KernelDatabase first{path("first.db"), Access::write}, second{path("second.db"), Access::write};
  first.add(h200("a"), std::vector{product(64, {{3us, 1}})});
  second.merge(first);
  first.add(h200("a"), std::vector{product(64, {{3us, 1}, {4us, 1}})});  // it counted on
  second.add(h200("b"), std::vector{product(64, {{3us, 5}})});
  second.merge(first);
  second.merge(first);
  const auto kernels = second.kernels();
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].durations, (DurationCounts{{3us, 7}, {4us, 1}}));
  EXPECT_EQ(second.sources().size(), 2U);
}

TEST_F(KernelDatabaseTest, RefusesWhatIsNotThere) {
  EXPECT_EQ(refusal(path()), "kernel database '" + path().string() + "': there is no such file");
  EXPECT_FALSE(fs::exists(path()));
  const fs::path nowhere = folder_ / "none" / "my.db";
  EXPECT_NE(refusal(nowhere, Access::write).find("none can be made there"), std::string::npos);
}

TEST_F(KernelDatabaseTest, RefusesWhatIsNoDatabase) {
  std::ofstream{path()} << "These are words, and more of them than SQLite's header has bytes. "
                        << std::string(200, '.');
  const std::string expected = "kernel database '" + path().string() +
                               "': expected a file of phantora measure, this is no SQLite database";
  EXPECT_EQ(refusal(path()), expected);
  EXPECT_EQ(refusal(path(), Access::write), expected);
}

TEST_F(KernelDatabaseTest, RefusesAnEmptyFile) {
  std::ofstream{path()};
  EXPECT_NE(refusal(path()).find("is empty"), std::string::npos);
}

TEST_F(KernelDatabaseTest, RefusesNewerAndForeignOnes) {
  { const KernelDatabase made{path(), Access::write}; }
  // As the file format has it: user_version and application_id are big-endian words at 60 and 68.
  write_bytes(path(), 60, std::string{"\0\0\0\7", 4});
  EXPECT_EQ(refusal(path()),
            "kernel database '" + path().string() +
                "' is of version 7, which a newer phantora made; this one knows version 1");
  write_bytes(path(), 68, "abcd");
  EXPECT_EQ(refusal(path(), Access::write),
            "kernel database '" + path().string() +
                "': expected a file of phantora measure, this is another program's database");
}

TEST_F(KernelDatabaseTest, RefusesDamagedOnes) {
  {
    KernelDatabase database{path(), Access::write};
    for (int i = 0; i < 40; ++i)
      database.add(h200(), std::vector{product(64 + i, {{3us, 1}, {4us, 2}})});
  }
  const auto size = fs::file_size(path());
  for (std::uint64_t page = 4096; page < size; page += 4096)
    write_bytes(path(), page, std::string(64, '\x5a'));
  EXPECT_NE(refusal(path()).find("is damaged"), std::string::npos) << refusal(path());
  fs::resize_file(path(), 4096);
  EXPECT_NE(refusal(path()).find("is damaged"), std::string::npos) << refusal(path());
}

// A copy on a read-only medium.
TEST_F(KernelDatabaseTest, ReadsWhereNothingCanBeWritten) {
  if (getuid() == 0) GTEST_SKIP() << "root may write everywhere";
  {
    KernelDatabase database{path(), Access::write};
    database.add(h200(), std::vector{product(64, {{3us, 1}})});
  }
  fs::permissions(path(), fs::perms::owner_read);
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_EQ(KernelDatabase{path()}.kernels().size(), 1U);
  EXPECT_NE(refusal(path(), Access::write), "opened");
  fs::permissions(folder_, fs::perms::owner_all);
}

}  // namespace
}  // namespace phantora
