#include "rank/kernels/families/grouped_product.hpp"

#include "rank/kernels/kernel_effect.hpp"
#include "rank/small_data.hpp"

#include <cstring>

namespace phantora::rank {
namespace {

/// prepare_grouped_gemm_data(A, B, output, 2 scales, 5 tables of pointers, shapes, 3 tables of
/// strides, ends of the groups, M, N, K (negative where the groups divide it), strides[3] of A, B
/// and the output, sizes[3] of A and B, ...), a thread for each group
/// (ATen/native/cuda/GroupMMCommon.cuh).
std::unique_ptr<Meaning> prepare(std::size_t element) {
  return meaning([element](const Arguments& a) -> std::optional<Effect> {
    constexpr std::size_t tables = 5, shapes = 10, strides = 11, ends = 14, m = 15, n = 16, k = 17,
                          sizes_a = 21, sizes_b = 22, widest_shape = 12, widest_stride = 24;
    GroupedProduct product{.shapes = a.pointer(shapes),
                           .m = a.get<std::int32_t>(m),
                           .n = a.get<std::int32_t>(n),
                           .k = a.get<std::int32_t>(k),
                           .groups = a.shape.block.x,
                           .element = element};
    product.divides_m = product.m < 0;
    product.divides_n = product.n < 0;
    product.divides_k = product.k < 0;
    // A is of M rows, or M of each group; B of N columns.
    if (product.divides_m) product.m = a.get<std::int64_t>(sizes_a);
    if (product.divides_n) product.n = a.get<std::int64_t>(sizes_b, sizeof(std::int64_t));
    if (product.divides_k) product.k = a.get<std::int64_t>(sizes_a, sizeof(std::int64_t));
    if (a.misread || product.groups <= 0) return std::nullopt;
    small_data().grouped.note(product);
    const auto groups = static_cast<std::size_t>(product.groups);
    Effect effect;
    effect.operands.push_back({a.pointer(ends), groups * sizeof(std::int32_t), true, false});
    for (std::size_t table = tables; table < shapes; ++table) {
      if (a.pointer(table) != nullptr)
        effect.operands.push_back({a.pointer(table), groups * sizeof(void*), false, true});
    }
    effect.operands.push_back({a.pointer(shapes), groups * widest_shape, false, true});
    for (std::size_t table = strides; table < ends; ++table)
      effect.operands.push_back({a.pointer(table), groups * widest_stride, false, true});
    effect.bytes = static_cast<double>(
        groups * (sizeof(std::int32_t) + 3 * sizeof(void*) + widest_shape + 3 * widest_stride));
    return effect;
  });
}

/// CUTLASS's kernel for groups: a structure in which the table's address stands somewhere.
std::optional<Effect> multiply(const Arguments& a) {
  const GroupedProduct product = small_data().grouped.get();
  const auto structure = a.bytes(0);
  bool named = false;
  for (std::size_t at = 0; at + sizeof(void*) <= structure.size() && !named; at += sizeof(void*)) {
    const std::byte* pointer = nullptr;
    std::memcpy(&pointer, structure.data() + at, sizeof pointer);
    named = pointer != nullptr && pointer == product.shapes;
  }
  if (!named) return std::nullopt;
  // Groups are taken to be alike, as balanced routing makes them.
  const auto each = [&](std::int64_t all, bool divided) {
    return static_cast<double>(all) / (divided ? static_cast<double>(product.groups) : 1.0);
  };
  const double groups = static_cast<double>(product.groups);
  const double m = each(product.m, product.divides_m), n = each(product.n, product.divides_n),
               k = each(product.k, product.divides_k);
  Effect effect;
  effect.follows_pointers = true;  // to the results, by a table of pointers
  constexpr double result = 2;     // bf16
  effect.bytes = groups * (static_cast<double>(product.element) * (m * k + k * n) + result * m * n);
  // As cuBLAS has them, columns first.
  effect.features = {{"m", n}, {"n", m}, {"k", k}, {"batch", groups}};
  return effect;
}

}  // namespace

std::unique_ptr<Meaning> read_grouped_product(const Signature& signature, const KernelResources&) {
  const std::string_view name = signature.kernel.name;
  if (unqualified(name) == "prepare_grouped_gemm_data" && !signature.kernel.arguments.empty()) {
    const bool eight_bits =
        signature.kernel.arguments.front().find("float_e") != std::string_view::npos;
    return prepare(eight_bits ? 1 : 2);
  }
  // Names of such length are not always taken apart.
  const auto grouped = [](std::string_view text) {
    return text.find("GroupProblemShape") != std::string_view::npos &&
           text.find("device_kernel") != std::string_view::npos;
  };
  const bool in_arguments =
      unqualified(name) == "device_kernel" && !signature.kernel.arguments.empty() &&
      signature.kernel.arguments.front().find("GroupProblemShape") != std::string_view::npos;
  return grouped(name) || in_arguments ? meaning(multiply) : nullptr;
}

}  // namespace phantora::rank
