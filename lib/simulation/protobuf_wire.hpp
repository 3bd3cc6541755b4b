#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// The wire format of protocol buffers, as far as execution traces need it. By hand, since its four
/// kinds of fields take less code than a generated parser, and a library that brings its own
/// libprotobuf into a process (Python's, TensorFlow's) fights with the one that is there.
namespace phantora::detail {

/// Builds a message.
class WireMessage {
 public:
  void number(unsigned field, std::uint64_t value) {
    varint(field << 3U);
    varint(value);
  }
  void text(unsigned field, std::string_view value) {
    varint(field << 3U | 2U);
    varint(value.size());
    bytes_ += value;
  }
  void message(unsigned field, const WireMessage& value) { text(field, value.bytes_); }
  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }
  /// After its length, as messages follow each other in a file.
  [[nodiscard]] std::string delimited() const {
    WireMessage length;
    length.varint(bytes_.size());
    return length.bytes_ + bytes_;
  }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80U; value >>= 7U) bytes_ += static_cast<char>(value | 0x80U);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_{};
};

/// Reads one, field by field. After an error nothing is left to read.
class WireReader {
 public:
  /// @param begin  where the bytes lie in their file.
  explicit WireReader(std::string_view bytes, std::size_t begin = 0)
      : bytes_{bytes}, begin_{begin} {}

  struct Field {
    unsigned number = 0;
    bool is_text = false;   ///< or a message, or a packed list
    std::uint64_t value{};  ///< of a number; the bits of one of fixed size
    std::string_view text{};
    std::size_t at = 0;  ///< where its content begins in the file
    /// @return the double whose bits these are.
    [[nodiscard]] double real() const { return std::bit_cast<double>(value); }
  };
  /// @return nothing at the end, or where the bytes are no field (failed()).
  std::optional<Field> next() {
    if (at_ == bytes_.size()) return std::nullopt;
    Field field;
    const auto tag = varint();
    if (!tag || *tag >> 3U == 0 || *tag >> 3U > 0x1FFFFFFFU) return fail();
    field.number = static_cast<unsigned>(*tag >> 3U);
    field.at = position();
    std::optional<std::uint64_t> value;
    switch (*tag & 7U) {
      case 0:
        value = varint();
        break;
      case 1:
        value = fixed(8);
        break;
      case 2: {
        const auto length = varint();
        if (!length || *length > bytes_.size() - at_) return fail();
        field.is_text = true;
        field.at = position();
        field.text = bytes_.substr(at_, static_cast<std::size_t>(*length));
        at_ += static_cast<std::size_t>(*length);
        return field;
      }
      case 5:
        value = fixed(4);
        break;
      default:
        break;
    }
    if (!value) return fail();
    field.value = *value;
    return field;
  }
  std::optional<std::uint64_t> varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && at_ < bytes_.size(); shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80U) return value;
    }
    return std::nullopt;
  }
  /// The next bytes, if there are so many.
  std::optional<std::string_view> take(std::uint64_t count) {
    if (count > bytes_.size() - at_) return std::nullopt;
    const std::string_view taken = bytes_.substr(at_, static_cast<std::size_t>(count));
    at_ += taken.size();
    return taken;
  }
  [[nodiscard]] bool failed() const noexcept { return failed_; }
  [[nodiscard]] bool at_end() const noexcept { return at_ == bytes_.size(); }
  /// In the file.
  [[nodiscard]] std::size_t position() const noexcept { return begin_ + at_; }

 private:
  std::optional<std::uint64_t> fixed(unsigned size) {
    if (bytes_.size() - at_ < size) return std::nullopt;
    std::uint64_t value = 0;
    for (unsigned i = 0; i < size; ++i)
      value |= std::uint64_t{static_cast<unsigned char>(bytes_[at_++])} << (8 * i);
    return value;
  }
  std::nullopt_t fail() {
    failed_ = true;
    return std::nullopt;
  }

  std::string_view bytes_;
  std::size_t begin_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

}  // namespace phantora::detail
