#include "rank/code/ptx.hpp"

#include "rank/kernels/kernel_name.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

namespace phantora::rank {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/// The next word: what blanks, commas and brackets end. Each bracket is a word of its own, as is
/// the sign before a variable's first value.
std::string_view next_word(std::string_view& text) {
  constexpr std::string_view brackets = "()[]{},;=";
  while (!text.empty() && (is_blank(text.front()) || text.front() == ',')) text.remove_prefix(1);
  std::size_t length = 0;
  while (length < text.size() && !is_blank(text[length]) &&
         brackets.find(text[length]) == brackets.npos) {
    ++length;
  }
  if (length == 0 && !text.empty()) length = 1;
  const std::string_view word = text.substr(0, length);
  text.remove_prefix(length);
  return word;
}

std::uint32_t number(std::string_view word) {
  std::uint32_t value = 0;
  std::from_chars(word.data(), word.data() + word.size(), value);
  return value;
}

/// Bytes of a fundamental type: ".u32", ".f16x2", ".b8". 0 for other words.
std::uint32_t type_size(std::string_view word) {
  if (word == ".f16x2") return 4;
  constexpr std::string_view kinds = "usfb";
  if (word.size() < 3 || word[0] != '.' || kinds.find(word[1]) == kinds.npos) return 0;
  return number(word.substr(2)) / 8;
}

/// In bytes.
struct Parameter {
  std::uint32_t size = 0, alignment = 1;
};

/// One ".param .align 8 .b8 name[16]", behind ".param". `word` is the first word that is not of it.
Parameter parameter(std::string_view& text, std::string_view& word) {
  std::uint32_t size = 0, count = 1, alignment = 0;
  bool points = false;  // the alignment is then that of what it points to
  for (word = next_word(text); !word.empty() && word != ")" && word != ".param";
       word = next_word(text)) {
    if (word == ".ptr") {
      points = true;
    } else if (word == ".align") {
      const std::uint32_t told = number(next_word(text));
      if (!points) alignment = told;
    } else if (word == "[") {
      count = number(next_word(text));
    } else if (const std::uint32_t known = type_size(word); known != 0) {
      size = known;
    }
  }
  // A kernel's parameters take up to 32764 bytes (CUDA C++ Programming Guide, since 12.1).
  constexpr std::uint64_t most = 32764;
  return {static_cast<std::uint32_t>(std::min(std::uint64_t{size} * count, most)),
          std::max(alignment != 0 ? alignment : size, 1U)};
}

/// What comments of ours say.
struct Told {
  std::vector<std::pair<std::string, std::string>> signatures{};  ///< by entry
  std::vector<std::string> unsized_variables{};
};

/// Without comments, but for those of ours, which go to `told`.
std::string without_comments(std::string_view text, Told& told) {
  std::string code;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    if (rest.starts_with("//")) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      if (line.starts_with(ptx_signature_mark)) {
        std::string_view rest_of_line = line.substr(ptx_signature_mark.size());
        const std::string_view entry = next_word(rest_of_line);
        told.signatures.emplace_back(
            entry, rest_of_line.substr(std::min<std::size_t>(1, rest_of_line.size())));
      } else if (line.starts_with(ptx_variable_mark)) {
        told.unsized_variables.emplace_back(line.substr(ptx_variable_mark.size()));
      }
      i += line.size() - 1;
    } else if (rest.starts_with("/*")) {
      const std::size_t end = rest.find("*/");
      if (end == rest.npos) break;
      i += end + 1;
    } else {
      code += text[i];
    }
  }
  return code;
}

/// A number as PTX writes it: "-5", "0x1F", "7U", "0f3F800000" (the bits of a float), "0d..." (of a
/// double). nullopt for all else: the address of another variable, an expression.
std::optional<std::uint64_t> constant(std::string_view word) {
  const bool negative = word.starts_with('-');
  if (negative) word.remove_prefix(1);
  int base = 10;
  if (word.size() > 2 && word[0] == '0' &&
      std::string_view{"xXfFdD"}.find(word[1]) != std::string_view::npos) {
    base = 16;
    word.remove_prefix(2);
  }
  if (word.ends_with('U')) word.remove_suffix(1);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, base);
  if (error != std::errc{} || word.empty() || end != word.data() + word.size()) return std::nullopt;
  return negative ? 0 - value : value;
}

struct Declared {
  std::string_view name;
  std::uint64_t alignment = 1;
  ModuleVariable variable{};
};

/// The first values, behind "=": one, or those of an array between brackets. Empty if one of them
/// is no plain number.
std::vector<std::byte> first_values(std::string_view& text, std::size_t size, std::size_t element) {
  std::vector<std::byte> bytes(size);
  std::string_view word = next_word(text);
  const bool several = word == "{";
  if (several) word = next_word(text);
  for (std::size_t at = 0; !word.empty() && word != "}" && word != ";"; at += element) {
    const auto value = constant(word);
    if (!value || at + element > size || element > sizeof *value) return {};
    std::memcpy(bytes.data() + at, &*value, element);
    word = next_word(text);
  }
  return bytes;
}

/// ".align 4 .b8 name[12] = {1, 0, 0, 0, 2};", behind the state space. Without size: an array that
/// another module has, a texture.
Declared declaration(std::string_view& text) {
  Declared found;
  std::uint64_t element = 0, elements = 1;
  std::string_view word = next_word(text);
  for (; word.starts_with('.'); word = next_word(text)) {
    if (word == ".align") {
      found.alignment = std::max(number(next_word(text)), 1U);
    } else if (word == ".v2" || word == ".v4") {
      elements *= number(word.substr(2));
    } else if (word == ".attribute") {
      while (!word.empty() && word != ")") word = next_word(text);
    } else if (const std::uint32_t size = type_size(word); size != 0) {
      element = size;
    }
  }
  found.name = word;
  word = next_word(text);
  for (; word == "["; word = next_word(text)) {
    const std::string_view count = next_word(text);
    elements *= number(count);
    if (count != "]") next_word(text);
  }
  found.variable.size = element * elements;
  if (found.variable.size > 0 && found.variable.size <= largest_value) {
    found.variable.value = word == "=" ? first_values(text, found.variable.size, element)
                                       : std::vector<std::byte>(found.variable.size);
  }
  return found;
}

/// A kernel or another function, as far as its body tells.
struct Function {
  bool defined = false;
  std::vector<std::string_view> calls{};
  std::uint64_t shared = 0;  ///< bytes

  void share(const Declared& variable) {
    shared = (shared + variable.alignment - 1) / variable.alignment * variable.alignment;
    shared += variable.variable.size;
  }
};
using Functions = std::map<std::string_view, Function>;
using SharedVariables = std::map<std::string_view, Declared>;

/// Behind the "{" of a body.
void read_body(std::string_view& text, const SharedVariables& shared, Function& function) {
  function.defined = true;
  std::vector<std::string_view> used;
  int depth = 1;
  for (std::string_view word = next_word(text); !word.empty(); word = next_word(text)) {
    if (word == "{") ++depth;
    if (word == "}" && --depth == 0) return;
    if (word == ".shared") {
      function.share(declaration(text));
    } else if (word == "call" || word.starts_with("call.")) {
      // call.uni (returned), name, (arguments);
      word = next_word(text);
      if (word == "(") {
        while (!word.empty() && word != ")") word = next_word(text);
        word = next_word(text);
      }
      function.calls.push_back(word);
    } else if (const auto found = shared.find(word.substr(0, word.find('+')));
               found != shared.end() && std::ranges::find(used, found->first) == used.end()) {
      used.push_back(found->first);
      function.share(found->second);
    }
  }
}

/// Those of its functions' calls, its own and of all that it calls, that no function here answers.
std::vector<std::string> externals(const Functions& functions, std::string_view kernel) {
  std::vector<std::string> found;
  std::vector<std::string_view> seen{kernel};
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const auto function = functions.find(seen[i]);
    if (function == functions.end() || !function->second.defined) {
      found.emplace_back(seen[i]);
      continue;
    }
    for (const std::string_view called : function->second.calls) {
      if (std::ranges::find(seen, called) == seen.end()) seen.push_back(called);
    }
  }
  return found;
}

/// Parameters, and the directives about performance that stand between them and the body.
/// @return the word behind them.
std::string_view read_head(std::string_view& text, KernelResources& kernel) {
  kernel.parameter_sizes.clear();
  kernel.parameter_offsets.clear();
  std::string_view word = next_word(text);
  if (word == "(") word = next_word(text);
  std::uint64_t end = 0;  // each lies behind the one before, as far as its alignment asks
  while (word == ".param") {
    const Parameter read = parameter(text, word);
    const std::uint64_t begin = (end + read.alignment - 1) / read.alignment * read.alignment;
    kernel.parameter_offsets.push_back(static_cast<std::uint32_t>(begin));
    kernel.parameter_sizes.push_back(read.size);
    end = begin + read.size;
  }
  while (!word.empty() && word != "{" && word != ";") {
    const bool limit = word == ".maxntid" || word == ".reqntid";
    word = next_word(text);
    if (!limit) continue;
    kernel.max_threads = 1;
    for (; number(word) != 0; word = next_word(text)) {
      const int more = static_cast<int>(std::min(number(word), 1024U));
      kernel.max_threads = std::min(kernel.max_threads * more, 1024);
    }
  }
  return word;
}

}  // namespace

Ptx::Ptx(std::string_view all) {
  Told told;
  const std::string code = without_comments(all, told);
  Functions functions;
  SharedVariables shared;
  std::string_view text = code, before;
  for (std::string_view word = next_word(text); !word.empty();
       before = std::exchange(word, next_word(text))) {
    if (word == ".entry") {
      const std::string_view name = next_word(text);
      KernelResources& kernel = kernels_[std::string{name}];
      if (read_head(text, kernel) == "{") read_body(text, shared, functions[name]);
    } else if (word == ".func") {
      std::string_view name = next_word(text);
      if (name == "(") {
        while (!name.empty() && name != ")") name = next_word(text);
        name = next_word(text);
      }
      KernelResources ignored;
      if (read_head(text, ignored) == "{") read_body(text, shared, functions[name]);
    } else if (before == ".extern") {
      continue;  // another module's
    } else if (word == ".shared") {
      const Declared variable = declaration(text);
      shared.emplace(variable.name, variable);
    } else if (word == ".global" || word == ".const") {
      Declared declared = declaration(text);
      if (declared.variable.size == 0) continue;
      declared.variable.constant = word == ".const";
      variables_.emplace(declared.name, std::move(declared.variable));
    }
  }
  for (auto& [name, kernel] : kernels_) {
    const auto body = functions.find(name);
    if (body == functions.end()) continue;
    kernel.static_shared = body->second.shared;
    kernel.externals = externals(functions, name);
  }
  for (auto& [name, signature] : told.signatures) {
    if (const auto kernel = kernels_.find(name); kernel != kernels_.end()) {
      kernel->second.signature = std::move(signature);
    }
  }
  for (std::string& name : told.unsized_variables) {
    variables_.emplace(std::move(name), ModuleVariable{});
  }
}

const KernelResources* Ptx::find(std::string_view name) const {
  if (const auto found = kernels_.find(name); found != kernels_.end()) return &found->second;
  const std::string plain = demangled(std::string{name}.c_str());
  const auto found = kernels_.find(signature(plain).kernel.name);
  return found == kernels_.end() ? nullptr : &found->second;
}

const ModuleVariable* Ptx::variable(std::string_view name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? nullptr : &found->second;
}

}  // namespace phantora::rank
