#include "rank/kernels/assumed_choice.hpp"
#include "rank/kernels/families/arithmetic.hpp"
#include "rank/kernels/families/tensor_info.hpp"
#include "rank/kernels/kernel_effect.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/memory/tensor_ends.hpp"

#include <algorithm>
#include <array>
#include <cmath>

/// Small kernels around searching, counting and repeating: searchsorted, repeat_interleave,
/// accumulating index_put, unique, mode's and assertions' kernels (ATen/native/cuda/{Bucketization,
/// Repeat,Indexing,Unique,TensorCompare}.cu), and the passes of cub's sort-based unique.
namespace phantora::rank {

namespace {

/// searchsorted_cuda_kernel<input, output>(out, in, boundaries, sorter, values per row, boundaries
/// per row, elements, right, boundaries are one row)
std::unique_ptr<Meaning> search_sorted(const TemplateName& kernel) {
  if (kernel.arguments.size() != 2) return nullptr;
  const auto in = element_type_named(kernel.arguments[0]);
  const auto out = element_type_named(kernel.arguments[1]);
  if (!in || !out) return nullptr;
  return meaning([in = *in, out = *out](const Arguments& a) -> std::optional<Effect> {
    const auto per_row = a.get<std::size_t>(4), width = a.get<std::size_t>(5),
               count = a.get<std::size_t>(6);
    const bool right = a.get<std::uint8_t>(7) != 0, one_row = a.get<std::uint8_t>(8) != 0;
    if (per_row == 0 || a.pointer(3) != nullptr) return std::nullopt;
    const std::size_t rows = one_row ? 1 : count / per_row;
    Effect effect;
    effect.operands = {{a.pointer(0), count * size_of(out), false, true},
                       {a.pointer(1), count * size_of(in), true, false},
                       {a.pointer(2), rows * width * size_of(in), true, false}};
    effect.bytes = static_cast<double>(count * (size_of(in) + size_of(out)));
    effect.features.emplace_back("numel", static_cast<double>(count));
    effect.compute = [=](std::span<Image> images) {
      for (std::size_t i = 0; i < count; ++i) {
        const auto value = images[1].load(i * size_of(in), in);
        const std::size_t row = one_row ? 0 : i / per_row;
        std::size_t low = 0, high = width;
        bool known = value.has_value();
        while (known && low < high) {
          const std::size_t middle = low + (high - low) / 2;
          const auto boundary = images[2].load((row * width + middle) * size_of(in), in);
          known = boundary.has_value();
          if (!known) break;
          const double b = boundary->to_real(), x = value->to_real();
          const bool before = boundary->floating ? (right ? !(b > x) : !(b >= x))
                                                 : (right ? boundary->integer <= value->integer
                                                          : boundary->integer < value->integer);
          (before ? low : high) = before ? middle + 1 : middle;
        }
        images[0].store(
            i * size_of(out), out,
            known ? std::optional{Value{static_cast<std::int64_t>(low)}} : std::nullopt);
      }
    };
    return effect;
  });
}

/// compute_cuda_kernel<index>(repeats, their inclusive sums, result, rows, size of the result)
std::unique_ptr<Meaning> repeat_interleave(const TemplateName& kernel) {
  const auto type = element_type_named(kernel.arguments[0]);
  if (!type) return nullptr;
  return meaning([type = *type](const Arguments& a) -> std::optional<Effect> {
    const auto rows = a.get<std::size_t>(3), result = a.get<std::size_t>(4);
    Effect effect;
    effect.operands = {{a.pointer(0), rows * size_of(type), true, false},
                       {a.pointer(1), rows * 8, true, false},
                       {a.pointer(2), result * size_of(type), false, true}};
    effect.bytes = static_cast<double>(rows * (size_of(type) + 8) + result * size_of(type));
    effect.features.emplace_back("numel", static_cast<double>(result));
    effect.compute = [=](std::span<Image> images) {
      for (std::size_t r = 0; r < rows; ++r) {
        const auto repeats = images[0].load(r * size_of(type), type);
        const auto end = images[1].load(r * 8, ElementType::int64);
        if (!repeats || !end) return images[2].forget();
        for (std::int64_t i = end->integer - repeats->integer; i < end->integer; ++i) {
          images[2].store(static_cast<std::size_t>(i) * size_of(type), type,
                          Value{static_cast<std::int64_t>(r)});
        }
      }
    };
    return effect;
  });
}

/// indexing_backward_kernel*<type, ...>(sorted indices, their origin, gradients, target, indices,
/// elements of a slice, stride before, slices before, accumulates): adds gradients to the slices
/// that the indices name.
std::unique_ptr<Meaning> accumulate(const TemplateName& kernel) {
  const auto type = element_type_named(kernel.arguments[0]);
  if (!type) return nullptr;
  return meaning([type = *type](const Arguments& a) -> std::optional<Effect> {
    const auto count = a.get<std::size_t>(4), slice = a.get<std::size_t>(5),
               outer = a.get<std::size_t>(7);
    // The target's extent is not told. It was zeroed, or written otherwise, before.
    std::byte* const target = a.pointer(3);
    const std::size_t extent = bytes_of_tensor(target);
    if (extent == 0) return std::nullopt;
    Effect effect;
    effect.operands = {{a.pointer(0), count * 8, true, false},
                       {a.pointer(1), count * 8, true, false},
                       {a.pointer(2), count * slice * outer * size_of(type), true, false},
                       {target, extent, true, true}};
    effect.bytes = static_cast<double>(count * slice * outer * 3 * size_of(type));
    effect.features.emplace_back("numel", static_cast<double>(count * slice * outer));
    return effect;
  });
}

/// adjacent_difference_kernel(count, in, out): out[i] = in[i] differs from in[i - 1]
std::unique_ptr<Meaning> adjacent_difference(const Signature& signature) {
  std::string_view text =
      signature.parameters.size() == 3 ? signature.parameters[1] : std::string_view{};
  if (!text.ends_with(" const*")) return nullptr;
  text.remove_suffix(std::string_view{" const*"}.size());
  const auto type = element_type_named(text);
  if (!type) return nullptr;
  return meaning([type = *type](const Arguments& a) -> std::optional<Effect> {
    const auto count = a.get<std::size_t>(0);
    Effect effect;
    effect.operands = {{a.pointer(1), count * size_of(type), true, false},
                       {a.pointer(2), count * 4, false, true}};
    effect.bytes = static_cast<double>(count * (size_of(type) + 4));
    effect.features.emplace_back("numel", static_cast<double>(count));
    effect.compute = [=](std::span<Image> images) {
      std::optional<Value> previous;
      for (std::size_t i = 0; i < count; ++i) {
        const auto value = images[0].load(i * size_of(type), type);
        std::optional<Value> result;
        if (i == 0) {
          result = Value{0};
        } else if (value && previous) {
          result = Value{value->real != previous->real || value->integer != previous->integer};
        }
        images[1].store(i * 4, ElementType::int32, result);
        previous = value;
      }
    };
    return effect;
  });
}

/// scatter_kernel(count, in, places, out): out[places[i]] = in[i]
std::unique_ptr<Meaning> scatter() {
  return meaning([](const Arguments& a) -> std::optional<Effect> {
    const auto count = a.get<std::size_t>(0);
    Effect effect;
    effect.operands = {{a.pointer(1), count * 8, true, false},
                       {a.pointer(2), count * 8, true, false},
                       {a.pointer(3), count * 8, false, true}};
    effect.bytes = static_cast<double>(count * 24);
    effect.features.emplace_back("numel", static_cast<double>(count));
    effect.compute = [count](std::span<Image> images) {
      for (std::size_t i = 0; i < count; ++i) {
        const auto place = images[1].load(i * 8, ElementType::int64);
        if (!place) return images[2].forget();
        images[2].move(static_cast<std::size_t>(place->integer) * 8, images[0], i * 8, 8);
      }
    };
    return effect;
  });
}

/// compute_mode<type, ...>(in, values, indices, columns, rows): the most frequent value of a row,
/// the least of equals, and where it comes last.
std::unique_ptr<Meaning> mode(const TemplateName& kernel) {
  const auto type = element_type_named(kernel.arguments[0]);
  if (!type) return nullptr;
  return meaning([type = *type](const Arguments& a) -> std::optional<Effect> {
    const TensorInfo values = TensorInfo::read(a, 1), indices = TensorInfo::read(a, 2);
    const auto columns = a.get<std::size_t>(3), rows = a.get<std::size_t>(4);
    if (!values.valid || !indices.valid) return std::nullopt;
    const std::size_t size = size_of(type);
    Effect effect;
    effect.operands = {{a.pointer(0), rows * columns * size, true, false},
                       {values.data, values.span() * size, false, true},
                       {indices.data, indices.span() * 8, false, true}};
    effect.bytes = static_cast<double>(rows * (columns * size + size + 8));
    effect.features = {{"rows", static_cast<double>(rows)}, {"cols", static_cast<double>(columns)}};
    effect.compute = [=](std::span<Image> images) {
      for (std::size_t r = 0; r < rows; ++r) {
        std::vector<std::pair<double, std::size_t>> row;
        for (std::size_t c = 0; c < columns; ++c) {
          const auto value = images[0].load((r * columns + c) * size, type);
          if (value) row.emplace_back(value->to_real(), c);
        }
        std::optional<Value> value, index;
        if (row.size() == columns && columns > 0) {
          std::sort(row.begin(), row.end());
          std::size_t most = 0, best = 0;
          for (std::size_t first = 0; first < columns;) {
            std::size_t last = first;
            while (last < columns && row[last].first == row[first].first) ++last;
            if (last - first > most) {
              most = last - first;
              best = last - 1;
            }
            first = last;
          }
          value = Value{row[best].first};
          index = Value{static_cast<std::int64_t>(row[best].second)};
        }
        images[1].store(values.offset(r) * size, type, value);
        images[2].store(indices.offset(r) * 8, ElementType::int64, index);
      }
    };
    return effect;
  });
}

/// kernelHistogram1D<output, input, index, ..., operation>(output, partial results, input, bins,
/// least and greatest value, elements, operation): bincount and histc. Only where every element
/// counts one, which is the second of the operations' lambdas. Integers of which nothing is known
/// are taken to be experts that a router chose, by an argmax, a sample or a table of hashes: what
/// follows hangs on how many tokens each expert gets.
std::unique_ptr<Meaning> histogram(const TemplateName& kernel) {
  if (kernel.arguments.size() != 8) return nullptr;
  const auto out = element_type_named(kernel.arguments[0]);
  const auto in = element_type_named(kernel.arguments[1]);
  const LambdaName weight = lambda_name(kernel.arguments[7]);
  if (!out || !in || weight.path.empty() || weight.path.back() != 2) return nullptr;
  // at::AccumulateType: integers are compared as int64.
  const ElementType bound = is_floating(*in) ? compute_type(*in) : ElementType::int64;
  return meaning([=, in = *in, out = *out](const Arguments& a) -> std::optional<Effect> {
    const TensorInfo to = TensorInfo::read(a, 0), from = TensorInfo::read(a, 2);
    const std::size_t bins = a.count(3), count = a.count(6);
    if (!to.valid || !from.valid || a.bytes(4).size() != size_of(bound) ||
        a.bytes(5).size() != size_of(bound)) {
      return std::nullopt;
    }
    const Value least = load(bound, a.bytes(4).data()), greatest = load(bound, a.bytes(5).data());
    Effect effect;
    effect.operands = {{to.data, to.span() * size_of(out), true, true},
                       {from.data, from.span() * size_of(in), true, false}};
    effect.bytes = static_cast<double>(count * size_of(in) + bins * size_of(out));
    effect.features.emplace_back("numel", static_cast<double>(count));
    const bool routes = !is_floating(in) && !is_floating(out) && assumes_choice(bins, 1);
    if (routes && !may_know(from.data, from.span() * size_of(in))) effect.operands.pop_back();
    effect.compute = [=](std::span<Image> images) {
      if (routes && (images.size() == 1 || !images[1].knows_anything())) {
        const auto chosen = assumed_counts(count, bins);
        for (std::size_t bin = 0; bin < bins; ++bin)
          images[0].store(to.offset(bin) * size_of(out), out, Value{chosen[bin]});
        return;
      }
      const double low = least.to_real(), high = greatest.to_real();
      for (std::size_t i = 0; i < count; ++i) {
        const auto value = images[1].load(from.offset(i) * size_of(in), in);
        if (!value) return images[0].forget();
        const double x = value->to_real();
        if (!(x >= low && x <= high)) continue;
        const double position = (x - low) / (high - low) * static_cast<double>(bins);
        const auto bin = std::min(static_cast<std::size_t>(position), bins - 1);
        const std::size_t at = to.offset(bin) * size_of(out);
        const auto old = images[0].load(at, out);
        images[0].store(
            at, out,
            old ? std::optional{arithmetic::add(compute_type(out), *old, Value{1})} : std::nullopt);
      }
    };
    return effect;
  });
}

/// A kernel that writes nothing: an assertion about device data.
std::unique_ptr<Meaning> writes_nothing() {
  return meaning([](const Arguments&) -> std::optional<Effect> { return Effect{}; });
}

/// cub's passes of merge sort: what they write is as long as what they read.
std::unique_ptr<Meaning> merge_sort(std::string_view name) {
  return meaning([name](const Arguments& a) -> std::optional<Effect> {
    constexpr std::size_t widest = 8;
    Effect effect;
    if (name == "DeviceMergeSortPartitionKernel") {
      const std::size_t partitions = a.count(4);
      effect.operands = {{a.pointer(5), partitions * widest, false, true}};
      return effect;
    }
    const std::size_t count = a.count(3);
    for (const std::size_t parameter : std::array<std::size_t, 4>{1, 2, 4, 5}) {
      std::byte* const address = a.pointer(parameter);
      if (is_device_address(address)) {
        effect.operands.push_back({address, count * widest, false, true});
      }
    }
    effect.bytes = 2 * static_cast<double>(count * 2 * widest);
    effect.features.emplace_back("numel", static_cast<double>(count));
    return effect;
  });
}

}  // namespace

std::unique_ptr<Meaning> read_lookup(const Signature& signature, const KernelResources&) {
  const TemplateName& kernel = signature.kernel;
  const std::string_view name = unqualified(kernel.name);
  if (name == "adjacent_difference_kernel") return adjacent_difference(signature);
  if (name == "scatter_kernel" && signature.parameters.size() == 4) return scatter();
  if (name == "_assert_async_cuda_kernel" || name == "masked_scatter_size_check") {
    return writes_nothing();
  }
  if (name.starts_with("DeviceMergeSort")) return merge_sort(name);
  if (kernel.arguments.empty()) return nullptr;
  if (name == "searchsorted_cuda_kernel") return search_sorted(kernel);
  if (name == "compute_cuda_kernel") return repeat_interleave(kernel);
  if (name.starts_with("indexing_backward_kernel") && !name.ends_with("_quantized")) {
    return accumulate(kernel);
  }
  if (name == "compute_mode") return mode(kernel);
  if (name == "kernelHistogram1D") return histogram(kernel);
  return nullptr;
}

}  // namespace phantora::rank
