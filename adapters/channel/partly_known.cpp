#include "channel/partly_known.hpp"

#include "channel/wire.hpp"

#include <algorithm>
#include <cstring>

namespace phantora::channel {

namespace {

/// The first byte of a message.
enum class Form : std::uint8_t {
  all_known,   ///< the bytes follow
  none_known,  ///< their number follows
  mixed        ///< their number, the bytes, a bit for each
};

}  // namespace

std::vector<std::byte> packed(const PartlyKnown& data) {
  const std::uint64_t size = data.bytes.size();
  const bool all = std::all_of(data.known.begin(), data.known.end(), [](auto k) { return k != 0; });
  const bool none =
      !all && std::none_of(data.known.begin(), data.known.end(), [](auto k) { return k != 0; });
  const Form form = all ? Form::all_known : none ? Form::none_known : Form::mixed;
  const std::size_t mask = form == Form::mixed ? (size + 7) / 8 : 0;
  const std::size_t head = form == Form::all_known ? 1 : 1 + sizeof size;
  const std::size_t body = form == Form::none_known ? 0 : data.bytes.size();
  std::vector<std::byte> message(head + body + mask);
  message[0] = static_cast<std::byte>(form);
  if (form != Form::all_known) std::memcpy(message.data() + 1, &size, sizeof size);
  if (body > 0) std::memcpy(message.data() + head, data.bytes.data(), body);
  for (std::size_t i = 0; i < (mask == 0 ? 0 : size); ++i) {
    if (data.known[i] != 0) message[head + body + i / 8] |= std::byte{1} << (i % 8);
  }
  return message;
}

PartlyKnown unpacked(std::span<const std::byte> message) {
  PartlyKnown data;
  if (message.empty()) return data;
  const auto form = static_cast<Form>(message.front());
  message = message.subspan(1);
  if (form == Form::all_known) {
    data.bytes.assign(message.begin(), message.end());
    return data;
  }
  // A damaged message holds nothing. No operand and no result is larger than the ring.
  std::uint64_t size = 0;
  if (message.size() < sizeof size) return data;
  std::memcpy(&size, message.data(), sizeof size);
  message = message.subspan(sizeof size);
  if (size > ring_bytes) return data;
  if (form == Form::mixed && message.size() != size + (size + 7) / 8) return data;
  data.bytes.resize(size);
  data.known.resize(size, 0);
  if (form == Form::none_known) return data;
  std::copy_n(message.begin(), size, data.bytes.begin());
  message = message.subspan(size);
  for (std::size_t i = 0; i < size; ++i) {
    data.known[i] = std::to_integer<std::uint8_t>(message[i / 8] >> (i % 8)) & 1U;
  }
  return data;
}

}  // namespace phantora::channel
