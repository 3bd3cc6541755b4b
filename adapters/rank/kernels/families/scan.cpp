#include "rank/kernels/families/arithmetic.hpp"
#include "rank/kernels/families/input_iterator.hpp"
#include "rank/kernels/kernel_effect.hpp"
#include "rank/memory/device_memory.hpp"

#include <cmath>

/// Prefix sums and the like: PyTorch's own scan kernels (ATen/native/cuda/ScanUtils.cuh) and cub's.
namespace phantora::rank {

namespace {

using Combine = Value (*)(ElementType, const Value&, const Value&);

Value log_add_exp(ElementType, const Value& a, const Value& b) {
  const double x = a.to_real(), y = b.to_real();
  const double low = std::fmin(x, y), high = std::fmax(x, y);
  if (std::isnan(x) || std::isnan(y)) return std::nan("");
  if (low == high && std::isinf(low)) return low;
  return high + std::log1p(std::exp(low - high));
}

Combine scan_operator(std::string_view text) {
  if (text.find("logcumsumexp") != std::string_view::npos) return log_add_exp;
  const std::string_view name = unqualified(template_name(text).name);
  if (name == "plus" || name == "SumOp") return arithmetic::add;
  if (name == "multiplies") return arithmetic::multiply;
  return nullptr;
}

/// A row-wise scan of `rows` rows; element (row, column) is at start(row) + column * stride.
struct Rows {
  std::size_t rows = 0, columns = 0, stride = 1, inner = 1;
  /// `inner` rows are interleaved when the scanned dimension is not the last.
  [[nodiscard]] std::size_t at(std::size_t row, std::size_t column) const {
    return row / inner * inner * columns + row % inner + column * stride;
  }
};

Effect scan(const Arguments& arguments, const Rows& rows, std::size_t in, std::size_t out,
            ElementType type, Combine combine) {
  const std::size_t bytes = rows.rows * rows.columns * size_of(type);
  Effect effect;
  effect.operands = {{arguments.pointer(in), bytes, true, false},
                     {arguments.pointer(out), bytes, false, true}};
  effect.bytes = 2 * static_cast<double>(bytes);
  effect.features = {{"rows", static_cast<double>(rows.rows)},
                     {"cols", static_cast<double>(rows.columns)}};
  effect.compute = [=](std::span<Image> images) {
    for (std::size_t r = 0; r < rows.rows; ++r) {
      std::optional<Value> sum;
      for (std::size_t c = 0; c < rows.columns; ++c) {
        const std::size_t at = rows.at(r, c) * size_of(type);
        const auto value = images[0].load(at, type);
        if (c == 0) {
          sum = value;
        } else {
          sum = sum && value
                    ? std::optional{converted(type, combine(compute_type(type), *sum, *value))}
                    : std::nullopt;
        }
        images[1].store(at, type, sum);
      }
    }
  };
  return effect;
}

/// cummax and cummin: (in, values, indices, ...)
Effect extremes(const Arguments& arguments, const Rows& rows, ElementType type, bool greatest) {
  const std::size_t count = rows.rows * rows.columns;
  Effect effect;
  effect.operands = {{arguments.pointer(0), count * size_of(type), true, false},
                     {arguments.pointer(1), count * size_of(type), false, true},
                     {arguments.pointer(2), count * 8, false, true}};
  effect.bytes = static_cast<double>(count * (2 * size_of(type) + 8));
  effect.features = {{"rows", static_cast<double>(rows.rows)},
                     {"cols", static_cast<double>(rows.columns)}};
  effect.compute = [=](std::span<Image> images) {
    for (std::size_t r = 0; r < rows.rows; ++r) {
      std::optional<Value> best;
      std::int64_t index = 0;
      bool known = true;
      for (std::size_t c = 0; c < rows.columns; ++c) {
        const auto value = images[0].load(rows.at(r, c) * size_of(type), type);
        known = known && value;
        if (known) {
          const double x = value->to_real(), b = best ? best->to_real() : 0;
          // The last of equals; a NaN replaces everything, also an earlier one.
          const bool better =
              !best || std::isnan(x) ||
              (!std::isnan(b) && (value->floating ? (greatest ? x >= b : x <= b)
                                                  : (greatest ? value->integer >= best->integer
                                                              : value->integer <= best->integer)));
          if (better) {
            best = value;
            index = static_cast<std::int64_t>(c);
          }
        }
        images[1].store(rows.at(r, c) * size_of(type), type, known ? best : std::nullopt);
        images[2].store(rows.at(r, c) * 8, ElementType::int64,
                        known ? std::optional{Value{index}} : std::nullopt);
      }
    }
  };
  return effect;
}

/// DeviceScanKernel<policy, in, out, states, operator, initial, offset, accumulator, ...>(in, out,
/// states, first tile, operator, initial, count). Exclusive when there is an initial value.
std::unique_ptr<Meaning> device_scan(const TemplateName& kernel) {
  if (kernel.arguments.size() < 8) return nullptr;
  const auto in = InputIterator::named(kernel.arguments[1]);
  const auto out = InputIterator::named(kernel.arguments[2]);
  const Combine combine = scan_operator(kernel.arguments[4]);
  const bool inclusive = kernel.arguments[5].find("NullType") != std::string_view::npos;
  const auto accumulator = element_type_named(kernel.arguments[7]);
  if (!in || !out || !out->type || !accumulator || combine == nullptr) return nullptr;
  return meaning([in = *in, out_type = *out->type, accumulator = *accumulator, combine,
                  inclusive](const Arguments& arguments) -> std::optional<Effect> {
    const std::size_t count_at = 6;
    const std::size_t count = arguments.count(count_at);
    Effect effect;
    effect.operands = {{in.pointer(arguments, 0), in.extent(count), true, false},
                       {arguments.pointer(1), count * size_of(out_type), false, true}};
    effect.bytes = static_cast<double>(in.extent(count) + count * size_of(out_type));
    effect.features.emplace_back("numel", static_cast<double>(count));
    // InputValue: whether the value is in device memory, then the value or its address.
    const bool in_memory = !inclusive && arguments.get<std::uint8_t>(5, 0) != 0;
    std::optional<Value> initial;
    if (in_memory) {
      effect.operands.push_back({arguments.pointer(5, 8), size_of(accumulator), true, false});
    } else if (!inclusive) {
      const auto bytes = arguments.bytes(5);
      if (bytes.size() < 8 + size_of(accumulator)) return std::nullopt;
      initial = load(accumulator, bytes.data() + 8);
    }
    effect.limit = 8 * executed_bytes();  // an offset is up to eight times as large as a flag
    effect.compute = [=](std::span<Image> images) {
      std::optional<Value> sum = in_memory ? images[2].load(0, accumulator) : initial;
      for (std::size_t i = 0; i < count; ++i) {
        const auto value = in.load(images[0], i, 0);
        if (!inclusive) images[1].store(i * size_of(out_type), out_type, sum);
        if (inclusive && i == 0) {
          sum = value;
        } else {
          sum = sum && value ? std::optional{converted(
                                   accumulator, combine(compute_type(accumulator), *sum, *value))}
                             : std::nullopt;
        }
        if (inclusive) images[1].store(i * size_of(out_type), out_type, sum);
      }
    };
    return effect;
  });
}

}  // namespace

std::unique_ptr<Meaning> read_scan(const Signature& signature, const KernelResources&) {
  const TemplateName& kernel = signature.kernel;
  const std::string_view name = unqualified(kernel.name);
  if (name == "DeviceScanKernel") return device_scan(kernel);
  if (!name.starts_with("tensor_kernel_scan_") || kernel.arguments.size() < 2) return nullptr;
  const auto type = element_type_named(kernel.arguments[0]);
  if (!type) return nullptr;
  const bool inner = name.starts_with("tensor_kernel_scan_innermost_dim");
  const auto rows = [inner](const Arguments& arguments, std::size_t first) {
    const auto number = [&](std::size_t i) {
      return std::size_t{arguments.get<std::uint32_t>(first + i)};
    };
    // Innermost: (rows, columns); otherwise (outer, inner, columns).
    if (inner) return Rows{number(0), number(1), 1, 1};
    return Rows{number(0) * number(1), number(2), number(1), number(1)};
  };
  if (name.ends_with("_with_indices")) {
    const bool greatest = kernel.arguments[1].find("greater") != std::string_view::npos;
    return meaning([=, type = *type](const Arguments& arguments) -> std::optional<Effect> {
      return extremes(arguments, rows(arguments, 3), type, greatest);
    });
  }
  const Combine combine = scan_operator(kernel.arguments.back());
  if (combine == nullptr) return nullptr;
  return meaning([=, type = *type](const Arguments& arguments) -> std::optional<Effect> {
    return scan(arguments, rows(arguments, 2), 1, 0, type, combine);
  });
}

}  // namespace phantora::rank
