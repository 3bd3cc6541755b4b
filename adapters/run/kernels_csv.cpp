#include "run/kernels_csv.hpp"

#include <phantora/error.hpp>
#include <phantora/kernels/query_text.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace phantora::run {
namespace {

constexpr std::array<std::string_view, 9> columns = {
    "source", "gpu", "driver", "libraries", "command", "date", "query", "picoseconds", "count"};

std::string as_field(std::string_view field) {
  if (field.find_first_of(",\"\r\n") == field.npos) return std::string{field};
  std::string text = "\"";
  for (const char c : field) text += c == '"' ? "\"\"" : std::string(1, c);
  return text + '"';
}

/// One after the other; a quoted field may hold commas and ends of lines.
class Reader {
 public:
  Reader(std::istream& text, const std::string& name)
      : text_{std::istreambuf_iterator<char>{text}, {}}, name_{name} {}

  /// The next line's fields; none at the end.
  std::vector<std::string> line() {
    std::vector<std::string> fields;
    if (at_ == text_.size()) return fields;
    number_ = next_number_;
    for (bool more = true; more;) {
      fields.push_back(field());
      more = at_ < text_.size() && text_[at_] == ',';
      if (more) ++at_;
    }
    if (at_ < text_.size() && text_[at_] == '\r') ++at_;
    if (at_ < text_.size() && text_[at_] != '\n')
      fail("the end of the line", text_.substr(at_, 20));
    if (at_ < text_.size()) ++at_;
    ++next_number_;
    return fields;
  }
  [[noreturn]] void fail(std::string_view expected, std::string_view got) const {
    throw ConfigError{
        fmt::format("{}:{}: expected {}, got '{}'", name_, number_, expected, got.substr(0, 80))};
  }

 private:
  std::string field() {
    std::string value;
    if (at_ == text_.size() || text_[at_] != '"') {
      const std::size_t end = std::min(text_.find_first_of(",\r\n", at_), text_.size());
      value = text_.substr(at_, end - at_);
      at_ = end;
      return value;
    }
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '"') {
        if (at_ + 1 == text_.size() || text_[at_ + 1] != '"') break;
        ++at_;
      }
      if (text_[at_] == '\n') ++next_number_;
      value += text_[at_];
    }
    if (at_ == text_.size()) fail("a quote at a field's end", "the end of the text");
    ++at_;
    return value;
  }

  std::string text_;
  const std::string& name_;
  std::size_t at_ = 0;
  int number_ = 0, next_number_ = 1;
};

std::int64_t number(const std::string& text, std::int64_t least, const Reader& reader) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least)
    reader.fail(fmt::format("a whole number of at least {}", least), text);
  return value;
}

}  // namespace

void write_csv(const KernelDatabase& database, std::ostream& out) {
  out << fmt::format("{}\n", fmt::join(columns, ","));
  for (const KernelSource& source : database.sources()) {
    const std::string begin = fmt::format(
        "{},{},{},{},{},{}", as_field(source.id), as_field(source.gpu), as_field(source.driver),
        as_field(source.libraries), as_field(source.command), as_field(source.date));
    for (const MeasuredKernel& kernel : database.kernels_of(source.id)) {
      const std::string query = as_field(to_text(kernel.query));
      for (const auto& [duration, count] : kernel.durations)
        out << fmt::format("{},{},{},{}\n", begin, query, duration.count(), count);
    }
  }
}

std::vector<SourceKernels> read_csv(std::istream& text, const std::string& name) {
  Reader reader{text, name};
  const std::vector<std::string> first = reader.line();
  if (!std::equal(first.begin(), first.end(), columns.begin(), columns.end()))
    reader.fail(fmt::format("a first line {}", fmt::join(columns, ",")),
                fmt::format("{}", fmt::join(first, ",")));
  std::vector<SourceKernels> all;
  std::map<std::string, std::size_t> places;
  std::map<std::pair<std::string, std::string>, std::size_t> kernels;  // by source and query
  for (std::vector<std::string> fields = reader.line(); !fields.empty(); fields = reader.line()) {
    if (fields.size() == 1 && fields[0].empty()) continue;
    if (fields.size() != columns.size())
      reader.fail(fmt::format("{} fields", columns.size()), fmt::format("{}", fields.size()));
    if (fields[0].empty()) reader.fail("a source", fields[0]);
    if (fields[1].empty()) reader.fail("a GPU's name", fields[1]);
    const auto [place, added] = places.try_emplace(fields[0], all.size());
    if (added)
      all.push_back({{.gpu = fields[1],
                      .driver = fields[2],
                      .libraries = fields[3],
                      .command = fields[4],
                      .date = fields[5],
                      .id = fields[0]},
                     {}});
    SourceKernels& source = all[place->second];
    const auto [kernel, new_kernel] =
        kernels.try_emplace({fields[0], fields[6]}, source.kernels.size());
    if (new_kernel) {
      try {
        source.kernels.push_back({query_from_text(fields[6]), {}});
      } catch (const ConfigError& error) {
        reader.fail("a query", error.what());
      }
    }
    source.kernels[kernel->second].durations[Duration{number(fields[7], 0, reader)}] +=
        static_cast<std::uint64_t>(number(fields[8], 1, reader));
  }
  return all;
}

}  // namespace phantora::run
