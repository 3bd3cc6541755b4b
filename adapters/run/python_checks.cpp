#include "run/python_checks.hpp"

#include "run/child_output.hpp"
#include "run/launcher.hpp"
#include "run/program_checks.hpp"
#include "run/starts.hpp"

#include <phantora/error.hpp>

#include <nlohmann/json.hpp>

#include <filesystem>
#include <map>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace phantora::run {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Status = Finding::Status;

/// What is tested, as pairs of major and minor version.
constexpr std::pair first_torch{2, 10}, last_torch{2, 15};

constexpr const char* question = R"(
import importlib.metadata as packages, json, os, platform, sys, sysconfig
def version(name):
    try:
        return packages.version(name)
    except packages.PackageNotFoundError:
        return None
told = {"python": platform.python_version(), "triton": version("triton"),
        "header": os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")),
        "nvidia": sum(1 for p in packages.distributions() if (p.metadata["Name"] or "").startswith("nvidia-"))}
try:
    import torch
    told.update(torch=torch.__version__, cuda=torch.version.cuda, hip=torch.version.hip)
except ImportError as problem:
    told.update(torch=None, problem=str(problem), installed=version("torch"))
print("\nphantora:" + json.dumps(told))
)";

std::string string_or_empty(const Json& json, const char* field) {
  const auto found = json.find(field);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

bool in_path(const std::string& program) {
  try {
    (void)check_program(program);
    return true;
  } catch (const CommandError&) {
    return false;
  }
}

Finding check_torch(const Json& told) {
  constexpr std::string_view wheel = "install the stock wheel for CUDA (pip install torch)";
  const std::string version = string_or_empty(told, "torch");
  if (version.empty()) {
    const std::string installed = string_or_empty(told, "installed");
    return {Status::missing, "PyTorch",
            installed.empty() ? "not installed"
                              : fmt::format("{} cannot be imported: {}", installed,
                                            string_or_empty(told, "problem")),
            std::string{wheel}};
  }
  const std::string cuda = string_or_empty(told, "cuda");
  if (cuda.empty())
    return {Status::missing, "PyTorch",
            fmt::format("{} is not for CUDA{}: programs find no GPU", version,
                        string_or_empty(told, "hip").empty() ? "" : " but for ROCm"),
            std::string{wheel}};
  std::pair<int, int> of{};
  char dot = 0;
  std::istringstream{version} >> of.first >> dot >> of.second;
  const std::string found = fmt::format("{} for CUDA {}", version, cuda);
  if (of < first_torch || of > last_torch)
    return {Status::warning, "PyTorch",
            fmt::format("{}: tested are {}.{} to {}.{}; its kernels may be unread", found,
                        first_torch.first, first_torch.second, last_torch.first, last_torch.second),
            fmt::format("install {}.{} to {}.{}", first_torch.first, first_torch.second,
                        last_torch.first, last_torch.second)};
  const int wheels = told.value("nvidia", 0);
  return {Status::ok, "PyTorch",
          found + (wheels == 0 ? ", without NVIDIA's wheels, which it does not need here"
                               : fmt::format(", with {} of NVIDIA's wheels", wheels))};
}

/// torch.compile makes C++ of work on the CPU, and Triton C of each launcher.
Finding check_compilers(const Json& told) {
  std::vector<std::string> absent;
  if (!in_path("gcc") && !in_path("cc") && !in_path("clang"))
    absent.emplace_back("a C compiler (gcc)");
  if (!in_path("g++") && !in_path("clang++")) absent.emplace_back("a C++ compiler (g++)");
  if (!told.value("header", false)) absent.emplace_back("Python.h");
  if (string_or_empty(told, "triton").empty()) absent.emplace_back("Triton");
  if (!absent.empty())
    return {Status::warning, "torch.compile",
            fmt::format("fails without {}", fmt::join(absent, ", ")),
            "install gcc, g++ and the Python's headers (python3-dev); pip install triton"};
  return {
      Status::ok, "torch.compile",
      fmt::format("compilers, Python.h and Triton {} are there", string_or_empty(told, "triton"))};
}

}  // namespace

std::string python_of(const std::vector<std::string>& command) {
  if (!command.empty()) {
    const auto is_python = [](const fs::path& path) {
      return path.filename().string().starts_with("python");
    };
    try {
      if (is_python(command.front())) return check_program(command.front());
      const fs::path runs = executable_of(command.front());
      return is_python(runs) ? runs.string() : "";
    } catch (const CommandError&) {
      return "";
    }
  }
  for (const char* const name : {"python", "python3"})
    if (in_path(name)) return check_program(name);
  return "";
}

Findings check_python(const std::string& python) {
  constexpr int patience_s = 120;
  std::map<std::string, std::string> environment;
  try {
    environment["LD_LIBRARY_PATH"] = library_path(hook_directory(), false);
  } catch (const ConfigError&) {  // there are no stand-ins, which is told
  }
  const ChildOutput output = output_of({python, "-c", question}, environment, patience_s);
  constexpr std::string_view mark = "\nphantora:";
  const std::size_t at = output.text.rfind(mark);
  const Json told = at == std::string::npos
                        ? Json{}
                        : Json::parse(output.text.substr(at + mark.size()), nullptr, false);
  if (!told.is_object()) {
    const std::string last = output.text.substr(0, output.text.find_last_not_of('\n') + 1);
    return {{Status::missing, "Python",
             output.in_time
                 ? fmt::format("{} fails: {}", python, last.substr(last.rfind('\n') + 1))
                 : fmt::format("{} took more than {} s to import PyTorch", python, patience_s),
             "repair this environment of Python"}};
  }
  Findings findings{
      {Status::ok, "Python", fmt::format("{} {}", python, string_or_empty(told, "python"))},
      check_torch(told)};
  if (findings.back().status != Status::missing) findings.push_back(check_compilers(told));
  return findings;
}

}  // namespace phantora::run
