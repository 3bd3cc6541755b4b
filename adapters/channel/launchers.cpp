#include "channel/launchers.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

namespace phantora::channel {
namespace {

constexpr std::array<Launcher, 14> launchers = {{
    {"torchrun"},
    {"torch.distributed.run"},
    {"torch.distributed.launch"},
    {"accelerate"},
    {"accelerate.commands.launch"},
    {"accelerate.commands.accelerate_cli"},
    {"deepspeed"},
    {"deepspeed.launcher.runner"},
    {"mpirun", true},
    {"mpiexec", true},
    {"mpiexec.hydra", true},
    {"orterun", true},
    {"prterun", true},
    {"srun", true},
}};

std::string file_name(const std::string& path) { return std::filesystem::path{path}.filename(); }

}  // namespace

std::optional<Launcher> launcher_of(std::span<const std::string> command) {
  // "env NAME=VALUE COMMAND" starts COMMAND.
  if (!command.empty() && file_name(command.front()) == "env") {
    const auto words = command.subspan(1);
    const auto first = std::find_if(words.begin(), words.end(), [](const std::string& word) {
      return word.find('=') == std::string::npos;
    });
    return launcher_of(words.subspan(static_cast<std::size_t>(first - words.begin())));
  }
  if (command.empty()) return std::nullopt;
  std::string name = file_name(command.front());
  if (name.starts_with("python")) {
    const auto words = command.subspan(1);
    const auto said = std::find_if(words.begin(), words.end(), [](const std::string& word) {
      return word == "-m" || !word.starts_with('-');
    });
    if (said == words.end() || (*said == "-m" && said + 1 == words.end())) return std::nullopt;
    name = *said == "-m" ? *(said + 1) : file_name(*said);
  }
  const auto* const known =
      std::find_if(launchers.begin(), launchers.end(),
                   [&](const Launcher& launcher) { return launcher.name == name; });
  return known == launchers.end() ? std::nullopt : std::optional{*known};
}

}  // namespace phantora::channel
