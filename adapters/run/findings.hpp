#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// What `phantora doctor` finds.
namespace phantora::run {

struct Finding {
  enum class Status : std::uint8_t {
    ok,
    warning,  ///< a run works, but slowly or in another way than one may think
    missing,  ///< a run fails
  };
  Status status = Status::ok;
  std::string what{};    ///< was looked at: "stand-ins"
  std::string found{};   ///< in words
  std::string remedy{};  ///< what helps; empty where nothing is wrong
};
using Findings = std::vector<Finding>;

/// "missing".
std::string_view to_string(Finding::Status status) noexcept;

}  // namespace phantora::run
