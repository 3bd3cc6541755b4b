#include "rank/kernels/assumed_selection.hpp"
#include "rank/kernels/families/arithmetic.hpp"
#include "rank/kernels/families/input_iterator.hpp"
#include "rank/kernels/families/tensor_info.hpp"
#include "rank/kernels/kernel_effect.hpp"
#include "rank/memory/device_memory.hpp"

#include <algorithm>
#include <cmath>

/// cub's selections and reductions, and what PyTorch builds of them: nonzero, masked_select,
/// unique.
namespace phantora::rank {

namespace {

/// The tile states of a scan over `tiles` tiles: a status word each, and 32 before the first
/// (cub/agent/single_pass_scan_operators.cuh). Words are of 8 or 16 bytes.
void forget_tile_states(Effect& effect, const Arguments& arguments, std::size_t parameter,
                        std::size_t tiles, std::size_t word = 16) {
  constexpr std::size_t padding = 32;
  for (std::size_t at = 0; at + 8 <= arguments.bytes(parameter).size(); at += 8) {
    std::byte* const states = arguments.pointer(parameter, at);
    if (is_device_address(states)) {
      effect.operands.push_back({states, (tiles + padding) * word, false, true});
    }
  }
}

/// How many flags select.
struct Selected {
  std::size_t count = 0;
  bool counted = false;  ///< not assumed
};

/// Of operand `operand`, that it holds this where nothing is computed.
void assume_selected(Effect& effect, std::size_t operand, ElementType type, Selected selected) {
  effect.assumed.push_back(
      {operand, element_of(type, Value{static_cast<std::int64_t>(selected.count)})});
  if (!selected.counted) effect.assumption = Assumption::selection;
}

/// How many of the flags select: of more than are executed counted where all are known, as a fill
/// leaves them and where they are deferred, or where what wrote them could tell how many there are,
/// else assumed.
Selected selected_of(const InputIterator& flags, const std::byte* address, std::size_t count,
                     const AssumedSelection& assumed) {
  const std::size_t extent = flags.extent(count);
  if (extent <= executed_bytes()) return {assumed.of(count)};
  const auto share = share_set(address, extent);
  if (share && flags.element == 1)
    return {static_cast<std::size_t>(std::lround(*share * static_cast<double>(count))), true};
  if (!known(address, extent)) return {assumed.of(count)};
  Selected selected{0, true};
  const std::size_t most = executed_bytes() / flags.element;
  for (std::size_t first = 0; first < count; first += most) {
    const std::size_t some = std::min(most, count - first);
    const Image part{
        {const_cast<std::byte*>(address) + first * flags.element, flags.extent(some), true, false}};
    for (std::size_t i = 0; i < some; ++i) {
      const auto flag = flags.load(part, i, 0);
      if (flag && flag->to_bool()) ++selected.count;
    }
  }
  return selected;
}

/// Element `index` of the flags, as it is assumed if it is not known.
Value flag_at(const InputIterator& flags, const Image& image, std::size_t index,
              const AssumedSelection& assumed) {
  return flags.load(image, index, 0).value_or(Value{assumed.selects(index)});
}

/// Whether an element is the first of a run of equal ones. Those that nobody knows all differ.
bool begins_run(const std::optional<Value>& before, const std::optional<Value>& value) {
  return !before || !value || value->real != before->real || value->integer != before->integer;
}

using Combine = Value (*)(ElementType, const Value&, const Value&);
Combine reduction_operator(std::string_view text) {
  const std::string_view name = unqualified(template_name(text).name);
  if (name == "plus" || name == "SumOp" || name == "Sum") return arithmetic::add;
  if (name == "multiplies") return arithmetic::multiply;
  if (name == "maximum" || name == "Max") return arithmetic::maximum;
  if (name == "minimum" || name == "Min") return arithmetic::minimum;
  return nullptr;
}

/// DeviceReduceSingleTileKernel<policy, in, out, offset, operator, initial, accumulator, ...>(in,
/// out, count, operator, initial, transform).
std::unique_ptr<Meaning> reduce(const TemplateName& kernel) {
  if (kernel.arguments.size() < 5) return nullptr;
  const auto in = InputIterator::named(kernel.arguments[1]);
  const auto out = InputIterator::named(kernel.arguments[2]);
  const Combine combine = reduction_operator(kernel.arguments[4]);
  if (!in || !out || !out->type || combine == nullptr) return nullptr;
  return meaning([in = *in, type = *out->type,
                  combine](const Arguments& arguments) -> std::optional<Effect> {
    const std::size_t count = arguments.count(2);
    const auto initial_bytes = arguments.bytes(4);
    if (initial_bytes.size() < size_of(type)) return std::nullopt;
    const Value initial = load(type, initial_bytes.data());
    Effect effect;
    effect.operands = {{in.pointer(arguments, 0), in.extent(count), true, false},
                       {arguments.pointer(1), size_of(type), false, true}};
    effect.bytes = static_cast<double>(in.extent(count) + size_of(type));
    effect.features.emplace_back("numel", static_cast<double>(count));
    const bool counts = in.to_flag && combine == arithmetic::add;
    const AssumedSelection assumed{in.pointer(arguments, 0)};
    if (counts)
      assume_selected(effect, 1, type, selected_of(in, in.pointer(arguments, 0), count, assumed));
    effect.compute = [=](std::span<Image> images) {
      std::optional<Value> result = initial;
      for (std::size_t i = 0; i < count && result; ++i) {
        const auto value = counts ? flag_at(in, images[0], i, assumed) : in.load(images[0], i, 0);
        result = value ? std::optional{combine(compute_type(type), *result, *value)} : std::nullopt;
      }
      images[1].store(0, type, result);
    };
    return effect;
  });
}

/// DeviceReduceKernel<policy, in, offset, operator, accumulator, transform>(in, partial results,
/// count, shares, operator, transform): a partial sum per block, which a single-tile kernel adds.
/// All of it is in the first here.
std::unique_ptr<Meaning> partial_sums(const TemplateName& kernel) {
  if (kernel.arguments.size() < 5) return nullptr;
  const auto in = InputIterator::named(kernel.arguments[1]);
  const auto type = element_type_named(kernel.arguments[4]);
  if (!in || !type || reduction_operator(kernel.arguments[3]) != arithmetic::add) return nullptr;
  return meaning([in = *in, type = *type](const Arguments& arguments) -> std::optional<Effect> {
    const std::size_t count = arguments.count(2);
    const std::size_t blocks = arguments.shape.grid.x;
    Effect effect;
    std::byte* const sums = arguments.pointer(1);
    effect.operands = {{in.pointer(arguments, 0), in.extent(count), true, false},
                       {sums, size_of(type), false, true},
                       {sums + size_of(type), (blocks - 1) * size_of(type), false, true}};
    effect.bytes = static_cast<double>(in.extent(count) + blocks * size_of(type));
    effect.features.emplace_back("numel", static_cast<double>(count));
    const AssumedSelection assumed{in.pointer(arguments, 0)};
    if (in.to_flag) {
      assume_selected(effect, 1, type, selected_of(in, in.pointer(arguments, 0), count, assumed));
      assume_selected(effect, 2, type, {0, true});
    }
    effect.compute = [=](std::span<Image> images) {
      std::optional<Value> sum = Value{0};
      for (std::size_t i = 0; i < count && sum; ++i) {
        const auto value =
            in.to_flag ? flag_at(in, images[0], i, assumed) : in.load(images[0], i, 0);
        sum =
            value ? std::optional{arithmetic::add(compute_type(type), *sum, *value)} : std::nullopt;
      }
      images[1].store(0, type, sum);
      for (std::size_t b = 1; b < blocks; ++b)
        images[2].store((b - 1) * size_of(type), type, sum ? std::optional{Value{0}} : sum);
    };
    return effect;
  });
}

/// DeviceCompactInitKernel(states, tiles, selected): nothing is selected yet.
std::unique_ptr<Meaning> compact_init(const TemplateName& kernel) {
  const auto selected = InputIterator::named(kernel.arguments.back());
  if (!selected || !selected->type) return nullptr;
  return meaning([type = *selected->type](const Arguments& arguments) -> std::optional<Effect> {
    Effect effect;
    effect.operands.push_back({arguments.pointer(2), size_of(type), false, true});
    forget_tile_states(effect, arguments, 0, arguments.get<std::uint32_t>(1));
    effect.compute = [type](std::span<Image> images) {
      images[0].store(0, type, Value{0});
      for (std::size_t i = 1; i < images.size(); ++i) images[i].forget();
    };
    return effect;
  });
}

/// DeviceScanInitKernel<states>(states, tiles). A word has a sum and whether it is one yet.
std::unique_ptr<Meaning> scan_init(const TemplateName& kernel) {
  const bool sums_of_4_bytes =
      !kernel.arguments.empty() &&
      template_name(kernel.arguments[0]).name.ends_with("::ScanTileState") &&
      element_type_named(template_name(kernel.arguments[0]).arguments[0]) == ElementType::int32;
  const std::size_t word = sums_of_4_bytes ? 8 : 16;
  return meaning([word](const Arguments& arguments) -> std::optional<Effect> {
    Effect effect;
    forget_tile_states(effect, arguments, 0, arguments.get<std::uint32_t>(1), word);
    return effect;
  });
}

/// Bytes behind "unsigned int*"; 0 if unknown.
std::size_t pointed_to(const Signature& signature, std::size_t parameter) {
  if (parameter >= signature.parameters.size()) return 0;
  std::string_view type = signature.parameters[parameter];
  if (!type.ends_with('*')) return 0;
  type.remove_suffix(1);
  // Of an iterator over block numbers, the keys: as wide as its value.
  if (type.find("iterator_traits<") != std::string_view::npos) return sizeof(std::uint64_t);
  return moved_bytes(type);
}

/// DeviceScanByKeyInitKernel(states, keys, keys before each tile, items of a tile, tiles)
std::unique_ptr<Meaning> scan_by_key_init(const Signature& signature) {
  const std::size_t key = pointed_to(signature, 2);
  if (key == 0) return nullptr;
  return meaning([key](const Arguments& arguments) -> std::optional<Effect> {
    const std::size_t tiles = arguments.get<std::uint32_t>(4);
    Effect effect;
    effect.operands.push_back({arguments.pointer(2), tiles * key, false, true});
    forget_tile_states(effect, arguments, 0, tiles);
    return effect;
  });
}

/// DeviceScanByKeyKernel(keys, keys before each tile, in, out, states, first tile, equality,
/// operator, initial, count): sums within runs of equal keys. Described, not computed.
std::unique_ptr<Meaning> scan_by_key(const Signature& signature) {
  const std::size_t in = pointed_to(signature, 2), out = pointed_to(signature, 3);
  if (in == 0 || out == 0) return nullptr;
  return meaning([in, out](const Arguments& arguments) -> std::optional<Effect> {
    const std::size_t last = arguments.sizes.size() - 1;
    const std::size_t count = arguments.count(last);
    Effect effect;
    effect.operands = {{arguments.pointer(2), count * in, true, false},
                       {arguments.pointer(3), count * out, false, true}};
    effect.bytes = static_cast<double>(count * (in + out));
    effect.features.emplace_back("numel", static_cast<double>(count));
    forget_tile_states(effect, arguments, 4, arguments.shape.grid.x);
    return effect;
  });
}

/// DeviceSelectSweepKernel<policy, in, flags, out, selected, states, operator, equality, ...>(in,
/// flags, out, selected, states, operator, equality, count, tiles, ...): keeps what is flagged, or
/// the first of equal neighbours.
std::unique_ptr<Meaning> select(const TemplateName& kernel) {
  if (kernel.arguments.size() < 8) return nullptr;
  const auto in = InputIterator::named(kernel.arguments[1]);
  const bool unique = kernel.arguments[2].find("NullType") != std::string_view::npos;
  const auto flags = unique ? std::optional<InputIterator>{InputIterator{}}
                            : InputIterator::named(kernel.arguments[2]);
  const auto out = InputIterator::named(kernel.arguments[3]);
  const auto selected = InputIterator::named(kernel.arguments[4]);
  const bool no_operator = kernel.arguments[6].find("NullType") != std::string_view::npos;
  const bool equality = kernel.arguments[7].find("equal_to") != std::string_view::npos;
  if (!in || !flags || !out || !selected || !selected->type || !no_operator || unique != equality) {
    return nullptr;
  }
  return meaning([in = *in, flags = *flags, out = *out, selected_type = *selected->type,
                  unique](const Arguments& arguments) -> std::optional<Effect> {
    const std::size_t count = arguments.get<std::uint32_t>(7);
    const std::size_t tiles = arguments.get<std::uint32_t>(8);
    const bool in_memory = in.source == InputIterator::Source::memory;
    // A pointer read as a number would be a misreading.
    const std::int64_t number = in_memory ? 0 : arguments.get<std::int64_t>(0);
    const auto out_type = out.type ? out.type : opaque_type(out.element);
    if (!out_type) return std::nullopt;
    Effect effect;
    effect.operands = {
        {in_memory ? in.pointer(arguments, 0) : nullptr, in.extent(count), true, false},
        {flags.pointer(arguments, 1), unique ? 0 : flags.extent(count), true, false},
        {arguments.pointer(2), count * out.element, false, true},
        {arguments.pointer(3), size_of(selected_type), false, true}};
    effect.bytes =
        static_cast<double>(in.extent(count) + flags.extent(count) + count * out.element);
    effect.features.emplace_back("numel", static_cast<double>(count));
    const bool small = in.extent(count) <= executed_bytes() &&
                       flags.extent(count) <= executed_bytes() &&
                       count * out.element <= 8 * executed_bytes();
    forget_tile_states(effect, arguments, 4, tiles);
    // Of values that nobody knows, all are taken to differ.
    const AssumedSelection assumed{unique ? nullptr : flags.pointer(arguments, 1)};
    const Selected passed =
        unique ? Selected{count} : selected_of(flags, flags.pointer(arguments, 1), count, assumed);
    assume_selected(effect, 3, selected_type, passed);
    if (!small) {
      // Nobody has memory for more.
      if (flags.extent(count) > executed_bytes())
        effect.operands[2].extent = passed.count * out.element;
      return effect;
    }
    effect.needs = Effect::Needs::nothing;  // which flags select is assumed, too
    effect.limit = 8 * executed_bytes();    // an index is up to eight times as large as a flag
    effect.compute = [=, type = *out_type](std::span<Image> images) {
      std::int64_t kept = 0;
      std::optional<Value> previous;
      for (std::size_t i = 0; i < count; ++i) {
        const auto value = in.load(images[0], i, number);
        bool keep = true;
        if (unique) {
          keep = begins_run(previous, value);
          previous = value;
        } else {
          keep = flag_at(flags, images[1], i, assumed).to_bool();
        }
        if (!keep) continue;
        images[2].store(static_cast<std::size_t>(kept) * out.element, type, value);
        ++kept;
      }
      images[3].store(0, selected_type, Value{kept});
    };
    return effect;
  });
}

/// DeviceReduceByKeyKernel<policy, keys, unique keys, values, sums, runs, ...>(keys, unique keys,
/// values, sums, runs, states, first tile, equality, operator, count, ...): runs of equal keys, and
/// how long each is, where the values are ones.
std::unique_ptr<Meaning> runs_of_keys(const TemplateName& kernel) {
  if (kernel.arguments.size() < 6) return nullptr;
  const auto keys = InputIterator::named(kernel.arguments[1]);
  const auto values = InputIterator::named(kernel.arguments[3]);
  const auto lengths = InputIterator::named(kernel.arguments[4]);
  const auto runs = InputIterator::named(kernel.arguments[5]);
  if (!keys || !values || !lengths || !runs || !keys->type || !lengths->type || !runs->type ||
      values->source != InputIterator::Source::constant) {
    return nullptr;
  }
  return meaning([in = *keys, key = *keys->type, length = *lengths->type,
                  number = *runs->type](const Arguments& arguments) -> std::optional<Effect> {
    const std::size_t count = arguments.count(9);
    Effect effect;
    effect.operands = {{in.pointer(arguments, 0), in.extent(count), true, false},
                       {arguments.pointer(1), count * size_of(key), false, true},
                       {arguments.pointer(3), count * size_of(length), false, true},
                       {arguments.pointer(4), size_of(number), false, true}};
    effect.bytes = static_cast<double>(in.extent(count) + count * (size_of(key) + size_of(length)));
    effect.features.emplace_back("numel", static_cast<double>(count));
    forget_tile_states(effect, arguments, 5, arguments.shape.grid.x);
    assume_selected(effect, 3, number, {count});  // keys that nobody knows all differ
    effect.assumed.push_back({2, element_of(length, Value{std::int64_t{1}})});
    effect.compute = [=](std::span<Image> images) {
      std::size_t kept = 0;
      std::int64_t long_so_far = 0;
      std::optional<Value> previous;
      for (std::size_t i = 0; i < count; ++i) {
        const auto value = in.load(images[0], i, 0);
        if (begins_run(previous, value)) {
          images[1].store(kept++ * size_of(key), key, value);
          long_so_far = 0;
        }
        previous = value;
        images[2].store((kept - 1) * size_of(length), length, Value{++long_so_far});
      }
      images[3].store(0, number, Value{static_cast<std::int64_t>(kept)});
    };
    return effect;
  });
}

/// Writes to multi-dimensional indices of nonzero's flat ones: write_indices<index>(in and out,
/// dimensions {sizes[16], ndim}, count)
std::unique_ptr<Meaning> write_indices() {
  return meaning([](const Arguments& arguments) -> std::optional<Effect> {
    constexpr std::size_t max_dims = 16;
    const std::size_t width = arguments.bytes(1).size() >= max_dims * 8 ? 8 : 4;
    const auto size = [&](std::size_t d) {
      return width == 8 ? arguments.get<std::int64_t>(1, d * 8)
                        : std::int64_t{arguments.get<std::int32_t>(1, d * 4)};
    };
    const std::size_t dims = arguments.get<std::uint32_t>(2);
    const std::size_t count = arguments.get<std::uint32_t>(3);
    if (dims == 0 || dims > max_dims) return std::nullopt;
    std::vector<std::int64_t> sizes;
    for (std::size_t d = 0; d < dims; ++d) sizes.push_back(size(d));
    Effect effect;
    effect.operands = {{arguments.pointer(0), dims * count * 8, true, true}};
    effect.bytes = static_cast<double>((dims + 1) * count * 8);
    effect.features.emplace_back("numel", static_cast<double>(count));
    effect.limit = 8 * max_dims * executed_bytes();
    // The flat indices are in the first row; row d becomes the indices in dimension d.
    effect.compute = [=](std::span<Image> images) {
      for (std::size_t i = 0; i < count; ++i) {
        const auto flat = images[0].load(i * 8, ElementType::int64);
        std::int64_t rest = flat ? flat->integer : 0;
        for (std::size_t d = dims; d-- > 0;) {
          std::optional<Value> index;
          if (flat && sizes[d] > 0) {
            index = Value{rest % sizes[d]};
            rest /= sizes[d];
          }
          images[0].store((d * count + i) * 8, ElementType::int64, index);
        }
      }
    };
    return effect;
  });
}

}  // namespace

std::unique_ptr<Meaning> read_selection(const Signature& signature, const KernelResources&) {
  const TemplateName& kernel = signature.kernel;
  const std::string_view name = unqualified(kernel.name);
  if (name == "DeviceReduceSingleTileKernel") return reduce(kernel);
  if (name == "DeviceReduceKernel") return partial_sums(kernel);
  if (name == "DeviceCompactInitKernel" && !kernel.arguments.empty()) return compact_init(kernel);
  if (name == "DeviceScanInitKernel") return scan_init(kernel);
  if (name == "DeviceSelectSweepKernel") return select(kernel);
  if (name == "DeviceReduceByKeyKernel") return runs_of_keys(kernel);
  if (name == "DeviceScanByKeyInitKernel") return scan_by_key_init(signature);
  if (name == "DeviceScanByKeyKernel") return scan_by_key(signature);
  if (name == "write_indices") return write_indices();
  return nullptr;
}

}  // namespace phantora::rank
