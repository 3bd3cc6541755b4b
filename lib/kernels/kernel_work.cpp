#include "kernels/code_roofline.hpp"
#include "kernels/library_operations.hpp"
#include "kernels/work/families.hpp"
#include "kernels/work/launch.hpp"
#include "kernels/work/reading.hpp"

#include <phantora/kernels/kernel_signature.hpp>
#include <phantora/kernels/kernel_work.hpp>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace phantora {

namespace {

using namespace detail;

KernelWork transfer(const KernelQuery& query) {
  KernelWork work;
  // The feature is the size; the query's bytes may count reading and writing.
  const double size = feature(query, "bytes", std::max(1.0, query.bytes));
  work.group = query.name;
  if (query.name != "memset") work.limit = KernelLimit::copy_engine;
  work.path = query.name.ends_with("_pinned")     ? DataPath::pcie
              : query.name.ends_with("_pageable") ? DataPath::pcie_pageable
              : query.name.ends_with("_p2p")      ? DataPath::nvlink
                                                  : DataPath::device_memory;
  // A copy within the device reads and writes there.
  work.bytes = query.name == "memcpy_d2d" ? 2.0 * size : size;
  work.coordinates = {log_coordinate(size, 1.5)};
  return work;
}

KernelWork device_kernel(const KernelQuery& query) {
  const KernelSignature signature = parse_signature(query.name);
  if (!query.grid && !query.features.contains("numel") && !query.features.contains("s_q")) {
    return other_kernel(query, signature);
  }
  if (query.features.contains("s_q") && query.name.find("FlashAttnFwdSm90<") != std::string::npos)
    return hopper_attention(query);
  if (signature.base.starts_with("flash_") || signature.base.starts_with("fmha_cutlass")) {
    return fused_attention(query, signature);
  }
  if (query.features.contains("batch") && query.features.contains("k"))
    return grouped_product(query);
  if (query.features.contains("table")) return moved_by_index(query, signature);
  if (signature.base.ends_with("elementwise_kernel") || query.features.contains("arrays")) {
    return elementwise(query, signature);
  }
  if (signature.base == "multi_tensor_apply_kernel") return multi_tensor(query, signature);
  if (signature.base.starts_with("reduction_") && query.features.contains("rows")) {
    KernelSignature compiled_before = signature;
    compiled_before.base = "reduce_kernel";
    return other_kernel(query, compiled_before);
  }
  return other_kernel(query, signature);
}

}  // namespace

double waves_on(const KernelWork& work, int sms) noexcept {
  return work.resident > 0.0 ? std::ceil(work.blocks / (work.resident * sms)) : 1.0;
}

KernelWork describe(const KernelQuery& query) {
  const std::string_view name = query.name;
  // A program's own kernel may have the name of a library operation.
  if (query.grid || !detail::library_operation(name)) {
    KernelWork work = device_kernel(query);
    if (query.grid) work.starts = std::max<double>(work.starts, query.grid->count());
    if (detail::tells_code(query)) compare_by_code(work, query, parse_signature(name));
    return work;
  }
  if (name == "gemm") return gemm(query);
  if (name.starts_with("conv_")) {
    KernelWork work = convolution(query);
    // Of 6,270 convolutions 57 % ran the same kernels when they had been tried out. Of 0.2 to 1.2,
    // 0.5 to 0.8 leave the least errors of those that were, held out.
    constexpr float apart = 0.6F;
    if (is_tried(query)) work.coordinates.back() = apart;
    return work;
  }
  if (name.starts_with("rnn_")) return recurrent(query);
  if (name.starts_with("sdpa_") || name.starts_with("pytorch_sdpa_"))
    return library_attention(query);
  if (name.starts_with("batch_norm_")) return batch_norm(query);
  if (is_dense_algebra(name)) return dense_algebra(query);
  if (name == "fft") return fourier_transform(query);
  if (name == "spmv" || name == "spmm" || name == "sddmm") return sparse_product(query);
  return transfer(query);
}

}  // namespace phantora
