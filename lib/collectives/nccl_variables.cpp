#include "collectives/nccl_variables.hpp"

#include <cctype>
#include <charconv>
#include <system_error>

namespace phantora {

std::string lower(std::string_view text) {
  std::string out{text};
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::vector<std::string> split(std::string_view text, char by) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(by, at), text.size());
    if (end > at) parts.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

std::optional<int> parse_number(const NcclVariables& variables, std::string_view name) {
  const auto variable = variables.find(name);
  if (variable == variables.end() || variable->second.empty()) return std::nullopt;
  const std::string& text = variable->second;
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end)
    throw ConfigError{variable->first + "=" + text + ": expected a whole number"};
  return value;
}

}  // namespace phantora
