#include "rank/kernels/families/tensor_info.hpp"
#include "rank/kernels/kernel_effect.hpp"

#include <algorithm>
#include <initializer_list>

/// PyTorch's topk of long slices, which several blocks share, and its sort of many segments
/// (ATen/native/cuda/TensorTopK.cu, namespace mbtopk; Sort.cu). Their inputs are too large to be
/// computed: what is said here is exactly what becomes unknown, and nothing beside it.
namespace phantora::rank {

namespace {

struct Written {
  std::size_t parameter = 0, bytes = 0;
};

/// @param read  bytes that are read as well
std::optional<Effect> writes(const Arguments& arguments, double read,
                             std::initializer_list<Written> written) {
  Effect effect;
  effect.bytes = read;
  for (const auto& [parameter, bytes] : written) {
    if (arguments.bytes(parameter).size() != sizeof(void*)) return std::nullopt;
    effect.operands.push_back({arguments.pointer(parameter), bytes, false, true});
    effect.bytes += static_cast<double>(bytes);
  }
  return effect;
}

constexpr std::size_t digits = 256;  // a pass looks at 8 bits
constexpr std::size_t count_bytes = sizeof(std::int16_t), number_bytes = sizeof(std::uint32_t);

/// computeBlockDigitCounts<T, index, bits, dims>(in, slice size, ks to find, slices, stride, bit,
/// items per thread, blocks per slice, mask, desires, counts)
std::unique_ptr<Meaning> digit_counts(std::size_t element) {
  return meaning([element](const Arguments& a) {
    const std::size_t blocks = std::size_t{a.get<std::uint32_t>(3)} * a.get<std::uint32_t>(7);
    const auto in = static_cast<double>(a.get<std::uint32_t>(1)) * a.get<std::uint32_t>(3);
    return writes(a, in * static_cast<double>(element), {{10, blocks * digits * count_bytes}});
  });
}

/// computeDigitCumSum(counts, sums, blocks per slice): a block for each slice.
std::unique_ptr<Meaning> digit_sums() {
  return meaning([](const Arguments& a) {
    const std::size_t slices = a.shape.grid.x;
    const std::size_t counts = slices * a.get<std::uint32_t>(2) * digits * count_bytes;
    return writes(a, static_cast<double>(counts), {{1, slices * digits * number_bytes}});
  });
}

/// computeBlockwiseWithinKCounts<bits, T>(desires in, counts, sums, ks in, blocks per slice, bit,
/// largest, within k, kth values, ks out, desires out, blocks)
std::unique_ptr<Meaning> within_k_counts(std::size_t bits, std::size_t element) {
  return meaning([bits, element](const Arguments& a) -> std::optional<Effect> {
    const std::size_t blocks = a.get<std::uint32_t>(11), per_slice = a.get<std::uint32_t>(4);
    if (per_slice == 0) return std::nullopt;
    const std::size_t slices = blocks / per_slice;
    return writes(a, static_cast<double>(blocks * digits * count_bytes),
                  {{7, blocks * number_bytes},
                   {8, slices * element},
                   {9, slices * number_bytes},
                   {10, slices * bits}});
  });
}

/// computeBlockwiseKthCounts<bits>(desires, counts, blocks, blocks per slice, kth counts)
std::unique_ptr<Meaning> kth_counts() {
  return meaning([](const Arguments& a) {
    const std::size_t blocks = a.get<std::uint32_t>(2);
    return writes(a, static_cast<double>(blocks * count_bytes), {{4, blocks * number_bytes}});
  });
}

/// gatherTopK<T, index, dims>(in, slice size, k, largest, slices, stride, values, value stride,
/// indices, index stride, ...)
std::unique_ptr<Meaning> gather(std::size_t element) {
  return meaning([element](const Arguments& a) -> std::optional<Effect> {
    const auto values = TensorInfo::read(a, 6), indices = TensorInfo::read(a, 8);
    const std::size_t k = a.get<std::uint32_t>(2);
    if (!values.valid || !indices.valid || k == 0) return std::nullopt;
    const std::size_t value_bytes = (values.span() + (k - 1) * a.get<std::uint32_t>(7)) * element;
    const std::size_t index_bytes = (indices.span() + (k - 1) * a.get<std::uint32_t>(9)) * 8;
    Effect effect;
    effect.operands = {{values.data, value_bytes, false, true},
                       {indices.data, index_bytes, false, true}};
    effect.bytes = static_cast<double>(a.get<std::uint32_t>(1)) * a.get<std::uint32_t>(4) *
                       static_cast<double>(element) +
                   static_cast<double>(value_bytes + index_bytes);
    return effect;
  });
}

/// fill<T, size>(out, value, count)
std::unique_ptr<Meaning> fill(std::size_t element) {
  return meaning([element](const Arguments& a) -> std::optional<Effect> {
    const auto value = a.bytes(1);
    ElementBytes repeated{.size = element};
    if (value.size() != element || element > repeated.bytes.size()) return std::nullopt;
    std::copy(value.begin(), value.end(), repeated.bytes.begin());
    auto effect = writes(a, 0, {{0, element * a.get<std::uint32_t>(2)}});
    if (effect) effect->repeated = repeated;
    return effect;
  });
}

/// sort_postprocess_kernel<T>(in, out, indices, pairs, segments, segment's size)
std::unique_ptr<Meaning> sorted_segments(std::size_t element) {
  return meaning([element](const Arguments& a) {
    const std::size_t count = std::size_t{a.get<std::uint32_t>(4)} * a.get<std::uint32_t>(5);
    return writes(a, static_cast<double>(count * (element + 8)),
                  {{1, count * element}, {2, count * 8}});
  });
}

/// fill_index_and_segment_kernel(pairs, count, divider)
std::unique_ptr<Meaning> segment_pairs() {
  return meaning([](const Arguments& a) {
    return writes(a, 0, {{0, std::size_t{a.get<std::uint32_t>(1)} * 8}});
  });
}

}  // namespace

std::unique_ptr<Meaning> read_block_top_k(const Signature& signature, const KernelResources&) {
  const TemplateName& kernel = signature.kernel;
  const std::string_view name = unqualified(kernel.name);
  if (name == "fill_index_and_segment_kernel") return segment_pairs();
  const auto bytes = [&](std::size_t argument) {
    return argument < kernel.arguments.size() ? moved_bytes(kernel.arguments[argument]) : 0;
  };
  if (name == "sort_postprocess_kernel" && bytes(0) != 0) return sorted_segments(bytes(0));
  if (kernel.name.find("mbtopk::") == std::string_view::npos) return nullptr;
  if (name == "computeDigitCumSum") return digit_sums();
  if (name == "computeBlockwiseKthCounts") return kth_counts();
  if (bytes(0) == 0) return nullptr;
  if (name == "computeBlockDigitCounts") return digit_counts(bytes(0));
  if (name == "computeBlockwiseWithinKCounts" && bytes(1) != 0) {
    return within_k_counts(bytes(0), bytes(1));
  }
  if (name == "gatherTopK") return gather(bytes(0));
  if (name == "fill") return fill(bytes(0));
  return nullptr;
}

}  // namespace phantora::rank
