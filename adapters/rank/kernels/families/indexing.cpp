#include "rank/kernels/families/aligned.hpp"
#include "rank/kernels/families/arithmetic.hpp"
#include "rank/kernels/families/offset_calculator.hpp"
#include "rank/kernels/families/tensor_info.hpp"
#include "rank/kernels/kernel_effect.hpp"
#include "rank/memory/device_memory.hpp"

#include <cmath>
#include <cstdlib>

/// Kernels that move elements to or from places that an index tensor names: index, index_put,
/// gather, scatter, index_select, take, embedding (ATen/native/cuda/{IndexKernel,
/// ScatterGatherKernel,Indexing}.cu). Their closures are plain device lambdas: captures in order of
/// first use, nothing behind.
namespace phantora::rank {

namespace {

std::optional<std::int64_t> index_at(const Image& image, std::size_t offset, ElementType type) {
  const auto value = image.load(offset, type);
  if (!value) return std::nullopt;
  return value->integer;
}

/// Negative indices count from the end.
std::optional<std::size_t> wrapped(std::optional<std::int64_t> index, std::int64_t size) {
  if (!index) return std::nullopt;
  const std::int64_t i = *index < 0 ? *index + size : *index;
  if (i < 0 || i >= size) return std::nullopt;
  return static_cast<std::size_t>(i);
}

/// Of `numel` elements that move to or from places of a table, which each of `tensors` tensors of
/// indices names.
void describe_places(Effect& effect, double numel, std::size_t element, double indices,
                     std::size_t tensors, double table) {
  const double count = static_cast<double>(tensors);
  effect.bytes = numel * static_cast<double>(2 * element) + 8 * indices * count;
  effect.features = {{"numel", numel}, {"rows", indices}, {"dims", count}, {"table", table}};
}

void describe(Effect& effect, double elements, std::size_t element) {
  effect.bytes = elements * static_cast<double>(2 * element + 8);
  effect.features.emplace_back("numel", elements);
}

/// index and index_put: (long numel, closure of the calculator of {out, in, index}, out, in, number
/// of index tensors, their pointers, sizes and byte strides of the indexed dimensions).
std::unique_ptr<Meaning> by_index_tensors(std::size_t element, bool put) {
  return meaning([=](const Arguments& arguments) -> std::optional<Effect> {
    const auto numel = arguments.get<std::uint32_t>(0);
    const auto calculator = OffsetCalculator::read(arguments, 1, 0, 3);
    const std::size_t base = aligned(OffsetCalculator::bytes(3), 8);
    constexpr std::size_t max_dims = OffsetCalculator::max_dims;
    const std::size_t pointers = base + 24, sizes = pointers + 8 * max_dims,
                      strides = sizes + 8 * max_dims;
    if (!calculator.valid || arguments.bytes(1).size() < strides + 8 * max_dims) {
      return std::nullopt;
    }
    const auto count = arguments.get<std::size_t>(1, base + 16);
    if (count > max_dims) return std::nullopt;
    struct Dimension {
      std::int64_t size, stride;
    };
    std::vector<Dimension> dimensions;
    std::size_t reach = 0;
    double table = calculator.distinct(put ? 0 : 1);
    Effect effect;
    std::byte* const out = arguments.pointer(1, base);
    std::byte* const in = arguments.pointer(1, base + 8);
    for (std::size_t d = 0; d < count; ++d) {
      dimensions.push_back({arguments.get<std::int64_t>(1, sizes + 8 * d),
                            arguments.get<std::int64_t>(1, strides + 8 * d)});
      table *= static_cast<double>(dimensions[d].size);
      if (dimensions[d].size > 0) {
        reach += static_cast<std::size_t>((dimensions[d].size - 1) * dimensions[d].stride);
      }
    }
    const std::size_t in_extent = calculator.last(1) + (put ? 0 : reach) + element;
    const std::size_t out_extent = calculator.last(0) + (put ? reach : 0) + element;
    effect.operands = {{in, in_extent, true, false}, {out, out_extent, false, true}};
    for (std::size_t d = 0; d < count; ++d) {
      effect.operands.push_back(
          {arguments.pointer(1, pointers + 8 * d), calculator.last(2) + 8, true, false});
    }
    describe_places(effect, numel, element, calculator.distinct(2), count, table);
    // An index of an unknown table, and an unknown index of any, give nothing known.
    if (!put) effect.needs = Effect::Needs::every_input;
    effect.compute = [=](std::span<Image> images) {
      for (std::uint32_t i = 0; i < numel; ++i) {
        std::optional<std::size_t> offset = 0;
        for (std::size_t d = 0; d < count && offset; ++d) {
          const auto index =
              wrapped(index_at(images[2 + d], calculator.offset(i, 2), ElementType::int64),
                      dimensions[d].size);
          offset =
              index
                  ? std::optional{*offset + *index * static_cast<std::size_t>(dimensions[d].stride)}
                  : std::nullopt;
        }
        const std::size_t to = calculator.offset(i, 0), from = calculator.offset(i, 1);
        if (!offset) {
          // Somewhere in the output (put), or something from the input.
          if (put) return images[1].forget();
          images[1].forget(to, element);
        } else if (put) {
          images[1].move(to + *offset, images[0], from, element);
        } else {
          images[1].move(to, images[0], from + *offset, element);
        }
      }
    };
    return effect;
  });
}

/// index_fill and index_copy: (long numel, closure of the calculator, self, index[, source], size
/// and element stride of the dimension[, value]).
std::unique_ptr<Meaning> into_slices(std::size_t element, bool fill) {
  return meaning([=](const Arguments& arguments) -> std::optional<Effect> {
    const auto numel = arguments.get<std::uint32_t>(0);
    const std::size_t operands = fill ? 2 : 3;
    const auto calculator = OffsetCalculator::read(arguments, 1, 0, operands);
    const std::size_t base = aligned(OffsetCalculator::bytes(operands), 8);
    const std::size_t size_at = base + 8 * operands;
    if (!calculator.valid || arguments.bytes(1).size() < size_at + 16) return std::nullopt;
    const auto size = arguments.get<std::int64_t>(1, size_at);
    const auto stride = arguments.get<std::int64_t>(1, size_at + 8);
    const auto reach = static_cast<std::size_t>((size - 1) * stride) * element;
    Effect effect;
    effect.operands = {
        {arguments.pointer(1, base), calculator.last(0) + reach + element, false, true},
        {arguments.pointer(1, base + 8), calculator.last(1) + 8, true, false}};
    std::optional<Value> value;
    const auto type = opaque_type(element);
    if (fill) {
      const auto bytes = arguments.bytes(1).subspan(size_at + 16);
      if (!type || bytes.size() < element) return std::nullopt;
      value = load(*type, bytes.data());
    } else {
      effect.operands.push_back(
          {arguments.pointer(1, base + 16), calculator.last(2) + element, true, false});
    }
    describe(effect, numel, element);
    effect.compute = [=](std::span<Image> images) {
      for (std::uint32_t i = 0; i < numel; ++i) {
        const auto index =
            wrapped(index_at(images[1], calculator.offset(i, 1), ElementType::int64), size);
        if (!index) return images[0].forget();
        const std::size_t to =
            calculator.offset(i, 0) + *index * static_cast<std::size_t>(stride) * element;
        if (fill) {
          images[0].store(to, *type, value);
        } else {
          images[0].move(to, images[2], calculator.offset(i, 2), element);
        }
      }
    };
    return effect;
  });
}

/// take: (long numel, closure of the calculator of {out, index}, out, index, elements of the
/// source, whether it is contiguous, its calculator, source).
std::unique_ptr<Meaning> take(std::size_t element, bool put) {
  return meaning([=](const Arguments& arguments) -> std::optional<Effect> {
    const auto numel = arguments.get<std::uint32_t>(0);
    const auto calculator = OffsetCalculator::read(arguments, 1, 0, 2);
    const std::size_t base = aligned(OffsetCalculator::bytes(2), 8);
    const auto source_elements = arguments.get<std::int64_t>(1, base + 16);
    const bool contiguous = arguments.get<std::uint8_t>(1, base + 24) != 0;
    const auto source = OffsetCalculator::read(arguments, 1, base + 28, 1);
    const std::size_t function = aligned(base + 28 + OffsetCalculator::bytes(1), 8);
    if (!calculator.valid || !source.valid || arguments.bytes(1).size() != function + 8) {
      return std::nullopt;
    }
    const std::size_t span =
        contiguous ? static_cast<std::size_t>(source_elements) : source.last(0) + 1;
    Effect effect;
    effect.operands = {{arguments.pointer(1, base), calculator.last(0) + element, put, !put},
                       {arguments.pointer(1, base + 8), calculator.last(1) + 8, true, false},
                       {arguments.pointer(1, function), span * element, !put, put}};
    describe(effect, numel, element);
    if (!put) effect.needs = Effect::Needs::every_input;
    effect.compute = [=](std::span<Image> images) {
      for (std::uint32_t i = 0; i < numel; ++i) {
        const auto index = wrapped(index_at(images[1], calculator.offset(i, 1), ElementType::int64),
                                   source_elements);
        const std::size_t iterated = calculator.offset(i, 0);
        if (!index) {
          if (put) return images[2].forget();
          images[0].forget(iterated, element);
          continue;
        }
        const std::size_t at =
            (contiguous ? *index : source.offset(static_cast<std::uint32_t>(*index), 0)) * element;
        if (put) {
          images[2].move(at, images[0], iterated, element);
        } else {
          images[0].move(iterated, images[2], at, element);
        }
      }
    };
    return effect;
  });
}

/// flip: (long numel, closure of the calculator of {out, in}, out, in). Strides may be negative.
std::unique_ptr<Meaning> flip(std::size_t element) {
  return meaning([=](const Arguments& arguments) -> std::optional<Effect> {
    const auto numel = arguments.get<std::uint32_t>(0);
    const auto calculator = OffsetCalculator::read(arguments, 1, 0, 2);
    const std::size_t base = aligned(OffsetCalculator::bytes(2), 8);
    if (!calculator.valid || arguments.bytes(1).size() < base + 16) return std::nullopt;
    // The lowest and highest offset of each operand.
    struct Reach {
      std::int64_t low = 0, high = 0;
    };
    const auto reach = [&](std::size_t operand) {
      Reach r;
      for (std::size_t d = 0; d < calculator.sizes.size(); ++d) {
        const std::int64_t step =
            std::int64_t{static_cast<std::int32_t>(calculator.strides[d * 2 + operand])} *
            (std::int64_t{calculator.sizes[d]} - 1);
        (step < 0 ? r.low : r.high) += step;
      }
      return r;
    };
    const Reach out = reach(0), in = reach(1);
    Effect effect;
    effect.operands = {{arguments.pointer(1, base) + out.low,
                        static_cast<std::size_t>(out.high - out.low) + element, false, true},
                       {arguments.pointer(1, base + 8) + in.low,
                        static_cast<std::size_t>(in.high - in.low) + element, true, false}};
    describe(effect, numel, element);
    effect.compute = [=](std::span<Image> images) {
      const auto at = [&](std::uint32_t i, std::size_t operand, std::int64_t low) {
        const auto offset =
            static_cast<std::int32_t>(static_cast<std::uint32_t>(calculator.offset(i, operand)));
        return static_cast<std::size_t>(offset - low);
      };
      for (std::uint32_t i = 0; i < numel; ++i) {
        images[0].move(at(i, 0, out.low), images[1], at(i, 1, in.low), element);
      }
    };
    return effect;
  });
}

using Combine = Value (*)(ElementType, const Value&, const Value&);

/// gather and scatter: (int numel, closure of the calculator of {self, source, index}, index, size
/// of the dimension, functor, self, element stride of the dimension, elements of self, source).
/// Filling scatter: the calculator is of {self, index}, and the last capture is the value.
struct Scatter {
  std::size_t element = 0;
  bool scatters = true, fills = false;
  ElementType index = ElementType::int64;
  std::optional<ElementType> type;  ///< of the elements, where they are computed with
  Combine combine = nullptr;        ///< none: assigns
};

std::unique_ptr<Meaning> scatter(Scatter kind) {
  return meaning([kind](const Arguments& arguments) -> std::optional<Effect> {
    const auto numel = arguments.get<std::uint32_t>(0);
    const std::size_t operands = kind.fills ? 2 : 3;
    const auto calculator = OffsetCalculator::read(arguments, 1, 0, operands);
    const std::size_t base = aligned(OffsetCalculator::bytes(operands), 8);
    if (!calculator.valid || arguments.bytes(1).size() != base + 56) return std::nullopt;
    const auto size = arguments.get<std::int64_t>(1, base + 8);
    const auto stride = arguments.get<std::int64_t>(1, base + 32);
    const std::size_t element = kind.element;
    const auto reach =
        static_cast<std::size_t>(std::max<std::int64_t>(size - 1, 0) * stride) * element;
    const std::size_t index_operand = kind.fills ? 1 : 2;
    Effect effect;
    effect.operands = {
        {arguments.pointer(1, base + 24),
         calculator.last(0) + (kind.scatters ? reach : 0) + element, kind.combine != nullptr, true},
        {arguments.pointer(1, base), calculator.last(index_operand) + size_of(kind.index), true,
         false}};
    effect.chooses = kind.scatters && kind.combine == nullptr;
    std::optional<Value> value;
    const auto moved = opaque_type(element);
    if (kind.fills) {
      const auto bytes = arguments.bytes(1).subspan(base + 48);
      if (!moved) return std::nullopt;
      value = load(kind.type.value_or(*moved), bytes.data());
    } else {
      effect.operands.push_back({arguments.pointer(1, base + 48),
                                 calculator.last(1) + (kind.scatters ? 0 : reach) + element, true,
                                 false});
    }
    const std::size_t placed = kind.scatters ? 0 : 1;  // among the calculator's operands
    describe_places(effect, numel, element, calculator.distinct(index_operand), 1,
                    calculator.distinct(placed) * static_cast<double>(size));
    const double run = calculator.run(index_operand);
    if (run > 1) effect.features.emplace_back("run", run);
    effect.compute = [=](std::span<Image> images) {
      for (std::uint32_t i = 0; i < numel; ++i) {
        const auto index =
            wrapped(index_at(images[1], calculator.offset(i, index_operand), kind.index), size);
        if (!index) {
          if (kind.scatters) return images[0].forget();
          images[0].forget(calculator.offset(i, 0), element);
          continue;
        }
        const std::size_t along = *index * static_cast<std::size_t>(stride) * element;
        const std::size_t to = calculator.offset(i, 0) + (kind.scatters ? along : 0);
        const std::size_t from =
            kind.fills ? 0 : calculator.offset(i, 1) + (kind.scatters ? 0 : along);
        if (kind.combine != nullptr) {
          const auto old = images[0].load(to, *kind.type);
          const auto other = kind.fills ? value : images[2].load(from, *kind.type);
          std::optional<Value> result;
          if (old && other) result = kind.combine(compute_type(*kind.type), *old, *other);
          images[0].store(to, *kind.type, result);
        } else if (kind.fills) {
          images[0].store(to, kind.type.value_or(*moved), value);
        } else {
          images[0].move(to, images[2], from, element);
        }
      }
    };
    return effect;
  });
}

Value first(ElementType, const Value& a, const Value&) { return a; }

std::unique_ptr<Meaning> read_scatter(const TemplateName& kernel) {
  if (kernel.arguments.size() != 3) return nullptr;
  // "..._internal_kernel<scatters, element, index>::operator()<functor>(...)::{lambda(int)#1}"
  const std::string_view text = kernel.arguments[2];
  constexpr std::string_view gather = "_cuda_scatter_gather_internal_kernel<",
                             fill = "_cuda_scatter_fill_internal_kernel<";
  const bool fills = text.find(fill) != std::string_view::npos;
  const std::size_t at = text.find(fills ? fill : gather);
  if (at == std::string_view::npos) return nullptr;
  const std::size_t close = text.find(">::operator()", at);
  if (close == std::string_view::npos) return nullptr;
  const TemplateName type = template_name(text.substr(at, close + 1 - at));
  Scatter kind;
  kind.fills = fills;
  std::size_t argument = 0;
  if (!fills) kind.scatters = type.arguments[argument++] == "true";
  if (type.arguments.size() != argument + 2) return nullptr;
  kind.element = moved_bytes(type.arguments[argument]);
  kind.type = element_type_named(type.arguments[argument]);
  const auto index = element_type_named(type.arguments[argument + 1]);
  if (kind.element == 0 || !index) return nullptr;
  kind.index = *index;
  const std::string_view functor = text.substr(close + std::string_view{">::operator()"}.size());
  constexpr std::pair<std::string_view, Combine> combines[] = {
      {"ReduceAdd>", arithmetic::add},           {"ReduceMean>", arithmetic::add},
      {"ReduceMultiply>", arithmetic::multiply}, {"ReduceMinimum>", arithmetic::minimum},
      {"ReduceMaximum>", arithmetic::maximum},   {"TensorAssign>", first},
  };
  for (const auto& [name, combine] : combines) {
    if (functor.find(name) == std::string_view::npos) continue;
    if (combine != first) {
      if (!kind.type) return nullptr;
      kind.combine = combine;
    }
    return scatter(kind);
  }
  return nullptr;
}

/// index_select: (out, source, indices, dimension in out, in source, [elements of out,] elements of
/// a slice, size of the source's dimension). The dimension's size is 1 in both shapes.
std::unique_ptr<Meaning> select(const TemplateName& kernel, bool large) {
  const std::size_t element = moved_bytes(kernel.arguments[0]);
  const auto index_type = element_type_named(kernel.arguments[1]);
  if (element == 0 || !index_type) return nullptr;
  return meaning([=,
                  index_type = *index_type](const Arguments& arguments) -> std::optional<Effect> {
    const TensorInfo out = TensorInfo::read(arguments, 0), in = TensorInfo::read(arguments, 1),
                     indices = TensorInfo::read(arguments, 2);
    const auto out_dimension = arguments.get<std::uint32_t>(3);
    const auto in_dimension = arguments.get<std::uint32_t>(4);
    if (!out.valid || !in.valid || !indices.valid || out_dimension >= out.strides.size() ||
        in_dimension >= in.strides.size()) {
      return std::nullopt;
    }
    const std::size_t inner_at = large ? 6 : 5;
    const std::size_t inner = arguments.count(inner_at);
    const auto size = arguments.get<std::int64_t>(inner_at + 1);
    const std::size_t count = indices.count();
    const auto out_stride = static_cast<std::size_t>(out.strides[out_dimension]);
    const auto in_stride = static_cast<std::size_t>(in.strides[in_dimension]);
    Effect effect;
    effect.operands = {
        {out.data, (out.span() + (count == 0 ? 0 : count - 1) * out_stride) * element, false, true},
        {in.data,
         (in.span() + static_cast<std::size_t>(std::max<std::int64_t>(size - 1, 0)) * in_stride) *
             element,
         true, false},
        {indices.data, indices.span() * size_of(index_type), true, false}};
    describe(effect, static_cast<double>(count * inner), element);
    effect.needs = Effect::Needs::every_input;
    effect.compute = [=](std::span<Image> images) {
      for (std::size_t i = 0; i < count; ++i) {
        const auto index =
            wrapped(index_at(images[2], indices.offset(i) * size_of(index_type), index_type), size);
        for (std::size_t k = 0; k < inner; ++k) {
          const std::size_t to = (out.offset(k) + i * out_stride) * element;
          if (index) {
            images[0].move(to, images[1], (in.offset(k) + *index * in_stride) * element, element);
          } else {
            images[0].forget(to, element);
          }
        }
      }
    };
    return effect;
  });
}

/// index_add: (self, source, indices, dimension in self, in source, [elements,] elements of a
/// slice, size of self's dimension, elements of self, functor, alpha)
std::unique_ptr<Meaning> index_add(const TemplateName& kernel, bool large) {
  const auto type = element_type_named(kernel.arguments[0]);
  const auto index_type = element_type_named(kernel.arguments[1]);
  if (!type || !index_type || kernel.arguments.back().find("ReduceAdd") == std::string_view::npos) {
    return nullptr;
  }
  return meaning([=, type = *type,
                  index_type = *index_type](const Arguments& arguments) -> std::optional<Effect> {
    const TensorInfo self = TensorInfo::read(arguments, 0), in = TensorInfo::read(arguments, 1),
                     indices = TensorInfo::read(arguments, 2);
    const auto self_dimension = arguments.get<std::uint32_t>(3);
    const auto in_dimension = arguments.get<std::uint32_t>(4);
    if (!self.valid || !in.valid || !indices.valid || self_dimension >= self.strides.size() ||
        in_dimension >= in.strides.size()) {
      return std::nullopt;
    }
    const std::size_t inner_at = large ? 6 : 5;
    const std::size_t inner = arguments.count(inner_at);
    const auto size = arguments.get<std::int64_t>(inner_at + 1);
    const auto alpha_bytes = arguments.bytes(inner_at + 4);
    if (alpha_bytes.size() != size_of(type)) return std::nullopt;
    const Value alpha = load(type, alpha_bytes.data());
    const std::size_t count = indices.count(), element = size_of(type);
    const auto self_stride = static_cast<std::size_t>(self.strides[self_dimension]);
    const auto in_stride = static_cast<std::size_t>(in.strides[in_dimension]);
    Effect effect;
    effect.operands = {
        {self.data,
         (self.span() +
          static_cast<std::size_t>(std::max<std::int64_t>(size - 1, 0)) * self_stride) *
             element,
         true, true},
        {in.data, (in.span() + (count == 0 ? 0 : count - 1) * in_stride) * element, true, false},
        {indices.data, indices.span() * size_of(index_type), true, false}};
    describe(effect, static_cast<double>(count * inner), element);
    effect.compute = [=](std::span<Image> images) {
      for (std::size_t i = 0; i < count; ++i) {
        const auto index =
            wrapped(index_at(images[2], indices.offset(i) * size_of(index_type), index_type), size);
        if (!index) return images[0].forget();
        for (std::size_t k = 0; k < inner; ++k) {
          const std::size_t to = (self.offset(k) + *index * self_stride) * element;
          const auto old = images[0].load(to, type);
          const auto other = images[1].load((in.offset(k) + i * in_stride) * element, type);
          const ElementType compute = compute_type(type);
          std::optional<Value> result;
          if (old && other) {
            result = arithmetic::add(compute, *old,
                                     converted(type, arithmetic::multiply(compute, *other, alpha)));
          }
          images[0].store(to, type, result);
        }
      }
    };
    return effect;
  });
}

/// How many of `places` as many draws as `drawn` meet in the mean, if each place is as likely.
double places_met(double drawn, double places) {
  return places <= 1.0 ? std::min(drawn, 1.0)
                       : -places * std::expm1(drawn * std::log1p(-1.0 / places));
}

/// vectorized_gather_kernel<alignment, index>(out, source, indices, count, slice bytes, size of the
/// dimension, source and out stride in bytes, whether negative indices are allowed)
std::unique_ptr<Meaning> gather_slices(const TemplateName& kernel) {
  const auto index_type = element_type_named(kernel.arguments[1]);
  if (!index_type) return nullptr;
  return meaning([type = *index_type](const Arguments& arguments) -> std::optional<Effect> {
    const std::size_t count = arguments.get<std::uint32_t>(3);
    const auto slice = arguments.get<std::size_t>(4);
    const auto size = arguments.get<std::int64_t>(5);
    const auto in_stride = arguments.get<std::size_t>(6),
               out_stride = arguments.get<std::size_t>(7);
    Effect effect;
    effect.operands = {
        {arguments.pointer(0), count == 0 ? 0 : (count - 1) * out_stride + slice, false, true},
        {arguments.pointer(1),
         static_cast<std::size_t>(std::max<std::int64_t>(size - 1, 0)) * in_stride + slice, true,
         false},
        {arguments.pointer(2), count * size_of(type), true, false}};
    // Blocks of one place of all slices run side by side, so that a slice that several indices ask
    // for is read from memory once.
    const double asked = static_cast<double>(count), there = static_cast<double>(size);
    effect.bytes = asked * static_cast<double>(slice + size_of(type)) +
                   places_met(asked, there) * static_cast<double>(slice);
    effect.features = {{"rows", asked}, {"cols", static_cast<double>(slice)}};
    effect.needs = Effect::Needs::every_input;
    effect.compute = [=](std::span<Image> images) {
      for (std::size_t i = 0; i < count; ++i) {
        const auto index = wrapped(index_at(images[2], i * size_of(type), type), size);
        if (index) {
          images[0].move(i * out_stride, images[1], *index * in_stride, slice);
        } else {
          images[0].forget(i * out_stride, slice);
        }
      }
    };
    return effect;
  });
}

/// roll_cuda_kernel(in, out, elements, dimension, start, size, stride, elements)
std::unique_ptr<Meaning> roll(std::size_t element) {
  return meaning([=](const Arguments& arguments) -> std::optional<Effect> {
    const auto count = arguments.get<std::size_t>(2);
    const auto start = arguments.get<std::size_t>(4), size = arguments.get<std::size_t>(5),
               stride = arguments.get<std::size_t>(6);
    if (size == 0 || stride == 0) return std::nullopt;
    Effect effect;
    effect.operands = {{arguments.pointer(0), count * element, true, false},
                       {arguments.pointer(1), count * element, false, true}};
    effect.bytes = 2 * static_cast<double>(count * element);
    effect.features.emplace_back("numel", static_cast<double>(count));
    effect.compute = [=](std::span<Image> images) {
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t at = i % (size * stride) / stride;
        const std::size_t from = (at + start) % size;
        images[1].move(i * element, images[0], (i - at * stride + from * stride) * element,
                       element);
      }
    };
    return effect;
  });
}

}  // namespace

std::unique_ptr<Meaning> read_indexing(const Signature& signature, const KernelResources&) {
  const TemplateName& kernel = signature.kernel;
  const std::string_view name = unqualified(kernel.name);
  if (name == "_scatter_gather_elementwise_kernel") return read_scatter(kernel);
  if (name == "vectorized_gather_kernel" && kernel.arguments.size() == 2)
    return gather_slices(kernel);
  if (kernel.arguments.empty()) return nullptr;
  if (name == "roll_cuda_kernel") {
    const std::size_t element = moved_bytes(kernel.arguments[0]);
    return element == 0 ? nullptr : roll(element);
  }
  if (kernel.arguments.size() < 2) return nullptr;
  if (name == "indexSelectSmallIndex") return select(kernel, false);
  if (name == "indexSelectLargeIndex") return select(kernel, true);
  if (name == "indexFuncSmallIndex") return index_add(kernel, false);
  if (name == "indexFuncLargeIndex") return index_add(kernel, true);
  if (name != "index_elementwise_kernel" || kernel.arguments.size() != 3) return nullptr;
  const LambdaName lambda = lambda_name(kernel.arguments[2]);
  const std::string_view function = unqualified(lambda.function.name);
  if (lambda.function.arguments.empty()) return nullptr;
  if (function == "gpu_index_kernel") {
    const LambdaName inner = lambda_name(lambda.function.arguments[0]);
    const std::string_view which = unqualified(inner.function.name);
    if (inner.function.arguments.empty()) return nullptr;
    const std::size_t element = moved_bytes(inner.function.arguments[0]);
    if (element == 0) return nullptr;
    if (which == "index_kernel_impl") return by_index_tensors(element, false);
    if (which == "index_put_kernel_impl") return by_index_tensors(element, true);
    return nullptr;
  }
  const std::size_t element = moved_bytes(lambda.function.arguments[0]);
  if (element == 0) return nullptr;
  if (function == "index_fill_kernel_impl") return into_slices(element, true);
  if (function == "index_copy_kernel_impl") return into_slices(element, false);
  if (function == "flip_kernel_impl") return flip(element);
  if (function == "cuda_take_put_kernel" && lambda.function.arguments.size() == 3 &&
      lambda.function.arguments[1] == "int") {
    const bool put = lambda.function.arguments[2].find("put_kernel") != std::string_view::npos;
    // put with accumulation adds: not executed.
    if (put) return nullptr;
    return take(element, put);
  }
  return nullptr;
}

}  // namespace phantora::rank
