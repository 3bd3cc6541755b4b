#include <phantora/error.hpp>
#include <phantora/kernels/kernel_data.hpp>

#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <string_view>
#include <system_error>

namespace phantora {

namespace {

constexpr std::array<std::string_view, 9> columns{
    "name", "grid", "block", "shared", "bytes", "us", "features", "attributes", "stddev"};
/// The last one may be missing.
constexpr std::size_t least_columns = columns.size() - 1;

/// The line before has the name: those of PyTorch's kernels are as long as a page.
constexpr std::string_view same_name = "\"";

/// A place in the text, to complain about.
struct Place {
  const std::string& source;
  int line;

  [[noreturn]] void fail(std::string_view field, std::string_view expected,
                         std::string_view got) const {
    throw ConfigError{source + ":" + std::to_string(line) + ": field '" + std::string{field} +
                      "': expected " + std::string{expected} + ", got '" +
                      std::string{got.substr(0, 80)} + "'"};
  }
};

/// Cuts `text` at its first `separator`; the second part is empty if there is none.
std::pair<std::string_view, std::string_view> cut(std::string_view text, char separator) {
  const auto at = text.find(separator);
  if (at == std::string_view::npos) return {text, {}};
  return {text.substr(0, at), text.substr(at + 1)};
}

template <class T>
T number(std::string_view text, std::string_view field, std::string_view expected,
         const Place& place) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) place.fail(field, expected, text);
  return value;
}

double amount(std::string_view text, std::string_view field, const Place& place) {
  const auto value = number<double>(text, field, "a number >= 0", place);
  if (!(std::isfinite(value) && value >= 0.0)) place.fail(field, "a number >= 0", text);
  return value;
}

std::optional<KernelQuery::Dim3> dimensions(std::string_view text, std::string_view field,
                                            const Place& place) {
  if (text == "-") return std::nullopt;
  KernelQuery::Dim3 dim;
  std::string_view rest = text;
  for (std::uint32_t* part : {&dim.x, &dim.y, &dim.z}) {
    const auto [head, tail] = cut(rest, 'x');
    *part = number<std::uint32_t>(head, field, "XxYxZ or -", place);
    rest = tail;
  }
  if (!rest.empty() || dim.count() < 1.0) place.fail(field, "XxYxZ or -", text);
  return dim;
}

template <class Insert>
void pairs(std::string_view text, std::string_view field, const Place& place, Insert insert) {
  if (text == "-") return;
  for (std::string_view rest = text; !rest.empty();) {
    const auto [entry, tail] = cut(rest, ';');
    const auto [key, value] = cut(entry, '=');
    if (key.empty() || value.empty()) place.fail(field, "key=value;key=value or -", text);
    insert(std::string{key}, value);
    rest = tail;
  }
}

Measurement measurement(std::string_view line, std::size_t count, const Place& place) {
  std::array<std::string_view, columns.size()> fields;
  std::string_view rest = line;
  for (std::size_t i = 0; i < count; ++i) {
    if (i + 1 < count && rest.find('\t') == std::string_view::npos) {
      place.fail(columns.at(i), std::to_string(count) + " fields", line);
    }
    std::tie(fields.at(i), rest) = cut(rest, '\t');
  }
  if (!rest.empty()) place.fail(columns.at(count - 1), "the end of the line", rest);
  Measurement row;
  if (fields[0].empty()) place.fail("name", "a kernel's name", fields[0]);
  row.query.name = fields[0];
  row.query.grid = dimensions(fields[1], "grid", place);
  row.query.block = dimensions(fields[2], "block", place).value_or(KernelQuery::Dim3{});
  row.query.shared_bytes = number<std::uint32_t>(fields[3], "shared", "a whole number", place);
  row.query.bytes = amount(fields[4], "bytes", place);
  const double us = amount(fields[5], "us", place);
  // An hour for one kernel is surely a slip of the unit.
  if (!(us > 0.0 && us < 3.6e9)) place.fail("us", "a time > 0 in microseconds", fields[5]);
  row.duration = duration_from_seconds(us * 1e-6);
  pairs(fields[6], "features", place, [&](std::string key, std::string_view value) {
    row.query.features.insert_or_assign(std::move(key), amount(value, "features", place));
  });
  pairs(fields[7], "attributes", place, [&](std::string key, std::string_view value) {
    row.query.attributes.insert_or_assign(std::move(key), std::string{value});
  });
  if (count == columns.size()) {
    const double stddev = amount(fields[8], "stddev", place);
    if (stddev >= 3.6e9) place.fail("stddev", "a time in microseconds", fields[8]);
    row.stddev = duration_from_seconds(stddev * 1e-6);
  }
  return row;
}

}  // namespace

std::vector<Measurement> read_measurements(std::istream& text, const std::string& source) {
  std::vector<Measurement> rows;
  std::size_t count = 0;  // of columns, once their names have been read
  Place place{source, 0};
  for (std::string line; std::getline(text, line);) {
    ++place.line;
    if (line.empty() || line.front() == '#') continue;
    if (count > 0) {
      Measurement row = measurement(line, count, place);
      if (row.query.name == same_name) {
        if (rows.empty()) place.fail("name", "a kernel's name in the first line", same_name);
        row.query.name = rows.back().query.name;
      }
      rows.push_back(std::move(row));
      continue;
    }
    std::string_view rest = line;
    for (const std::string_view column : columns) {
      if (count == least_columns && rest.empty()) break;
      const auto [name, tail] = cut(rest, '\t');
      if (name != column) place.fail(column, "this column's name", name);
      rest = tail;
      ++count;
    }
  }
  if (count == 0) place.fail("name", "a line that names the columns", "the end of the text");
  return rows;
}

std::vector<Measurement> read_measurements(const std::filesystem::path& path) {
  std::ifstream file{path};
  if (!file) throw ConfigError{"kernel data: expected a readable file at '" + path.string() + "'"};
  return read_measurements(file, path.string());
}

}  // namespace phantora
