#include "cuda/cudnn/operations.hpp"

#include <algorithm>
#include <cstdlib>

namespace phantora::cudnn {
namespace {

double number(std::int64_t value) { return static_cast<double>(value); }

double bytes_of(const Tensor& tensor) {
  return number(tensor.elements()) * static_cast<double>(size_of(tensor.type));
}

/// Entry `i` of a spatial list, where 0 is height; one-dimensional convolutions have only a width.
std::int64_t spatial(const std::vector<std::int64_t>& list, std::size_t i, std::int64_t otherwise) {
  return i < list.size() ? list[i] : otherwise;
}

}  // namespace

const char* name_of(cudnnDataType_t type) noexcept {
  switch (type) {
    case CUDNN_DATA_FLOAT:
      return "fp32";
    case CUDNN_DATA_DOUBLE:
      return "fp64";
    case CUDNN_DATA_HALF:
      return "fp16";
    case CUDNN_DATA_BFLOAT16:
      return "bf16";
    case CUDNN_DATA_FP8_E4M3:
      return "fp8_e4m3";
    case CUDNN_DATA_FP8_E5M2:
      return "fp8_e5m2";
    case CUDNN_DATA_INT8:
      return "int8";
    default:
      return "other";
  }
}

std::size_t size_of(cudnnDataType_t type) noexcept {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
    case CUDNN_DATA_INT64:
    case CUDNN_DATA_COMPLEX_FP32:
      return 8;
    case CUDNN_DATA_COMPLEX_FP64:
      return 16;
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16:
      return 2;
    case CUDNN_DATA_INT8:
    case CUDNN_DATA_UINT8:
    case CUDNN_DATA_BOOLEAN:
    case CUDNN_DATA_FP8_E4M3:
    case CUDNN_DATA_FP8_E5M2:
    case CUDNN_DATA_FP8_E8M0:
      return 1;
    default:
      return 4;
  }
}

std::int64_t Tensor::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t n : dims) product *= n;
  return product;
}

std::size_t Tensor::extent() const {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0) return 0;
    if (i < strides.size()) last += (dims[i] - 1) * std::abs(strides[i]);
  }
  return static_cast<std::size_t>(last + 1) * size_of(type);
}

const char* Tensor::layout() const {
  if (strides.size() < 3 || dim(1) == 1) return "nchw";
  return strides[1] == 1 && strides.back() != 1 ? "nhwc" : "nchw";
}

KernelQuery describe(const Convolution& c) {
  KernelQuery query;
  query.name = c.pass == Pass::forward         ? "conv_fwd"
               : c.pass == Pass::backward_data ? "conv_bwd_data"
                                               : "conv_bwd_filter";
  // Three spatial dimensions: depth goes into the batch and into the filter's height, which keeps
  // the arithmetic and the bytes.
  const bool deep = c.image.dims.size() == 5;
  const std::size_t h = deep ? 3 : 2;
  const std::size_t space = deep ? 1 : 0;
  const std::int64_t depth = deep ? c.output.dim(2) : 1;
  const std::int64_t filter_depth = deep ? c.filter.dim(2) : 1;
  const std::int64_t groups =
      std::max<std::int64_t>(1, c.image.dim(1) / std::max<std::int64_t>(1, c.filter.dim(1)));
  query.features = {{"n", number(c.image.dim(0) * depth)},
                    {"c", number(c.image.dim(1))},
                    {"h", number(c.image.dim(h))},
                    {"w", number(c.image.dim(h + 1))},
                    {"k", number(c.filter.dim(0))},
                    {"r", number(c.filter.dim(h) * filter_depth)},
                    {"s", number(c.filter.dim(h + 1))},
                    {"stride_h", number(spatial(c.stride, space, 1))},
                    {"stride_w", number(spatial(c.stride, space + 1, 1))},
                    {"pad_h", number(spatial(c.padding, space, 0))},
                    {"pad_w", number(spatial(c.padding, space + 1, 0))},
                    {"dilation_h", number(spatial(c.dilation, space, 1))},
                    {"dilation_w", number(spatial(c.dilation, space + 1, 1))},
                    {"groups", number(groups)}};
  query.attributes = {
      {"type", name_of(c.image.type)}, {"compute", c.compute}, {"layout", c.image.layout()}};
  // Each output element is a sum over the filter's channels and space, in every pass.
  const double products =
      number(c.filter.elements()) / number(std::max<std::int64_t>(1, c.filter.dim(0)));
  query.flops = 2 * number(c.output.elements()) * products;
  query.bytes = bytes_of(c.image) + bytes_of(c.filter) + bytes_of(c.output);
  return query;
}

std::size_t workspace_bytes(const Convolution&) { return 0; }

KernelQuery describe_batch_norm(Norm norm, const Tensor& x) {
  KernelQuery query;
  query.name = norm == Norm::training   ? "batch_norm_fwd_train"
               : norm == Norm::backward ? "batch_norm_bwd"
                                        : "batch_norm_fwd_infer";
  const std::int64_t space = x.dims.size() > 4 ? x.dim(2) * x.dim(3) : x.dim(2);
  query.features = {{"n", number(x.dim(0))},
                    {"c", number(x.dim(1))},
                    {"h", number(space)},
                    {"w", number(x.dims.size() > 4 ? x.dim(4) : x.dim(3))}};
  query.attributes = {{"type", name_of(x.type)}, {"layout", x.layout()}};
  // Training reads the input for the statistics and again for the result; backward reads input and
  // gradient for the sums and again for the result.
  const double passes = norm == Norm::training ? 3 : norm == Norm::backward ? 5 : 2;
  query.bytes = passes * bytes_of(x);
  return query;
}

KernelQuery describe(const Attention& a) {
  KernelQuery query;
  query.name = a.backward ? "sdpa_bwd" : "sdpa_fwd";
  const double b = number(a.q.dim(0)), h = number(a.q.dim(1)), s_q = number(a.q.dim(2)),
               d = number(a.q.dim(3)), s_kv = number(a.k.dim(2)), d_v = number(a.v.dim(3));
  query.features = {{"b", b},     {"h", h},       {"h_kv", number(a.k.dim(1))},
                    {"s_q", s_q}, {"s_kv", s_kv}, {"d", d},
                    {"d_v", d_v}};
  query.attributes = {{"type", name_of(a.q.type)}, {"causal", a.causal ? "1" : "0"}};
  // Forward: two products; backward: five of the same sizes. A causal mask leaves half.
  const double pair = 2 * b * h * s_q * s_kv * (d + d_v);
  query.flops = pair * (a.backward ? 2.5 : 1.0) * (a.causal ? 0.5 : 1.0);
  const double once = 2 * bytes_of(a.q) + bytes_of(a.k) + bytes_of(a.v);
  query.bytes = once * (a.backward ? 2 : 1);
  return query;
}

KernelQuery describe_memory_bound(const std::string& name, const std::vector<Tensor>& tensors) {
  KernelQuery query;
  query.name = name;
  double elements = 0;
  for (const Tensor& tensor : tensors) {
    query.bytes += bytes_of(tensor);
    elements = std::max(elements, number(tensor.elements()));
  }
  query.features = {{"numel", elements}};
  if (!tensors.empty()) query.attributes = {{"type", name_of(tensors.front().type)}};
  return query;
}

}  // namespace phantora::cudnn
