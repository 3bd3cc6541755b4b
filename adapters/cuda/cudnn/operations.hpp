#pragma once

#include "rank/runtime/timeline.hpp"

#include <phantora/kernels/kernel_cost_model.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <cudnn.h>

/// Operations of cuDNN in the terms of kernel queries, whichever of its two APIs they come from.
namespace phantora::cudnn {

/// As kernel queries name it: "bf16", "fp32", ...
const char* name_of(cudnnDataType_t type) noexcept;
std::size_t size_of(cudnnDataType_t type) noexcept;

/// A tensor of up to 8 dimensions; N, C, then space, outermost first.
struct Tensor {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::vector<std::int64_t> dims{}, strides{};

  [[nodiscard]] std::int64_t dim(std::size_t i) const { return i < dims.size() ? dims[i] : 1; }
  [[nodiscard]] std::int64_t elements() const;
  /// Bytes from the first to the last element.
  [[nodiscard]] std::size_t extent() const;
  /// "nhwc" if channels are innermost, else "nchw".
  [[nodiscard]] const char* layout() const;
};

enum class Pass : std::uint8_t { forward, backward_data, backward_filter };

struct Convolution {
  Pass pass{};
  Tensor image{}, filter{}, output{};  ///< x, w and y, or their gradients
  std::vector<std::int64_t> padding{}, stride{}, dilation{};
  const char* compute = "fp32";  ///< "fp32" or "tf32"
  bool tried = false;            ///< by the fastest engine, not by the heuristics' first
};

KernelQuery describe(const Convolution& convolution);
/// Bytes of workspace that the engine which the real heuristics choose asks for.
/// @note Approximation: split-k sums of filter gradients are not in it.
std::size_t workspace_bytes(const Convolution& convolution);
/// Bytes of workspace that the engine asks for which asks for most, of all that cuDNN offers.
std::size_t widest_workspace_bytes(const Convolution& convolution);

enum class Norm : std::uint8_t { training, backward, inference };
KernelQuery describe_batch_norm(Norm norm, const Tensor& x);

struct Attention {
  bool backward = false, causal = false;
  Tensor q{}, k{}, v{};  ///< [batch, heads, sequence, width]
  bool masked = false;   ///< a tensor is added to the scores
  bool dropout = false;
};
KernelQuery describe(const Attention& attention);
std::size_t workspace_bytes(const Attention& attention);

/// Operations that move each of `tensors` once: pooling, activation, softmax, ...
KernelQuery describe_memory_bound(const std::string& name, const std::vector<Tensor>& tensors);

}  // namespace phantora::cudnn
