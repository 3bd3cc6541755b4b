#include "rank/kernels/kernel_effect.hpp"
#include "rank/kernels/tensor_info.hpp"

/// The fused attention kernels in PyTorch: FlashAttention's and CUTLASS's. Not executed; their
/// shapes are in structs that they take by value (flash.h;
/// mem_eff_attention/kernel_{forward,backward}.h). The offsets were checked by printing the
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

/// Size of the elements of "AttentionKernel<cutlass::bfloat16_t, ...>::Params".
std::size_t element_bytes(std::string_view parameter) {
  return parameter.find("bfloat16_t") != std::string_view::npos ||
                 parameter.find("half_t") != std::string_view::npos
             ? half
             : single;
}

std::unique_ptr<Meaning> cutlass_forward(std::size_t element) {
  return meaning([=](const Arguments& a) -> std::optional<Effect> {
    if (a.bytes(0).size() < 200) return std::nullopt;
    const auto number = [&](std::size_t at) { return std::size_t{a.get<std::uint32_t>(0, at)}; };
    const Shape s{number(192), number(196), number(196), number(104),
                  number(108), number(96),  number(100)};
    Effect effect;
    describe(effect, s);
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
    const auto stride = [&](std::size_t at) { return a.get<std::size_t>(0, at); };
    const Shape s{number(376), number(160), number(160), number(152),
                  number(156), number(144), number(148)};
    Effect effect;
    describe(effect, s);
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
  if (name.starts_with("fmha_cutlassF")) {
    return cutlass_forward(element_bytes(signature.parameters[0]));
  }
  if (name.starts_with("fmha_cutlassB")) {
    return cutlass_backward(element_bytes(signature.parameters[0]));
  }
  return nullptr;
}

}  // namespace phantora::rank
