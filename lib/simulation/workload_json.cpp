#include "simulation/workload_form.hpp"

#include <phantora/error.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>

// The JSON form of a workload.
namespace phantora {
namespace detail {
namespace {

using Json = nlohmann::ordered_json;

class JsonWriter {
 public:
  void integer(std::string_view field, std::int64_t value, std::int64_t, std::int64_t) {
    put(field, value);
  }
  void number(std::string_view field, double value) { put(field, value); }
  void text(std::string_view field, const std::string& value) { put(field, value); }
  void word(std::string_view field, std::size_t number, std::span<const std::string_view> words) {
    put(field, std::string{words[number]});
  }
  template <class Resize, class Each>
  void list(std::string_view field, std::size_t size, std::size_t, std::size_t, Resize, Each each) {
    nested(field, Json::array(), [&] {
      for (std::size_t i = 0; i < size; ++i) each(i);
    });
  }
  template <class Value>
  void map(std::string_view field, const std::map<std::string, Value, std::less<>>& entries) {
    Json object = Json::object();
    for (const auto& [key, value] : entries) object[key] = value;
    put(field, std::move(object));
  }
  template <class T, class Each>
  void optional(std::string_view, std::optional<T>& value, Each each) {
    if (value) each(*value);
  }
  template <class Each>
  void object(std::string_view field, Each each) {
    nested(field, Json::object(), each);
  }
  template <class Each>
  void row(Each each) {
    nested({}, Json::array(), each);
  }

  Json json{};

 private:
  Json& put(std::string_view field, Json value) {
    if (at_ == nullptr) return json = std::move(value);
    if (at_->is_array()) return at_->emplace_back(std::move(value));
    return (*at_)[std::string{field}] = std::move(value);
  }
  template <class Each>
  void nested(std::string_view field, Json empty, Each each) {
    Json* const outer = std::exchange(at_, &put(field, std::move(empty)));
    each();
    at_ = outer;
  }
  Json* at_ = nullptr;
};

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// A line for each entry of the tables, and for each operation of the ranks.
std::string laid_out(const Json& json) {
  std::string text = "{";
  const auto lines = [&](const Json& list, const std::string& indent) {
    for (std::size_t i = 0; i < list.size(); ++i)
      text += (i == 0 ? "\n" : ",\n") + indent + line_of(list[i]);
  };
  bool first = true;
  for (const auto& [field, value] : json.items()) {
    text += (std::exchange(first, false) ? "\n \"" : ",\n \"") + field + "\": ";
    if (!value.is_array()) {
      text += line_of(value);
    } else if (field == "ranks") {
      text += '[';
      for (std::size_t rank = 0; rank < value.size(); ++rank) {
        text += rank == 0 ? "\n  [" : ",\n  [";
        lines(value[rank], "   ");
        text += ']';
      }
      text += ']';
    } else {
      text += '[';
      lines(value, "  ");
      text += ']';
    }
  }
  return text + "\n}\n";
}

/// A step from a value to one within it: a field's name, or an entry's number.
struct Step {
  bool entry = false;
  std::size_t number = 0;
  std::string field{};
  bool operator==(const Step&) const = default;
};
using Path = std::vector<Step>;

/// Finds the line of a JSON text on which a value begins. Made only where that is wrong, so that
/// values need not carry their lines.
class LineFinder final : public nlohmann::json_sax<Json> {
 public:
  LineFinder(std::string_view text, Path wanted) : text_{text}, wanted_{std::move(wanted)} {}
  std::size_t find() {
    (void)Json::sax_parse(Place{text_.data(), this}, Place{text_.data() + text_.size(), this},
                          this);
    return found_;
  }

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool string(string_t&) override { return value(); }
  bool binary(binary_t&) override { return value(); }
  bool start_object(std::size_t) override { return start(Step{}); }
  bool start_array(std::size_t) override { return start(Step{.entry = true}); }
  bool key(string_t& key) override {
    here_.back().field = key;
    return true;
  }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) override {
    return false;
  }

 private:
  /// Where the parser is in the text.
  struct Place {
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = const char&;
    const char* at;
    LineFinder* finder;
    reference operator*() const { return *at; }
    Place& operator++() {
      // The parser reads a character beyond a number: it may be the end of the number's line.
      if (std::exchange(finder->at_line_end_, *at == '\n')) ++finder->line_;
      ++at;
      return *this;
    }
    bool operator==(const Place& other) const { return at == other.at; }
    bool operator!=(const Place& other) const { return at != other.at; }
  };

  bool value() {
    if (here_ == wanted_) {
      found_ = line_;
      return false;
    }
    past();
    return true;
  }
  bool start(Step inside) {
    if (here_ == wanted_) return value();
    here_.push_back(std::move(inside));
    return true;
  }
  bool end() {
    here_.pop_back();
    past();
    return true;
  }
  void past() {
    if (!here_.empty() && here_.back().entry) ++here_.back().number;
  }

  std::string_view text_;
  Path wanted_, here_{};
  std::size_t line_ = 1, found_ = 1;
  bool at_line_end_ = false;
};

class JsonReader {
 public:
  JsonReader(std::string_view text, std::string_view source) : text_{text}, source_{source} {
    try {
      // What is written here nests 6 deep; what prints a value in an error recurses.
      constexpr int deepest = 16;
      json_ = Json::parse(text, [&](int depth, Json::parse_event_t, Json&) {
        if (depth > deepest)
          throw ConfigError{std::string{source_} + ": expected lists and objects that nest up to " +
                            std::to_string(deepest) + " deep, got more"};
        return true;
      });
    } catch (const Json::exception& error) {
      // [json.exception.parse_error.101] parse error at line 1, column 2: ...
      const std::string_view what = error.what();
      throw ConfigError{std::string{source_} + ": " + std::string{what.substr(what.find(']') + 2)}};
    }
  }

  void integer(std::string_view field, std::int64_t& value, std::int64_t least, std::int64_t most) {
    const Json& json = get(field);
    const bool beyond = json.is_number_unsigned() &&
                        json.get<std::uint64_t>() > static_cast<std::uint64_t>(form::any);
    if (!json.is_number_integer() || beyond || json.get<std::int64_t>() < least ||
        json.get<std::int64_t>() > most)
      fail(form::between(least, most), line_of(json));
    value = json.get<std::int64_t>();
  }
  void number(std::string_view field, double& value) {
    const Json& json = get(field);
    if (!json.is_number()) fail("a number", line_of(json));
    value = json.get<double>();
  }
  void text(std::string_view field, std::string& value) {
    const Json& json = get(field);
    if (!json.is_string()) fail("a text", line_of(json));
    value = json.get<std::string>();
  }
  void word(std::string_view field, std::size_t& number, std::span<const std::string_view> words) {
    const Json& json = get(field);
    const auto found = std::find_if(words.begin(), words.end(), [&](std::string_view word) {
      return json.is_string() && json.get_ref<const std::string&>() == word;
    });
    if (found == words.end()) fail(form::one_of(words), line_of(json));
    number = static_cast<std::size_t>(found - words.begin());
  }
  template <class Resize, class Each>
  void list(std::string_view field, std::size_t, std::size_t least, std::size_t most, Resize resize,
            Each each) {
    const Json& json = get(field);
    if (!json.is_array() || json.size() < least || json.size() > most)
      fail(form::entries(least, most), line_of(json));
    resize(json.size());
    within(json, [&] {
      for (std::size_t i = 0; i < json.size(); ++i) each(i);
    });
  }
  template <class Value>
  void map(std::string_view field, std::map<std::string, Value, std::less<>>& entries) {
    const Json& json = get(field);
    if (!json.is_object()) fail("an object", line_of(json));
    within(json, [&] {
      for (const auto& item : json.items()) {
        const Json& value = get(item.key());
        if (std::is_same_v<Value, double> ? !value.is_number() : !value.is_string())
          fail(std::is_same_v<Value, double> ? "a number" : "a text", line_of(value));
        entries[item.key()] = value.template get<Value>();
      }
    });
  }
  template <class T, class Each>
  void optional(std::string_view field, std::optional<T>& value, Each each) {
    levels_.back().known.push_back(field);
    if (levels_.back().json->contains(std::string{field})) each(*(value = T{}));
  }
  template <class Each>
  void object(std::string_view field, Each each) {
    const Json& json = get(field);
    if (!json.is_object()) fail("an object", line_of(json));
    within(json, [&] {
      each();
      const Level& level = levels_.back();
      for (const auto& item : json.items()) {
        if (std::find(level.known.begin(), level.known.end(), item.key()) == level.known.end()) {
          std::vector<std::string_view> known = level.known;
          (void)get(item.key());
          fail("no such field; " + form::one_of(known), line_of(item.value()));
        }
      }
    });
  }
  template <class Each>
  void row(Each each) {
    const Json& json = get({});
    if (!json.is_array()) fail("a list", line_of(json));
    within(json, [&] {
      each();
      const std::size_t read = levels_.back().next;
      if (read == json.size()) return;
      levels_.pop_back();
      fail(form::entries(read, read), line_of(json));
    });
  }

  [[noreturn]] void fail_at(const Path& path, const std::string& what) const {
    std::string where;
    for (const Step& step : path) {
      where += step.entry ? '[' + std::to_string(step.number) + ']'
                          : (where.empty() ? "" : ".") + step.field;
    }
    throw ConfigError{std::string{source_} + ": line " +
                      std::to_string(LineFinder{text_, path}.find()) +
                      (where.empty() ? "" : ", " + where) + ": " + what};
  }

 private:
  /// A list or an object that is being read.
  struct Level {
    const Json* json = nullptr;
    std::size_t next = 0;                   ///< entry of a list
    std::string field{};                    ///< that was read last, of an object
    std::vector<std::string_view> known{};  ///< fields that the object may have
  };
  /// The next entry of a list, or a field of an object.
  const Json& get(std::string_view field) {
    if (levels_.empty()) return json_;
    Level& level = levels_.back();
    if (level.json->is_array()) {
      if (level.next < level.json->size()) return (*level.json)[level.next++];
      const std::string got = line_of(*level.json);
      levels_.pop_back();
      fail("a list that goes on with: " + std::string{field}, got);
    }
    level.known.push_back(field);
    const auto found = level.json->find(std::string{field});
    if (found == level.json->end()) {
      level.field.clear();
      const std::string got = line_of(*level.json);
      levels_.pop_back();
      fail("an object with the field " + std::string{field}, got);
    }
    level.field = field;
    return *found;
  }
  template <class Each>
  void within(const Json& json, Each each) {
    levels_.push_back({.json = &json});
    each();
    levels_.pop_back();
  }
  /// Says what was expected where we are.
  [[noreturn]] void fail(const std::string& expected, std::string got) const {
    constexpr std::size_t most = 80;
    if (got.size() > most) got = got.substr(0, most) + "...";
    Path path;
    for (const Level& level : levels_) {
      path.push_back({.entry = level.json->is_array(),
                      .number = std::max<std::size_t>(level.next, 1) - 1,
                      .field = level.field});
      if (!path.back().entry) path.back().number = 0;
    }
    fail_at(path, "expected " + expected + ", got " + got);
  }

  std::string_view text_, source_;
  Json json_{};
  std::vector<Level> levels_{};
};

}  // namespace
}  // namespace detail

std::string Workload::to_json() const {
  detail::WorkloadDocument document = detail::document_of(*this);
  detail::JsonWriter writer;
  detail::form::transfer(writer, document);
  return detail::laid_out(writer.json);
}

Workload Workload::from_json(std::string_view text, std::string_view source) {
  detail::JsonReader reader{text, source};
  detail::WorkloadDocument document;
  detail::form::transfer(reader, document);
  try {
    return Workload{std::move(document)};
  } catch (const detail::Misfit& misfit) {
    detail::Path path{{.field = std::string{misfit.table}},
                      {.entry = true, .number = misfit.entry}};
    if (misfit.operation) path.push_back({.entry = true, .number = *misfit.operation});
    reader.fail_at(path, misfit.what);
  }
}

}  // namespace phantora
