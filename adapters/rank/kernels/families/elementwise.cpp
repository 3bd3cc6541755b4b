#include "rank/kernels/assumed_test.hpp"
#include "rank/kernels/deferred_elements.hpp"
#include "rank/kernels/executed_before.hpp"
#include "rank/kernels/families/aligned.hpp"
#include "rank/kernels/families/elementwise_function.hpp"
#include "rank/kernels/families/offset_calculator.hpp"
#include "rank/kernels/kernel_effect.hpp"
#include "rank/memory/device_memory.hpp"

#include <algorithm>
#include <array>
#include <limits>

/// PyTorch's elementwise kernels (ATen/native/cuda/Loops.cuh, CUDALoops.cuh): one output, a
/// functor, contiguous or strided operands, converted while loading and storing or not.
namespace phantora::rank {

namespace {

constexpr std::size_t line_bytes = 128;  ///< of all caches

/// One launch: operand 0 is the output.
struct Loop {
  std::uint32_t numel = 0;
  std::size_t operands = 0;
  std::array<std::byte*, max_operands> data{};
  std::array<ElementType, max_operands> types{};  ///< in memory
  OffsetCalculator offsets;                       ///< strides in bytes; not valid: contiguous

  [[nodiscard]] std::size_t offset(std::uint32_t index, std::size_t operand) const {
    return offsets.valid ? offsets.offset(index, operand) : index * size_of(types[operand]);
  }
  [[nodiscard]] std::size_t extent(std::size_t operand) const {
    const std::size_t size = size_of(types[operand]);
    return offsets.valid ? offsets.last(operand) + size : numel * size;
  }
  [[nodiscard]] double traffic(std::size_t operand) const {
    const double size = static_cast<double>(size_of(types[operand]));
    return size * (offsets.valid ? offsets.distinct(operand) : numel);
  }
  /// Lines of memory that lie apart and that the first `elements` touch of an operand, none of
  /// whose dimensions overlaps another; of lines side by side, those that hold a single element.
  [[nodiscard]] std::size_t lines(std::size_t elements, std::size_t operand) const {
    std::size_t left = elements, near = size_of(types[operand]), apart = 1;
    for (std::size_t d = 0; d < offsets.sizes.size(); ++d) {
      const std::size_t size = offsets.sizes[d], taken = std::min(size, left);
      const std::size_t stride = offsets.strides[d * offsets.operands + operand];
      left = (left + size - 1) / size;
      if (stride >= line_bytes && stride > near) {
        apart *= taken;
      } else {
        near += (taken - 1) * stride;
      }
    }
    const std::size_t together = (near + line_bytes - 1) / line_bytes;
    if (apart > 1) return apart * together;
    return 2 * together > elements ? 2 * together - elements : 0;
  }
};

/// `value`, which memory has as `stored`, as a function takes it.
Value as(ElementType type, const Value& value, ElementType stored) {
  return type == stored ? value : converted(type, value);
}

/// Whether no element of the result can be known: one of two operands is unknown throughout, and
/// nothing in the other decides alone. A layer's weight and its unknown activation: the weight has
/// fewer elements, and is looked at instead of the activation's.
bool hopeless(const Loop& loop, const ElementwiseFunction& function, const std::byte* state,
              std::span<const Image> images) {
  if (function.arguments.size() != 2) return false;
  const std::size_t known = images[1].knows_anything() ? 1 : 2;
  const std::size_t size = size_of(loop.types[known]);
  if (images[known].extent() / size > loop.numel / 2) return false;
  if (images[3 - known].knows_anything()) return false;
  Decider decided{function.contrast, function.arguments};
  std::array<std::optional<Value>, 2> arguments;
  for (std::size_t at = 0; at + size <= images[known].extent(); at += size) {
    if (at > 0 && images[known].alike(at, at - size, size)) continue;
    auto& argument = arguments[known - 1];
    argument = images[known].load(at, loop.types[known]);
    if (argument) argument = as(function.arguments[known - 1], *argument, loop.types[known]);
    if (decided(arguments, [&](const Value* v) { return function.evaluate(v, state); })) {
      return false;
    }
  }
  return true;
}

/// Runs `function` over a loop's images.
void execute(const Loop& loop, const ElementwiseFunction& function, const std::byte* state,
             std::span<Image> images) {
  const std::size_t arguments = function.arguments.size();
  const auto evaluate = [&](const Value* values) { return function.evaluate(values, state); };
  std::array<Value, max_operands> values;
  std::array<std::optional<Value>, max_operands> partly;
  Decider decided{function.contrast, function.arguments};
  std::optional<Value> result;
  std::array<std::size_t, max_operands> offsets{};
  for (std::uint32_t i = 0; i < loop.numel; ++i) {
    // Masks and constants are the same from element to element.
    bool alike = i > 0 && arguments > 0;
    for (std::size_t a = 0; a < arguments; ++a) {
      const std::size_t offset = loop.offset(i, a + 1);
      alike = alike && images[a + 1].alike(offset, offsets[a], size_of(loop.types[a + 1]));
      offsets[a] = offset;
    }
    if (alike) {
      images[0].store(loop.offset(i, 0), loop.types[0], result);
      continue;
    }
    bool all = true;
    for (std::size_t a = 0; a < arguments; ++a) {
      const auto value = images[a + 1].load(offsets[a], loop.types[a + 1]);
      all = all && value;
      if (value) values[a] = as(function.arguments[a], *value, loop.types[a + 1]);
      partly[a] = value ? std::optional{values[a]} : std::nullopt;
    }
    if (all) {
      result = evaluate(values.data());
    } else {
      result = decided(std::span{partly}.first(arguments), evaluate);
    }
    // Of the same type it is converted when it is stored.
    if (result && function.result != loop.types[0]) result = converted(function.result, *result);
    images[0].store(loop.offset(i, 0), loop.types[0], result);
  }
}

/// All that a result hangs on but for the function and its arguments' values.
std::vector<std::uint32_t> launch_of(const Loop& loop, std::span<const std::byte> state) {
  std::vector<std::uint32_t> launch{loop.numel, loop.offsets.valid};
  for (std::size_t o = 0; o < loop.operands; ++o)
    launch.push_back(static_cast<std::uint32_t>(loop.types[o]));
  launch.insert(launch.end(), loop.offsets.sizes.begin(), loop.offsets.sizes.end());
  launch.insert(launch.end(), loop.offsets.strides.begin(), loop.offsets.strides.end());
  for (const std::byte byte : state) launch.push_back(std::to_integer<std::uint32_t>(byte));
  return launch;
}

/// Runs `function` over a loop's images, or finds what an earlier run made of the same.
void run(const Loop& loop, const ElementwiseFunction& function, std::span<const std::byte> state,
         std::span<Image> images, ExecutedBefore& before) {
  if (hopeless(loop, function, state.data(), images)) return images[0].forget();
  const auto executed = [&] { execute(loop, function, state.data(), images); };
  // Fewer are executed about as fast as they are found.
  constexpr std::uint32_t fewest = 1024;
  if (loop.numel < fewest) return executed();
  before.run(launch_of(loop, state), images, executed);
}

/// The loop over the elements that differ: without the dimensions along which every argument
/// repeats, as where a mask of tokens is expanded to their features. The result lies side by side.
/// As long as before: nothing repeats.
Loop without_repetition(const Loop& loop) {
  Loop shorter = loop;
  shorter.numel = 1;
  shorter.offsets.sizes.clear();
  shorter.offsets.strides.clear();
  const std::size_t operands = loop.offsets.operands;
  for (std::size_t d = 0; d < loop.offsets.sizes.size(); ++d) {
    const std::span strides{loop.offsets.strides.data() + d * operands + 1, operands - 1};
    if (std::ranges::all_of(strides, [](std::uint32_t stride) { return stride == 0; })) continue;
    shorter.offsets.sizes.push_back(loop.offsets.sizes[d]);
    shorter.offsets.strides.push_back(shorter.numel);  // flags have a byte
    for (const std::uint32_t stride : strides) shorter.offsets.strides.push_back(stride);
    shorter.numel *= loop.offsets.sizes[d];
  }
  return shorter;
}

/// Of flags too many to be computed, the share that is set: counted where the arguments are small
/// and repeat, else what the function makes of the share of its only argument's.
std::optional<double> share_of_result(const Loop& loop, const ElementwiseFunction& function,
                                      const std::byte* state, std::size_t limit) {
  if (loop.offsets.valid) {
    const Loop shorter = without_repetition(loop);
    bool small = shorter.numel <= limit;
    for (std::size_t o = 1; o < loop.operands; ++o)
      small = small && shorter.extent(o) <= limit && is_device_address(loop.data[o]);
    if (small) {
      std::vector<Image> images;
      for (std::size_t o = 0; o < loop.operands; ++o)
        images.emplace_back(Operand{loop.data[o], shorter.extent(o), o != 0, o == 0});
      if (hopeless(shorter, function, state, images)) return std::nullopt;
      execute(shorter, function, state, images);
      std::size_t set = 0;
      for (std::uint32_t i = 0; i < shorter.numel; ++i) {
        const auto flag = images[0].load(i, loop.types[0]);
        if (!flag) return std::nullopt;
        if (flag->to_bool()) ++set;
      }
      return static_cast<double>(set) / shorter.numel;
    }
  }
  if (loop.operands != 2 || loop.types[1] != ElementType::boolean) return std::nullopt;
  const std::optional<double> share = rank::share_set(loop.data[1], loop.extent(1));
  if (!share) return std::nullopt;
  const auto outcome = [&](bool flag) {
    const Value value = converted(function.arguments[0], Value{static_cast<std::int64_t>(flag)});
    return function.evaluate(&value, state).to_bool() ? 1.0 : 0.0;
  };
  return *share * outcome(true) + (1 - *share) * outcome(false);
}

/// Which operands a function must know something of to have a known result at all.
Effect::Needs needs(const ElementwiseFunction& function, const std::byte* state) {
  if (function.contrast == Contrast::none) return Effect::Needs::every_input;
  if (function.arguments.size() > 1) return Effect::Needs::some_input;
  const std::array<std::optional<Value>, 1> unknown;
  const auto evaluate = [&](const Value* values) { return function.evaluate(values, state); };
  // A product with the scalar 0 needs nothing.
  return Decider{function.contrast, function.arguments}(unknown, evaluate)
             ? Effect::Needs::nothing
             : Effect::Needs::every_input;
}

/// Lines that 512 elements touch where operands are transposed; 0 where there are at most twice as
/// many as they fill. A block has 256 elements or 512, and those of a line that it touches twice it
/// finds in its L1 cache.
double scattered_lines(const Loop& loop) {
  constexpr std::size_t elements = 512;
  std::size_t touched = 0, filled = 0;
  for (std::size_t o = 0; o < loop.operands; ++o) {
    touched += loop.lines(elements, o);
    filled += size_of(loop.types[o]) * elements / line_bytes;
  }
  return touched > 2 * filled ? static_cast<double>(touched) : 0.0;
}

/// What a function that compares finds of values that are not computed; nullopt: nobody can tell.
std::optional<Test> comparison(const Loop& loop, const ElementwiseFunction& function,
                               const std::byte* state) {
  using Compares = ElementwiseFunction::Compares;
  if (function.compares == Compares::nothing) return std::nullopt;
  const auto found = [&](const Value& x) { return function.evaluate(&x, state).to_bool(); };
  const bool integers = is_told_apart(loop.types[1]) && is_told_apart(function.arguments.front());
  if (function.compares == Compares::order) {
    // A token is in the vocabulary: the outcome is that of 0, if that of 1 is the same.
    if (!integers || found(Value{0}) != found(Value{1})) return std::nullopt;
    return found(Value{0}) ? Test::holds : Test::fails;
  }
  const bool with_itself = loop.operands == 3 && loop.data[1] == loop.data[2];
  const bool not_equal = load(ElementType::int32, state).to_bool();
  const Test equal = not_equal ? Test::fails : Test::holds;
  const Test unlike = not_equal ? Test::holds : Test::fails;
  if (integers) return with_itself ? std::nullopt : std::optional{unlike};
  if (!is_floating(loop.types[1])) return std::nullopt;
  if (with_itself) return equal;  // only NaN is not
  if (loop.operands != 2) return std::nullopt;
  const bool asks_for_infinity = found(Value{std::numeric_limits<double>::infinity()}) != not_equal;
  return asks_for_infinity ? std::optional{unlike} : std::nullopt;
}

std::optional<Effect> effect_of(const Loop& loop, const ElementwiseFunction* function,
                                std::span<const std::byte> state, ExecutedBefore& before) {
  std::optional<Effect> made{std::in_place};  // to be returned without a move
  Effect& effect = *made;
  // A mask of 64-bit tokens has an eighth of their bytes; narrow integers are widened before their
  // sum.
  const bool flags = loop.types[0] == ElementType::boolean;
  const bool widened = loop.operands == 2 && loop.types[0] == ElementType::int64 &&
                       !is_floating(loop.types[1]) && !is_complex(loop.types[1]);
  if ((flags || widened) && loop.numel <= effect.limit) effect.limit *= 8;
  bool small = true;
  effect.operands.reserve(loop.operands);
  for (std::size_t o = 0; o < loop.operands; ++o) {
    const std::size_t extent = loop.numel == 0 ? 0 : loop.extent(o);
    effect.operands.push_back({loop.data[o], extent, o != 0, o == 0, loop.types[o]});
    effect.bytes += loop.traffic(o);
    small = small && extent <= effect.limit;
  }
  effect.features.emplace_back("numel", loop.numel);
  if (loop.offsets.valid) {
    effect.features.emplace_back("lines", scattered_lines(loop));
    effect.features.emplace_back("dims", std::max<std::size_t>(1, loop.offsets.sizes.size()));
  }
  if (function == nullptr) return made;
  if (loop.operands == 1 && !loop.offsets.valid) {
    const ElementType type = loop.types[0];
    Value value = function->evaluate(nullptr, state.data());
    if (type != function->result) value = converted(function->result, value);
    effect.repeated = element_of(type, value);
  } else if (small) {
    effect.needs = needs(*function, state.data());
    effect.independent = true;
    const bool dense = loop.extent(0) == loop.numel * size_of(loop.types[0]);
    const auto test = dense ? comparison(loop, *function, state.data()) : std::nullopt;
    if (test) {
      effect.assumption = Assumption::test;
      effect.assumed.push_back({0, assumed_outcome(*test, loop.types[0])});
      effect.reads_known = [loop](const Image& image, std::size_t operand) {
        for (std::uint32_t i = 0; i < loop.numel; ++i)
          if (image.load(loop.offset(i, operand), loop.types[operand])) return true;
        return false;
      };
    }
    effect.compute = [loop, function, bytes = std::vector<std::byte>{state.begin(), state.end()},
                      &before](std::span<Image> images) {
      run(loop, *function, bytes, images, before);
    };
  } else if (loop.operands > 1) {
    const std::vector<std::byte> bytes{state.begin(), state.end()};
    if (flags) {
      effect.share_set = [loop, function, limit = effect.limit, bytes] {
        return share_of_result(loop, *function, bytes.data(), limit);
      };
    }
    if (!is_floating(loop.types[0]) && !is_complex(loop.types[0]))
      effect.defer = [operands = effect.operands, loop, function, bytes] {
        return defer_elements(operands, loop.numel, loop.offsets, *function, bytes,
                              launch_of(loop, bytes));
      };
  }
  return made;
}

/// What the name of an elementwise kernel says.
class Elementwise final : public Meaning {
 public:
  enum class Form : std::uint8_t { contiguous, converting, strided, strided_converting };

  Elementwise(Form form, std::optional<ElementwiseFunction> function,
              std::span<const ElementType> types)
      : form_{form}, operands_{types.size()}, function_{std::move(function)} {
    std::ranges::copy(types, types_.begin());
  }

  [[nodiscard]] std::optional<Effect> effect(const Arguments& arguments) const override {
    Loop loop;
    loop.numel = arguments.get<std::uint32_t>(0);
    loop.operands = operands_;
    loop.types = types_;
    std::span<const std::byte> state;
    if (form_ == Form::contiguous || form_ == Form::converting) {
      // (int numel, functor, std::array<char*, operands>[, 2 calculators, loader, storer])
      if (arguments.bytes(2).size() != operands_ * sizeof(void*)) return std::nullopt;
      for (std::size_t o = 0; o < operands_; ++o) loop.data[o] = arguments.pointer(2, o * 8);
      state = arguments.bytes(1);
      if (form_ == Form::converting) {
        // LoadWithCast<n>: n types of a byte, then n sizes; StoreWithCast<1> the same.
        for (std::size_t o = 0; o < operands_; ++o) {
          const auto number =
              o == 0 ? arguments.get<std::uint8_t>(6) : arguments.get<std::uint8_t>(5, o - 1);
          const auto type = element_type_of_scalar_type(number);
          if (!type) return std::nullopt;
          loop.types[o] = *type;
        }
      }
      return effect_of(loop, executable(), state, before_);
    }
    // (int numel, closure): captures in order of use: calculator, pointers, functor[, types].
    const std::size_t pointers = aligned(OffsetCalculator::bytes(operands_), sizeof(void*));
    const std::size_t functor = aligned(pointers + operands_ * sizeof(void*), functor_alignment());
    const std::size_t size = arguments.bytes(1).size();
    if (size < functor) return std::nullopt;
    loop.offsets = OffsetCalculator::read(arguments, 1, 0, operands_);
    if (!loop.offsets.valid) return std::nullopt;
    for (std::size_t o = 0; o < operands_; ++o) {
      loop.data[o] = arguments.pointer(1, pointers + o * sizeof(void*));
    }
    state = arguments.bytes(1).subspan(functor);
    if (form_ == Form::strided_converting) {
      if (!function_) return std::nullopt;  // the types lie behind a functor of unknown size
      constexpr std::size_t host_pointer = 8;
      const auto fits = [&](std::size_t bytes) {
        const std::size_t captures = aligned(functor + bytes + operands_, host_pointer);
        return aligned(captures + host_pointer, functor_alignment()) == size;
      };
      // A functor without scalars is empty, or a lambda that has a pointer to its host twin.
      const bool twin = function_->state_bytes == 1 && !fits(1);
      const std::size_t functor_bytes = twin ? host_pointer : function_->state_bytes;
      if (!fits(functor_bytes)) return std::nullopt;
      const std::size_t types = functor + functor_bytes;
      for (std::size_t o = 0; o < operands_; ++o) {
        const auto type = element_type_of_scalar_type(arguments.get<std::uint8_t>(1, types + o));
        if (!type) return std::nullopt;
        loop.types[o] = *type;
      }
    }
    return effect_of(loop, executable(), state, before_);
  }

 private:
  /// In a closure: as pointers have, or more where the functor holds a complex<double>.
  [[nodiscard]] std::size_t functor_alignment() const {
    constexpr std::size_t widest = 16;
    const bool holds_widest =
        function_ && function_->state_bytes % widest == 0 &&
        std::ranges::any_of(std::span{types_}.first(operands_),
                            [](ElementType type) { return size_of(type) == widest; });
    return holds_widest ? widest : sizeof(void*);
  }
  [[nodiscard]] const ElementwiseFunction* executable() const {
    return function_ && function_->evaluate ? &*function_ : nullptr;
  }
  Form form_;
  std::size_t operands_;
  std::optional<ElementwiseFunction> function_;
  std::array<ElementType, max_operands> types_{};  ///< of the operands
  mutable ExecutedBefore before_{};
};

std::unique_ptr<Meaning> made(Elementwise::Form form, std::string_view functor,
                              std::optional<std::size_t> operands) {
  if (operands && *operands > max_operands) return nullptr;
  auto function = elementwise_function(functor);
  std::vector<ElementType> types;
  if (function) {
    types.push_back(function->result);
    types.insert(types.end(), function->arguments.begin(), function->arguments.end());
    if (operands && types.size() != *operands) return nullptr;
  } else {
    // The meaning is unknown. Sizes as far as the name tells: the result is taken to be as wide as
    // the widest argument, or, if the first is no integer, the widest that is none.
    types = functor_types(functor);
    if (!operands) operands = operands_of_functor(functor);
    if (types.empty() || !operands || *operands > max_operands) return nullptr;
    const auto is_integer = [](ElementType type) {
      return !is_floating(type) && !is_complex(type);
    };
    const auto width = [&](ElementType type) {
      return is_integer(type) && !is_integer(types.front()) ? 0 : size_of(type);
    };
    const auto widest = *std::ranges::max_element(types, {}, width);
    types.insert(types.begin(), widest);
    types.resize(*operands, widest);
  }
  if (types.size() > max_operands) return nullptr;
  return std::make_unique<Elementwise>(form, std::move(function), types);
}

/// "3ul" of "std::array<char*, 3ul>".
std::optional<std::size_t> array_size(std::string_view text) {
  const TemplateName name = template_name(text);
  if (name.name != "std::array" || name.arguments.size() != 2) return std::nullopt;
  return number_in(name.arguments[1]);
}

}  // namespace

std::unique_ptr<Meaning> read_elementwise(const Signature& signature, const KernelResources&) {
  const auto& arguments = signature.kernel.arguments;
  const std::string_view kernel = unqualified(signature.kernel.name);
  // <elements per vector, functor, array of pointers>, and from 2.14 on an option.
  if (kernel == "vectorized_elementwise_kernel" && arguments.size() >= 3) {
    return made(Elementwise::Form::contiguous, arguments[1], array_size(arguments[2]));
  }
  if (kernel == "unrolled_elementwise_kernel" && arguments.size() == 7) {
    if (!arguments[3].starts_with("TrivialOffsetCalculator")) return nullptr;
    const bool converts = arguments[5].find("LoadWithCast") != std::string_view::npos;
    return made(converts ? Elementwise::Form::converting : Elementwise::Form::contiguous,
                arguments[0], array_size(arguments[1]));
  }
  if (kernel == "elementwise_kernel" && arguments.size() == 3) {
    const LambdaName loop = lambda_name(arguments[2]);
    const std::string_view function = unqualified(loop.function.name);
    if (loop.function.arguments.empty()) return nullptr;
    if (function == "gpu_kernel_impl_nocast") {
      return made(Elementwise::Form::strided, loop.function.arguments[0], std::nullopt);
    }
    if (function == "gpu_kernel_impl") {
      return made(Elementwise::Form::strided_converting, loop.function.arguments[0], std::nullopt);
    }
  }
  return nullptr;
}

}  // namespace phantora::rank
