#include "run/doctor_command.hpp"

#include "run/findings.hpp"
#include "run/machine_checks.hpp"
#include "run/program_checks.hpp"
#include "run/python_checks.hpp"
#include "run/stand_in_checks.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

#include <fmt/format.h>

namespace phantora::run {
namespace {

Findings all_findings(const std::vector<std::string>& command) {
  Findings all = check_stand_ins();
  const auto add = [&](const Findings& findings) {
    all.insert(all.end(), findings.begin(), findings.end());
  };
  add(check_machine());
  add(check_environment());
  const std::string python = python_of(command);
  const std::string program = command.empty() ? python : command.front();
  if (program.empty()) {
    add({{Finding::Status::missing, "Python", "no python or python3 in PATH",
          "activate an environment that has PyTorch, or name a program: phantora doctor -- "
          "COMMAND"}});
    return all;
  }
  const Findings of_program = check_program_file(program);
  add(of_program);
  const bool runs = std::ranges::none_of(of_program, [](const Finding& finding) {
    return finding.status == Finding::Status::missing;
  });
  if (runs && !python.empty()) add(check_python(python));
  return all;
}

void print_json(const Findings& findings, bool works, std::ostream& out) {
  using Json = nlohmann::ordered_json;
  Json json{{"works", works}, {"findings", Json::array()}};
  for (const Finding& it : findings)
    json["findings"].push_back({{"status", to_string(it.status)},
                                {"what", it.what},
                                {"found", it.found},
                                {"remedy", it.remedy.empty() ? Json(nullptr) : Json(it.remedy)}});
  out << json.dump(1, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace

std::string_view to_string(Finding::Status status) noexcept {
  switch (status) {
    case Finding::Status::ok:
      return "ok";
    case Finding::Status::warning:
      return "warning";
    case Finding::Status::missing:
      break;
  }
  return "missing";
}

int examine(const DoctorOptions& options, std::ostream& out) {
  const Findings findings = all_findings(options.command);
  const bool works = std::ranges::none_of(
      findings, [](const Finding& finding) { return finding.status == Finding::Status::missing; });
  if (options.format == "json") {
    print_json(findings, works, out);
    return works ? 0 : 1;
  }
  for (const Finding& it : findings) {
    out << fmt::format("{:<8} {:<21} {}\n", to_string(it.status), it.what, it.found);
    if (!it.remedy.empty()) out << fmt::format("{:<31}-> {}\n", "", it.remedy);
  }
  out << (works ? "phantora: a run would work here\n"
                : "phantora: a run would fail here, for want of what is missing\n");
  return works ? 0 : 1;
}

}  // namespace phantora::run
