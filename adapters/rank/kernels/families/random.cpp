#include "rank/kernels/families/aligned.hpp"
#include "rank/kernels/families/offset_calculator.hpp"
#include "rank/kernels/families/philox.hpp"
#include "rank/kernels/families/tensor_info.hpp"
#include "rank/kernels/kernel_effect.hpp"
#include "rank/memory/device_memory.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

/// PyTorch's random kernels (ATen/native/cuda/DistributionTemplates.h,
/// core/TransformationHelper.h): the same generator, seeds and order as on the device, so that the
/// numbers are the device's own up to the rounding of its logarithms and sines.
namespace phantora::rank {

namespace {

/// PhiloxCudaState: seed and offset, or in a captured graph where they lie on the device, and how
/// far the kernel is behind that offset.
struct State {
  std::uint64_t seed = 0, offset = 0, further = 0;
  bool captured = false;

  /// What it says when the kernel runs; nothing if that is not known.
  [[nodiscard]] std::optional<State> now() const {
    if (!captured) return *this;
    State read{};
    for (const auto& [value, address] : {std::pair{&read.seed, seed}, {&read.offset, offset}}) {
      const auto* const place = reinterpret_cast<const void*>(address);
      if (!known(place, sizeof *value)) return std::nullopt;
      rank::read(value, place, sizeof *value);
    }
    read.offset += further;
    return read;
  }
};
std::optional<State> state(const Arguments& arguments, std::size_t parameter) {
  if (arguments.bytes(parameter).size() != 32) return std::nullopt;
  return State{.seed = arguments.get<std::uint64_t>(parameter, 0),
               .offset = arguments.get<std::uint64_t>(parameter, 8),
               .further = arguments.get<std::uint64_t>(parameter, 16),
               .captured = arguments.get<std::uint8_t>(parameter, 24) != 0};
}

// curand_uniform.h: to (0, 1].
float uniform(std::uint32_t x) {
  constexpr float scale = 2.3283064365386963e-10f;  // 2^-32
  return static_cast<float>(x) * scale + scale / 2;
}
double uniform_double(std::uint32_t x, std::uint32_t y) {
  constexpr double scale = 1.1102230246251565e-16;  // 2^-53
  const std::uint64_t bits = std::uint64_t{x} ^ (std::uint64_t{y} << 21);
  return static_cast<double>(bits) * scale + scale / 2;
}
/// Box and Muller's method, as curand_normal.h orders it: sine first.
std::array<float, 2> normal(std::uint32_t x, std::uint32_t y) {
  constexpr float scale = 2.3283064365386963e-10f;
  constexpr float turn = scale * 6.28318530717958647692f;
  const float u = static_cast<float>(x) * scale + scale / 2;
  const float v = static_cast<float>(y) * turn + turn / 2;
  const float radius = std::sqrt(-2.0f * std::log(u));
  return {radius * std::sin(v), radius * std::cos(v)};
}
std::array<double, 2> normal_double(const std::array<std::uint32_t, 4>& r) {
  const double u = uniform_double(r[0], r[1]), v = uniform_double(r[2], r[3]) * 2;
  const double radius = std::sqrt(-2.0 * std::log(u));
  return {radius * std::sin(v * M_PI), radius * std::cos(v * M_PI)};
}

enum class Source : std::uint8_t { uniform, normal, bits32, bits64 };

/// The numbers of one call of the kernel's distribution function.
std::vector<Value> draw(Philox& generator, Source source, bool doubles) {
  const auto r = generator.four();
  const auto wide = [](std::uint32_t high, std::uint32_t low) {
    return Value{static_cast<std::int64_t>(std::uint64_t{high} << 32 | low)};
  };
  switch (source) {
    case Source::uniform:
      if (doubles) return {uniform_double(r[0], r[1]), uniform_double(r[2], r[3])};
      return {uniform(r[0]), uniform(r[1]), uniform(r[2]), uniform(r[3])};
    case Source::normal: {
      if (doubles) {
        const auto n = normal_double(r);
        return {n[0], n[1]};
      }
      const auto a = normal(r[0], r[1]), b = normal(r[2], r[3]);
      return {a[0], a[1], b[0], b[1]};
    }
    case Source::bits32:
      return {std::int64_t{r[0]}, std::int64_t{r[1]}, std::int64_t{r[2]}, std::int64_t{r[3]}};
    case Source::bits64:
      break;
  }
  return {wide(r[0], r[1]), wide(r[2], r[3])};
}

using Transform = std::function<Value(const Value& number)>;

/// What the name says about a distribution kernel.
struct Distribution {
  ElementType output{}, number{};
  Source source{};
  std::string_view function;  ///< "normal_kernel", "random_from_to_kernel", ...
};

/// Scalars captured by the transformation, at `offset` into the closure.
std::optional<Transform> transformation(const Distribution& d, const Arguments& arguments,
                                        std::size_t offset) {
  const auto bytes = arguments.bytes(3);
  const auto scalar = [&](std::size_t& at, ElementType type) -> std::optional<Value> {
    at = (at + size_of(type) - 1) / size_of(type) * size_of(type);
    if (at + size_of(type) > bytes.size()) return std::nullopt;
    const Value value = load(type, bytes.data() + at);
    at += size_of(type);
    return value;
  };
  const ElementType compute = d.number;
  const ElementType output = d.output;
  std::size_t at = offset;
  if (d.function == "normal_kernel" || d.function == "log_normal_kernel") {
    const auto mean = scalar(at, compute), deviation = scalar(at, compute);
    if (!mean || !deviation) return std::nullopt;
    const bool exponential = d.function == "log_normal_kernel";
    return [=, m = mean->to_real(), s = deviation->to_real()](const Value& x) {
      const Value y = converted(compute, x.to_real() * s + m);
      return exponential ? Value{std::exp(y.real)} : y;
    };
  }
  if (d.function == "uniform_kernel") {
    const auto range = scalar(at, compute), from = scalar(at, output), to = scalar(at, output);
    if (!range || !from || !to) return std::nullopt;
    return [=, r = range->to_real(), f = from->to_real(), t = to->to_real()](const Value& x) {
      // (0, 1] becomes [0, 1).
      const Value y = converted(output, converted(compute, x.to_real() * r + f));
      return y.real == t ? Value{f} : y;
    };
  }
  if (d.function == "exponential_kernel") {
    const auto rate = scalar(at, compute);
    if (!rate) return std::nullopt;
    return [=, l = rate->to_real()](const Value& x) {
      const double epsilon = compute == ElementType::float64
                                 ? std::numeric_limits<double>::epsilon()
                                 : static_cast<double>(std::numeric_limits<float>::epsilon());
      // Never zero, also where the number is 1.
      const double log = x.to_real() >= 1.0 - epsilon / 2 ? -epsilon / 2 : std::log(x.to_real());
      return Value{-log / l};
    };
  }
  if (d.function == "bernoulli_kernel") {
    const auto p = scalar(at, ElementType::float64);
    if (!p) return std::nullopt;
    const double limit = compute == ElementType::float32 ? static_cast<float>(p->real) : p->real;
    return [limit](const Value& x) { return Value{x.to_real() < limit}; };
  }
  if (d.function == "geometric_kernel") {
    const auto p = scalar(at, ElementType::float64);
    if (!p) return std::nullopt;
    return [q = std::log1p(-p->real)](const Value& x) {
      return Value{std::ceil(std::log(x.to_real()) / q)};
    };
  }
  if (d.function == "random_from_to_kernel") {
    const auto range = scalar(at, ElementType::uint64), base = scalar(at, ElementType::int64);
    if (!range || !base || range->integer == 0) return std::nullopt;
    return [r = static_cast<std::uint64_t>(range->integer), b = base->integer](const Value& x) {
      return Value{static_cast<std::int64_t>(static_cast<std::uint64_t>(x.integer) % r) + b};
    };
  }
  if (d.function == "random_full_64_bits_range_kernel") return [](const Value& x) { return x; };
  if (d.function == "random_kernel") {
    // Numbers that the type represents exactly.
    std::uint64_t modulus = 0;
    switch (output) {
      case ElementType::boolean:
        modulus = 2;
        break;
      case ElementType::float16:
        modulus = (std::uint64_t{1} << 11) + 1;
        break;
      case ElementType::bfloat16:
        modulus = (std::uint64_t{1} << 8) + 1;
        break;
      case ElementType::float32:
        modulus = (std::uint64_t{1} << 24) + 1;
        break;
      case ElementType::float64:
        modulus = (std::uint64_t{1} << 53) + 1;
        break;
      case ElementType::uint8:
        modulus = 256;
        break;
      default:
        modulus = std::uint64_t{1} << (8 * size_of(output) - 1);
    }
    return [modulus](const Value& x) {
      return Value{static_cast<std::int64_t>(static_cast<std::uint64_t>(x.integer) % modulus)};
    };
  }
  return std::nullopt;
}

/// distribution_elementwise_grid_stride_kernel<number, numbers per call, ...>(elements, state,
/// distribution, closure of {output, its byte stride, transformation} or of {calculator, output,
/// transformation}).
class DistributionKernel final : public Meaning {
 public:
  explicit DistributionKernel(Distribution d) : distribution_{d} {}

  [[nodiscard]] std::optional<Effect> effect(const Arguments& arguments) const override {
    const auto count = arguments.get<std::size_t>(0);
    const auto seed = state(arguments, 1);
    const std::size_t size = arguments.bytes(3).size();
    const std::size_t element = size_of(distribution_.output);
    const bool strided = size > OffsetCalculator::bytes(1);
    std::byte* output = nullptr;
    std::size_t captures = 0, step = 0, extent = 0;
    OffsetCalculator calculator;
    if (strided) {
      calculator = OffsetCalculator::read(arguments, 3, 0, 1);
      if (!calculator.valid) return std::nullopt;
      const std::size_t at = aligned(OffsetCalculator::bytes(1), sizeof(void*));
      output = arguments.pointer(3, at);
      captures = at + 8;
      extent = calculator.last(0) + element;
    } else {
      output = arguments.pointer(3, 0);
      step = arguments.get<std::uint32_t>(3, 8);
      captures = 12;
      extent = count == 0 ? 0 : (count - 1) * step + element;
    }
    Effect effect;
    effect.operands = {{output, extent, false, true}};
    effect.bytes = static_cast<double>(count * element);
    effect.features.emplace_back("numel", static_cast<double>(count));
    if (!seed || extent > small_bytes) return effect;
    const auto transform = transformation(distribution_, arguments, transformation_at(captures));
    if (!transform) return effect;
    const std::size_t threads = std::size_t{arguments.shape.block.x} * arguments.shape.grid.x;
    effect.compute = [=, d = distribution_, given = *seed,
                      transform = *transform](std::span<Image> images) {
      const auto state_now = given.now();
      if (!state_now) return images[0].forget();
      const bool doubles = d.number == ElementType::float64;
      for (std::size_t thread = 0; thread < std::min(threads, count); ++thread) {
        Philox generator{state_now->seed, thread, state_now->offset};
        for (std::size_t first = thread; first < count;) {
          const auto numbers = draw(generator, d.source, doubles);
          for (std::size_t k = 0; k < numbers.size(); ++k) {
            const std::size_t i = first + k * threads;
            if (i >= count) break;
            const std::size_t to =
                strided ? calculator.offset(static_cast<std::uint32_t>(i), 0) : i * step;
            images[0].store(to, d.output, transform(numbers[k]));
          }
          first += threads * numbers.size();
        }
      }
    };
    return effect;
  }

 private:
  /// The transformation is an object of its own: aligned to its widest member.
  [[nodiscard]] std::size_t transformation_at(std::size_t offset) const {
    const bool wide = distribution_.number == ElementType::float64 ||
                      distribution_.function == "bernoulli_kernel" ||
                      distribution_.function == "geometric_kernel" ||
                      distribution_.function == "random_from_to_kernel";
    return aligned(offset, wide ? 8 : 4);
  }
  Distribution distribution_;
};

/// randperm_handle_duplicate_keys_kernel(keys, data, mask, count, state): permutes the data of
/// equal keys.
std::unique_ptr<Meaning> duplicate_keys(const TemplateName& kernel) {
  if (kernel.arguments.size() != 2) return nullptr;
  const auto key = element_type_named(kernel.arguments[0]);
  const std::size_t element = moved_bytes(kernel.arguments[1]);
  const auto data_type = opaque_type(element);
  if (!key || !data_type) return nullptr;
  return meaning(
      [=, key = *key, data_type = *data_type](const Arguments& arguments) -> std::optional<Effect> {
        const auto mask_bytes = arguments.bytes(2);
        const auto seed = state(arguments, 4);
        if (mask_bytes.size() != size_of(key) || !seed) return std::nullopt;
        const std::int64_t mask = load(key, mask_bytes.data()).integer;
        const std::size_t count = arguments.get<std::uint32_t>(3);
        Effect effect;
        effect.operands = {{arguments.pointer(0), count * size_of(key), true, false},
                           {arguments.pointer(1), count * element, true, true}};
        effect.bytes = static_cast<double>(count * size_of(key));
        effect.features.emplace_back("numel", static_cast<double>(count));
        effect.limit = 8 * small_bytes;
        effect.compute = [=, given = *seed](std::span<Image> images) {
          const auto state_now = given.now();
          if (!state_now) return images[1].forget();
          const auto masked = [&](std::size_t i) -> std::optional<std::int64_t> {
            const auto value = images[0].load(i * size_of(key), key);
            if (!value) return std::nullopt;
            return value->integer & mask;
          };
          for (std::size_t first = 0; first < count;) {
            const auto own = masked(first);
            if (!own) return images[1].forget();
            std::size_t last = first + 1;
            while (last < count && masked(last) == own) ++last;
            Philox generator{state_now->seed, first, state_now->offset};
            for (std::size_t i = last - first; i-- > 1;) {
              const std::size_t r = generator.one() % static_cast<std::uint32_t>(i + 1);
              if (r == i) continue;
              const std::size_t a = (first + i) * element, b = (first + r) * element;
              const auto x = images[1].load(a, data_type), y = images[1].load(b, data_type);
              images[1].store(a, data_type, y);
              images[1].store(b, data_type, x);
            }
            first = last;
          }
        };
        return effect;
      });
}

}  // namespace

std::unique_ptr<Meaning> read_random(const Signature& signature, const KernelResources&) {
  const TemplateName& kernel = signature.kernel;
  const std::string_view name = unqualified(kernel.name);
  if (name == "randperm_handle_duplicate_keys_kernel") return duplicate_keys(kernel);
  if (name != "distribution_elementwise_grid_stride_kernel" || kernel.arguments.size() != 4) {
    return nullptr;
  }
  const auto number = element_type_named(kernel.arguments[0]);
  if (!number) return nullptr;
  Distribution d;
  d.number = *number;
  const std::string_view text = kernel.arguments[3];
  // "...distribution_nullary_kernel<output, number, ..., lambda>(...)::{lambda(int, number)#1}":
  // the lambda is written in the kernel that the user called.
  const LambdaName closure = lambda_name(text);
  if (unqualified(closure.function.name) != "distribution_nullary_kernel" ||
      closure.function.arguments.size() < 5) {
    return nullptr;
  }
  const auto output = element_type_named(closure.function.arguments[0]);
  if (!output) return nullptr;
  d.output = *output;
  const std::string_view draws = closure.function.arguments[4];
  if (draws.find("uniform_and_transform<") != std::string_view::npos) {
    d.source = Source::uniform;
  } else if (draws.find("normal_and_transform<") != std::string_view::npos) {
    d.source = Source::normal;
  } else {
    d.source = size_of(d.number) == 8 ? Source::bits64 : Source::bits32;
  }
  constexpr std::string_view functions[] = {
      "log_normal_kernel",     "normal_kernel",
      "uniform_kernel",        "exponential_kernel",
      "bernoulli_kernel",      "geometric_kernel",
      "random_from_to_kernel", "random_full_64_bits_range_kernel",
      "random_kernel"};
  for (const std::string_view function : functions) {
    if (text.find("::" + std::string{function} + "<") != std::string_view::npos) {
      d.function = function;
      return std::make_unique<DistributionKernel>(d);
    }
  }
  return nullptr;
}

}  // namespace phantora::rank
