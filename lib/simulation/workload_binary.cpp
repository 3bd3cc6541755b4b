#include "simulation/workload_form.hpp"

#include <phantora/error.hpp>

#include <bit>
#include <cmath>
#include <type_traits>

// The binary form of a workload. Whole numbers take 7 bits per byte, the lowest first; a set top
// bit says that more follow. Where they may be negative 0, -1, 1, -2, ... stand for 0, 1, 2, 3, ...
// Other numbers are IEEE doubles, lowest byte first. Texts and lists begin with their length.
namespace phantora {
namespace detail {
namespace {

constexpr std::string_view magic = "PHANTORA-WORKLOAD\n";

class BinaryWriter {
 public:
  void integer(std::string_view, std::int64_t value, std::int64_t least, std::int64_t) {
    const auto bits = static_cast<std::uint64_t>(value);
    put(least < 0 ? (bits << 1U) ^ (value < 0 ? ~std::uint64_t{0} : 0) : bits);
  }
  void number(std::string_view, double value) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    for (unsigned shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(bits >> shift);
  }
  void text(std::string_view, const std::string& value) {
    put(value.size());
    bytes += value;
  }
  void word(std::string_view, std::size_t number, std::span<const std::string_view>) {
    put(number);
  }
  template <class Resize, class Each>
  void list(std::string_view, std::size_t size, std::size_t, std::size_t, Resize, Each each) {
    put(size);
    for (std::size_t i = 0; i < size; ++i) each(i);
  }
  void map(std::string_view, const std::map<std::string, double, std::less<>>& entries) {
    put(entries.size());
    for (const auto& [key, value] : entries) {
      text({}, key);
      number({}, value);
    }
  }
  void map(std::string_view, const std::map<std::string, std::string, std::less<>>& entries) {
    put(entries.size());
    for (const auto& [key, value] : entries) {
      text({}, key);
      text({}, value);
    }
  }
  template <class T, class Each>
  void optional(std::string_view, std::optional<T>& value, Each each) {
    put(value ? 1 : 0);
    if (value) each(*value);
  }
  template <class Each>
  void object(std::string_view, Each each) {
    each();
  }
  template <class Each>
  void row(Each each) {
    each();
  }

  std::string bytes{};

 private:
  void put(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U) bytes += static_cast<char>(value | 0x80U);
    bytes += static_cast<char>(value);
  }
};

/// Takes one form of each workload only, so that those that are equal have equal bytes.
class BinaryReader {
 public:
  BinaryReader(std::string_view bytes, std::string_view source) : bytes_{bytes}, source_{source} {
    if (!bytes.starts_with(magic)) fail(0, {}, "a workload", "other bytes");
    at_ = magic.size();
  }

  void integer(std::string_view field, std::int64_t& value, std::int64_t least, std::int64_t most) {
    const std::size_t from = at_;
    const std::uint64_t bits = get(field);
    if (least >= 0 && bits > static_cast<std::uint64_t>(most < least ? 0 : most))
      fail(from, field, form::between(least, most), std::to_string(bits));
    value = static_cast<std::int64_t>(
        least >= 0 ? bits : (bits >> 1U) ^ ((bits & 1U) != 0 ? ~std::uint64_t{0} : 0));
    if (value < least || value > most)
      fail(from, field, form::between(least, most), std::to_string(value));
  }
  void number(std::string_view field, double& value) {
    const std::size_t from = at_;
    const std::string_view eight = take(field, 8);
    std::uint64_t bits = 0;
    for (unsigned i = 0; i < 8; ++i)
      bits |= std::uint64_t{static_cast<unsigned char>(eight[i])} << (8 * i);
    value = std::bit_cast<double>(bits);
    if (!std::isfinite(value)) fail(from, field, "a finite number", std::to_string(value));
  }
  void text(std::string_view field, std::string& value) { value = take(field, size(field)); }
  void word(std::string_view field, std::size_t& number, std::span<const std::string_view> words) {
    const std::size_t from = at_;
    number = get(field);
    if (number >= words.size()) fail(from, field, form::one_of(words), std::to_string(number));
  }
  template <class Resize, class Each>
  void list(std::string_view field, std::size_t, std::size_t least, std::size_t most, Resize resize,
            Each each) {
    const std::size_t from = at_;
    const std::size_t entries = size(field);
    if (entries < least || entries > most)
      fail(from, field, form::entries(least, most), std::to_string(entries));
    resize(entries);
    path_.emplace_back(field, 0);
    for (std::size_t i = 0; i < entries; ++i) {
      path_.back().second = i;
      each(i);
    }
    path_.pop_back();
  }
  template <class Value>
  void map(std::string_view field, std::map<std::string, Value, std::less<>>& entries) {
    const std::size_t count = size(field);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t from = at_;
      std::string key;
      text(field, key);
      if (!entries.empty() && key <= entries.rbegin()->first)
        fail(from, field, "keys in order", key);
      if constexpr (std::is_same_v<Value, double>) {
        number(field, entries[key]);
      } else {
        text(field, entries[key]);
      }
    }
  }
  template <class T, class Each>
  void optional(std::string_view field, std::optional<T>& value, Each each) {
    const std::size_t from = at_;
    const std::uint64_t present = get(field);
    if (present > 1) fail(from, field, "0 or 1", std::to_string(present));
    if (present == 1) each(*(value = T{}));
  }
  template <class Each>
  void object(std::string_view, Each each) {
    each();
  }
  template <class Each>
  void row(Each each) {
    each();
  }

  void end() const {
    if (at_ != bytes_.size())
      fail(at_, {}, "the end", std::to_string(bytes_.size() - at_) + " more bytes");
  }

 private:
  [[noreturn]] void fail(std::size_t at, std::string_view field, const std::string& expected,
                         const std::string& got) const {
    std::string where;
    for (const auto& [name, index] : path_) {
      where += (where.empty() || name.empty() ? "" : ".") + std::string{name} + '[' +
               std::to_string(index) + ']';
    }
    if (!field.empty()) where += (where.empty() ? "" : ".") + std::string{field};
    throw ConfigError{std::string{source_} + ": byte " + std::to_string(at) +
                      (where.empty() ? "" : ", " + where) + ": expected " + expected + ", got " +
                      got};
  }
  std::string_view take(std::string_view field, std::size_t count) {
    const std::size_t left = bytes_.size() - at_;
    if (count > left) fail(at_, field, std::to_string(count) + " more bytes", std::to_string(left));
    const std::string_view part = bytes_.substr(at_, count);
    at_ += count;
    return part;
  }
  std::uint64_t get(std::string_view field) {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(field, 1).front());
      if ((shift == 63 && byte > 1) || (shift > 0 && byte == 0))
        fail(at_ - 1, field, "a number of up to 64 bits in its shortest form", "more");
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return value;
    }
  }
  /// How many bytes, or entries of a byte at least, come next: no more than there are.
  std::size_t size(std::string_view field) {
    const std::size_t from = at_;
    const std::uint64_t count = get(field);
    if (count > bytes_.size() - at_)
      fail(from, field, "a length within the rest", std::to_string(count));
    return count;
  }

  std::string_view bytes_, source_;
  std::size_t at_ = 0;
  std::vector<std::pair<std::string_view, std::size_t>> path_{};
};

}  // namespace

std::string key_of(const Kernel& kernel) {
  BinaryWriter writer;
  Kernel copy = kernel;
  form::transfer(writer, form::latest_version, copy);
  return std::move(writer.bytes);
}

}  // namespace detail

std::string detail::bytes_of(WorkloadDocument document) {
  BinaryWriter writer;
  writer.bytes = magic;
  form::transfer(writer, document);
  return std::move(writer.bytes);
}

std::string Workload::to_binary() const { return detail::bytes_of(detail::document_of(*this)); }

Workload Workload::from_binary(std::string_view bytes, std::string_view source) {
  detail::BinaryReader reader{bytes, source};
  detail::WorkloadDocument document;
  detail::form::transfer(reader, document);
  reader.end();
  try {
    return Workload{std::move(document)};
  } catch (const detail::Misfit& misfit) {
    std::string where = std::string{misfit.table} + '[' + std::to_string(misfit.entry) + ']';
    if (misfit.operation) where += '[' + std::to_string(*misfit.operation) + ']';
    throw ConfigError{std::string{source} + ": " + where + ": " + misfit.what};
  }
}

}  // namespace phantora
