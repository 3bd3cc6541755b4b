#pragma once

#include "rank/kernels/assumed_choice.hpp"
#include "rank/kernels/families/element_type.hpp"
#include "rank/kernels/kernel_launch.hpp"
#include "rank/kernels/kernel_name.hpp"
#include "rank/kernels/word_hash.hpp"
#include "rank/memory/deferred.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/memory/unknown_reads.hpp"

#include <boost/container/small_vector.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

/// What a launch of a kernel does to device memory.
namespace phantora::rank {

/// What a kernel's signature says of a parameter.
enum class ParameterKind : std::uint8_t { other, pointer, number };

/// A launch's parameters and shape. Other versions of a kernel may have others: whoever reads a
/// pointer where the signature has a number, or what is not there, has misread it.
struct Arguments {
  void* const* parameters = nullptr;
  std::span<const std::uint32_t> sizes;  ///< bytes of each parameter
  LaunchShape shape;
  std::span<const ParameterKind> kinds{};  ///< as far as they are known
  mutable bool misread = false;

  [[nodiscard]] std::span<const std::byte> bytes(std::size_t parameter) const {
    if (parameter >= sizes.size()) return {};
    return {static_cast<const std::byte*>(parameters[parameter]), sizes[parameter]};
  }
  /// The T at `offset` bytes into a parameter; zero, and misread, where it cannot be one.
  template <class T>
  [[nodiscard]] T get(std::size_t parameter, std::size_t offset = 0) const {
    T value{};
    const auto all = bytes(parameter);
    const bool fits = offset <= all.size() && sizeof(T) <= all.size() - offset;
    constexpr ParameterKind wrong =
        std::is_pointer_v<T> ? ParameterKind::number : ParameterKind::pointer;
    misread = misread || !fits || (parameter < kinds.size() && kinds[parameter] == wrong);
    if (fits) std::memcpy(&value, all.data() + offset, sizeof value);
    return value;
  }
  /// A number of 32 bits or 64, as wide as the parameter is.
  [[nodiscard]] std::size_t count(std::size_t parameter) const {
    return bytes(parameter).size() == 4 ? get<std::uint32_t>(parameter)
                                        : get<std::size_t>(parameter);
  }
  [[nodiscard]] std::byte* pointer(std::size_t parameter, std::size_t offset = 0) const {
    return get<std::byte*>(parameter, offset);
  }
};

/// Device memory that a kernel touches.
struct Operand {
  std::byte* address = nullptr;
  std::size_t extent = 0;  ///< bytes from `address` within which it reads or writes
  bool read = false;
  bool written = false;
  std::optional<ElementType> type{};  ///< of what is written, where it is known
};

/// An operand's bytes while its kernel is executed. Writes take effect when the kernel is done.
class Image {
 public:
  Image() = default;
  explicit Image(const Operand& operand);
  /// Of an operand of any size, of which single elements are loaded and nothing else is asked.
  explicit Image(DeferredPart part)
      : deferred_{std::make_shared<DeferredReader>(std::move(part))} {}

  /// The element at `offset` bytes; nullopt when it is not known, or not in the operand.
  [[nodiscard]] std::optional<Value> load(std::size_t offset, ElementType type) const;
  /// Whether the elements at two offsets hold the same bytes, as far as they are known. Not both
  /// need be in the operand.
  [[nodiscard]] bool alike(std::size_t one, std::size_t other, std::size_t size) const;
  /// nullopt makes the element unknown.
  void store(std::size_t offset, ElementType type, const std::optional<Value>& value);
  /// Copies `size` bytes from another image, known or not.
  void move(std::size_t offset, const Image& source, std::size_t source_offset, std::size_t size);
  /// Makes bytes, or the whole operand, unknown.
  void forget(std::size_t offset, std::size_t size);
  /// Puts `element` wherever one was stored that is not known. @return whether there was any
  bool assume(std::span<const std::byte> element);
  void forget() { forget(0, bytes_.size()); }
  [[nodiscard]] std::size_t extent() const noexcept { return bytes_.size(); }
  /// Of the operand as it was read.
  [[nodiscard]] bool knows_anything() const noexcept { return knows_ || deferred_; }
  [[nodiscard]] bool knows_all() const noexcept;
  [[nodiscard]] bool is_deferred() const noexcept { return deferred_ != nullptr; }
  /// Whether both hold the same bytes, and the same of them are known.
  friend bool same_content(const Image& one, const Image& other);
  /// Adds the bytes to a hash.
  void add_to(WordHash& hash) const;
  /// Writes what was stored back to device memory.
  void commit(std::byte* address, const Writer& writer) const;

 private:
  enum class State : std::uint8_t { unknown, known, stored_unknown, stored_known };
  [[nodiscard]] bool known(std::size_t offset, std::size_t size) const;
  /// Where the bytes from `first` on that are in the same state end.
  [[nodiscard]] std::size_t end_of_run(std::size_t first) const;
  std::vector<std::byte> bytes_;
  std::vector<State> states_;
  std::shared_ptr<DeferredReader> deferred_{};
  bool knows_ = false;
};

bool same_content(const Image& one, const Image& other);

/// A literal, compared by what it says, and a value.
using Feature = std::pair<std::string_view, double>;

// Of most kernels there are so few that a launch needs no memory for them.
using Operands = boost::container::small_vector<Operand, 4>;
using Features = boost::container::small_vector<Feature, 2>;

/// The bytes of one element of up to 16, where it is kept without memory of its own: launches are
/// many.
struct ElementBytes {
  std::array<std::byte, 16> bytes{};
  std::size_t size = 0;
  [[nodiscard]] std::span<const std::byte> span() const { return std::span{bytes}.first(size); }
};

inline ElementBytes element_of(ElementType type, const Value& value) {
  ElementBytes element{.size = size_of(type)};
  store(type, value, element.bytes.data());
  return element;
}

/// The effect of one launch.
struct Effect {
  /// One that is made in its place would else be zeroed first, with the room of its short lists.
  Effect() noexcept {}  // NOLINT(modernize-use-equals-default)

  Operands operands;
  double bytes = 0;   ///< device memory read + written
  double flops = 0;   ///< 0 = not counted
  Features features;  ///< for the cost model; same names in same order for a kernel
  Features by_data;   ///< KernelQuery::by_data; likewise, or empty
  /// How long it takes is told by its machine code, where that can be walked, and not by the above.
  bool priced_by_code = false;
  /// A signal from one GPU to another, or the wait for one: not all wait whose memory is at hand.
  bool one_sided = false;
  /// The operands are tensors that have nothing to do with each other: large ones do not keep the
  /// small ones from being computed. Their images are empty, and so are those of tensors that are
  /// only read and not known at all.
  bool independent = false;
  /// The operands are lists, one after the other, of so many tensors each: where a tensor of a list
  /// that is read is not known at all, nothing is of the results in its place. 0: they are not.
  std::size_t tensors = 0;
  /// Of which operands that are read something must be known for anything of the result to be.
  enum class Needs : std::uint8_t { nothing, some_input, every_input } needs = Needs::some_input;
  /// Writes at places that indices name: masks of what was chosen.
  bool chooses = false;
  /// The kernel is not read: what its operands' first bytes point to may be written, too.
  bool follows_pointers = false;
  /// The kernel fills its only operand with this element, whatever its size. Empty: it does not.
  ElementBytes repeated{};
  /// What the elements of an operand, which lie side by side, are taken to be where nothing decides
  /// (assumed_test.hpp, assumed_selection.hpp); others stay unknown.
  struct Assumed {
    std::size_t operand = 0;
    ElementBytes element{};
  };
  boost::container::small_vector<Assumed, 1> assumed;
  /// Whether anything is known of what the kernel reads of an operand, which may lie between values
  /// that it does not read (a slice). Empty: it reads all of its operands.
  std::function<bool(const Image& image, std::size_t operand)> reads_known;
  std::optional<Assumption> assumption{};  ///< what the user is told that they are
  /// Of a kernel whose first operand, flags, is too large to be executed: which share of the flags
  /// is set all the same, if known. Empty: nobody can tell.
  std::function<std::optional<double>()> share_set;
  /// Operands of up to so many bytes are executed: more than usual where each byte of a small input
  /// makes several bytes of output.
  std::size_t limit = executed_bytes();
  /// Of a kernel whose first operand is too large to be executed: what computes its elements when
  /// they are asked for, from what the others hold now; nullptr where that is not known. Empty:
  /// nobody can tell.
  std::function<std::shared_ptr<const Deferred>()> defer;
  /// It reads no operand otherwise than element by element, so that deferred ones may be as large
  /// as they are.
  bool reads_deferred = false;
  /// Computes from the images of `operands`, in their order. Empty: the kernel is not executed.
  std::function<void(std::span<Image>)> compute;
};

/// Makes it happen: executes the kernel if its operands are small, else makes what it writes
/// unknown. `kernel`: its name, for those who read that.
void apply(const Effect& effect, const char* kernel = nullptr);

/// What a kernel means, read once from its name.
class Meaning {
 public:
  virtual ~Meaning() = default;
  /// nullopt when the parameters are not as the meaning expects them: the kernel is then treated as
  /// an unknown one.
  [[nodiscard]] virtual std::optional<Effect> effect(const Arguments& arguments) const = 0;
};

/// A family's reader: nullptr when the kernel is not of the family. The signature's text outlives
/// the meaning.
using Reader = std::unique_ptr<Meaning> (*)(const Signature& signature,
                                            const KernelResources& resources);

/// A meaning from a function, for families without state.
template <class F>
std::unique_ptr<Meaning> meaning(F f) {
  struct Function final : Meaning {
    explicit Function(F g) : function{std::move(g)} {}
    [[nodiscard]] std::optional<Effect> effect(const Arguments& arguments) const override {
      return function(arguments);
    }
    F function;
  };
  return std::make_unique<Function>(std::move(f));
}

// The families, one file each.
std::unique_ptr<Meaning> read_elementwise(const Signature& signature, const KernelResources&);
std::unique_ptr<Meaning> read_reduction(const Signature& signature, const KernelResources&);
std::unique_ptr<Meaning> read_multi_tensor(const Signature& signature, const KernelResources&);
std::unique_ptr<Meaning> read_range(const Signature& signature, const KernelResources&);
std::unique_ptr<Meaning> read_concatenation(const Signature& signature, const KernelResources&);
std::unique_ptr<Meaning> read_indexing(const Signature& signature, const KernelResources&);
std::unique_ptr<Meaning> read_selection(const Signature& signature, const KernelResources&);
std::unique_ptr<Meaning> read_random(const Signature& signature, const KernelResources&);
std::unique_ptr<Meaning> read_scan(const Signature& signature, const KernelResources&);
std::unique_ptr<Meaning> read_sort(const Signature& signature, const KernelResources&);
std::unique_ptr<Meaning> read_batch_norm(const Signature& signature, const KernelResources&);
std::unique_ptr<Meaning> read_depthwise(const Signature& signature, const KernelResources&);
std::unique_ptr<Meaning> read_rowwise(const Signature& signature, const KernelResources&);
std::unique_ptr<Meaning> read_attention(const Signature& signature, const KernelResources&);
std::unique_ptr<Meaning> read_lookup(const Signature& signature, const KernelResources&);
std::unique_ptr<Meaning> read_block_top_k(const Signature& signature, const KernelResources&);
std::unique_ptr<Meaning> read_pooling(const Signature& signature, const KernelResources&);
std::unique_ptr<Meaning> read_embedding(const Signature& signature, const KernelResources&);
std::unique_ptr<Meaning> read_packed_copies(const Signature& signature, const KernelResources&);
std::unique_ptr<Meaning> read_jiterated(const Signature& signature, const KernelResources&);
std::unique_ptr<Meaning> read_grouped_product(const Signature& signature, const KernelResources&);
std::unique_ptr<Meaning> read_router(const Signature& signature, const KernelResources&);
std::unique_ptr<Meaning> read_symmetric_memory(const Signature& signature, const KernelResources&);

}  // namespace phantora::rank
