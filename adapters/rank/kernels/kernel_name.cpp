#include "rank/kernels/kernel_name.hpp"

#include <charconv>
#include <cstdlib>
#include <memory>

#include <cxxabi.h>

namespace phantora::rank {

namespace {

constexpr std::string_view anonymous = "(anonymous namespace)";

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// Position of the first character of `wanted` outside of all brackets, from `from`; npos if none.
/// "(anonymous namespace)" is part of a name, and the brackets of "operator()" and "->" are not
/// brackets. A closing bracket of the enclosing text ends the search.
std::size_t find_outside(std::string_view text, std::string_view wanted, std::size_t from = 0) {
  int depth = 0;
  for (std::size_t i = from; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    if (rest.starts_with(anonymous)) {
      i += anonymous.size() - 1;
      continue;
    }
    if (rest.starts_with("operator()")) {
      i += std::string_view{"operator()"}.size() - 1;
      continue;
    }
    const char c = text[i];
    if (depth == 0 && wanted.find(c) != std::string_view::npos) return i;
    if (c == '<' || c == '(' || c == '[' || c == '{') ++depth;
    if (c == '>' && i > 0 && text[i - 1] == '-') continue;
    if (c == '>' || c == ')' || c == ']' || c == '}') {
      if (--depth < 0) return std::string_view::npos;
    }
  }
  return std::string_view::npos;
}

/// The position behind the bracket that closes the one at `open`.
std::size_t behind_bracket(std::string_view text, std::size_t open) {
  constexpr std::string_view closing = ">)]}";
  const std::size_t close = find_outside(text, closing, open + 1);
  return close == std::string_view::npos ? text.size() : close + 1;
}

NameParts list(std::string_view text) {
  NameParts items;
  text = trimmed(text);
  while (!text.empty()) {
    const std::size_t comma = find_outside(text, ",");
    items.push_back(trimmed(text.substr(0, comma)));
    if (comma == std::string_view::npos) break;
    text = trimmed(text.substr(comma + 1));
  }
  return items;
}

}  // namespace

std::string demangled(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text{
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), std::free};
  return status == 0 ? std::string{text.get()} : std::string{mangled};
}

TemplateName template_name(std::string_view text) {
  text = trimmed(text);
  // Arguments of the last component: those of enclosing classes belong to its name.
  std::size_t from = 0;
  while (true) {
    const std::size_t open = find_outside(text, "<", from);
    if (open == std::string_view::npos) return {text, {}};
    const std::size_t behind = behind_bracket(text, open);
    if (trimmed(text.substr(behind)).empty()) {
      return {text.substr(0, open), list(text.substr(open + 1, behind - open - 2))};
    }
    from = behind;
  }
}

Signature signature(std::string_view text) {
  Signature result;
  const std::size_t open = find_outside(text, "(");
  std::string_view name = text.substr(0, open);
  // Function templates are printed with their return type.
  if (const std::size_t space = find_outside(name, " "); space != std::string_view::npos) {
    name = name.substr(space + 1);
  }
  result.kernel = template_name(name);
  if (open != std::string_view::npos) {
    const std::size_t behind = behind_bracket(text, open);
    result.parameters = list(text.substr(open + 1, behind - open - 2));
  }
  return result;
}

std::size_t number_in(std::string_view argument) {
  return static_cast<std::size_t>(std::strtoul(std::string{argument}.c_str(), nullptr, 10));
}

std::string_view unqualified(std::string_view name) {
  std::size_t last = 0;
  for (std::size_t from = 0;;) {
    const std::size_t colon = find_outside(name, ":", from);
    if (colon == std::string_view::npos) break;
    from = colon + 1;
    last = from;
  }
  return name.substr(last);
}

LambdaName lambda_name(std::string_view text) {
  constexpr std::string_view opening = "{lambda(";
  LambdaName result;
  if (!text.ends_with('}') || find_outside(text, "{") == std::string_view::npos) return result;
  const std::size_t parameters = find_outside(text, "(");
  if (parameters == std::string_view::npos) return result;
  for (std::size_t at = find_outside(text, "{"); at != std::string_view::npos;
       at = find_outside(text, "{", at + 1)) {
    const std::size_t behind = behind_bracket(text, at);
    const std::string_view lambda = text.substr(at, behind - at);
    if (!lambda.starts_with(opening)) return {};
    const std::size_t close = behind_bracket(lambda, opening.size() - 1);
    result.parameters = list(lambda.substr(opening.size(), close - opening.size() - 1));
    int number = 0;
    if (close < lambda.size() && lambda[close] == '#') {
      std::from_chars(lambda.data() + close + 1, lambda.data() + lambda.size(), number);
    }
    result.path.push_back(number);
    at = behind - 1;
  }
  result.function = template_name(text.substr(0, parameters));
  return result;
}

}  // namespace phantora::rank
