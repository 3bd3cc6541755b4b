#include "cuda/cudnn/operations.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string_view>

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

/// A convolution whose workspace was measured. `shape` is n, c, h, w, k, c per group, r, s, strides
/// and paddings, height first.
struct MeasuredWorkspace {
  Pass pass;
  cudnnDataType_t type;
  bool channels_last;
  std::array<std::int64_t, 12> shape;
  std::size_t bytes;
};

constexpr MeasuredWorkspace measured_workspaces[] = {
#define PHANTORA_WORKSPACE(pass, type, last, n, c, h, w, k, depth, r, s, sh, sw, ph, pw, bytes) \
  {Pass::pass, type, last, {n, c, h, w, k, depth, r, s, sh, sw, ph, pw}, bytes},
#include "cuda/cudnn/workspaces.inc"
#undef PHANTORA_WORKSPACE
};

/// nullopt if this very convolution was not measured. Asked once per plan.
std::optional<std::size_t> measured_workspace(const Convolution& c) {
  const bool flat = c.image.dims.size() == 4 && c.stride.size() == 2 && c.padding.size() == 2;
  const bool dilated = std::any_of(c.dilation.begin(), c.dilation.end(),
                                   [](std::int64_t dilation) { return dilation != 1; });
  if (!flat || dilated || c.filter.dims.size() != 4) return std::nullopt;
  if (c.image.type == CUDNN_DATA_FLOAT && std::string_view{c.compute} != "tf32")
    return std::nullopt;
  // 16-bit types share engines.
  const cudnnDataType_t type = c.image.type == CUDNN_DATA_HALF ? CUDNN_DATA_BFLOAT16 : c.image.type;
  const std::array<std::int64_t, 12> shape{c.image.dims[0],  c.image.dims[1],  c.image.dims[2],
                                           c.image.dims[3],  c.filter.dims[0], c.filter.dims[1],
                                           c.filter.dims[2], c.filter.dims[3], c.stride[0],
                                           c.stride[1],      c.padding[0],     c.padding[1]};
  const bool last = std::string_view{c.image.layout()} == "nhwc";
  for (const MeasuredWorkspace& m : measured_workspaces) {
    if (m.pass == c.pass && m.type == type && m.channels_last == last && m.shape == shape) {
      return m.bytes;
    }
  }
  return std::nullopt;
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
  // Of three spatial dimensions where dims has five. Where the filter is one element of all
  // channels, planes lie as one that is as high as all of them.
  const bool deep = c.image.dims.size() == 5;
  const std::size_t h = deep ? 3 : 2;
  const std::size_t space = deep ? 1 : 0;
  const std::int64_t groups =
      std::max<std::int64_t>(1, c.image.dim(1) / std::max<std::int64_t>(1, c.filter.dim(1)));
  const bool stacked = deep && groups == 1 &&
                       c.filter.elements() == c.filter.dim(0) * c.filter.dim(1) &&
                       c.image.elements() / std::max<std::int64_t>(1, c.image.dim(1)) ==
                           c.output.elements() / std::max<std::int64_t>(1, c.output.dim(1));
  const std::int64_t planes = stacked ? c.image.dim(2) : 1;
  query.features = {{"n", number(c.image.dim(0))},
                    {"c", number(c.image.dim(1))},
                    {"h", number(c.image.dim(h) * planes)},
                    {"w", number(c.image.dim(h + 1))},
                    {"k", number(c.filter.dim(0))},
                    {"r", number(c.filter.dim(h))},
                    {"s", number(c.filter.dim(h + 1))},
                    {"stride_h", number(spatial(c.stride, space, 1))},
                    {"stride_w", number(spatial(c.stride, space + 1, 1))},
                    {"pad_h", number(spatial(c.padding, space, 0))},
                    {"pad_w", number(spatial(c.padding, space + 1, 0))},
                    {"dilation_h", number(spatial(c.dilation, space, 1))},
                    {"dilation_w", number(spatial(c.dilation, space + 1, 1))},
                    {"groups", number(groups)}};
  if (deep && !stacked) {
    query.features.insert({{"d", number(c.image.dim(2))},
                           {"t", number(c.filter.dim(2))},
                           {"stride_d", number(spatial(c.stride, 0, 1))},
                           {"pad_d", number(spatial(c.padding, 0, 0))},
                           {"dilation_d", number(spatial(c.dilation, 0, 1))}});
  }
  query.attributes = {
      {"type", name_of(c.image.type)}, {"compute", c.compute}, {"layout", c.image.layout()}};
  if (c.tried) query.attributes.emplace("plan", "tried");
  // Each output element is a sum over the filter's channels and space, in every pass.
  const double products =
      number(c.filter.elements()) / number(std::max<std::int64_t>(1, c.filter.dim(0)));
  query.flops = 2 * number(c.output.elements()) * products;
  query.bytes = bytes_of(c.image) + bytes_of(c.filter) + bytes_of(c.output);
  return query;
}

std::size_t workspace_bytes(const Convolution& c) {
  if (const auto measured = measured_workspace(c)) return *measured;
  // Otherwise as fitted to the first 2208 that were measured on an H200 (cuDNN 9.19): its engines
  // work on channels-last copies of all operands, with channels padded to 16 bytes, unless the
  // operands are so already. Products that a pointwise filter makes of it need no copy, but the
  // filter's gradient then keeps one partial sum in fp32 per image.
  const std::int64_t element = static_cast<std::int64_t>(size_of(c.image.type));
  const auto padded = [&](std::int64_t channels) {
    const std::int64_t unit = std::max<std::int64_t>(1, 16 / element);
    return (channels + unit - 1) / unit * unit;
  };
  const std::int64_t n = c.image.dim(0), channels = c.image.dim(1), filters = c.filter.dim(0);
  const std::int64_t depth = c.filter.dim(1);  // channels per group
  if (n == 0 || channels == 0 || filters == 0 || depth == 0) return 0;
  const std::int64_t image_space = c.image.elements() / (n * channels);
  const std::int64_t filter_space = c.filter.elements() / (filters * depth);
  const std::int64_t image = c.image.elements() / channels * padded(channels) * element;
  const std::int64_t output = c.output.elements() / filters * padded(filters) * element;
  const std::int64_t filter = c.filter.elements() / depth * padded(depth) * element;
  const auto all = [](const std::vector<std::int64_t>& list, std::int64_t value) {
    return std::all_of(list.begin(), list.end(), [=](std::int64_t v) { return v == value; });
  };
  const bool grouped = depth != channels;
  std::int64_t bytes = 0;
  if (std::string_view{c.image.layout()} == "nhwc") {
    if (!grouped && padded(channels) != channels) bytes = image + filter;
  } else if (grouped && depth == 1) {
    bytes = 0;  // depthwise
  } else if (!grouped && filter_space == 1 && all(c.stride, 1) && all(c.padding, 0)) {
    if (channels * filters >= 512 * 1024 && image_space <= 14 * 14) {
      bytes = image + output;
    } else if (c.pass == Pass::backward_filter) {
      bytes = n * channels * filters * 4;
    }
  } else if (c.pass == Pass::forward && channels <= 4 && all(c.stride, 1)) {
    bytes = 0;  // a direct kernel for the first layer
  } else {
    bytes = image + output + (filter_space == 1 ? 0 : filter);
  }
  return static_cast<std::size_t>(bytes);
}

namespace {

/// Bytes of the transforms of an engine that convolves by Fourier transforms, in single precision;
/// 0 if there is none. A plane of side s, padding and all, becomes s (s / 2 + 1) complex numbers, s
/// being a power of two and at least 16. Forward and for the filter's gradient, cuDNN keeps the
/// planes of two operands, or the third's, twice. The data's gradient is made of tiles of 32 x 32,
/// twice the image's and the output's where those do not fit into one; with a stride of s x s there
/// are s^2 images and filters, each of every s-th row and column. E.g. 64 images of 7 x 7 with 960
/// channels, 128 filters of 1 x 1: 2 (64 960 + 960 128) planes of 16 (8 + 1) 8 bytes, and the
/// filter. h200_sweep19.jsonl.gz (lib/kernels/data) has the workspaces: of its forward calls with
/// filters of several taps 64 of 67 ask for as many bytes to 3 %, of those with one tap 171 of 232,
/// of the filters' gradients 307 of 319, of the data's with several taps and no stride 53 of 55,
/// and with a stride of 2 and 3 x 3 taps 39 of 60 to 12 %.
std::int64_t fourier_bytes(const Convolution& c) {
  const auto all_one = [](const std::vector<std::int64_t>& list) {
    return std::all_of(list.begin(), list.end(), [](std::int64_t value) { return value == 1; });
  };
  const bool grouped = c.filter.dim(1) != c.image.dim(1);
  if (c.image.type != CUDNN_DATA_FLOAT || c.image.dims.size() != 4 || grouped ||
      !all_one(c.dilation))
    return 0;
  constexpr std::int64_t least = 16, tile = 32, most = 256;
  const std::int64_t extent = std::max(c.image.dim(2) + 2 * spatial(c.padding, 0, 0),
                                       c.image.dim(3) + 2 * spatial(c.padding, 1, 0));
  const auto plane = [](std::int64_t side) {
    return side * (side / 2 + 1) * static_cast<std::int64_t>(sizeof(float[2]));
  };
  const std::int64_t image = c.image.dim(0) * c.image.dim(1);
  const std::int64_t output = c.image.dim(0) * c.filter.dim(0);
  const std::int64_t filter = c.filter.dim(0) * c.filter.dim(1);
  if (c.pass == Pass::backward_data) {
    const std::int64_t rows = spatial(c.stride, 0, 1), columns = spatial(c.stride, 1, 1);
    if (c.filter.dim(2) <= rows || c.filter.dim(3) <= columns) return 0;
    const std::int64_t phases = rows * columns;
    const std::int64_t times = extent > tile * std::min(rows, columns) ? 2 : 1;
    return plane(tile) * (phases * filter + times * (phases * image + output));
  }
  std::int64_t side = least;
  while (side < extent) side *= 2;
  if (side > most || !all_one(c.stride)) return 0;
  const auto element = static_cast<std::int64_t>(sizeof(float));
  return c.pass == Pass::forward
             ? 2 * plane(side) * std::max(image + filter, output) + c.filter.elements() * element
             : 2 * plane(side) * std::max(image + output, filter) + c.output.elements() * element;
}

}  // namespace

std::size_t widest_workspace_bytes(const Convolution& c) {
  const auto element = static_cast<std::int64_t>(size_of(c.image.type));
  const bool depthwise = c.filter.dim(1) == 1 && c.image.dim(1) > 1;
  const bool strided = std::any_of(c.stride.begin(), c.stride.end(),
                                   [](std::int64_t stride) { return stride != 1; });
  const std::int64_t taps =
      c.filter.elements() / std::max<std::int64_t>(1, c.filter.dim(0) * c.filter.dim(1));
  // Copies of the operands: of channels that are widened to four each, of a strided convolution in
  // 16 bits two, else one, by the medians of h200_sweep19.jsonl.gz. Filters of one tap need none.
  std::int64_t bytes = (c.image.elements() + c.output.elements()) * element;
  if (depthwise) {
    bytes *= 4;
  } else {
    if (strided && element < 4 && c.pass != Pass::backward_filter) bytes *= 2;
    if (taps > 1) bytes += c.filter.elements() * element;
  }
  if (std::int64_t fourier = fourier_bytes(c)) {
    // Transforms are of planes: what has its channels last is converted.
    if (std::string_view{c.image.layout()} == "nhwc")
      fourier += (c.image.elements() + c.output.elements() + c.filter.elements()) * element;
    bytes = std::max(bytes, fourier);
  }
  return std::max(workspace_bytes(c), static_cast<std::size_t>(bytes));
}

std::size_t workspace_bytes(const Attention& a) {
  if (!a.backward) return 0;
  // fp32 sums of dQ, and one number per row for dO O^T: what the kernels convert_dq_to_16bits and
  // compute_dot_do_o, which follow and precede the product in a real trace, work on.
  const std::int64_t rows = a.q.dim(0) * a.q.dim(1) * a.q.dim(2);
  return static_cast<std::size_t>(rows * (a.q.dim(3) + 1) * 4);
}

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
  if (a.masked) query.attributes.emplace("mask", "1");
  if (a.dropout) query.attributes.emplace("dropout", "1");
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
