#include "channel/launchers.hpp"

#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace phantora::channel {
namespace {

/// The launcher's name, and whether it starts the ranks of all hosts.
std::string launcher(const std::vector<std::string>& command) {
  const std::optional<Launcher> found = launcher_of(command);
  if (!found) return "none";
  return std::string{found->name} + (found->all_hosts ? ", all hosts" : "");
}

TEST(Launchers, ProgramsThatStartRanks) {
  EXPECT_EQ(launcher({"torchrun", "train.py"}), "torchrun");
  EXPECT_EQ(launcher({"/opt/venv/bin/torchrun", "train.py"}), "torchrun");
  EXPECT_EQ(launcher({"mpirun", "-n", "2", "train"}), "mpirun, all hosts");
  EXPECT_EQ(launcher({"python3", "/opt/venv/bin/torchrun", "train.py"}), "torchrun");
  EXPECT_EQ(launcher({"python", "-u", "-m", "torch.distributed.run", "train.py"}),
            "torch.distributed.run");
  EXPECT_EQ(launcher({"env", "A=1", "B=2", "accelerate", "launch", "train.py"}), "accelerate");
}

TEST(Launchers, ProgramsThatAreRanks) {
  EXPECT_EQ(launcher({}), "none");
  EXPECT_EQ(launcher({"env"}), "none");
  EXPECT_EQ(launcher({"env", "A=1", "python", "train.py"}), "none");
  EXPECT_EQ(launcher({"python3"}), "none");
  EXPECT_EQ(launcher({"python3", "-m"}), "none");
  EXPECT_EQ(launcher({"python3", "train.py", "torchrun"}), "none");
  EXPECT_EQ(launcher({"python3", "train.py", "-m", "torchrun"}), "none");
  EXPECT_EQ(launcher({"bash", "run.sh"}), "none");
}

}  // namespace
}  // namespace phantora::channel
