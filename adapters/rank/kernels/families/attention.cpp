#include "rank/kernels/families/tensor_info.hpp"
#include "rank/kernels/kernel_effect.hpp"
#include "rank/memory/device_memory.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

/// The fused attention kernels in PyTorch: FlashAttention's and CUTLASS's. Not executed; their
/// shapes are in structs that they take by value (flash.h;
/// mem_eff_attention/kernel_{forward,backward}.h; for FlashAttention 3 Params of the main loop, the
/// epilogue and the scheduler in its folder hopper). The offsets were checked by printing the
/// parameters of calls with distinct sizes.
namespace phantora::rank {

namespace {

/// b batches of s_q queries and s_kv keys in h heads of d.
struct Shape {
  std::size_t b = 0, h = 0, h_kv = 0, s_q = 0, s_kv = 0, d = 0, d_v = 0;
};

void describe(Effect& effect, const Shape& s) {
  effect.features = {{"b", static_cast<double>(s.b)},       {"h", static_cast<double>(s.h)},
                     {"h_kv", static_cast<double>(s.h_kv)}, {"s_q", static_cast<double>(s.s_q)},
                     {"s_kv", static_cast<double>(s.s_kv)}, {"d", static_cast<double>(s.d)},
                     {"d_v", static_cast<double>(s.d_v)}};
}

void writes(Effect& effect, std::byte* address, std::size_t bytes) {
  if (address != nullptr && bytes > 0) effect.operands.push_back({address, bytes, false, true});
}

/// Both are half precision: FlashAttention has no other type.
constexpr std::size_t half = 2, single = 4;

std::unique_ptr<Meaning> flash(std::string_view name) {
  const bool backward = name.starts_with("flash_bwd");
  const bool loop = name.find("dq_dk_dv") != std::string_view::npos;
  const bool convert = name.find("convert_dq") != std::string_view::npos;
  const bool combine = name.find("combine") != std::string_view::npos;
  return meaning([=](const Arguments& a) -> std::optional<Effect> {
    if (a.bytes(0).size() < (backward ? 632 : 208)) return std::nullopt;
    const auto number = [&](std::size_t at) { return std::size_t{a.get<std::uint32_t>(0, at)}; };
    const auto stride = [&](std::size_t at) { return a.get<std::size_t>(0, at); };
    const std::size_t rounded_q = number(196), rounded_d = number(204);
    const Shape s{number(176), number(96),  number(100), number(180),
                  number(184), number(192), number(192)};
    if (s.b == 0 || s.h == 0 || s.s_q == 0 || s.d == 0) return std::nullopt;
    const auto extent = [&](std::size_t batch, std::size_t row, std::size_t head, std::size_t rows,
                            std::size_t heads) {
      return ((s.b - 1) * stride(batch) + (rows - 1) * stride(row) + (heads - 1) * stride(head) +
              s.d) *
             half;
    };
    Effect effect;
    describe(effect, s);
    const double q = static_cast<double>(s.b * s.h * s.s_q * s.d * half);
    const double kv = static_cast<double>(s.b * s.h_kv * s.s_kv * s.d * half);
    if (!backward) {
      writes(effect, a.pointer(0, 112), extent(128, 136, 144, s.s_q, s.h));
      writes(effect, a.pointer(0, 160), s.b * s.h * s.s_q * single);
      // Split over keys: partial outputs and sums, a block of the grid's y per split.
      const std::size_t splits = combine ? 1 : std::max<std::size_t>(a.shape.grid.y, 1);
      writes(effect, a.pointer(0, 120), splits * s.b * s.h * s.s_q * rounded_d * single);
      writes(effect, a.pointer(0, 168), splits * s.b * s.h * s.s_q * single);
      effect.bytes = 2 * q + 2 * kv;
    } else if (loop) {
      writes(effect, a.pointer(0, 488), extent(560, 584, 608, s.s_kv, s.h));
      writes(effect, a.pointer(0, 496), extent(568, 592, 616, s.s_kv, s.h));
      writes(effect, a.pointer(0, 504), s.b * s.h * rounded_q * rounded_d * single);
      effect.bytes = 4 * q + 4 * kv;
    } else if (convert) {
      writes(effect, a.pointer(0, 480), extent(552, 576, 600, s.s_q, s.h));
      effect.bytes = 3 * q;
    } else {
      writes(effect, a.pointer(0, 624), s.b * s.h * rounded_q * single);
      writes(effect, a.pointer(0, 504), s.b * s.h * rounded_q * rounded_d * single);
      effect.bytes = 2 * q;
    }
    return effect;
  });
}

/// Numbers that a kernel reads from memory; empty where not all are known.
std::vector<std::int32_t> numbers_at(const std::byte* address, std::size_t count) {
  constexpr std::size_t most = 1 << 16;
  if (!allocation_of(address) || count == 0 || count > most) return {};
  std::vector<std::int32_t> numbers(count);
  const std::size_t bytes = count * sizeof numbers[0];
  if (!may_know(address, bytes) || !known(address, bytes)) return {};
  read(numbers.data(), address, bytes);
  return numbers;
}

/// Elements up to the `last` are written; false where no allocation has them all.
bool writes_up_to(Effect& effect, std::byte* address, std::size_t last, std::size_t element) {
  const auto allocation = allocation_of(address);
  if (!allocation) return false;
  const std::size_t bytes = (last + 1) * element;
  writes(effect, address, bytes);
  return bytes <= allocation->size - static_cast<std::size_t>(address - allocation->base);
}

/// FlashAttention 3. Where things lie hangs on its template's arguments: tensors are found by their
/// shapes, which are there more than once.
std::optional<Effect> hopper_flash(const Arguments& a) {
  const std::size_t size = a.bytes(0).size();
  const auto number = [&](std::size_t at) {
    return at + sizeof(std::uint32_t) <= size ? std::size_t{a.get<std::uint32_t>(0, at)} : 0;
  };
  const auto stride = [&](std::size_t at) {
    return at + sizeof(std::size_t) <= size ? a.get<std::size_t>(0, at) : 0;
  };
  const auto device_pointer = [&](std::size_t at) -> std::byte* {
    if (at + sizeof(void*) > size) return nullptr;
    std::byte* const address = a.pointer(0, at);
    return allocation_of(address) ? address : nullptr;
  };
  // Queries: address, (rows, depth, heads, batches), strides. Rows of all sequences count together
  // where these differ in length. The same follows with the heads that share keys taken apart.
  const std::size_t rows = number(8), batches = number(20);
  Shape s{batches, number(16), 0, rows, 0, number(12), 0};
  std::size_t keys = 0;
  for (const std::size_t at : {88U, 96U, 104U}) {
    if (keys == 0 && device_pointer(at) != nullptr && number(at + 12) == s.d) keys = at;
  }
  if (keys == 0 || s.d == 0 || s.h == 0) return std::nullopt;
  s.s_kv = number(keys + 8);  // of a page, where keys lie in pages
  s.h_kv = number(keys + 16);
  s.d_v = number(keys + 56);
  // New keys that are appended to the others are not read.
  if (device_pointer(keys + 88) != nullptr || s.h_kv == 0) return std::nullopt;
  std::size_t out = keys + 200;
  while (out < size &&
         !(device_pointer(out) != nullptr && number(out + 8) == rows && number(out + 12) == s.d_v &&
           number(out + 16) == s.h && number(out + 20) == batches && number(out + 24) > 0))
    out += sizeof(void*);
  if (out >= size) return std::nullopt;
  // Heads that share keys are packed: how many is a number before the rows, or part of the type.
  const bool packed =
      number(out + 64) != rows || number(out + 68) != s.d_v || number(out + 72) != s.h;
  const std::size_t splits = number(out + 24);
  const std::size_t sums = out + (packed ? 208 : 192), split_sums = out + (packed ? 296 : 264),
                    lengths = out + (packed ? 384 : 344);

  Effect effect;
  const auto writes_at = [&](std::size_t at, std::size_t last, std::size_t element) {
    std::byte* const address = device_pointer(at);
    return address == nullptr ? at != out : writes_up_to(effect, address, last, element);
  };
  /// The last element of what has rows, heads, batches and, behind them, splits.
  const auto last = [&](std::size_t at, bool has_rows, std::size_t depth, std::size_t parts) {
    const std::size_t more = at + (has_rows ? sizeof(std::size_t) : 0);
    return (rows - 1) * (has_rows ? stride(at) : 1) + (s.h - 1) * stride(more) +
           (batches - 1) * stride(more + 8) + (parts - 1) * stride(more + 16) + depth - 1;
  };
  const std::size_t split_rows = out + (packed ? 128 : 120);
  if (!writes_at(out, last(out + 32, true, s.d_v, 1), half) ||
      !writes_at(split_rows, last(split_rows + 8, true, s.d_v, splits), single) ||
      !writes_at(sums, last(sums + 8, false, 1, 1), single) ||
      !writes_at(split_sums, last(split_sums + 8, false, 1, splits), single))
    return std::nullopt;

  // The main loop too has where sequences begin; the number of keys of each comes 32 bytes behind.
  // Of the scheduler's pointers the first that is new is the counter that it takes tiles from, a
  // few words behind the numbers of heads and sequences. What lies between members is not set.
  std::vector<std::byte*> seen;
  for (std::size_t at = 0; at < lengths + 2 * sizeof(void*); at += sizeof(void*))
    seen.push_back(device_pointer(at));
  std::size_t counter = lengths + 2 * sizeof(void*);
  const auto is_counter = [&](std::size_t at) {
    std::byte* const address = device_pointer(at);
    return address != nullptr && std::ranges::find(seen, address) == seen.end() &&
           number(at - 40) == (packed ? s.h_kv : s.h) && number(at - 36) > 0;
  };
  while (counter < size && !is_counter(counter)) counter += sizeof(void*);
  if (counter < size) writes(effect, device_pointer(counter), single);
  if (std::byte* const starts = device_pointer(lengths); starts != nullptr && counter < size) {
    s.b = number(counter - 36);
    const auto pages = number(keys + (packed ? 312 : 296));
    const std::size_t of_a_page = s.s_kv;
    // Unless it is known, all sequences have as many keys as the longest, but for part of a page.
    if (pages == s.b) s.s_kv = of_a_page * (number(keys + (packed ? 316 : 300)) + 1);
    s.s_q = std::max<std::size_t>(1, rows / std::max<std::size_t>(1, s.b));
    std::size_t own = out;
    while (own > keys && a.pointer(0, own) != starts) own -= sizeof(void*);
    const auto first_rows = numbers_at(starts, s.b + 1);
    const auto used = numbers_at(device_pointer(own + 32), s.b);
    double of_keys = 0, products = 0;
    for (std::size_t n = 0; n < s.b && own > keys && !first_rows.empty() && !used.empty(); ++n) {
      of_keys += used[n];
      products += static_cast<double>(first_rows[n + 1] - first_rows[n]) * used[n];
    }
    // As many sequences alike, with as many keys and products of queries and keys.
    if (of_keys > 0 && products > 0) {
      s.s_kv = static_cast<std::size_t>(of_keys / static_cast<double>(s.b) + 0.5);
      s.s_q = static_cast<std::size_t>(products / of_keys + 0.5);
    }
  }
  if (s.b == 0 || s.s_q == 0 || s.s_kv == 0) return std::nullopt;
  describe(effect, s);
  effect.features.emplace_back("splits", static_cast<double>(splits));
  effect.bytes = static_cast<double>(
      half * s.b * (s.h * s.s_q * (s.d + s.d_v) + s.h_kv * s.s_kv * (s.d + s.d_v)));
  return effect;
}

/// FlashAttention 3's sum over the splits of the keys. What each split has is described twice, for
/// the rows and for the sums of their exponentials. The places are those of a launch of vLLM
/// 0.33's.
std::optional<Effect> hopper_combine(const Arguments& a) {
  if (a.bytes(0).size() < 240) return std::nullopt;
  const auto number = [&](std::size_t at) { return std::size_t{a.get<std::uint32_t>(0, at)}; };
  const auto stride = [&](std::size_t at) { return a.get<std::size_t>(0, at); };
  const std::size_t rows = number(16), depth = number(20), splits = number(24), heads = number(28),
                    batches = number(32);
  if (rows == 0 || depth == 0 || splits == 0 || heads == 0 || batches == 0) return std::nullopt;
  if (number(80) != rows || number(84) != splits || number(88) != heads || number(92) != batches)
    return std::nullopt;
  Effect effect;
  const auto writes_at = [&](std::size_t at, std::size_t last, std::size_t element) {
    std::byte* const address = a.pointer(0, at);
    return address == nullptr || writes_up_to(effect, address, last, element);
  };
  const std::size_t last_row = (rows - 1) * stride(128) + (heads - 1) * stride(136) +
                               (batches - 1) * stride(144) + depth - 1;
  const std::size_t last_sum = rows - 1 + (heads - 1) * stride(160) + (batches - 1) * stride(168);
  if (a.pointer(0, 120) == nullptr || !writes_at(120, last_row, half) ||
      !writes_at(152, last_sum, single))
    return std::nullopt;
  // The counter of the attention's own blocks, which it resets.
  if (!writes_at(232, 0, single)) return std::nullopt;
  const auto used = numbers_at(a.pointer(0, 216), 1);
  const double parts = used.empty() ? static_cast<double>(splits) : std::max(1, used[0]);
  effect.bytes =
      static_cast<double>(rows * heads * batches) *
      (parts * static_cast<double>((depth + 1) * single) + static_cast<double>(depth * half));
  return effect;
}

/// Size of the elements of "AttentionKernel<cutlass::bfloat16_t, ...>::Params".
std::size_t element_bytes(std::string_view parameter) {
  return parameter.find("bfloat16_t") != std::string_view::npos ||
                 parameter.find("half_t") != std::string_view::npos
             ? half
             : single;
}

/// CUTLASS's kernels are told by a parameter whether the mask is causal, and have a bias if it is
/// not null; FlashAttention's are templates of the former.
void describe_mask(Effect& effect, std::uint8_t mask, const std::byte* bias) {
  if (mask != 0) effect.features.emplace_back("causal", 1.0);
  if (bias != nullptr) effect.features.emplace_back("bias", 1.0);
}

std::unique_ptr<Meaning> cutlass_forward(std::size_t element) {
  return meaning([=](const Arguments& a) -> std::optional<Effect> {
    if (a.bytes(0).size() < 200) return std::nullopt;
    const auto number = [&](std::size_t at) { return std::size_t{a.get<std::uint32_t>(0, at)}; };
    // PyTorch 2.15 counts the batch in 64 bits (272 bytes before).
    constexpr std::size_t newer = 280;
    const std::size_t heads = number(a.bytes(0).size() >= newer ? 204 : 196);
    const Shape s{number(192), heads, heads, number(104), number(108), number(96), number(100)};
    Effect effect;
    describe(effect, s);
    describe_mask(effect, a.get<std::uint8_t>(0, 116), a.pointer(0, 24));
    const std::size_t rows = s.b * s.s_q;
    writes(effect, a.pointer(0, 64), rows * number(136) * element);
    writes(effect, a.pointer(0, 72), rows * s.h * s.d_v * single);
    // Rows of sums are padded to 32 queries.
    writes(effect, a.pointer(0, 80), s.b * s.h * ((s.s_q + 31) / 32 * 32) * single);
    effect.bytes =
        static_cast<double>(s.b * s.h * element * (s.s_q * (s.d + s.d_v) + s.s_kv * (s.d + s.d_v)));
    return effect;
  });
}

std::unique_ptr<Meaning> cutlass_backward(std::size_t element) {
  return meaning([=](const Arguments& a) -> std::optional<Effect> {
    if (a.bytes(0).size() < 464) return std::nullopt;
    const auto number = [&](std::size_t at) { return std::size_t{a.get<std::uint32_t>(0, at)}; };
    // PyTorch 2.15 has 8 bytes more before the batch and the strides (464 in all before).
    constexpr std::size_t newer = 480;
    const std::size_t more = a.bytes(0).size() >= newer ? 8 : 0;
    const auto stride = [&](std::size_t at) { return a.get<std::size_t>(0, at + more); };
    const Shape s{number(376 + more), number(160), number(160), number(152),
                  number(156),        number(144), number(148)};
    Effect effect;
    describe(effect, s);
    describe_mask(effect, a.get<std::uint8_t>(0, 164), a.pointer(0, 24));
    writes(effect, a.pointer(0, 56), s.b * s.h * s.s_q * single);
    writes(effect, a.pointer(0, 80), s.b * stride(392) * element);
    writes(effect, a.pointer(0, 88), s.b * stride(400) * element);
    writes(effect, a.pointer(0, 96), s.b * stride(408) * element);
    writes(effect, a.pointer(0, 112), s.b * s.h * (s.s_q * s.d + s.s_kv * (s.d + s.d_v)) * single);
    effect.bytes = static_cast<double>(
        s.b * s.h * element * (s.s_q * (2 * s.d + 2 * s.d_v) + s.s_kv * 2 * (s.d + s.d_v)));
    return effect;
  });
}

}  // namespace

std::unique_ptr<Meaning> read_attention(const Signature& signature, const KernelResources&) {
  const std::string_view name = unqualified(signature.kernel.name);
  if (signature.parameters.empty()) return nullptr;
  if (name.starts_with("flash_fwd") || name.starts_with("flash_bwd")) return flash(name);
  if (name == "device_kernel" &&
      signature.kernel.arguments.front().find("flash::FlashAttnFwdSm90<") != std::string_view::npos)
    return meaning(hopper_flash);
  if (name == "device_kernel" && signature.kernel.arguments.front().find(
                                     "flash::FlashAttnFwdCombine<") != std::string_view::npos)
    return meaning(hopper_combine);
  if (name.starts_with("fmha_cutlassF")) {
    return cutlass_forward(element_bytes(signature.parameters[0]));
  }
  if (name.starts_with("fmha_cutlassB")) {
    return cutlass_backward(element_bytes(signature.parameters[0]));
  }
  return nullptr;
}

}  // namespace phantora::rank
