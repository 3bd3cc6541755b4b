#include "cuda/nvrtc/source.hpp"

#include "rank/code/ptx.hpp"
#include "rank/kernels/families/offset_calculator.hpp"
#include "rank/kernels/kernel_name.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

namespace phantora::nvrtc {
namespace {

bool is_name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_blank(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

/// The source without comments.
std::string without_comments(std::string_view text) {
  std::string code;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    if (rest.starts_with("//")) {
      i += std::min(rest.find('\n'), rest.size()) - 1;
    } else if (rest.starts_with("/*")) {
      const std::size_t end = rest.find("*/", 2);
      if (end == rest.npos) break;
      i += end + 1;
      code += ' ';
    } else {
      code += text[i];
    }
  }
  return code;
}

/// The position behind the bracket that closes the one at `open`.
std::size_t behind(std::string_view text, std::size_t open) {
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (text[i] == '(' || text[i] == '<' || text[i] == '{' || text[i] == '[') ++depth;
    if (text[i] == ')' || text[i] == '>' || text[i] == '}' || text[i] == ']') --depth;
    if (depth == 0) return i + 1;
  }
  return text.size();
}

/// From the brace at `open` to the one that closes it: other brackets may be comparisons there.
std::string_view body_at(std::string_view text, std::size_t open) {
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}' && --depth == 0) return text.substr(open, i + 1 - open);
  }
  return text.substr(open);
}

std::vector<std::string_view> list(std::string_view text) {
  std::vector<std::string_view> items;
  std::size_t from = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(' || text[i] == '<' || text[i] == '{' || text[i] == '[') {
      i = behind(text, i) - 1;
    } else if (text[i] == ',') {
      items.push_back(trimmed(text.substr(from, i - from)));
      from = i + 1;
    }
  }
  if (const auto last = trimmed(text.substr(from)); !last.empty()) items.push_back(last);
  return items;
}

/// Calls `visit(name, begin, end)` for each identifier.
template <class F>
void for_each_name(std::string_view text, F visit) {
  for (std::size_t i = 0; i < text.size();) {
    if (!is_name_char(text[i])) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < text.size() && is_name_char(text[end])) ++end;
    visit(text.substr(i, end - i), i, end);
    i = end;
  }
}

/// A template's own names for its arguments.
using Names = std::map<std::string, std::string, std::less<>>;

std::string replaced(std::string_view text, const Names& names) {
  std::string out;
  std::size_t from = 0;
  for_each_name(text, [&](std::string_view name, std::size_t begin, std::size_t end) {
    const auto found = names.find(name);
    if (found == names.end()) return;
    out.append(text.substr(from, begin - from)).append(found->second);
    from = end;
  });
  return out.append(text.substr(from));
}

/// What stands behind "using NAME =".
std::optional<std::string_view> alias(std::string_view code, std::string_view name) {
  std::optional<std::string_view> found;
  for_each_name(code, [&](std::string_view word, std::size_t, std::size_t end) {
    if (word != "using" || found) return;
    const std::string_view rest = code.substr(end, code.find(';', end) - end);
    const std::size_t equals = rest.find('=');
    if (equals != rest.npos && trimmed(rest.substr(0, equals)) == name) {
      found = trimmed(rest.substr(equals + 1));
    }
  });
  return found;
}

/// "2", "1+1".
std::optional<std::uint32_t> integer(std::string_view text) {
  std::uint32_t sum = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t plus = std::min(rest.find('+'), rest.size());
    const std::string_view term = trimmed(rest.substr(0, plus));
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(term.data(), term.data() + term.size(), value);
    if (error != std::errc{} || value > 1024) return std::nullopt;
    sum += value;
    rest.remove_prefix(std::min(plus + 1, rest.size()));
  }
  return sum;
}

/// Bytes of a value of a type. Those of the jiterator are as ATen/native/cuda/jit_utils.cpp and
/// reduction_template.cuh define them; their sizes are what the host passes.
/// @param depth  of aliases and arguments, which end somewhere in a source that compiles.
std::optional<std::uint32_t> size_of(std::string_view type, std::string_view code, int depth = 0) {
  if (depth > 16) return std::nullopt;
  static const std::map<std::string_view, std::uint32_t> known = {
      {"bool", 1},
      {"char", 1},
      {"signed char", 1},
      {"unsigned char", 1},
      {"int8_t", 1},
      {"uint8_t", 1},
      {"short", 2},
      {"unsigned short", 2},
      {"int16_t", 2},
      {"uint16_t", 2},
      {"__half", 2},
      {"half", 2},
      {"__nv_bfloat16", 2},
      {"at::Half", 2},
      {"at::BFloat16", 2},
      {"int", 4},
      {"unsigned", 4},
      {"unsigned int", 4},
      {"int32_t", 4},
      {"uint32_t", 4},
      {"float", 4},
      {"long", 8},
      {"unsigned long", 8},
      {"long long", 8},
      {"long long int", 8},
      {"unsigned long long", 8},
      {"int64_t", 8},
      {"uint64_t", 8},
      {"size_t", 8},
      {"double", 8},
      {"float2", 8},
      {"int2", 8},
      {"float4", 16},
      {"int4", 16},
      {"LoadWithoutCast", 1},
      {"StoreWithoutCast", 1},
  };
  if (type.ends_with('*') || type.ends_with('&')) return 8;
  if (const auto found = known.find(type); found != known.end()) return found->second;
  const rank::TemplateName name = rank::template_name(type);
  const auto argument = [&] { return integer(name.arguments[0]); };
  if (name.name == "std::complex") {
    const auto part = size_of(name.arguments[0], code, depth + 1);
    if (part) return 2 * *part;
  } else if (name.name == "Array" || name.name == "std::array") {
    const auto element = size_of(name.arguments[0], code, depth + 1);
    const auto count = integer(name.arguments[1]);
    if (element && count) return *element * *count;
  } else if (name.name == "TrivialOffsetCalculator") {
    return 1;
  } else if (name.name == "OffsetCalculator") {
    if (const auto n = argument()) {
      return static_cast<std::uint32_t>(rank::OffsetCalculator::bytes(*n));
    }
  } else if (name.name == "LoadWithCast" || name.name == "StoreWithCast") {
    // A byte for the type of each operand, then four for its size.
    if (const auto n = argument()) return (std::max(*n, 1U) + 3) / 4 * 4 + 4 * std::max(*n, 1U);
  } else if (name.name == "ReduceJitOp") {
    // The identity, ReduceConfig, two calculators; pointers, an index, two flags and a count.
    const auto accumulator = alias(code, "arg_t");
    const auto identity = accumulator ? size_of(*accumulator, code, depth + 1) : std::nullopt;
    if (!identity) return std::nullopt;
    const auto head =
        *identity + 64 + rank::OffsetCalculator::bytes(1) + rank::OffsetCalculator::bytes(2);
    return static_cast<std::uint32_t>((head + 7) / 8 * 8 + 64);
  } else if (const auto other = alias(code, type); other && *other != type) {
    return size_of(*other, code, depth + 1);
  }
  return std::nullopt;
}

/// A parameter's type as the demangler prints it: "float const*" for "const float* __restrict__ x".
std::string parameter_type(std::string_view parameter) {
  parameter = trimmed(parameter.substr(0, parameter.find('=')));
  // The name comes last, unless the type stands alone or ends with a bracket or a star.
  std::vector<std::string> words;
  int depth = 0;
  std::string current;
  const auto finish = [&] {
    if (!current.empty()) words.push_back(std::exchange(current, {}));
  };
  for (const char c : parameter) {
    if (c == '<') ++depth;
    if (c == '>') --depth;
    if (depth == 0 && (c == '*' || c == '&')) {
      finish();
      words.emplace_back(1, c);
    } else if (depth == 0 && is_blank(c)) {
      finish();
    } else {
      current += c;
    }
  }
  finish();
  std::string base, pointers;
  bool constant = false;
  const bool array = !words.empty() && words.back().ends_with(']');
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool last = i + 1 == words.size();
    if (word == "*" || word == "&") {
      pointers += word;
    } else if (word == "const") {
      constant = constant || pointers.empty();
    } else if (word.starts_with("__restrict") || word == "volatile" ||
               word == "__grid_constant__" || word == "struct") {
      continue;
    } else if (pointers.empty() && !(last && !base.empty())) {
      base += (base.empty() ? "" : " ") + word;
    } else if (pointers.empty() && (word == "int" || word == "long" || word == "char")) {
      base += " " + word;  // "unsigned int" without a name
    }
  }
  if (array) pointers += '*';
  return base + (constant && !pointers.empty() ? " const" : "") + pointers;
}

/// Text between the first `open` and the next `close`.
std::string_view between(std::string_view text, std::string_view open, char close) {
  const std::size_t from = text.find(open);
  if (from == text.npos) return {};
  const std::string_view rest = text.substr(from + open.size());
  return trimmed(rest.substr(0, rest.find(close)));
}

/// "<...>" behind the name of a kernel that PyTorch's jiterator wrote: what it computes, and in
/// which types. Empty for others.
std::string jiterated(std::string_view code, std::string_view body,
                      const std::vector<std::string>& parameters) {
  if (parameters.size() == 1 && parameters[0] == "ReduceJitOp") {
    const auto input = alias(code, "scalar_t"), output = alias(code, "out_scalar_t"),
               accumulator = alias(code, "arg_t");
    const std::size_t combine = code.find(" combine(");
    if (!input || !output || !accumulator || combine == code.npos) return {};
    std::string formula{between(code.substr(combine), "return", ';')};
    std::erase_if(formula, is_blank);
    return "<" + std::string{*input} + ", " + std::string{*accumulator} + ", " +
           std::string{*output} + ", " + formula + ">";
  }
  if (parameters.size() < 3 || !parameters[1].starts_with("Array<char*")) return {};
  // "out0[j] = function<float>(arg0[j]);", or "function<float>(arg0[j], out0[j], out1[j]);".
  int outputs = 0;
  while (body.find(" out" + std::to_string(outputs) + "[") != body.npos) ++outputs;
  std::string_view function = between(body, "out0[j] =", '<');
  if (outputs > 1 || function.find('(') != function.npos) function = {};
  std::string_view input = alias(body, "scalar_t").value_or(between(body, "l.load<", '('));
  std::string_view output = between(body, "aligned_vector<", ',');
  if (output.empty()) output = between(body, "s.store<", '(');
  for (std::string_view* type : {&input, &output}) {
    if (type->ends_with('>') && type->find('<') == type->npos) type->remove_suffix(1);
  }
  if (outputs == 0 || output.empty()) return {};
  return "<" + std::string{function} + ", " + std::to_string(outputs) + ", " + std::string{output} +
         ", " + std::string{input} + ">";
}

/// A "__global__" function as the source has it.
struct Definition {
  std::string_view name, parameters, body;
  std::vector<std::string_view> template_parameters;
  bool is_template = false;
};

std::vector<Definition> definitions(std::string_view code) {
  std::vector<Definition> found;
  constexpr std::string_view keyword = "__global__";
  for (std::size_t at = code.find(keyword); at != code.npos; at = code.find(keyword, at + 1)) {
    Definition definition;
    const std::size_t before = code.find_last_of(";}#", at);
    std::string_view head = code.substr(before + 1, at - before - 1);
    if (const std::size_t from = head.rfind("template"); from != head.npos) {
      const std::size_t open = head.find('<', from);
      definition.is_template = open != head.npos;
      if (definition.is_template) {
        definition.template_parameters = list(head.substr(open + 1, behind(head, open) - open - 2));
      }
    }
    // The name is the word before the bracket that no attribute ("__launch_bounds__(256)") has.
    for (std::size_t open = code.find('(', at); open != code.npos; open = code.find('(', open)) {
      std::size_t end = open;
      while (end > at && is_blank(code[end - 1])) --end;
      std::size_t begin = end;
      while (begin > at && is_name_char(code[begin - 1])) --begin;
      const std::string_view word = code.substr(begin, end - begin);
      const std::size_t close = behind(code, open);
      if (word.starts_with("__")) {
        open = close;
        continue;
      }
      definition.name = word;
      definition.parameters = code.substr(open + 1, close - open - 2);
      const std::size_t brace = code.find_first_not_of(" \t\r\n", close);
      if (brace != code.npos && code[brace] == '{') {
        definition.body = body_at(code, brace);
      }
      break;
    }
    if (!definition.name.empty()) found.push_back(definition);
  }
  return found;
}

/// Bodies of the source's functions, by name. What else has a bracket before a brace is among them
/// (macros), and is looked at only if a body names it.
using Bodies = std::multimap<std::string_view, std::string_view>;

Bodies bodies_of(std::string_view code) {
  constexpr std::array<std::string_view, 5> statements{"if", "for", "while", "switch", "catch"};
  Bodies found;
  std::vector<std::size_t> open;
  std::size_t closed = 0;  // where the last "(...)" began
  char last = '\0';        // that was no blank
  for (std::size_t i = 0; i < code.size(); ++i) {
    if (is_blank(code[i])) continue;
    if (code[i] == '(') open.push_back(i);
    if (code[i] == ')' && !open.empty()) {
      closed = open.back();
      open.pop_back();
    }
    if (code[i] == '{' && last == ')') {
      std::size_t end = closed;
      while (end > 0 && is_blank(code[end - 1])) --end;
      std::size_t begin = end;
      while (begin > 0 && is_name_char(code[begin - 1])) --begin;
      const std::string_view name = code.substr(begin, end - begin);
      if (!name.empty() && std::ranges::find(statements, name) == statements.end()) {
        found.emplace(name, body_at(code, i));
      }
    }
    last = code[i];
  }
  return found;
}

/// What a body asks of the driver, itself or through the functions that it names.
std::vector<std::string> externals(std::string_view body, const Bodies& bodies) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 2> known{
      {{"assert", "__assertfail"}, {"printf", "vprintf"}}};
  std::vector<std::string> found;
  std::vector<std::string_view> seen, pending{body};
  while (!pending.empty()) {
    const std::string_view text = pending.back();
    pending.pop_back();
    for_each_name(text, [&](std::string_view name, std::size_t, std::size_t end) {
      if (std::ranges::find(seen, name) != seen.end()) return;
      seen.push_back(name);
      const auto [first, last] = bodies.equal_range(name);
      for (auto function = first; function != last; ++function) pending.push_back(function->second);
      if (!trimmed(text.substr(end)).starts_with('(')) return;
      for (const auto& [called, external] : known)
        if (name == called) found.emplace_back(external);
    });
  }
  return found;
}

SourceKernel kernel_of(std::string_view code, const Bodies& bodies, const Definition& definition,
                       std::string name, const Names& names) {
  SourceKernel kernel{std::move(name), {}, {}, {}, externals(definition.body, bodies)};
  std::vector<std::string> types;
  for (const std::string_view parameter : list(definition.parameters)) {
    if (parameter == "void") continue;
    types.push_back(replaced(parameter_type(parameter), names));
    const auto size = size_of(types.back(), code);
    if (!kernel.unknown_type.empty()) continue;
    if (size) {
      kernel.parameter_sizes.push_back(*size);
    } else {
      kernel.unknown_type = types.back();
    }
  }
  kernel.signature = kernel.name + jiterated(code, definition.body, types) + "(";
  for (std::size_t i = 0; i < types.size(); ++i) {
    kernel.signature += (i == 0 ? "" : ", ") + types[i];
  }
  kernel.signature += ")";
  std::replace_if(kernel.signature.begin(), kernel.signature.end(), is_blank, ' ');
  return kernel;
}

}  // namespace

std::vector<SourceKernel> read_kernels(std::string_view source,
                                       const std::vector<std::string>& expressions) {
  const std::string code = without_comments(source);
  const std::vector<Definition> all = definitions(code);
  const Bodies bodies = bodies_of(code);
  std::vector<SourceKernel> kernels;
  for (const Definition& definition : all) {
    if (definition.is_template) continue;
    kernels.push_back(kernel_of(code, bodies, definition, std::string{definition.name}, {}));
  }
  for (const std::string& expression : expressions) {
    std::string_view text = trimmed(expression);
    if (text.starts_with('&')) text = trimmed(text.substr(1));
    const rank::TemplateName wanted = rank::template_name(text);
    const auto found = std::find_if(all.begin(), all.end(), [&](const Definition& definition) {
      return definition.name == rank::unqualified(wanted.name);
    });
    if (found == all.end()) continue;  // a variable, or a kernel of a header
    Names names;
    for (std::size_t i = 0; i < found->template_parameters.size(); ++i) {
      std::string_view parameter = found->template_parameters[i];
      const std::size_t equals = parameter.find('=');
      std::string_view value =
          equals == parameter.npos ? "" : trimmed(parameter.substr(equals + 1));
      if (i < wanted.arguments.size()) value = wanted.arguments[i];
      parameter = trimmed(parameter.substr(0, equals));
      std::size_t begin = parameter.size();
      while (begin > 0 && is_name_char(parameter[begin - 1])) --begin;
      names.emplace(parameter.substr(begin), value);
    }
    kernels.push_back(kernel_of(code, bodies, *found, std::string{text}, names));
  }
  return kernels;
}

std::vector<SourceVariable> read_variables(std::string_view source) {
  const std::string code = without_comments(source);
  std::vector<SourceVariable> variables;
  for_each_name(code, [&](std::string_view word, std::size_t begin, std::size_t end) {
    if (word != "__device__" && word != "__constant__") return;
    // The whole declaration: other words may stand before this one.
    const std::size_t stop = code.find_first_of("=;({", end);
    if (stop == code.npos || code[stop] == '(') return;  // a function
    const std::string_view before{code.data(), begin};
    if (std::ranges::count(before, '{') != std::ranges::count(before, '}')) return;
    const std::size_t head = before.find_last_of(";}#\n") + 1;  // npos + 1 is the begin
    std::string_view declared = trimmed(std::string_view{code}.substr(head, stop - head));
    std::uint32_t elements = 1;
    while (declared.ends_with(']')) {
      const std::size_t open = declared.rfind('[');
      if (open == declared.npos) return;
      elements *= integer(declared.substr(open + 1, declared.size() - open - 2)).value_or(0);
      declared = trimmed(declared.substr(0, open));
    }
    std::size_t from = declared.size();
    while (from > 0 && is_name_char(declared[from - 1])) --from;
    SourceVariable variable{.name = std::string{declared.substr(from)}};
    const auto named = [&](const SourceVariable& other) { return other.name == variable.name; };
    if (variable.name.empty() || std::ranges::any_of(variables, named)) return;
    const Names attributes{{"__device__", ""}, {"__constant__", ""}, {"static", ""},
                           {"const", ""},      {"volatile", ""},     {"extern", ""}};
    const std::string type = replaced(declared.substr(0, from), attributes);
    variable.size = size_of(trimmed(type), code).value_or(0) * elements;
    variable.constant = declared.find("__constant__") != declared.npos;
    variable.initialized = code[stop] != ';';
    variables.push_back(std::move(variable));
  });
  return variables;
}

std::string entry_name(std::string_view kernel) {
  // Identifiers of PTX hold letters, digits, '_' and '$'.
  std::string name{kernel};
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !is_name_char(c); }, '$');
  return name;
}

std::string to_ptx(const std::vector<SourceKernel>& kernels, std::string_view target,
                   const std::vector<SourceVariable>& variables) {
  std::string text =
      "// Written by Phantora's stand-in for NVRTC: kernels' parameters, without their code.\n"
      ".version 8.8\n.target " +
      std::string{target} + "\n.address_size 64\n";
  for (const SourceVariable& variable : variables) {
    if (variable.size == 0) {
      text.append(rank::ptx_variable_mark).append(variable.name).append("\n");
      continue;
    }
    text.append(variable.constant ? ".visible .const" : ".visible .global")
        .append(" .align 8 .b8 ");
    text.append(variable.name).append("[").append(std::to_string(variable.size)).append("]");
    text.append(variable.initialized ? " = unknown;\n" : ";\n");
  }
  for (const SourceKernel& kernel : kernels) {
    const std::string name = entry_name(kernel.name);
    text.append(rank::ptx_signature_mark).append(name).append(" ").append(kernel.signature);
    text.append("\n.visible .entry ").append(name).append("(");
    for (std::size_t i = 0; i < kernel.parameter_sizes.size(); ++i) {
      text.append(i == 0 ? "" : ", ").append(".param .align 1 .b8 p").append(std::to_string(i));
      text.append("[").append(std::to_string(kernel.parameter_sizes[i])).append("]");
    }
    text.append(")\n{\n");
    for (const std::string& external : kernel.externals) {
      text.append("  call.uni ").append(external).append(", ();\n");
    }
    text.append("  ret;\n}\n");
  }
  return text;
}

}  // namespace phantora::nvrtc
