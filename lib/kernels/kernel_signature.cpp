#include <phantora/kernels/kernel_signature.hpp>

#include <array>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <utility>

namespace phantora {

namespace {

constexpr std::string_view anonymous = "(anonymous namespace)";

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// Where the bracket that opens at `open` closes, and the top-level commas between.
std::size_t closing(std::string_view text, std::size_t open, std::vector<std::size_t>* commas) {
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '<' || c == '(' || c == '{' || c == '[') ++depth;
    if (c == '>' || c == ')' || c == '}' || c == ']') {
      if (--depth == 0) return i;
    }
    if (c == ',' && depth == 1 && commas != nullptr) commas->push_back(i);
  }
  return std::string_view::npos;
}

}  // namespace

KernelSignature parse_signature(std::string_view name) {
  KernelSignature signature;
  // Walk the qualified name up to the parameter list; the last component before it is the base.
  std::size_t component = 0;
  std::size_t base_end = std::string_view::npos;
  std::size_t i = 0;
  for (; i < name.size(); ++i) {
    const char c = name[i];
    if (name.substr(i).starts_with(anonymous)) {
      i += anonymous.size() - 1;
    } else if (c == '(') {
      break;
    } else if (c == ':' || c == ' ') {
      // A space ends the return type; anything found so far was not the function.
      component = i + 1;
      base_end = std::string_view::npos;
      signature.arguments.clear();
    } else if (c == '<') {
      std::vector<std::size_t> commas;
      const std::size_t end = closing(name, i, &commas);
      if (end == std::string_view::npos) break;
      if (base_end == std::string_view::npos) base_end = i;
      signature.arguments.clear();
      std::size_t begin = i + 1;
      commas.push_back(end);
      for (const std::size_t comma : commas) {
        signature.arguments.push_back(trimmed(name.substr(begin, comma - begin)));
        begin = comma + 1;
      }
      i = end;
    }
  }
  signature.identity = name.substr(0, i);
  const std::size_t end = base_end == std::string_view::npos ? i : base_end;
  signature.base = name.substr(component, end - component);
  if (signature.base.empty()) signature.base = signature.identity = name;
  return signature;
}

std::string with_halves_alike(std::string_view name) {
  static constexpr std::string_view half = "c10::Half";
  std::string alike{name};
  for (std::size_t at = alike.find(half); at != std::string::npos; at = alike.find(half, at)) {
    alike.replace(at, half.size(), "c10::BFloat16");
  }
  return alike;
}

double last_type_bytes(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, double>, 15> types{{
      {"BFloat16", 2.0},
      {"__nv_bfloat16", 2.0},
      {"bfloat16_t", 2.0},
      {"Half", 2.0},
      {"half_t", 2.0},
      {"__half", 2.0},
      {"float", 4.0},
      {"double", 8.0},
      {"long", 8.0},
      {"int", 4.0},
      {"short", 2.0},
      {"char", 1.0},
      {"bool", 1.0},
      {"Float8_e4m3fn", 1.0},
      {"Float8_e5m2", 1.0},
  }};
  for (std::size_t end = text.size(); end > 0;) {
    if (!is_word(text[end - 1])) {
      --end;
      continue;
    }
    std::size_t begin = end;
    while (begin > 0 && is_word(text[begin - 1])) --begin;
    const std::string_view word = text.substr(begin, end - begin);
    for (const auto& [type, bytes] : types) {
      // c10::complex<float> has two of them.
      if (word == type) return text.substr(0, begin).ends_with("complex<") ? 2.0 * bytes : bytes;
    }
    end = begin;
  }
  return 0.0;
}

double leading_integer(std::string_view text) {
  long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end != text.data() ? static_cast<double>(value) : 0.0;
}

}  // namespace phantora
