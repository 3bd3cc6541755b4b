#include "kernels/work/families.hpp"
#include "kernels/work/reading.hpp"

#include <algorithm>
#include <cmath>

namespace phantora::detail {

namespace {

/// Shape of an attention, however the query tells it.
struct Attention {
  double batch = 1, heads = 1, key_heads = 1;
  double queries = 1, keys = 1, depth = 64, value_depth = 64;
  double causal = 0;  ///< 1 = yes, 0 = no, 0.5 = not told
};

Attention attention_shape(const KernelQuery& query) {
  Attention shape;
  shape.batch = feature(query, "b", 1.0);
  shape.heads = feature(query, "h", 1.0);
  shape.key_heads = feature(query, "h_kv", shape.heads);
  shape.queries = feature(query, "s_q", 1.0);
  shape.keys = feature(query, "s_kv", shape.queries);
  shape.depth = feature(query, "d", 64.0);
  shape.value_depth = feature(query, "d_v", shape.depth);
  const auto causal = attribute(query, "causal", "?");
  shape.causal = causal == "1" ? 1.0 : causal == "0" ? 0.0 : 0.5;
  return shape;
}

/// What a small kernel within a library call takes, and the gap before it, in round trips.
constexpr double small_kernel_round_trips = 5.0;

/// Steps of `tiles` of which the first makes `each`, every further one as many more, up to all,
/// `whole`.
double causal_steps(double tiles, double each, double whole) {
  const double growing = std::min(tiles, std::floor(whole / each));
  return each * growing * (growing + 1.0) / 2.0 + (tiles - growing) * whole;
}

/// What both ends of a tile of queries take, in steps.
constexpr double forward_ends = 1.3;

/// Cuts attention into tiles. Forward, a tile is 128 queries and goes from one 128 keys to the
/// next; backward, a tile is 128 keys and goes from one 64 queries to the next: cuDNN's and
/// FlashAttention's kernels for Hopper. Each step has products as deep as `depth` and takes
/// exponentials that no tensor core does, of which more or less is hidden; a tile takes longer than
/// its steps at both ends. These figures leave the least deviations of the 876 kernels without
/// masks and dropout in the H200's sweeps: medians of 1.9 % (forward, depth 64), 4.2 % (128), 2.8
/// and 3.4 % (backward).
///
/// A library has other kernels for each GPU, which are taken to hide as much there. Kernels made of
/// mma.sync are the same code on all of them: their products go with that instruction's rate, their
/// exponentials with SMs and clock, for which the same figures count in cycles of an H200's SMs.
void cut_attention(KernelWork& work, const Attention& shape, double depth, bool backward) {
  constexpr double rows = 128.0;
  const double step = backward ? 64.0 : 128.0;
  const double ends = backward ? 2.6 : forward_ends;   // in steps
  const double exponentials = backward ? 54.0 : 80.0;  // as so much more depth
  const double depth_flops = (backward ? 10.0 : 4.0) * rows * step;
  if (work.instruction == TensorInstruction::mma_sync) {
    constexpr double flops_of_cycle = 989.4e12 / (132.0 * 1.98e9);
    work.step_flops = depth_flops * depth;
    work.step_cycles = depth_flops * exponentials / flops_of_cycle;
  } else {
    work.step_flops = depth_flops * (depth + exponentials);
  }
  const double tiled = backward ? shape.keys : shape.queries;
  const double walked = backward ? shape.queries : shape.keys;
  const double tiles = std::ceil(tiled / rows);
  const double whole = std::ceil(walked / step);
  // Backward, a tile of keys meets the queries after it: as many as the mirrored tile has before
  // it.
  const double masked = causal_steps(tiles, rows / step, whole);
  const double sequences = shape.batch * shape.heads;
  const double steps = shape.causal * masked + (1.0 - shape.causal) * tiles * whole;
  work.tiles = sequences * tiles;
  work.longest = whole + ends;
  work.steps = sequences * (steps + tiles * ends);
}

/// `products`: matrix products of s_q x s_kv x d, 2 in the forward direction and 5 backward.
KernelWork attention(std::string_view type, const Attention& shape, double products) {
  KernelWork work;
  work.limit = KernelLimit::arithmetic;
  work.arithmetic = arithmetic_of(type, "fp32");
  // The causal mask removes half of a square, and only the corner above the last keys otherwise.
  const double masked =
      shape.causal * 0.5 * std::min(1.0, shape.queries / std::max(1.0, shape.keys));
  work.flops = products * 2.0 * shape.batch * shape.heads * shape.queries * shape.keys * 0.5 *
               (shape.depth + shape.value_depth) * (1.0 - masked);
  const bool backward = products > 2.0;
  const double depths = shape.depth + shape.value_depth;
  // Operands and results; backward, the queries' gradient is added up in fp32.
  work.bytes = shape.batch * type_bytes(type) *
               (backward ? shape.heads * (shape.queries * 2.0 * depths + shape.keys * 2.0 * depths)
                         : (shape.heads * shape.queries + shape.key_heads * shape.keys) * depths);
  work.coordinates = {log_coordinate(shape.batch * shape.heads, 2.0),
                      log_coordinate(shape.queries, 1.5),
                      log_coordinate(shape.keys, 1.5),
                      log_coordinate(shape.depth, 0.7),
                      static_cast<float>(shape.causal),
                      log_coordinate(shape.heads / std::max(1.0, shape.key_heads), 4.0),
                      0.0F,
                      0.0F};
  return work;
}

}  // namespace

/// cuDNN's, and what PyTorch chooses where nobody told the GPU: a memset clears the counter that
/// tiles are taken from. Backward, one kernel before the products multiplies the output with its
/// gradient, and clears the queries' gradient, another converts that from fp32; where heads share
/// keys, two more add what each head makes of the keys' and the values' gradients.
KernelWork library_attention(const KernelQuery& query) {
  const auto type = attribute(query, "type", "bf16");
  Attention shape = attention_shape(query);
  const bool backward = query.name.ends_with("sdpa_bwd");
  const float sharing = log_coordinate(shape.heads / std::max(1.0, shape.key_heads), 4.0);
  // One query has kernels of its own, to which all heads that share keys are rows of one tile, and
  // which go through parts of the keys at once (data/measure_decoding.py).
  const bool decodes = !backward && shape.queries == 1.0;
  if (decodes) shape.heads = shape.key_heads;
  KernelWork work = attention(type, shape, backward ? 5.0 : 2.0);
  work.coordinates[5] = sharing;
  cut_attention(work, shape, std::ceil(std::max(shape.depth, shape.value_depth) / 64.0) * 64.0,
                backward);
  work.round_trips = small_kernel_round_trips;
  if (backward) {
    const double size = type_bytes(type);
    const double queries = shape.batch * shape.heads * shape.queries * shape.depth;
    work.converted_bytes = queries * (3.0 * size + 8.0);
    work.round_trips *= 3.0;
    if (shape.key_heads < shape.heads) {
      const double keys = shape.batch * shape.keys * (shape.depth + shape.value_depth);
      work.converted_bytes += keys * size * (shape.heads + shape.key_heads);
      work.round_trips += 2.0 * small_kernel_round_trips;
    }
  }
  work.group = backward ? "sdpa_bwd" : "sdpa_fwd";
  work.group += label(work.arithmetic);
  // A mask's numbers are read, and dropout's drawn, for every score: other kernels, two and more
  // times as slow.
  constexpr float apart = 2.0F;
  work.coordinates[6] = attribute(query, "mask", "0") == "1" ? apart : 0.0F;
  work.coordinates[7] = attribute(query, "dropout", "0") == "1" ? apart : 0.0F;
  if (decodes) {
    work.coordinates[1] = -apart;
    work.tiles = work.steps;
    work.longest = 1.0 + forward_ends;
  }
  return work;
}

/// FlashAttention's and CUTLASS's fused kernels: shape from the features, else from grid and name.
KernelWork fused_attention(const KernelQuery& query, const KernelSignature& signature) {
  const bool cutlass = signature.base.starts_with("fmha");
  Attention shape = attention_shape(query);
  KernelSignature traits;
  if (cutlass) {
    // AttentionKernel<type, arch, aligned, rows, keys, depth, ...> is the only parameter.
    const std::string_view name = query.name;
    const auto open = name.find('(');
    const auto close = name.rfind("::Params");
    if (open != std::string_view::npos && close != std::string_view::npos && open < close) {
      traits = parse_signature(name.substr(open + 1, close - open - 1));
    }
  } else {
    traits = parse_signature(first_argument(signature));
  }
  const auto trait = [&](std::size_t i) {
    return i < traits.arguments.size() ? leading_integer(traits.arguments[i]) : 0.0;
  };
  // flash: <depth, rows, keys, ...>; fmha forward: <type, arch, aligned, rows, keys, depth>.
  if (!cutlass && trait(0) > 0.0) shape.depth = feature(query, "d", trait(0));
  const bool told = query.features.contains("s_q");
  if (query.grid && !told) {
    const bool backward = signature.base.find("bwd") != std::string_view::npos;
    const double rows =
        cutlass ? std::max(trait(3), 64.0) : std::max(trait(backward ? 2 : 1), 64.0);
    shape.queries = shape.keys = query.grid->x * rows;
    shape.batch = cutlass ? query.grid->z : query.grid->y;
    shape.heads = shape.key_heads = cutlass ? query.grid->y : query.grid->z;
  }
  // flash_fwd_kernel<traits, dropout, causal, ...>; so is the backward loop.
  if (!cutlass && signature.arguments.size() > 2) {
    shape.causal = signature.arguments[2] == "true" ? 1.0 : 0.0;
  }
  const bool has_bias = feature(query, "bias", 0.0) > 0.0;
  if (cutlass && told) shape.causal = feature(query, "causal", 0.0) > 0.0 ? 1.0 : 0.0;
  const bool backward = signature.base.find("bwd") != std::string_view::npos ||
                        signature.base.starts_with("fmha_cutlassB");
  // fmha_cutlassF_f32_...; FlashAttention has 16 bits alone. A launch tells its type by no
  // attribute.
  const bool wide = signature.base.find("_f32_") != std::string_view::npos;
  KernelWork work = attention(wide ? "fp32" : "bf16", shape, backward ? 5.0 : 2.0);
  if (!wide) work.instruction = TensorInstruction::mma_sync;
  cut_attention(work, shape, std::ceil(std::max(shape.depth, shape.value_depth) / 32.0) * 32.0,
                backward);
  const bool conversion = signature.base.find("dot_do_o") != std::string_view::npos ||
                          signature.base.find("convert") != std::string_view::npos ||
                          signature.base.find("combine") != std::string_view::npos;
  if (conversion) {
    // These read the output and its gradient, or write the query's gradient, and multiply nothing.
    work.flops = work.tiles = 0.0;
    work.bytes = shape.batch * shape.heads * shape.queries * shape.depth * 6.0;
    work.coordinates = {log_coordinate(work.bytes, 1.5), log_coordinate(shape.depth, 0.7)};
  }
  work.group = signature.base;
  work.family = signature.identity;
  if (cutlass) {
    // fmha_cutlassF_bf16_aligned_64x64_rf_sm80: few were measured of each tile, but tiles are
    // alike, and so are the types of 16 bits.
    const auto kind = signature.base.find('_', std::string_view{"fmha_"}.size());
    const auto tile = signature.base.find('_', kind + 1);
    work.group = signature.base.substr(0, kind);
    work.group += label(work.arithmetic);
    if (tile != std::string_view::npos) work.family = signature.base.substr(tile);
    // A tensor that is added to the scores is read in tiles beside theirs.
    constexpr float apart = 2.0F;
    work.coordinates[6] = has_bias ? apart : 0.0F;
    if (has_bias)
      work.bytes += shape.batch * shape.heads * shape.queries * shape.keys * (wide ? 4.0 : 2.0);
  }
  return work;
}

/// Into how many parts FlashAttention 3 splits the keys of each tile: what its launch allows, while
/// the GPU has SMs left for them. A grid of one block per SM takes tiles from a list.
double splits_of(double tiles, const KernelQuery& query) {
  const double blocks = query.grid ? query.grid->count() : tiles;
  return std::clamp(std::floor(blocks / std::max(1.0, tiles)), 1.0,
                    std::max(1.0, feature(query, "splits", 1.0)));
}

/// FlashAttention 3 over keys that lie in pages of a cache, which its threads copy, each from where
/// a table says. A tile of `rows` queries, or of as many of heads that share keys, sees the keys
/// before it and goes on by 128 of them. Products hide more of the exponentials than cuDNN's do;
/// the ends of a tile, where it waits for the table, are long. These figures leave the least
/// deviations of 51 of the 96 launches in bench/accuracy/h200_paged_attention.jsonl (those of half,
/// by their digests; README.md there says how far the others are).
void cut_pages(KernelWork& work, const Attention& shape, double depth, double rows, double sharing,
               const KernelQuery& query) {
  constexpr double step = 128.0, exponentials = 47.0;
  // As so much more depth of one step: as long for any depth.
  const double ends = (rows > 64.0 ? 500.0 : 300.0) / (depth + exponentials);
  const double queries = std::max(1.0, std::floor(rows / sharing));
  const double tiles =
      shape.batch * std::ceil(shape.heads / sharing) * std::ceil(shape.queries / queries);
  const double splits = splits_of(tiles, query);
  // The first tile's last query has as many keys less than the last as there are between them.
  const double between = shape.causal * std::max(0.0, shape.queries - queries);
  const double least = std::ceil(std::max(1.0, shape.keys - between) / step);
  const double most = std::ceil(shape.keys / step);
  work.round_trips = 4.0;  // until the first tile is taken from the list, and at the end
  work.step_flops = 4.0 * 128.0 * step * (depth + exponentials);  // 64 rows take as long as 128
  work.tiles = tiles * splits;
  work.longest = std::max(1.0, most / splits) + ends;
  work.steps = tiles * (0.5 * (least + most) + splits * ends);
}

/// FlashAttention 3, whose kernels cut into tiles as cuDNN's do, and are taken to be as fast where
/// keys lie in one piece: cuDNN's were measured. Splits of the keys are tiles of their own where
/// the GPU has SMs left for them.
KernelWork hopper_attention(const KernelQuery& query) {
  constexpr std::string_view main_loop = "CollectiveMainloopFwdSm90<";
  Attention shape = attention_shape(query);
  const std::string_view name = query.name;
  const std::size_t begin = std::min(name.find(main_loop), name.size());
  std::size_t end = begin;
  for (int depth = 0; end < name.size(); ++end) {
    if (name[end] == '<') ++depth;
    if (name[end] == '>' && --depth == 0) break;
  }
  const KernelSignature traits = parse_signature(name.substr(begin, end + 1 - begin));
  // <stages, cluster, tile, depth of values, element, sum, architecture, causal, local, cap,
  // lengths, pages, appends, value queries, registers, overlaps, packs heads, splits, ...>
  constexpr std::size_t tile = 2, element = 4, causal = 7, pages = 11, packs_heads = 16;
  const auto trait = [&](std::size_t i) {
    return i < traits.arguments.size() ? traits.arguments[i] : std::string_view{};
  };
  shape.causal = trait(causal) == "true" ? 1.0 : 0.0;
  const bool eight = trait(element).find("float_e") != std::string_view::npos;
  KernelWork work = attention(eight ? "fp8" : "bf16", shape, 2.0);
  const double depth = std::ceil(std::max(shape.depth, shape.value_depth) / 64.0) * 64.0;
  const double sharing = shape.heads / std::max(1.0, shape.key_heads);
  const bool packs = trait(packs_heads) == "true";
  if (trait(pages) == "true") {
    // "cute::tuple<cute::C<128>, cute::C<176>, cute::C<64> >"
    const double rows = trait(tile).find("C<64>") < trait(tile).find(',') ? 64.0 : 128.0;
    cut_pages(work, shape, depth, rows, packs ? sharing : 1.0, query);
  } else {
    // Queries of heads that share keys lie in one tile, which matters where they fill no tile
    // alone.
    constexpr double rows = 128.0;
    Attention tiled = shape;
    if (packs && shape.queries * sharing <= rows) {
      tiled.heads = shape.key_heads;
      tiled.queries *= sharing;
    }
    cut_attention(work, tiled, depth, false);
    const double splits = splits_of(work.tiles, query);
    work.tiles *= splits;
    work.longest = std::max(1.0, work.longest / splits);
  }
  work.group = "sdpa_fwd";
  work.group += label(work.arithmetic);
  return work;
}

}  // namespace phantora::detail
