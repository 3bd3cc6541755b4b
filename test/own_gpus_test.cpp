#include "run/own_gpus.hpp"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace phantora::run {
namespace {

namespace fs = std::filesystem;

class OwnGpus : public testing::Test {
 protected:
  void SetUp() override {
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    driver_ = fs::path{testing::TempDir()} / ("own_gpus_" + name);
    fs::remove_all(driver_);
  }
  void TearDown() override { fs::remove_all(driver_); }
  /// As /proc/driver/nvidia/gpus/0000:00:06.0/information says it.
  void has(const std::string& bus, const std::string& model) const {
    fs::create_directories(driver_ / bus);
    std::ofstream{driver_ / bus / "information"} << "Model: \t\t " << model << "\nIRQ:   \t\t 28\n";
  }
  [[nodiscard]] bool has_gpus_of(const std::string& cluster) const {
    return run::has_gpus_of(parse_cluster(cluster), driver_);
  }
  fs::path driver_;
};

TEST_F(OwnGpus, NoDriverMeansNone) { EXPECT_FALSE(has_gpus_of("h200:1x1")); }

TEST_F(OwnGpus, AreThoseOfTheCluster) {
  has("0000:00:06.0", "NVIDIA H200");
  EXPECT_TRUE(has_gpus_of("h200:1x1"));
  EXPECT_TRUE(has_gpus_of("h200:16x8"));  // as many as there are here is not asked
  EXPECT_FALSE(has_gpus_of("h100:1x1"));
}

TEST_F(OwnGpus, MustBeAllOfAMixedClusters) {
  has("0000:00:06.0", "NVIDIA H200");
  EXPECT_FALSE(has_gpus_of("h200:1x8+l40s:1x4"));
  has("0000:00:07.0", "NVIDIA L40S");
  EXPECT_TRUE(has_gpus_of("h200:1x8+l40s:1x4"));
}

TEST_F(OwnGpus, OthersAreSaid) {
  const Cluster cluster = parse_cluster("h100:1x1");
  EXPECT_EQ(note_on_other_gpus(cluster, "h200", driver_), "");
  has("0000:00:06.0", "NVIDIA H200");
  EXPECT_EQ(
      note_on_other_gpus(cluster, "h200", driver_),
      "phantora: this machine has NVIDIA H200, the cluster other GPUs: its hosts are taken to "
      "be as fast as h200, the host of the built-in data (--host this: as this machine)\n");
  EXPECT_EQ(note_on_other_gpus(parse_cluster("h200:2x8"), "h200", driver_), "");
  has("0000:00:07.0", "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(note_on_other_gpus(cluster, "h200", driver_), "");
}

}  // namespace
}  // namespace phantora::run
