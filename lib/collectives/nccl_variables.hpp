#pragma once

#include "collectives/nccl_tuning.hpp"

#include <phantora/collectives/communicator.hpp>
#include <phantora/error.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace phantora {

[[nodiscard]] std::string lower(std::string_view text);
/// The parts between separators that are not empty.
[[nodiscard]] std::vector<std::string> split(std::string_view text, char by);

/// A variable's whole number; nothing if the variable is not set. @throws ConfigError
[[nodiscard]] std::optional<int> parse_number(const NcclVariables& variables,
                                              std::string_view name);

inline constexpr std::array<std::string_view, 7> algorithm_names{
    "tree", "ring", "collnetdirect", "collnetchain", "nvls", "nvlstree", "pat"};
inline constexpr std::array<std::string_view, 3> protocol_names{"ll", "ll128", "simple"};
inline constexpr std::array<std::string_view, 5> op_names{"broadcast", "reduce", "allgather",
                                                          "reducescatter", "allreduce"};

/// Reads "Ring,Tree", "^LL128" or, by operation, "allreduce:tree;broadcast:ring".
template <std::size_t N>
std::array<std::array<bool, N>, NcclTuning::ops> parse_allowed(
    const std::string& variable, const std::string& value,
    const std::array<std::string_view, N>& names) {
  std::array<std::array<bool, N>, NcclTuning::ops> allowed;
  for (auto& of_op : allowed) of_op.fill(true);
  const auto fail = [&](const std::string& word) -> ConfigError {
    std::string known;
    for (const std::string_view name : names)
      known += (known.empty() ? "" : ", ") + std::string{name};
    return ConfigError{variable + "=" + value + ": \"" + word + "\" is none of " + known};
  };
  for (const std::string& part : split(value, ';')) {
    std::string list = lower(part);
    std::optional<std::size_t> only;
    if (const std::size_t colon = list.find(':'); colon != list.npos) {
      const auto op = std::find(op_names.begin(), op_names.end(), list.substr(0, colon));
      if (op == op_names.end())
        throw ConfigError{variable + "=" + value + ": \"" + list.substr(0, colon) +
                          "\" is none of broadcast, reduce, allgather, reducescatter, allreduce"};
      only = static_cast<std::size_t>(op - op_names.begin());
      list = list.substr(colon + 1);
    }
    const bool exclude = list.starts_with('^');
    std::array<bool, N> chosen;
    chosen.fill(exclude);
    for (const std::string& word : split(exclude ? list.substr(1) : list, ',')) {
      const auto name = std::find(names.begin(), names.end(), word);
      if (name == names.end()) throw fail(word);
      chosen[static_cast<std::size_t>(name - names.begin())] = !exclude;
    }
    for (std::size_t op = 0; op < allowed.size(); ++op)
      if (!only || op == *only) allowed[op] = chosen;
  }
  return allowed;
}

}  // namespace phantora
