// Descriptors of cuDNN's fixed-function API.
#include "cuda/cudnn/handle.hpp"
#include "cuda/cudnn/legacy.hpp"

#include <algorithm>

using namespace phantora::cudnn;

namespace {

std::vector<std::int64_t> list(const int* values, int count) { return {values, values + count}; }

/// Strides of a dense tensor: NCHW as given, or with channels innermost.
std::vector<std::int64_t> dense_strides(const std::vector<std::int64_t>& dims, bool channels_last) {
  std::vector<std::int64_t> strides(dims.size(), 1);
  std::int64_t next = 1;
  const auto take = [&](std::size_t i) {
    strides[i] = next;
    next *= dims[i];
  };
  if (channels_last && dims.size() > 1) take(1);
  for (std::size_t i = dims.size(); i-- > 0;) {
    if (!(channels_last && i == 1)) take(i);
  }
  return strides;
}

template <class T>
cudnnStatus_t create(T** descriptor) {
  return entry(Api::library_setup, [&] {
    if (!descriptor) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    *descriptor = new T;
    return CUDNN_STATUS_SUCCESS;
  });
}

template <class T>
cudnnStatus_t destroy(T* descriptor) {
  delete descriptor;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

#define PHANTORA_DESCRIPTOR(Name)                                                                \
  PHANTORA_EXPORT cudnnStatus_t cudnnCreate##Name##Descriptor(cudnn##Name##Descriptor_t* made) { \
    return create(made);                                                                         \
  }                                                                                              \
  PHANTORA_EXPORT cudnnStatus_t cudnnDestroy##Name##Descriptor(cudnn##Name##Descriptor_t old) {  \
    return destroy(old);                                                                         \
  }
PHANTORA_DESCRIPTOR(Tensor)
PHANTORA_DESCRIPTOR(Filter)
PHANTORA_DESCRIPTOR(Convolution)
PHANTORA_DESCRIPTOR(Pooling)
PHANTORA_DESCRIPTOR(Activation)
PHANTORA_DESCRIPTOR(Dropout)

PHANTORA_EXPORT cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t descriptor,
                                                         cudnnDataType_t type, int count,
                                                         const int dims[], const int strides[]) {
  return entry(Api::library_setup, [&] {
    if (!descriptor || !dims || !strides) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    if (count < 1 || count > CUDNN_DIM_MAX) return CUDNN_STATUS_BAD_PARAM;
    descriptor->tensor = {type, list(dims, count), list(strides, count)};
    return CUDNN_STATUS_SUCCESS;
  });
}

PHANTORA_EXPORT cudnnStatus_t cudnnSetTensorNdDescriptorEx(cudnnTensorDescriptor_t descriptor,
                                                           cudnnTensorFormat_t format,
                                                           cudnnDataType_t type, int count,
                                                           const int dims[]) {
  return entry(Api::library_setup, [&] {
    if (!descriptor || !dims) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    if (count < 1 || count > CUDNN_DIM_MAX) return CUDNN_STATUS_BAD_PARAM;
    const auto sizes = list(dims, count);
    descriptor->tensor = {type, sizes, dense_strides(sizes, format == CUDNN_TENSOR_NHWC)};
    return CUDNN_STATUS_SUCCESS;
  });
}

PHANTORA_EXPORT cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t descriptor,
                                                         cudnnTensorFormat_t format,
                                                         cudnnDataType_t type, int n, int c, int h,
                                                         int w) {
  const int dims[] = {n, c, h, w};
  return cudnnSetTensorNdDescriptorEx(descriptor, format, type, 4, dims);
}

PHANTORA_EXPORT cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t descriptor,
                                                           cudnnDataType_t type, int n, int c,
                                                           int h, int w, int n_stride, int c_stride,
                                                           int h_stride, int w_stride) {
  const int dims[] = {n, c, h, w}, strides[] = {n_stride, c_stride, h_stride, w_stride};
  return cudnnSetTensorNdDescriptor(descriptor, type, 4, dims, strides);
}

PHANTORA_EXPORT cudnnStatus_t cudnnGetTensorNdDescriptor(const cudnnTensorDescriptor_t descriptor,
                                                         int requested, cudnnDataType_t* type,
                                                         int* count, int dims[], int strides[]) {
  return entry(Api::library_setup, [&] {
    if (!descriptor) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    const Tensor& tensor = descriptor->tensor;
    if (type) *type = tensor.type;
    if (count) *count = static_cast<int>(tensor.dims.size());
    const auto given =
        std::min(static_cast<std::size_t>(std::max(requested, 0)), tensor.dims.size());
    for (std::size_t i = 0; i < given; ++i) {
      if (dims) dims[i] = static_cast<int>(tensor.dims[i]);
      if (strides) strides[i] = static_cast<int>(tensor.strides[i]);
    }
    return CUDNN_STATUS_SUCCESS;
  });
}

PHANTORA_EXPORT cudnnStatus_t cudnnGetTensorSizeInBytes(const cudnnTensorDescriptor_t descriptor,
                                                        std::size_t* bytes) {
  if (!descriptor || !bytes) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *bytes = descriptor->tensor.extent();
  return CUDNN_STATUS_SUCCESS;
}

PHANTORA_EXPORT cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t descriptor,
                                                         cudnnDataType_t type,
                                                         cudnnTensorFormat_t format, int count,
                                                         const int dims[]) {
  return entry(Api::library_setup, [&] {
    if (!descriptor || !dims) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    const auto sizes = list(dims, count);
    descriptor->tensor = {type, sizes, dense_strides(sizes, format == CUDNN_TENSOR_NHWC)};
    descriptor->format = format;
    return CUDNN_STATUS_SUCCESS;
  });
}

PHANTORA_EXPORT cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t descriptor,
                                                         cudnnDataType_t type,
                                                         cudnnTensorFormat_t format, int k, int c,
                                                         int h, int w) {
  const int dims[] = {k, c, h, w};
  return cudnnSetFilterNdDescriptor(descriptor, type, format, 4, dims);
}

PHANTORA_EXPORT cudnnStatus_t cudnnGetFilterNdDescriptor(const cudnnFilterDescriptor_t descriptor,
                                                         int requested, cudnnDataType_t* type,
                                                         cudnnTensorFormat_t* format, int* count,
                                                         int dims[]) {
  return entry(Api::library_setup, [&] {
    if (!descriptor) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    const Tensor& tensor = descriptor->tensor;
    if (type) *type = tensor.type;
    if (format) *format = descriptor->format;
    if (count) *count = static_cast<int>(tensor.dims.size());
    const auto given =
        std::min(static_cast<std::size_t>(std::max(requested, 0)), tensor.dims.size());
    for (std::size_t i = 0; i < given; ++i) {
      if (dims) dims[i] = static_cast<int>(tensor.dims[i]);
    }
    return CUDNN_STATUS_SUCCESS;
  });
}

PHANTORA_EXPORT cudnnStatus_t cudnnSetConvolutionNdDescriptor(
    cudnnConvolutionDescriptor_t descriptor, int count, const int padding[], const int stride[],
    const int dilation[], cudnnConvolutionMode_t mode, cudnnDataType_t compute_type) {
  return entry(Api::library_setup, [&] {
    if (!descriptor || !padding || !stride || !dilation) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    descriptor->padding = list(padding, count);
    descriptor->stride = list(stride, count);
    descriptor->dilation = list(dilation, count);
    descriptor->mode = mode;
    descriptor->compute_type = compute_type;
    return CUDNN_STATUS_SUCCESS;
  });
}

PHANTORA_EXPORT cudnnStatus_t cudnnSetConvolution2dDescriptor(
    cudnnConvolutionDescriptor_t descriptor, int pad_h, int pad_w, int stride_h, int stride_w,
    int dilation_h, int dilation_w, cudnnConvolutionMode_t mode, cudnnDataType_t compute_type) {
  const int padding[] = {pad_h, pad_w}, stride[] = {stride_h, stride_w},
            dilation[] = {dilation_h, dilation_w};
  return cudnnSetConvolutionNdDescriptor(descriptor, 2, padding, stride, dilation, mode,
                                         compute_type);
}

PHANTORA_EXPORT cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t descriptor,
                                                            int groups) {
  if (!descriptor) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  descriptor->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}

PHANTORA_EXPORT cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t descriptor,
                                                          cudnnMathType_t math) {
  if (!descriptor) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  descriptor->math = math;
  return CUDNN_STATUS_SUCCESS;
}

PHANTORA_EXPORT cudnnStatus_t cudnnSetPoolingNdDescriptor(cudnnPoolingDescriptor_t descriptor,
                                                          const cudnnPoolingMode_t mode,
                                                          const cudnnNanPropagation_t, int count,
                                                          const int window[], const int padding[],
                                                          const int stride[]) {
  return entry(Api::library_setup, [&] {
    if (!descriptor || !window || !padding || !stride) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    descriptor->mode = mode;
    descriptor->window = list(window, count);
    descriptor->padding = list(padding, count);
    descriptor->stride = list(stride, count);
    return CUDNN_STATUS_SUCCESS;
  });
}

PHANTORA_EXPORT cudnnStatus_t cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t descriptor,
                                                          cudnnPoolingMode_t mode,
                                                          cudnnNanPropagation_t nan, int height,
                                                          int width, int pad_h, int pad_w,
                                                          int stride_h, int stride_w) {
  const int window[] = {height, width}, padding[] = {pad_h, pad_w}, stride[] = {stride_h, stride_w};
  return cudnnSetPoolingNdDescriptor(descriptor, mode, nan, 2, window, padding, stride);
}

PHANTORA_EXPORT cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t descriptor,
                                                           cudnnActivationMode_t mode,
                                                           cudnnNanPropagation_t nan,
                                                           double coefficient) {
  if (!descriptor) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *descriptor = {mode, nan, coefficient};
  return CUDNN_STATUS_SUCCESS;
}

PHANTORA_EXPORT cudnnStatus_t cudnnDropoutGetStatesSize(cudnnHandle_t, std::size_t* bytes) {
  return entry(Api::library_setup, [&] {
    if (!bytes) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    // One generator state of 48 bytes (curandStateXORWOW) for each of 1,024 threads of an SM:
    // 6,488,064 bytes on an H100 (cuDNN 9.19).
    constexpr std::size_t state = 48, threads_per_sm = 1024;
    *bytes = state * threads_per_sm * static_cast<std::size_t>(phantora::rank::gpu().sm_count);
    return CUDNN_STATUS_SUCCESS;
  });
}

PHANTORA_EXPORT cudnnStatus_t cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t descriptor,
                                                        cudnnHandle_t, float probability,
                                                        void* states, std::size_t bytes,
                                                        unsigned long long seed) {
  if (!descriptor) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *descriptor = {probability, states, bytes, seed};
  return CUDNN_STATUS_SUCCESS;
}

PHANTORA_EXPORT cudnnStatus_t cudnnRestoreDropoutDescriptor(cudnnDropoutDescriptor_t descriptor,
                                                            cudnnHandle_t handle, float probability,
                                                            void* states, std::size_t bytes,
                                                            unsigned long long seed) {
  return cudnnSetDropoutDescriptor(descriptor, handle, probability, states, bytes, seed);
}
