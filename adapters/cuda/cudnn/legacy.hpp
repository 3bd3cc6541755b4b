#pragma once

#include "cuda/cudnn/operations.hpp"

#include <cudnn.h>

// What the descriptors of cuDNN's fixed-function API point to.

struct cudnnTensorStruct {
  phantora::cudnn::Tensor tensor{};
};
struct cudnnFilterStruct {
  phantora::cudnn::Tensor tensor{};
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
};
struct cudnnConvolutionStruct {
  std::vector<std::int64_t> padding{}, stride{}, dilation{};
  cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  cudnnDataType_t compute_type = CUDNN_DATA_FLOAT;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  int groups = 1;
};
struct cudnnPoolingStruct {
  cudnnPoolingMode_t mode{};
  std::vector<std::int64_t> window{}, padding{}, stride{};
};
struct cudnnActivationStruct {
  cudnnActivationMode_t mode{};
  cudnnNanPropagation_t nan{};
  double coefficient = 0;
};
struct cudnnDropoutStruct {
  float probability = 0;
  void* states = nullptr;
  std::size_t state_bytes = 0;
  unsigned long long seed = 0;
};
