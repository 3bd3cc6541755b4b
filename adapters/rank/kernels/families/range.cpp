#include "rank/kernels/families/aligned.hpp"
#include "rank/kernels/families/tensor_info.hpp"
#include "rank/kernels/kernel_effect.hpp"
#include "rank/memory/device_memory.hpp"

#include <algorithm>
#include <array>
#include <cmath>

/// Kernels that compute an element from its index: arange, linspace, and triangles of a matrix.
namespace phantora::rank {

namespace {

// The order of AT_DISPATCH's cases, which number the lambdas of arange and linspace
// (ATen/native/cuda/RangeFactories.cu).
constexpr std::array all_types{ElementType::uint8,   ElementType::int8,    ElementType::int32,
                               ElementType::int64,   ElementType::int16,   ElementType::float64,
                               ElementType::float32, ElementType::float16, ElementType::bfloat16};
constexpr std::array linspace_types{
    std::optional{ElementType::float64}, std::optional{ElementType::float32},
    std::optional<ElementType>{},        std::optional<ElementType>{},
    std::optional{ElementType::float16}, std::optional{ElementType::bfloat16}};

Effect filled(std::byte* output, std::size_t count, ElementType type,
              std::function<Value(std::int64_t)> element) {
  Effect effect;
  effect.operands.push_back({output, count * size_of(type), false, true});
  effect.bytes = static_cast<double>(count * size_of(type));
  effect.features.emplace_back("numel", static_cast<double>(count));
  effect.compute = [count, type, element = std::move(element)](std::span<Image> images) {
    for (std::size_t i = 0; i < count; ++i) {
      images[0].store(i * size_of(type), type, element(static_cast<std::int64_t>(i)));
    }
  };
  return effect;
}

Value scalar(const Arguments& arguments, std::size_t offset, ElementType type) {
  const auto bytes = arguments.bytes(1);
  return offset + size_of(type) <= bytes.size() ? load(type, bytes.data() + offset) : Value{};
}

/// Captures: start and step, in the type that is computed in; int64 for integers.
std::unique_ptr<Meaning> arange(ElementType type) {
  const ElementType compute = is_floating(type) ? compute_type(type) : ElementType::int64;
  return meaning([=](const Arguments& arguments) -> std::optional<Effect> {
    const std::size_t size = size_of(compute);
    if (arguments.bytes(1).size() < 2 * size) return std::nullopt;
    const Value start = scalar(arguments, 0, compute), step = scalar(arguments, size, compute);
    return filled(arguments.pointer(2), arguments.get<std::uint32_t>(0), type, [=](std::int64_t i) {
      return in_compute_type(compute, [&](auto zero) {
        using C = decltype(zero);
        return Value{start.as<C>() + step.as<C>() * static_cast<C>(i)};
      });
    });
  });
}

/// Captures: start, end, steps, step, half. The second half counts from the end. The step is in the
/// type of the elements, from 2.15 on in the type that is computed in, in the same space: it is the
/// one that agrees with the others.
std::unique_ptr<Meaning> linspace(ElementType type) {
  const ElementType compute = is_floating(type) ? compute_type(type) : ElementType::float32;
  return meaning([=](const Arguments& arguments) -> std::optional<Effect> {
    const std::size_t size = size_of(type);
    const std::size_t steps_at = aligned(2 * size, 8), step_at = steps_at + 8,
                      half_at = aligned(step_at + size_of(compute), 8);
    if (arguments.bytes(1).size() < half_at + 8) return std::nullopt;
    const Value start = scalar(arguments, 0, type), end = scalar(arguments, size, type);
    const std::int64_t steps = scalar(arguments, steps_at, ElementType::int64).integer;
    const std::int64_t half = scalar(arguments, half_at, ElementType::int64).integer;
    const double expected = (end.to_real() - start.to_real()) /
                            static_cast<double>(std::max<std::int64_t>(steps - 1, 1));
    double step = scalar(arguments, step_at, compute).to_real();
    if (is_floating(type) && std::abs(step - expected) > 1e-5 * std::abs(expected)) {
      step = scalar(arguments, step_at, type).to_real();
    }
    return filled(arguments.pointer(2), arguments.get<std::uint32_t>(0), type, [=](std::int64_t i) {
      const double value = i < half ? start.to_real() + step * static_cast<double>(i)
                                    : end.to_real() - step * static_cast<double>(steps - i - 1);
      return Value{value};
    });
  });
}

/// triu_tril_kernel<type, index, upper, ...>(result, source, diagonal, ...)
std::unique_ptr<Meaning> triangle(const TemplateName& kernel) {
  const std::size_t element = moved_bytes(kernel.arguments[0]);
  const bool upper = kernel.arguments[2] == "true";
  const auto type = element_type_named(kernel.arguments[0]);
  if (element == 0 || !type) return nullptr;
  return meaning([=, type = *type](const Arguments& arguments) -> std::optional<Effect> {
    const TensorInfo result = TensorInfo::read(arguments, 0),
                     source = TensorInfo::read(arguments, 1);
    if (!result.valid || !source.valid || result.sizes.size() < 2) return std::nullopt;
    const auto diagonal = arguments.get<std::int64_t>(2);
    Effect effect;
    effect.operands = {{source.data, source.span() * element, true, false},
                       {result.data, result.span() * element, false, true}};
    effect.bytes = 2 * static_cast<double>(result.count() * element);
    effect.features.emplace_back("numel", static_cast<double>(result.count()));
    effect.compute = [=](std::span<Image> images) {
      const auto columns = static_cast<std::size_t>(result.sizes.back());
      const auto rows = static_cast<std::size_t>(result.sizes[result.sizes.size() - 2]);
      for (std::size_t i = 0; i < result.count(); ++i) {
        const auto distance =
            static_cast<std::int64_t>(i % columns) - static_cast<std::int64_t>(i / columns % rows);
        const std::size_t to = result.offset(i) * element;
        if (upper ? distance >= diagonal : distance <= diagonal) {
          images[1].move(to, images[0], source.offset(i) * element, element);
        } else {
          images[1].store(to, type, Value{0});
        }
      }
    };
    return effect;
  });
}

}  // namespace

std::unique_ptr<Meaning> read_range(const Signature& signature, const KernelResources&) {
  const std::string_view name = unqualified(signature.kernel.name);
  const auto& arguments = signature.kernel.arguments;
  if (name == "triu_tril_kernel" && arguments.size() >= 3) return triangle(signature.kernel);
  if (name != "elementwise_kernel_with_index" || arguments.size() != 2) return nullptr;
  const LambdaName lambda = lambda_name(arguments[1]);
  const std::string_view function = unqualified(lambda.function.name);
  if (lambda.path.size() != 3 || lambda.path[1] < 1) return nullptr;
  const auto which = static_cast<std::size_t>(lambda.path[1]) - 1;
  if (function == "arange_cuda_out" && which < all_types.size()) return arange(all_types[which]);
  if (function == "linspace_cuda_out") {
    // The first dispatch is for integers, the second for floats.
    if (lambda.path[0] == 1 && which < 5) return linspace(all_types[which]);
    if (lambda.path[0] == 2 && which < linspace_types.size() && linspace_types[which]) {
      return linspace(*linspace_types[which]);
    }
  }
  return nullptr;
}

}  // namespace phantora::rank
