#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string_view>

/// What the targets share. A target's input is any bytes; what it must hold for every one of them
/// is checked by expect(). An exception that leaves a target is a finding too.
namespace phantora::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Ends the run where a property does not hold: libFuzzer keeps the input.
inline void expect(bool holds, std::string_view property, std::string_view found = {}) {
  if (holds) return;
  std::cerr << "does not hold: " << property << (found.empty() ? "" : "; found: ") << found << '\n';
  std::abort();
}

/// Whether `parse` accepts its input. What it refuses, it refuses by a Refusal whose message has
/// `named` in it.
template <class Refusal, class Parse>
bool accepts(std::string_view named, Parse parse) {
  try {
    parse();
    return true;
  } catch (const Refusal& refusal) {
    const std::string_view message = refusal.what();
    expect(message.find(named) != message.npos, "the message names the place", message);
    return false;
  }
}

/// A view of a part of `whole`, or nothing.
inline void expect_within(std::string_view part, std::string_view whole) {
  expect(part.empty() || (part.data() >= whole.data() &&
                          part.data() + part.size() <= whole.data() + whole.size()),
         "parts lie within the text");
}

/// Takes numbers off the input's front; zeros once it is used up.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_{text_of(data, size)} {}
  template <class T>
  T take() {
    T value{};
    const std::size_t size = std::min(sizeof value, rest_.size());
    std::memcpy(&value, rest_.data(), size);
    rest_.remove_prefix(size);
    return value;
  }
  std::string_view take(std::size_t size) {
    const std::string_view part = rest_.substr(0, size);
    rest_.remove_prefix(part.size());
    return part;
  }
  /// Up to the next line's end.
  std::string_view line() {
    const std::string_view part = take(std::min(rest_.find('\n'), rest_.size()));
    take(1);
    return part;
  }
  [[nodiscard]] std::string_view rest() const noexcept { return rest_; }
  [[nodiscard]] bool empty() const noexcept { return rest_.empty(); }

 private:
  std::string_view rest_;
};

}  // namespace phantora::fuzz
