#include "rank/kernels/families/input_iterator.hpp"
#include "rank/kernels/families/tensor_info.hpp"
#include "rank/kernels/kernel_effect.hpp"
#include "rank/memory/device_memory.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

/// Sorting: PyTorch's in-place block sorts and top-k selection, cub's radix sorts
/// (ATen/native/cuda/{SortUtils,SortingRadixSelect,TensorTopK}.cuh).
namespace phantora::rank {

namespace {

/// Whether a sorts before b. NaN is the greatest.
bool before(const Value& a, const Value& b, bool descending) {
  if (!a.floating) return descending ? a.integer > b.integer : a.integer < b.integer;
  const bool a_nan = std::isnan(a.real), b_nan = std::isnan(b.real);
  if (a_nan || b_nan) return descending ? a_nan && !b_nan : !a_nan && b_nan;
  return descending ? a.real > b.real : a.real < b.real;
}

/// Keys of a slice, and the order that sorts them; nullopt when a key is unknown.
std::optional<std::vector<std::size_t>> sorted_order(const std::vector<std::optional<Value>>& keys,
                                                     bool descending) {
  for (const auto& key : keys) {
    if (!key) return std::nullopt;
  }
  std::vector<std::size_t> order(keys.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return before(*keys[a], *keys[b], descending);
  });
  return order;
}

/// {bitonic,radix}SortKVInPlace and warpMergeSortKVInPlace<..., key, value, ...>(keys, slices,
/// slice size, key stride, values, value stride, comparator or descending). The sorted dimension
/// has size 1 in the shapes.
std::unique_ptr<Meaning> sort_in_place(const TemplateName& kernel, bool compares) {
  if (kernel.arguments.size() < 7) return nullptr;
  const auto key = element_type_named(kernel.arguments[4]);
  const std::size_t value_bytes = moved_bytes(kernel.arguments[5]);
  if (!key || value_bytes == 0) return nullptr;
  const bool greater = compares && kernel.arguments[6].find("GTOp") != std::string_view::npos;
  return meaning([=, key = *key](const Arguments& arguments) -> std::optional<Effect> {
    const TensorInfo keys = TensorInfo::read(arguments, 0), values = TensorInfo::read(arguments, 4);
    if (!keys.valid || !values.valid) return std::nullopt;
    const std::size_t slices = arguments.get<std::uint32_t>(1);
    const std::size_t size = arguments.get<std::uint32_t>(2);
    const std::size_t key_stride = arguments.get<std::uint32_t>(3);
    const std::size_t value_stride = arguments.get<std::uint32_t>(5);
    const bool descending = compares ? greater : arguments.get<std::uint8_t>(6) != 0;
    const std::size_t last = size == 0 ? 0 : size - 1;
    Effect effect;
    effect.operands = {
        {keys.data, (keys.span() + last * key_stride) * size_of(key), true, true},
        {values.data, (values.span() + last * value_stride) * value_bytes, true, true}};
    effect.bytes = 2 * static_cast<double>(slices * size * (size_of(key) + value_bytes));
    effect.features = {{"rows", static_cast<double>(slices)}, {"cols", static_cast<double>(size)}};
    effect.compute = [=](std::span<Image> images) {
      for (std::size_t s = 0; s < slices; ++s) {
        const auto key_at = [&](std::size_t i) {
          return (keys.offset(s) + i * key_stride) * size_of(key);
        };
        const auto value_at = [&](std::size_t i) {
          return (values.offset(s) + i * value_stride) * value_bytes;
        };
        std::vector<std::optional<Value>> slice(size);
        for (std::size_t i = 0; i < size; ++i) slice[i] = images[0].load(key_at(i), key);
        const auto order = sorted_order(slice, descending);
        const bool chosen = !order && is_assumed_choice(values.data);
        const Image old_values = images[1];
        for (std::size_t i = 0; i < size; ++i) {
          if (chosen) {
            images[0].forget(key_at(i), size_of(key));
          } else if (order) {
            images[0].store(key_at(i), key, slice[(*order)[i]]);
            images[1].move(value_at(i), old_values, value_at((*order)[i]), value_bytes);
          } else {
            images[0].forget(key_at(i), size_of(key));
            images[1].forget(value_at(i), value_bytes);
          }
        }
      }
    };
    return effect;
  });
}

/// The bits of a key such that unsigned order is the key's order (cub's traits).
std::uint64_t radix_bits(ElementType type, const Value& value) {
  std::byte bytes[8]{};
  store(type, value, bytes);
  const std::uint64_t raw =
      static_cast<std::uint64_t>(load(*opaque_type(size_of(type)), bytes).integer);
  const std::uint64_t sign = std::uint64_t{1} << (8 * size_of(type) - 1);
  const std::uint64_t all = sign | (sign - 1);
  switch (type) {
    case ElementType::boolean:
    case ElementType::uint8:
    case ElementType::uint16:
    case ElementType::uint32:
    case ElementType::uint64:
      return raw & all;
    case ElementType::float8_e4m3:
    case ElementType::float8_e5m2:
    case ElementType::float16:
    case ElementType::bfloat16:
    case ElementType::float32:
    case ElementType::float64: {
      // -0 equals +0.
      const std::uint64_t key = raw == sign ? 0 : raw & all;
      return (key & sign) != 0 ? ~key & all : key | sign;
    }
    default:
      return (raw ^ sign) & all;
  }
}

/// One stable pass over `bits` bits of the keys from `first`.
struct RadixPass {
  ElementType key{};
  std::size_t value_bytes = 0;  ///< 0: keys only
  bool descending = false;
};

Effect radix_pass(RadixPass pass, std::byte* keys_in, std::byte* keys_out, std::byte* values_in,
                  std::byte* values_out, std::size_t count, unsigned first, unsigned bits) {
  const std::size_t key_bytes = count * size_of(pass.key);
  Effect effect;
  effect.operands = {{keys_in, key_bytes, true, false}, {keys_out, key_bytes, false, true}};
  if (pass.value_bytes != 0) {
    effect.operands.push_back({values_in, count * pass.value_bytes, true, false});
    effect.operands.push_back({values_out, count * pass.value_bytes, false, true});
  }
  effect.bytes = 2 * static_cast<double>(count * (size_of(pass.key) + pass.value_bytes));
  effect.features.emplace_back("numel", static_cast<double>(count));
  effect.limit = 8 * executed_bytes();  // indices that are sorted by narrow keys
  effect.compute = [=](std::span<Image> images) {
    std::vector<std::uint64_t> digits(count);
    const std::uint64_t mask = bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
    std::vector<std::optional<Value>> keys(count);
    for (std::size_t i = 0; i < count; ++i) {
      keys[i] = images[0].load(i * size_of(pass.key), pass.key);
      if (!keys[i]) {
        images[1].forget();
        if (pass.value_bytes != 0) images[3].forget();
        return;
      }
      digits[i] = radix_bits(pass.key, *keys[i]) >> first & mask;
    }
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return pass.descending ? digits[a] > digits[b] : digits[a] < digits[b];
    });
    for (std::size_t i = 0; i < count; ++i) {
      images[1].store(i * size_of(pass.key), pass.key, keys[order[i]]);
      if (pass.value_bytes != 0) {
        images[3].move(i * pass.value_bytes, images[2], order[i] * pass.value_bytes,
                       pass.value_bytes);
      }
    }
  };
  return effect;
}

std::optional<RadixPass> radix_types(const TemplateName& kernel) {
  // <policy, order, key, value, ...>
  if (kernel.arguments.size() < 4) return std::nullopt;
  const auto key = element_type_named(kernel.arguments[2]);
  const bool keys_only = kernel.arguments[3].find("NullType") != std::string_view::npos;
  const std::size_t value = keys_only ? 0 : moved_bytes(kernel.arguments[3]);
  if (!key || (!keys_only && value == 0)) return std::nullopt;
  return RadixPass{*key, value, kernel.arguments[1].ends_with('1')};
}

/// DeviceRadixSortSingleTileKernel(keys in, out, values in, out, count, first bit, end bit, ...)
std::unique_ptr<Meaning> single_tile(const TemplateName& kernel) {
  const auto pass = radix_types(kernel);
  if (!pass) return nullptr;
  return meaning([pass = *pass](const Arguments& arguments) -> std::optional<Effect> {
    const std::size_t count = arguments.count(4);
    const auto first = arguments.get<std::uint32_t>(5), end = arguments.get<std::uint32_t>(6);
    Effect effect =
        radix_pass(pass, arguments.pointer(0), arguments.pointer(1), arguments.pointer(2),
                   arguments.pointer(3), count, first, end - first);
    // The block goes through them a few at a time.
    effect.features.emplace_back("cols", static_cast<double>(end - first));
    return effect;
  });
}

/// DeviceRadixSortOnesweepKernel(lookback, counters, bins out, bins in, keys out, in, values out,
/// in, count, first bit, bits, ...)
std::unique_ptr<Meaning> onesweep(const TemplateName& kernel) {
  const auto pass = radix_types(kernel);
  if (!pass) return nullptr;
  return meaning([pass = *pass](const Arguments& arguments) -> std::optional<Effect> {
    constexpr std::size_t bins = 256;
    const std::size_t count = arguments.get<std::uint32_t>(8);
    Effect effect = radix_pass(pass, arguments.pointer(5), arguments.pointer(4),
                               arguments.pointer(7), arguments.pointer(6), count,
                               arguments.get<std::uint32_t>(9), arguments.get<std::uint32_t>(10));
    // Scratch: its values are not modelled. Some of it is absent where a pass does not need it.
    const std::size_t sorted = effect.operands.size();
    const std::pair<std::size_t, std::size_t> scratch[] = {
        {0, arguments.shape.grid.x * bins * 4}, {1, 4}, {2, bins * 8}};
    for (const auto& [parameter, bytes] : scratch) {
      std::byte* const address = arguments.pointer(parameter);
      if (address != nullptr) effect.operands.push_back({address, bytes, false, true});
    }
    effect.compute = [sorted, inner = std::move(effect.compute)](std::span<Image> images) {
      inner(images);
      for (std::size_t i = sorted; i < images.size(); ++i) images[i].forget();
    };
    return effect;
  });
}

/// Histograms of every pass: scratch, as long as the sort itself is executed by its passes.
std::unique_ptr<Meaning> histogram(const TemplateName& kernel) {
  const auto key =
      kernel.arguments.size() > 2 ? element_type_named(kernel.arguments[2]) : std::nullopt;
  if (!key) return nullptr;
  return meaning([key = *key](const Arguments& arguments) -> std::optional<Effect> {
    constexpr std::size_t bins = 256;
    const auto count = arguments.get<std::size_t>(2);
    Effect effect;
    effect.operands = {{arguments.pointer(1), count * size_of(key), true, false},
                       {arguments.pointer(0), size_of(key) * bins * 8, false, true}};
    effect.bytes = static_cast<double>(count * size_of(key));
    effect.features.emplace_back("numel", static_cast<double>(count));
    return effect;
  });
}
std::unique_ptr<Meaning> exclusive_sum() {
  return meaning([](const Arguments& arguments) -> std::optional<Effect> {
    constexpr std::size_t bins = 256;
    Effect effect;
    const std::size_t bytes = arguments.shape.grid.x * bins * 8;
    effect.operands = {{arguments.pointer(0), bytes, false, true}};
    effect.bytes = 2 * static_cast<double>(bytes);
    return effect;
  });
}

/// fill_reverse_indices_kernel(out, count, divider): i modulo the sorted dimension's size.
std::unique_ptr<Meaning> reverse_indices() {
  return meaning([](const Arguments& arguments) -> std::optional<Effect> {
    const std::size_t count = arguments.get<std::uint32_t>(1);
    const auto divisor = arguments.get<std::uint32_t>(2);
    if (divisor == 0) return std::nullopt;
    Effect effect;
    effect.operands = {{arguments.pointer(0), count * 8, false, true}};
    effect.bytes = static_cast<double>(count * 8);
    effect.features.emplace_back("numel", static_cast<double>(count));
    effect.limit = 8 * executed_bytes();
    effect.compute = [=](std::span<Image> images) {
      for (std::size_t i = 0; i < count; ++i) {
        images[0].store(i * 8, ElementType::int64, Value{static_cast<std::int64_t>(i % divisor)});
      }
    };
    return effect;
  });
}

/// A slice's values, and where each output goes.
struct Slices {
  TensorInfo in, values, indices;
  std::size_t size = 0, slices = 0, in_stride = 0, value_stride = 0, index_stride = 0;
};

/// What is assumed to be chosen of `places`, in the `row`-th slice with these.
std::vector<std::size_t> choice_among(const std::vector<std::size_t>& places, std::size_t row,
                                      std::size_t chosen) {
  if (places.size() == chosen) return places;
  std::vector<std::size_t> found =
      assumed_choice(row, places.size(), chosen).value_or(std::vector<std::size_t>{});
  for (std::size_t& place : found) place = places[place];
  return found;
}

/// @param routes  of a slice's scores that are not known some are assumed to be chosen
Effect pick(
    Slices s, ElementType type, std::size_t picked, bool routes,
    std::function<std::vector<std::size_t>(const std::vector<std::optional<Value>>&)> choose) {
  const std::size_t element = size_of(type);
  const std::size_t last = picked == 0 ? 0 : picked - 1;
  Effect effect;
  effect.operands = {
      {s.in.data, (s.in.span() + (s.size == 0 ? 0 : s.size - 1) * s.in_stride) * element, true,
       false},
      {s.values.data, (s.values.span() + last * s.value_stride) * element, false, true},
      {s.indices.data, (s.indices.span() + last * s.index_stride) * 8, false, true}};
  effect.bytes = static_cast<double>(s.slices * (s.size * element + picked * (element + 8)));
  effect.features = {{"rows", static_cast<double>(s.slices)},
                     {"cols", static_cast<double>(s.size)}};
  if (routes) {
    // The scores may be too many to look at.
    effect.needs = Effect::Needs::nothing;
    effect.independent = true;
    effect.limit = routed_bytes;
  }
  effect.compute = [=, choose = std::move(choose)](std::span<Image> images) {
    bool assumed = false;
    std::map<std::vector<std::size_t>, std::size_t> rows;  // by their places of unknown scores
    for (std::size_t r = 0; r < s.slices; ++r) {
      std::vector<std::optional<Value>> slice(s.size);
      std::vector<std::size_t> unknown, chosen;
      for (std::size_t i = 0; i < s.size; ++i) {
        slice[i] = images[0].load((s.in.offset(r) + i * s.in_stride) * element, type);
        if (!slice[i]) unknown.push_back(i);
      }
      if (unknown.empty()) {
        chosen = choose(slice);
      } else if (routes && unknown.size() >= picked) {
        // Scores that are known among others that are not were masked: groups that do not route.
        chosen = choice_among(unknown, rows[unknown]++, picked);
        assumed = true;
      }
      for (std::size_t k = 0; k < picked; ++k) {
        const bool have = k < chosen.size();
        images[1].store((s.values.offset(r) + k * s.value_stride) * element, type,
                        have ? slice[chosen[k]] : std::nullopt);
        images[2].store(
            (s.indices.offset(r) + k * s.index_stride) * 8, ElementType::int64,
            have ? std::optional{Value{static_cast<std::int64_t>(chosen[k])}} : std::nullopt);
      }
    }
    if (assumed) note_assumed_choice(s.indices.data);
  };
  return effect;
}

/// gatherTopK(in, slice size, k, largest, slices, in stride, values, value stride, indices, index
/// stride, ...): those beyond the k-th in order of their index, then its equals.
std::unique_ptr<Meaning> top_k(const TemplateName& kernel) {
  const auto type = element_type_named(kernel.arguments[0]);
  if (!type) return nullptr;
  return meaning([type = *type](const Arguments& arguments) -> std::optional<Effect> {
    Slices s;
    s.in = TensorInfo::read(arguments, 0);
    s.values = TensorInfo::read(arguments, 6);
    s.indices = TensorInfo::read(arguments, 8);
    if (!s.in.valid || !s.values.valid || !s.indices.valid) return std::nullopt;
    s.size = arguments.get<std::uint32_t>(1);
    const std::size_t k = arguments.get<std::uint32_t>(2);
    const bool largest = arguments.get<std::uint8_t>(3) != 0;
    s.slices = arguments.get<std::uint32_t>(4);
    s.in_stride = arguments.get<std::uint32_t>(5);
    s.value_stride = arguments.get<std::uint32_t>(7);
    s.index_stride = arguments.get<std::uint32_t>(9);
    return pick(s, type, k, assumes_choice(s.size, k),
                [=](const std::vector<std::optional<Value>>& slice) {
                  auto order = *sorted_order(slice, largest);
                  order.resize(std::min(k, order.size()));
                  if (order.empty()) return order;
                  const Value kth = *slice[order.back()];
                  std::vector<std::size_t> beyond, equal;
                  for (const std::size_t i : order) {
                    (before(*slice[i], kth, largest) ? beyond : equal).push_back(i);
                  }
                  std::sort(beyond.begin(), beyond.end());
                  beyond.insert(beyond.end(), equal.begin(), equal.end());
                  return beyond;
                });
  });
}

/// gatherKthValue(in, slice size, k, slices, in stride, values, indices): k counts from 1.
std::unique_ptr<Meaning> kth_value(const TemplateName& kernel) {
  const auto type = element_type_named(kernel.arguments[0]);
  if (!type) return nullptr;
  return meaning([type = *type](const Arguments& arguments) -> std::optional<Effect> {
    Slices s;
    s.in = TensorInfo::read(arguments, 0);
    s.values = TensorInfo::read(arguments, 5);
    s.indices = TensorInfo::read(arguments, 6);
    if (!s.in.valid || !s.values.valid || !s.indices.valid) return std::nullopt;
    s.size = arguments.get<std::uint32_t>(1);
    const std::size_t k = arguments.get<std::uint32_t>(2);
    s.slices = arguments.get<std::uint32_t>(3);
    s.in_stride = arguments.get<std::uint32_t>(4);
    if (k == 0) return std::nullopt;
    return pick(s, type, 1, false, [k](const std::vector<std::optional<Value>>& slice) {
      const auto order = *sorted_order(slice, false);
      return k <= order.size() ? std::vector<std::size_t>{order[k - 1]}
                               : std::vector<std::size_t>{};
    });
  });
}

}  // namespace

std::unique_ptr<Meaning> read_sort(const Signature& signature, const KernelResources&) {
  const TemplateName& kernel = signature.kernel;
  const std::string_view name = unqualified(kernel.name);
  if (name == "bitonicSortKVInPlace" || name == "warpMergeSortKVInPlace")
    return sort_in_place(kernel, true);
  if (name == "radixSortKVInPlace") return sort_in_place(kernel, false);
  if (name == "DeviceRadixSortSingleTileKernel") return single_tile(kernel);
  if (name == "DeviceRadixSortOnesweepKernel") return onesweep(kernel);
  if (name == "DeviceRadixSortHistogramKernel") return histogram(kernel);
  if (name == "DeviceRadixSortExclusiveSumKernel") return exclusive_sum();
  if (name == "fill_reverse_indices_kernel") return reverse_indices();
  if (kernel.arguments.empty()) return nullptr;
  if (name == "gatherTopK" && kernel.name.find("sbtopk") != std::string_view::npos) {
    return top_k(kernel);
  }
  if (name == "gatherKthValue") return kth_value(kernel);
  return nullptr;
}

}  // namespace phantora::rank
