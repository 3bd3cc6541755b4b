#include "rank/kernels/kernel_effect.hpp"

#include "rank/memory/device_memory.hpp"
#include "rank/memory/unknown_reads.hpp"
#include "rank/small_data.hpp"

#include <algorithm>
#include <cstring>

namespace phantora::rank {

Image::Image(const Operand& operand)
    : bytes_(operand.extent), states_(operand.extent, State::unknown) {
  if (!operand.read || operand.extent == 0) return;
  // The mask has 1 where a byte is known, else 0.
  static_assert(sizeof(State) == 1 && static_cast<int>(State::unknown) == 0 &&
                static_cast<int>(State::known) == 1);
  knows_ = read_with_mask(bytes_.data(), reinterpret_cast<std::uint8_t*>(states_.data()),
                          operand.address, operand.extent);
}

namespace {

/// `size` bytes, those of an element up to eight at once, each as `each` tells of them. Elements
/// are looked at by the million.
template <class Each>
bool all_of(std::size_t size, Each each) {
  switch (size) {
    case 1:
      return each(std::uint8_t{}, 0);
    case 2:
      return each(std::uint16_t{}, 0);
    case 4:
      return each(std::uint32_t{}, 0);
    case 8:
      return each(std::uint64_t{}, 0);
    default:
      for (std::size_t i = 0; i < size; ++i) {
        if (!each(std::uint8_t{}, i)) return false;
      }
      return true;
  }
}

template <class Word>
Word word_at(const void* bytes) {
  Word word{};
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

bool same(const void* one, const void* other, std::size_t size) {
  return all_of(size, [&](auto word, std::size_t at) {
    using Word = decltype(word);
    return word_at<Word>(static_cast<const std::byte*>(one) + at) ==
           word_at<Word>(static_cast<const std::byte*>(other) + at);
  });
}

}  // namespace

bool Image::known(std::size_t offset, std::size_t size) const {
  if (offset > bytes_.size() || size > bytes_.size() - offset) return false;
  // Those that are have their lowest bit set.
  static_assert((static_cast<int>(State::known) & static_cast<int>(State::stored_known) & 1) == 1);
  static_assert(
      ((static_cast<int>(State::unknown) | static_cast<int>(State::stored_unknown)) & 1) == 0);
  return all_of(size, [&](auto word, std::size_t at) {
    using Word = decltype(word);
    constexpr Word lowest = static_cast<Word>(0x0101'0101'0101'0101ULL);
    return (word_at<Word>(states_.data() + offset + at) & lowest) == lowest;
  });
}

bool Image::knows_all() const noexcept {
  return deferred_ || std::ranges::find(states_, State::unknown) == states_.end();
}

std::optional<Value> Image::load(std::size_t offset, ElementType type) const {
  if (deferred_) return deferred_->load(offset, type);
  if (!known(offset, size_of(type))) return std::nullopt;
  return rank::load(type, bytes_.data() + offset);
}

bool Image::alike(std::size_t one, std::size_t other, std::size_t size) const {
  if (std::max(one, other) + size > bytes_.size()) return bytes_.empty();
  return same(bytes_.data() + one, bytes_.data() + other, size) &&
         same(states_.data() + one, states_.data() + other, size);
}

void Image::store(std::size_t offset, ElementType type, const std::optional<Value>& value) {
  const std::size_t size = size_of(type);
  if (offset > bytes_.size() || size > bytes_.size() - offset) return;
  if (value) rank::store(type, *value, bytes_.data() + offset);
  std::fill_n(states_.begin() + static_cast<std::ptrdiff_t>(offset), size,
              value ? State::stored_known : State::stored_unknown);
}

void Image::move(std::size_t offset, const Image& source, std::size_t source_offset,
                 std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) {
    if (offset + i >= bytes_.size()) return;
    const bool is_known = source.known(source_offset + i, 1);
    if (is_known) bytes_[offset + i] = source.bytes_[source_offset + i];
    states_[offset + i] = is_known ? State::stored_known : State::stored_unknown;
  }
}

void Image::forget(std::size_t offset, std::size_t size) {
  if (offset > bytes_.size() || size > bytes_.size() - offset) return;
  std::fill_n(states_.begin() + static_cast<std::ptrdiff_t>(offset), size, State::stored_unknown);
}

bool Image::assume(std::span<const std::byte> element) {
  bool any = false;
  for (std::size_t at = 0; at + element.size() <= bytes_.size(); at += element.size()) {
    if (states_[at] != State::stored_unknown) continue;
    any = true;
    std::ranges::copy(element, bytes_.begin() + static_cast<std::ptrdiff_t>(at));
    std::fill_n(states_.begin() + static_cast<std::ptrdiff_t>(at), element.size(),
                State::stored_known);
  }
  return any;
}

bool same_content(const Image& one, const Image& other) {
  const std::size_t size = one.extent();
  if (size != other.extent() || one.is_deferred() != other.is_deferred()) return false;
  if (one.is_deferred()) {
    const DeferredPart &part = one.deferred_->part(), &of_other = other.deferred_->part();
    return part.values->hash() == of_other.values->hash() && part.offset == of_other.offset;
  }
  // memcmp() of nothing must not be asked with no address.
  return size == 0 || (std::memcmp(one.bytes_.data(), other.bytes_.data(), size) == 0 &&
                       std::memcmp(one.states_.data(), other.states_.data(), size) == 0);
}

void Image::add_to(WordHash& hash) const {
  if (deferred_) hash.mix(deferred_->part().values->hash(), deferred_->part().offset);
  std::size_t at = 0;
  for (; at + 16 <= bytes_.size(); at += 16) {
    hash.mix(word_at<std::uint64_t>(bytes_.data() + at),
             word_at<std::uint64_t>(bytes_.data() + at + 8));
  }
  for (; at < bytes_.size(); ++at) hash.mix(std::to_integer<std::uint64_t>(bytes_[at]));
}

std::size_t Image::end_of_run(std::size_t first) const {
  // Mostly there is one run, which memcmp() finds faster than a look at each byte.
  const State* const states = states_.data();
  const std::size_t rest = states_.size() - first - 1;
  if (std::memcmp(states + first, states + first + 1, rest) == 0) return states_.size();
  std::size_t last = first + 1;
  while (states[last] == states[first]) ++last;
  return last;
}

void Image::commit(std::byte* address, const Writer& writer) const {
  for (std::size_t first = 0; first < states_.size();) {
    const std::size_t last = end_of_run(first);
    if (states_[first] == State::stored_known) {
      write(address + first, bytes_.data() + first, last - first);
    } else if (states_[first] == State::stored_unknown) {
      rank::forget(address + first, last - first, writer);
    }
    first = last;
  }
}

namespace {

/// The allocations that pointers in an operand's first bytes lead to: tables of pointers, structs
/// in device memory.
void forget_behind(const Operand& operand, const Writer& writer) {
  // 512 pointers; scanning more would cost as much as computing.
  constexpr std::size_t table = 4096;
  const std::size_t extent = std::min(operand.extent, table);
  if (!is_device_address(operand.address) || !may_know(operand.address, extent)) return;
  std::vector<std::byte> bytes(extent);
  std::vector<std::uint8_t> mask(extent);
  read_with_mask(bytes.data(), mask.data(), operand.address, extent);
  const std::size_t first =
      (sizeof(void*) - reinterpret_cast<std::uintptr_t>(operand.address) % sizeof(void*)) %
      sizeof(void*);
  for (std::size_t at = first; at + sizeof(void*) <= extent; at += sizeof(void*)) {
    if (mask[at] == 0) continue;
    std::byte* address = nullptr;
    std::memcpy(&address, bytes.data() + at, sizeof address);
    if (const auto allocation = allocation_of(address)) {
      const auto before = static_cast<std::size_t>(address - allocation->base);
      forget(address, allocation->size - before, writer);
    }
  }
}

/// Of which operands of independent ones there is nothing to compute. Most small tensors of a list
/// that an optimizer works on are unknown, and one that is known lets the kernel be executed
/// (DenseNet's steps: 450 ms of CPU time with an image of each, 70 without).
std::vector<bool> without_values(const Effect& effect) {
  const Operands& operands = effect.operands;
  std::vector<bool> without(operands.size());
  std::vector<bool> unknown(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Operand& operand = operands[i];
    without[i] = operand.extent > effect.limit;
    if (without[i] || !operand.read) continue;
    unknown[i] = !may_know(operand.address, operand.extent);
    if (unknown[i] && !operand.written) without[i] = true;
  }
  if (effect.tensors == 0) return without;
  const std::size_t listed = operands.size() / effect.tensors * effect.tensors;
  for (std::size_t tensor = 0; tensor < effect.tensors; ++tensor) {
    bool none = false;
    for (std::size_t i = tensor; i < listed; i += effect.tensors) none = none || unknown[i];
    for (std::size_t i = tensor; none && i < listed; i += effect.tensors) without[i] = true;
  }
  return without;
}

/// Operands that are only read and too large to be executed, where they are deferred.
std::vector<std::optional<DeferredPart>> deferred_operands(const Effect& effect) {
  std::vector<std::optional<DeferredPart>> parts(effect.operands.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Operand& operand = effect.operands[i];
    if (operand.read && !operand.written && operand.extent > effect.limit)
      parts[i] = deferred(operand.address, operand.extent);
  }
  return parts;
}

/// Whether what is known of the operands can make anything of the results known; `knows(i)` is
/// whether anything is of operand i.
template <class Knows>
bool decides(const Effect& effect, Knows knows) {
  if (effect.needs == Effect::Needs::nothing) return true;
  const bool all = effect.needs == Effect::Needs::every_input;
  bool reads = false;
  for (std::size_t i = 0; i < effect.operands.size(); ++i) {
    const Operand& operand = effect.operands[i];
    if (!operand.read || operand.extent == 0 || operand.extent > effect.limit) continue;
    if (knows(i) != all) return !all;
    reads = true;
  }
  return all || !reads;
}

/// Whether flags or numbers that the kernel writes tell of a choice, as those that it reads.
bool of_a_choice(const Effect& effect, const Operand& written) {
  return effect.chooses ||
         (written.type && !is_floating(*written.type) &&
          std::ranges::any_of(effect.operands, [](const Operand& operand) {
            return operand.read && small_data().writers.is_chosen(operand.address);
          }));
}

}  // namespace

void apply(const Effect& effect, const char* kernel) {
  const auto writer = [&](const Operand& operand) {
    return Writer{kernel, effect.follows_pointers, operand.type, of_a_choice(effect, operand)};
  };
  const auto forget_all = [&] {
    // From the operands as they are, of which the result may be one.
    const auto deferred = effect.defer ? effect.defer() : nullptr;
    for (const Operand& operand : effect.operands) {
      if (operand.written) forget(operand.address, operand.extent, writer(operand));
    }
    for (const auto& [i, element] : effect.assumed) {
      const Operand& operand = effect.operands[i];
      if (is_device_address(operand.address)) fill(operand.address, element.span(), operand.extent);
    }
    if (effect.assumption) tell_assumed(*effect.assumption);
    if (deferred) {
      const Operand& result = effect.operands.front();
      rank::defer(result.address, result.extent, deferred);
    }
    if (!effect.share_set) return;
    const Operand& flags = effect.operands.front();
    if (const auto share = effect.share_set()) note_share_set(flags.address, flags.extent, *share);
  };
  if (effect.follows_pointers) {
    for (const Operand& operand : effect.operands) {
      if (operand.read) forget_behind(operand, writer(operand));
    }
  }
  if (effect.repeated.size > 0) {
    const Operand& filled = effect.operands.front();
    if (is_device_address(filled.address))
      fill(filled.address, effect.repeated.span(), filled.extent);
    return;
  }
  if (!effect.compute) return forget_all();
  std::vector<std::optional<DeferredPart>> deferred;
  if (effect.reads_deferred) deferred = deferred_operands(effect);
  const auto is_deferred = [&](std::size_t i) { return !deferred.empty() && deferred[i]; };
  bool small = true;
  for (std::size_t i = 0; i < effect.operands.size(); ++i)
    small = small && (effect.operands[i].extent <= effect.limit || is_deferred(i));
  if (!small && !effect.independent) return forget_all();
  for (const Operand& operand : effect.operands) {
    const bool counts = operand.extent > 0 && operand.extent <= effect.limit;
    if (counts && !is_device_address(operand.address)) return forget_all();
  }
  // Nothing known to compute from: true of nearly all small kernels in a training step.
  const auto may_know_of = [&](std::size_t i) {
    return is_deferred(i) || may_know(effect.operands[i].address, effect.operands[i].extent);
  };
  if (!decides(effect, may_know_of)) return forget_all();
  std::vector<Image> images;
  images.reserve(effect.operands.size());
  std::vector<bool> without;
  if (effect.independent) without = without_values(effect);
  for (std::size_t i = 0; i < effect.operands.size(); ++i) {
    const Operand& operand = effect.operands[i];
    if (is_deferred(i)) {
      images.emplace_back(*std::move(deferred[i]));
      continue;
    }
    if (!effect.independent || !without[i]) {
      images.emplace_back(operand);
      continue;
    }
    if (operand.written && is_device_address(operand.address)) {
      forget(operand.address, operand.extent, writer(operand));
    }
    images.emplace_back();
  }
  // may_know() looks at whole pages: most images of a step that generates one token turn out to
  // hold nothing.
  if (!decides(effect, [&](std::size_t i) { return images[i].knows_anything(); }))
    return forget_all();
  effect.compute(images);
  // Of an operand of which something is known, the rest stays unknown to operations on elements.
  bool applies = !effect.independent;
  const auto knows = [&](std::size_t i) {
    return images[i].knows_anything() && (!effect.reads_known || effect.reads_known(images[i], i));
  };
  for (std::size_t i = 0; i < images.size() && !applies; ++i)
    applies = effect.operands[i].read && !knows(i);
  bool assumes = false;
  for (const auto& [i, element] : effect.assumed)
    assumes = (applies && images[i].assume(element.span())) || assumes;
  if (assumes && effect.assumption) tell_assumed(*effect.assumption);
  for (std::size_t i = 0; i < images.size(); ++i) {
    const Operand& operand = effect.operands[i];
    if (operand.written) images[i].commit(operand.address, writer(operand));
  }
}

}  // namespace phantora::rank
