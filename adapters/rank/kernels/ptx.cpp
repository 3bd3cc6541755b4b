#include "rank/kernels/ptx.hpp"

#include "rank/kernels/kernel_name.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <vector>

namespace phantora::rank {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/// The next word: what blanks, commas and brackets end. Each bracket is a word of its own.
std::string_view next_word(std::string_view& text) {
  constexpr std::string_view brackets = "()[]{},;";
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

/// One ".param .align 8 .b8 name[16]", behind ".param": its bytes. `word` is the first word that is
/// not of it.
std::uint32_t parameter_size(std::string_view& text, std::string_view& word) {
  std::uint32_t size = 0, count = 1;
  for (word = next_word(text); !word.empty() && word != ")" && word != ".param";
       word = next_word(text)) {
    if (word == ".align") {
      next_word(text);
    } else if (word == "[") {
      count = number(next_word(text));
    } else if (const std::uint32_t known = type_size(word); known != 0) {
      size = known;
    }
  }
  // A kernel's parameters take up to 32764 bytes (CUDA C++ Programming Guide, since 12.1).
  constexpr std::uint64_t most = 32764;
  return static_cast<std::uint32_t>(std::min(std::uint64_t{size} * count, most));
}

/// Without comments, but for those of ours, which go to `signatures`.
std::string without_comments(std::string_view text,
                             std::vector<std::pair<std::string, std::string>>& signatures) {
  std::string code;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    if (rest.starts_with("//")) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      if (line.starts_with(ptx_signature_mark)) {
        std::string_view told = line.substr(ptx_signature_mark.size());
        const std::string_view entry = next_word(told);
        signatures.emplace_back(entry, told.substr(std::min<std::size_t>(1, told.size())));
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

}  // namespace

Ptx::Ptx(std::string_view all) {
  std::vector<std::pair<std::string, std::string>> signatures;
  const std::string code = without_comments(all, signatures);
  constexpr std::string_view entry = ".entry";
  for (std::size_t at = code.find(entry); at != code.npos; at = code.find(entry, at + 1)) {
    std::string_view text = std::string_view{code}.substr(at + entry.size());
    if (text.empty() || !is_blank(text.front())) continue;
    KernelResources& kernel = kernels_[std::string{next_word(text)}];
    kernel.parameter_sizes.clear();
    std::string_view word = next_word(text);
    if (word == "(") word = next_word(text);
    while (word == ".param") kernel.parameter_sizes.push_back(parameter_size(text, word));
    // Directives about the kernel's performance stand between its parameters and its body.
    for (word = next_word(text); !word.empty() && word != "{" && word != ";";) {
      const bool limit = word == ".maxntid" || word == ".reqntid";
      word = next_word(text);
      if (!limit) continue;
      kernel.max_threads = 1;
      for (; number(word) != 0; word = next_word(text)) {
        const int more = static_cast<int>(std::min(number(word), 1024U));
        kernel.max_threads = std::min(kernel.max_threads * more, 1024);
      }
    }
  }
  for (auto& [name, told] : signatures) {
    if (const auto kernel = kernels_.find(name); kernel != kernels_.end()) {
      kernel->second.signature = std::move(told);
    }
  }
}

const KernelResources* Ptx::find(std::string_view name) const {
  if (const auto found = kernels_.find(name); found != kernels_.end()) return &found->second;
  const std::string plain = demangled(std::string{name}.c_str());
  const auto found = kernels_.find(signature(plain).kernel.name);
  return found == kernels_.end() ? nullptr : &found->second;
}

}  // namespace phantora::rank
