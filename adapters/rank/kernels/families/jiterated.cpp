#include "rank/kernels/families/arithmetic.hpp"
#include "rank/kernels/families/complex_function.hpp"
#include "rank/kernels/families/offset_calculator.hpp"
#include "rank/kernels/kernel_effect.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>

/// Elementwise kernels that PyTorch compiles at run time (ATen/native/cuda/jit_utils.cpp,
/// CUDAJitLoops.cuh). The stand-in NVRTC gives their signatures:
/// "name_kernel<function, outputs, result, argument>(int, Array<char*, n>, ...)".
namespace phantora::rank {
namespace {

constexpr std::size_t max_operands = 8;

/// The inverse of erf: Newton's steps from an approximation that is good to 2e-3 (S. Winitzki's).
double erfinv(double y) {
  if (y <= -1 || y >= 1) {
    return std::fabs(y) == 1 ? y * std::numeric_limits<double>::infinity()
                             : std::numeric_limits<double>::quiet_NaN();
  }
  constexpr double a = 0.147, pi = 3.14159265358979323846;
  const double logarithm = std::log1p(-y * y), half = 2 / (pi * a) + logarithm / 2;
  double x = std::copysign(std::sqrt(std::sqrt(half * half - logarithm / a) - half), y);
  for (int i = 0; i < 3; ++i) x -= (std::erf(x) - y) / (2 / std::sqrt(pi) * std::exp(-x * x));
  return x;
}

double sinc(double x) {
  constexpr double pi = 3.14159265358979323846;
  return x == 0 ? 1 : std::sin(pi * x) / (pi * x);
}

using Function = std::function<Value(const Value* arguments)>;
struct Real {
  std::string_view name;
  std::size_t arguments;
  Value (*evaluate)(const Value* arguments);
};
constexpr Real functions[] = {
    {"erfinv_kernel", 1, [](const Value* a) { return Value{erfinv(a[0].to_real())}; }},
    {"erfc_kernel", 1, [](const Value* a) { return Value{std::erfc(a[0].to_real())}; }},
    {"exp2_kernel", 1, [](const Value* a) { return Value{std::exp2(a[0].to_real())}; }},
    {"lgamma_kernel", 1, [](const Value* a) { return Value{std::lgamma(a[0].to_real())}; }},
    {"sinc", 1, [](const Value* a) { return Value{sinc(a[0].to_real())}; }},
    {"gcd", 2,
     [](const Value* a) { return Value{std::gcd(a[0].to_integer(), a[1].to_integer())}; }},
    {"lcm", 2,
     [](const Value* a) { return Value{std::lcm(a[0].to_integer(), a[1].to_integer())}; }},
};

/// A function of so many arguments, none where it is not known.
struct Known {
  std::size_t arguments = 0;
  Function evaluate;
};
Known function_named(std::string_view name, ElementType type) {
  if (is_complex(type)) {
    const ComplexFunction function = complex_function(name);
    if (function == nullptr) return {};
    return {1, [function](const Value* a) { return Value{function(a[0].to_complex())}; }};
  }
  for (const Real& real : functions) {
    if (real.name == name) return {real.arguments, real.evaluate};
  }
  return {};
}

/// One launch. Operands are the outputs, then the inputs.
struct Loop {
  std::uint32_t numel = 0;
  std::size_t outputs = 0, inputs = 0;
  std::array<std::byte*, max_operands> data{};
  std::array<ElementType, max_operands> types{};
  bool strided = false;
  OffsetCalculator input, output;  ///< strides in elements

  [[nodiscard]] std::size_t operands() const { return outputs + inputs; }
  [[nodiscard]] std::size_t offset(std::uint32_t index, std::size_t operand) const {
    std::size_t at = index;
    if (strided) {
      at = operand < outputs ? output.offset(index, operand)
                             : input.offset(index, operand - outputs);
    }
    return at * size_of(types[operand]);
  }
  [[nodiscard]] std::size_t extent(std::size_t operand) const {
    if (numel == 0) return 0;
    std::size_t last = numel - 1;
    if (strided) {
      last = operand < outputs ? output.last(operand) : input.last(operand - outputs);
    }
    return (last + 1) * size_of(types[operand]);
  }
  [[nodiscard]] double traffic(std::size_t operand) const {
    double elements = numel;
    if (strided) {
      elements = operand < outputs ? output.distinct(operand) : input.distinct(operand - outputs);
    }
    return elements * static_cast<double>(size_of(types[operand]));
  }
};

void run(const Loop& loop, const Function& function, std::span<Image> images) {
  for (std::uint32_t i = 0; i < loop.numel; ++i) {
    std::array<Value, max_operands> values;
    bool known = true;
    for (std::size_t a = 0; a < loop.inputs; ++a) {
      const std::size_t operand = loop.outputs + a;
      const auto value = images[operand].load(loop.offset(i, operand), loop.types[operand]);
      known = known && value;
      if (value) values[a] = *value;
    }
    images[0].store(loop.offset(i, 0), loop.types[0],
                    known ? std::optional{function(values.data())} : std::nullopt);
  }
}

std::optional<Loop> loop_of(const Arguments& arguments, std::size_t outputs, ElementType result,
                            ElementType argument) {
  Loop loop;
  loop.numel = arguments.get<std::uint32_t>(0);
  const std::size_t operands = arguments.bytes(1).size() / sizeof(void*);
  if (operands > max_operands || operands <= outputs || outputs == 0) return std::nullopt;
  loop.outputs = outputs;
  loop.inputs = operands - outputs;
  for (std::size_t o = 0; o < operands; ++o) {
    loop.data[o] = arguments.pointer(1, o * sizeof(void*));
    loop.types[o] = o < outputs ? result : argument;
  }
  // (N, data, scalar, ...), or (N, data, 2 calculators, loader, storer, scalar, ...)
  if (arguments.sizes.size() < 7) return loop;
  if (arguments.bytes(3).size() == OffsetCalculator::bytes(outputs)) {
    loop.strided = true;
    loop.input = OffsetCalculator::read(arguments, 2, 0, loop.inputs);
    loop.output = OffsetCalculator::read(arguments, 3, 0, outputs);
    if (!loop.input.valid || !loop.output.valid) return std::nullopt;
  }
  // A loader that converts holds a type of one byte for each operand, then their sizes.
  for (std::size_t o = 0; o < operands; ++o) {
    const std::size_t parameter = o < outputs ? 5 : 4;
    if (arguments.bytes(parameter).size() < 2) continue;
    const auto type = element_type_of_scalar_type(
        arguments.get<std::uint8_t>(parameter, o < outputs ? o : o - outputs));
    if (!type) return std::nullopt;
    loop.types[o] = *type;
  }
  return loop;
}

}  // namespace

std::unique_ptr<Meaning> read_jiterated(const Signature& signature, const KernelResources&) {
  const auto& told = signature.kernel.arguments;
  if (told.size() != 4 || !signature.kernel.name.ends_with("_kernel") ||
      !signature.parameters[1].starts_with("Array<char*")) {
    return nullptr;
  }
  const std::size_t outputs = number_in(told[1]);
  const auto result = number_type_named(told[2]), argument = number_type_named(told[3]);
  if (!result || !argument) return nullptr;
  const Known known = function_named(told[0], *argument);
  return meaning([=](const Arguments& arguments) -> std::optional<Effect> {
    const auto loop = loop_of(arguments, outputs, *result, *argument);
    if (!loop) return std::nullopt;
    Effect effect;
    bool small = true;
    for (std::size_t o = 0; o < loop->operands(); ++o) {
      effect.operands.push_back({loop->data[o], loop->extent(o), o >= outputs, o < outputs});
      effect.bytes += loop->traffic(o);
      small = small && loop->extent(o) <= small_bytes;
    }
    effect.features = {{"numel", loop->numel}, {"arrays", static_cast<double>(loop->operands())}};
    effect.needs = Effect::Needs::every_input;
    if (known.evaluate && small && loop->inputs == known.arguments && outputs == 1) {
      effect.compute = [loop = *loop, evaluate = known.evaluate](std::span<Image> images) {
        run(loop, evaluate, images);
      };
    }
    return effect;
  });
}

}  // namespace phantora::rank
