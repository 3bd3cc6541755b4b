#include "rank/kernels/deferred_elements.hpp"

#include "rank/kernels/word_hash.hpp"
#include "rank/memory/device_memory.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace phantora::rank {

namespace {

/// Operations one after the other. Masks are made of some ten; each element asks all of them.
constexpr std::size_t most_depth = 32;
/// Some 15 s, if all of them are asked for: pairs of 16,384 positions each way.
constexpr std::uint32_t most_elements = std::uint32_t{1} << 28U;
/// Elements of a deferred argument that lie side by side: fewer would be computed one at a time.
constexpr std::size_t least_run = 64;

/// Offsets of the elements of all operands, one after the other.
class Offsets {
 public:
  Offsets(const OffsetCalculator& offsets, std::span<const std::size_t> sizes, std::uint32_t first)
      : offsets_{offsets}, sizes_{sizes.begin(), sizes.end()} {
    for (std::size_t o = 0; o < sizes_.size(); ++o)
      at_[o] = offsets.valid ? offsets.offset(first, o) : first * sizes_[o];
    for (const std::uint32_t size : offsets.sizes) {
      place_.push_back(first % size);
      first /= size;
    }
  }
  /// Strides may be negative: they wrap in 32 bits, and so does the sum.
  [[nodiscard]] std::size_t at(std::size_t operand) const {
    return offsets_.valid ? static_cast<std::uint32_t>(at_[operand]) : at_[operand];
  }
  void next() {
    if (!offsets_.valid) {
      for (std::size_t o = 0; o < sizes_.size(); ++o) at_[o] += sizes_[o];
      return;
    }
    for (std::size_t d = 0; d < place_.size(); ++d) {
      const std::uint32_t* const strides = offsets_.strides.data() + d * offsets_.operands;
      if (++place_[d] < offsets_.sizes[d]) {
        for (std::size_t o = 0; o < sizes_.size(); ++o) at_[o] += strides[o];
        return;
      }
      place_[d] = 0;
      for (std::size_t o = 0; o < sizes_.size(); ++o)
        at_[o] -= std::size_t{strides[o]} * (offsets_.sizes[d] - 1);
    }
  }

 private:
  const OffsetCalculator& offsets_;
  boost::container::small_vector<std::size_t, max_operands> sizes_;
  std::array<std::size_t, max_operands> at_{};
  boost::container::small_vector<std::uint32_t, 8> place_;
};

class DeferredElements final : public Deferred {
 public:
  struct Kernel {
    std::uint32_t numel = 0;
    OffsetCalculator offsets;
    const ElementwiseFunction& function;
    std::vector<std::byte> state;
    std::vector<ElementType> types;      ///< of the operands in memory
    std::vector<Image> arguments;        ///< those that are deferred are empty here
    std::vector<DeferredPart> deferred;  ///< of the arguments; empty: an image
  };
  DeferredElements(Kernel kernel, std::size_t depth, std::uint64_t hash)
      : Deferred{size_of(kernel.types[0]), depth, hash}, kernel_{std::move(kernel)} {
    for (const ElementType type : kernel_.types) sizes_.push_back(size_of(type));
  }

  void compute(std::size_t first, std::span<std::byte> elements) const override {
    const std::size_t size = element_bytes();
    if (first >= kernel_.numel) return;
    const std::size_t count = std::min(elements.size() / size, kernel_.numel - first);
    const ElementwiseFunction& function = kernel_.function;
    const std::size_t arguments = kernel_.arguments.size();
    std::call_once(decoded_, [this] { decode(); });
    std::vector<std::optional<DeferredReader>> readers(arguments);
    for (std::size_t a = 0; a < arguments; ++a) {
      if (kernel_.deferred[a].values) readers[a].emplace(kernel_.deferred[a]);
    }
    std::array<Value, max_operands> values;
    Offsets offsets{kernel_.offsets, sizes_, static_cast<std::uint32_t>(first)};
    for (std::size_t i = 0; i < count; ++i, offsets.next()) {
      for (std::size_t a = 0; a < arguments; ++a) {
        const std::size_t at = offsets.at(a + 1);
        if (!readers[a]) {
          values[a] = values_[a][at / sizes_[a + 1]];
          continue;
        }
        const ElementType stored = kernel_.types[a + 1], wanted = function.arguments[a];
        values[a] = readers[a]->load(at, stored);
        if (stored != wanted) values[a] = converted(wanted, values[a]);
      }
      Value result = function.evaluate(values.data(), kernel_.state.data());
      if (function.result != kernel_.types[0]) result = converted(function.result, result);
      store(kernel_.types[0], result, elements.data() + i * size);
    }
  }

 private:
  /// The arguments that are no larger than others: each element of theirs is asked for many times.
  void decode() const {
    values_.resize(kernel_.arguments.size());
    for (std::size_t a = 0; a < values_.size(); ++a) {
      const ElementType stored = kernel_.types[a + 1], wanted = kernel_.function.arguments[a];
      const std::size_t size = sizes_[a + 1];
      for (std::size_t at = 0; at + size <= kernel_.arguments[a].extent(); at += size)
        values_[a].push_back(converted(wanted, *kernel_.arguments[a].load(at, stored)));
    }
  }

  Kernel kernel_;
  std::vector<std::size_t> sizes_;  ///< of an element of each operand
  mutable std::once_flag decoded_{};
  mutable std::vector<std::vector<Value>> values_{};  ///< of each argument; none of deferred ones
};

/// Whether the elements of an operand lie side by side, in order.
bool is_dense(const OffsetCalculator& offsets, std::size_t operand, std::size_t size) {
  if (!offsets.valid) return true;
  for (std::size_t d = 0; d < offsets.sizes.size(); ++d) {
    if (offsets.sizes[d] > 1 && offsets.strides[d * offsets.operands + operand] != size)
      return false;
    size *= offsets.sizes[d];
  }
  return true;
}

/// Whether elements beside each other in the result are beside each other in the operand, or the
/// same one.
bool runs_along(const OffsetCalculator& offsets, std::size_t operand, std::size_t size) {
  if (!offsets.valid || offsets.sizes.empty()) return true;
  const std::size_t stride = offsets.strides[operand];
  return offsets.sizes[0] >= least_run && (stride == 0 || stride == size);
}

}  // namespace

std::shared_ptr<const Deferred> defer_elements(const Operands& operands, std::uint32_t numel,
                                               const OffsetCalculator& offsets,
                                               const ElementwiseFunction& function,
                                               std::span<const std::byte> state,
                                               std::span<const std::uint32_t> launch) {
  const ElementType type = *operands[0].type;
  if (is_floating(type) || is_complex(type) || operands.size() < 2) return nullptr;
  if (numel > most_elements || !is_dense(offsets, 0, size_of(type))) return nullptr;
  DeferredElements::Kernel kernel{numel, offsets, function, {state.begin(), state.end()},
                                  {},    {},      {}};
  std::size_t depth = 1;
  WordHash hash{reinterpret_cast<std::uintptr_t>(&function)};
  for (const std::uint32_t word : launch) hash.mix(word);
  for (std::size_t o = 0; o < operands.size(); ++o) {
    const Operand& operand = operands[o];
    kernel.types.push_back(*operand.type);
    if (o == 0) continue;
    if (!is_device_address(operand.address)) return nullptr;
    if (operand.extent > executed_bytes()) {
      auto part = deferred(operand.address, operand.extent);
      if (!part || !runs_along(offsets, o, size_of(*operand.type))) return nullptr;
      depth = std::max(depth, part->values->depth() + 1);
      hash.mix(part->values->hash(), part->offset);
      kernel.arguments.emplace_back();
      kernel.deferred.push_back(*std::move(part));
      continue;
    }
    if (!may_know(operand.address, operand.extent)) return nullptr;
    Image& image = kernel.arguments.emplace_back(Operand{operand.address, operand.extent, true});
    if (!image.knows_all()) return nullptr;
    image.add_to(hash);
    kernel.deferred.emplace_back();
  }
  if (depth > most_depth) return nullptr;
  return std::make_shared<DeferredElements>(std::move(kernel), depth, hash.value());
}

}  // namespace phantora::rank
