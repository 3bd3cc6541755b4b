// Operations of cuDNN's fixed-function API: convolutions, batch normalisation, pooling, activation
// and softmax. Nothing is executed; outputs become unknown.
#include "cuda/cudnn/legacy.hpp"

#include "cuda/cudnn/handle.hpp"
#include "cuda/library/operation.hpp"

#include <initializer_list>

using namespace phantora::cudnn;
namespace library = phantora::library;
using phantora::KernelQuery;

namespace {

Convolution convolution(Pass pass, cudnnTensorDescriptor_t image, cudnnFilterDescriptor_t filter,
                        cudnnConvolutionDescriptor_t geometry, cudnnTensorDescriptor_t output) {
  const bool tf32 = image->tensor.type == CUDNN_DATA_FLOAT && geometry->math != CUDNN_FMA_MATH;
  return {pass,
          image->tensor,
          filter->tensor,
          output->tensor,
          geometry->padding,
          geometry->stride,
          geometry->dilation,
          tf32 ? "tf32" : "fp32"};
}

cudnnStatus_t run(cudnnHandle_t handle, const Convolution& c, library::Output output,
                  std::initializer_list<library::Input> inputs) {
  library::submit(stream_of(handle), describe(c), {output}, inputs);
  return CUDNN_STATUS_SUCCESS;
}

/// The only algorithm that the finders offer: the one whose time the cost model predicts.
template <class Performance, class Algorithm>
cudnnStatus_t found(Algorithm algorithm, const Convolution& c, cudnnMathType_t math, int requested,
                    int* returned, Performance* results) {
  if (requested < 1 || !returned || !results) return CUDNN_STATUS_BAD_PARAM;
  results[0] = {};
  results[0].algo = algorithm;
  results[0].status = CUDNN_STATUS_SUCCESS;
  results[0].time = 0.0f;
  results[0].memory = workspace_bytes(c);
  results[0].determinism = CUDNN_DETERMINISTIC;
  results[0].mathType = math;
  *returned = 1;
  return CUDNN_STATUS_SUCCESS;
}

std::size_t channel_bytes(cudnnTensorDescriptor_t descriptor) {
  return descriptor ? descriptor->tensor.extent() : 0;
}

}  // namespace

PHANTORA_EXPORT cudnnStatus_t cudnnConvolutionForward(
    cudnnHandle_t handle, const void*, const cudnnTensorDescriptor_t x_descriptor, const void* x,
    const cudnnFilterDescriptor_t w_descriptor, const void* w,
    const cudnnConvolutionDescriptor_t geometry, cudnnConvolutionFwdAlgo_t, void*, std::size_t,
    const void*, const cudnnTensorDescriptor_t y_descriptor, void* y) {
  return entry(Api::lt_matmul, [&] {
    return run(handle,
               convolution(Pass::forward, x_descriptor, w_descriptor, geometry, y_descriptor),
               {y, y_descriptor->tensor.extent()},
               {{x, x_descriptor->tensor.extent()}, {w, w_descriptor->tensor.extent()}});
  });
}

PHANTORA_EXPORT cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t handle, const void*, const cudnnTensorDescriptor_t x_descriptor, const void* x,
    const cudnnFilterDescriptor_t w_descriptor, const void* w,
    const cudnnConvolutionDescriptor_t geometry, cudnnConvolutionFwdAlgo_t, void*, std::size_t,
    const void*, const cudnnTensorDescriptor_t, const void*, const cudnnTensorDescriptor_t,
    const void*, const cudnnActivationDescriptor_t, const cudnnTensorDescriptor_t y_descriptor,
    void* y) {
  return entry(Api::lt_matmul, [&] {
    return run(handle,
               convolution(Pass::forward, x_descriptor, w_descriptor, geometry, y_descriptor),
               {y, y_descriptor->tensor.extent()},
               {{x, x_descriptor->tensor.extent()}, {w, w_descriptor->tensor.extent()}});
  });
}

PHANTORA_EXPORT cudnnStatus_t cudnnConvolutionBackwardData(
    cudnnHandle_t handle, const void*, const cudnnFilterDescriptor_t w_descriptor, const void* w,
    const cudnnTensorDescriptor_t dy_descriptor, const void* dy,
    const cudnnConvolutionDescriptor_t geometry, cudnnConvolutionBwdDataAlgo_t, void*, std::size_t,
    const void*, const cudnnTensorDescriptor_t dx_descriptor, void* dx) {
  return entry(Api::lt_matmul, [&] {
    return run(
        handle,
        convolution(Pass::backward_data, dx_descriptor, w_descriptor, geometry, dy_descriptor),
        {dx, dx_descriptor->tensor.extent()},
        {{w, w_descriptor->tensor.extent()}, {dy, dy_descriptor->tensor.extent()}});
  });
}

PHANTORA_EXPORT cudnnStatus_t cudnnConvolutionBackwardFilter(
    cudnnHandle_t handle, const void*, const cudnnTensorDescriptor_t x_descriptor, const void* x,
    const cudnnTensorDescriptor_t dy_descriptor, const void* dy,
    const cudnnConvolutionDescriptor_t geometry, cudnnConvolutionBwdFilterAlgo_t, void*,
    std::size_t, const void*, const cudnnFilterDescriptor_t dw_descriptor, void* dw) {
  return entry(Api::lt_matmul, [&] {
    return run(
        handle,
        convolution(Pass::backward_filter, x_descriptor, dw_descriptor, geometry, dy_descriptor),
        {dw, dw_descriptor->tensor.extent()},
        {{x, x_descriptor->tensor.extent()}, {dy, dy_descriptor->tensor.extent()}});
  });
}

PHANTORA_EXPORT cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t geometry, const cudnnTensorDescriptor_t y,
    cudnnConvolutionFwdAlgo_t, std::size_t* bytes) {
  *bytes = workspace_bytes(convolution(Pass::forward, x, w, geometry, y));
  return CUDNN_STATUS_SUCCESS;
}

PHANTORA_EXPORT cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t geometry, const cudnnTensorDescriptor_t dx,
    cudnnConvolutionBwdDataAlgo_t, std::size_t* bytes) {
  *bytes = workspace_bytes(convolution(Pass::backward_data, dx, w, geometry, dy));
  return CUDNN_STATUS_SUCCESS;
}

PHANTORA_EXPORT cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t geometry, const cudnnFilterDescriptor_t dw,
    cudnnConvolutionBwdFilterAlgo_t, std::size_t* bytes) {
  *bytes = workspace_bytes(convolution(Pass::backward_filter, x, dw, geometry, dy));
  return CUDNN_STATUS_SUCCESS;
}

PHANTORA_EXPORT cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t geometry, const cudnnTensorDescriptor_t y, int requested,
    int* returned, cudnnConvolutionFwdAlgoPerf_t* results) {
  return found(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
               convolution(Pass::forward, x, w, geometry, y), geometry->math, requested, returned,
               results);
}

PHANTORA_EXPORT cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t geometry, const cudnnTensorDescriptor_t dx, int requested,
    int* returned, cudnnConvolutionBwdDataAlgoPerf_t* results) {
  return found(CUDNN_CONVOLUTION_BWD_DATA_ALGO_1,
               convolution(Pass::backward_data, dx, w, geometry, dy), geometry->math, requested,
               returned, results);
}

PHANTORA_EXPORT cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t geometry, const cudnnFilterDescriptor_t dw, int requested,
    int* returned, cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  return found(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1,
               convolution(Pass::backward_filter, x, dw, geometry, dy), geometry->math, requested,
               returned, results);
}

PHANTORA_EXPORT cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const void*,
    const cudnnFilterDescriptor_t w, const void*, const cudnnConvolutionDescriptor_t geometry,
    const cudnnTensorDescriptor_t y, void*, const int requested, int* returned,
    cudnnConvolutionFwdAlgoPerf_t* results, void*, std::size_t) {
  return cudnnGetConvolutionForwardAlgorithm_v7(handle, x, w, geometry, y, requested, returned,
                                                results);
}

PHANTORA_EXPORT cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithmEx(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t w, const void*,
    const cudnnTensorDescriptor_t dy, const void*, const cudnnConvolutionDescriptor_t geometry,
    const cudnnTensorDescriptor_t dx, void*, const int requested, int* returned,
    cudnnConvolutionBwdDataAlgoPerf_t* results, void*, std::size_t) {
  return cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, w, dy, geometry, dx, requested,
                                                     returned, results);
}

PHANTORA_EXPORT cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithmEx(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const void*,
    const cudnnTensorDescriptor_t dy, const void*, const cudnnConvolutionDescriptor_t geometry,
    const cudnnFilterDescriptor_t dw, void*, const int requested, int* returned,
    cudnnConvolutionBwdFilterAlgoPerf_t* results, void*, std::size_t) {
  return cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, x, dy, geometry, dw, requested,
                                                       returned, results);
}

PHANTORA_EXPORT cudnnStatus_t cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnActivationDescriptor_t, std::size_t* bytes) {
  *bytes = 0;
  return CUDNN_STATUS_SUCCESS;
}

PHANTORA_EXPORT cudnnStatus_t cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const cudnnActivationDescriptor_t,
    const cudnnTensorDescriptor_t, std::size_t* bytes) {
  *bytes = 0;
  return CUDNN_STATUS_SUCCESS;
}

PHANTORA_EXPORT cudnnStatus_t cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t, const cudnnActivationDescriptor_t,
    std::size_t* bytes) {
  *bytes = 0;
  return CUDNN_STATUS_SUCCESS;
}

PHANTORA_EXPORT cudnnStatus_t cudnnBatchNormalizationForwardTrainingEx(
    cudnnHandle_t handle, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const void*, const void*,
    const cudnnTensorDescriptor_t x, const void* image, const cudnnTensorDescriptor_t, const void*,
    const cudnnTensorDescriptor_t y_descriptor, void* y,
    const cudnnTensorDescriptor_t channel_descriptor, const void*, const void*, double,
    void* running_mean, void* running_variance, double, void* mean, void* inverse_deviation,
    cudnnActivationDescriptor_t, void*, std::size_t, void* reserve, std::size_t reserve_bytes) {
  return entry(Api::lt_matmul, [&] {
    const std::size_t channel = channel_bytes(channel_descriptor);
    library::submit(stream_of(handle), describe_batch_norm(Norm::training, x->tensor),
                    {{y, y_descriptor->tensor.extent()},
                     {running_mean, channel},
                     {running_variance, channel},
                     {mean, channel},
                     {inverse_deviation, channel},
                     {reserve, reserve_bytes}},
                    {{image, x->tensor.extent()}});
    return CUDNN_STATUS_SUCCESS;
  });
}

PHANTORA_EXPORT cudnnStatus_t cudnnBatchNormalizationForwardInference(
    cudnnHandle_t handle, cudnnBatchNormMode_t, const void*, const void*,
    const cudnnTensorDescriptor_t x, const void* image, const cudnnTensorDescriptor_t y_descriptor,
    void* y, const cudnnTensorDescriptor_t, const void*, const void*, const void*, const void*,
    double) {
  return entry(Api::lt_matmul, [&] {
    library::submit(stream_of(handle), describe_batch_norm(Norm::inference, x->tensor),
                    {{y, y_descriptor->tensor.extent()}}, {{image, x->tensor.extent()}});
    return CUDNN_STATUS_SUCCESS;
  });
}

PHANTORA_EXPORT cudnnStatus_t cudnnBatchNormalizationBackwardEx(
    cudnnHandle_t handle, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const void*, const void*,
    const void*, const void*, const cudnnTensorDescriptor_t x, const void* image,
    const cudnnTensorDescriptor_t, const void*, const cudnnTensorDescriptor_t dy_descriptor,
    const void* dy, const cudnnTensorDescriptor_t dz_descriptor, void* dz,
    const cudnnTensorDescriptor_t dx_descriptor, void* dx,
    const cudnnTensorDescriptor_t channel_descriptor, const void*, const void*, void* d_scale,
    void* d_bias, double, const void*, const void*, cudnnActivationDescriptor_t, void*, std::size_t,
    void*, std::size_t) {
  return entry(Api::lt_matmul, [&] {
    const std::size_t channel = channel_bytes(channel_descriptor);
    library::submit(stream_of(handle), describe_batch_norm(Norm::backward, x->tensor),
                    {{dx, dx_descriptor->tensor.extent()},
                     {dz, channel_bytes(dz_descriptor)},
                     {d_scale, channel},
                     {d_bias, channel}},
                    {{image, x->tensor.extent()}, {dy, dy_descriptor->tensor.extent()}});
    return CUDNN_STATUS_SUCCESS;
  });
}

PHANTORA_EXPORT cudnnStatus_t cudnnPoolingForward(cudnnHandle_t handle,
                                                  const cudnnPoolingDescriptor_t, const void*,
                                                  const cudnnTensorDescriptor_t x, const void*,
                                                  const void*,
                                                  const cudnnTensorDescriptor_t y_descriptor,
                                                  void* y) {
  return entry(Api::lt_matmul, [&] {
    library::submit(stream_of(handle),
                    describe_memory_bound("pool_fwd", {x->tensor, y_descriptor->tensor}),
                    {{y, y_descriptor->tensor.extent()}});
    return CUDNN_STATUS_SUCCESS;
  });
}

PHANTORA_EXPORT cudnnStatus_t
cudnnPoolingBackward(cudnnHandle_t handle, const cudnnPoolingDescriptor_t, const void*,
                     const cudnnTensorDescriptor_t y, const void*, const cudnnTensorDescriptor_t dy,
                     const void*, const cudnnTensorDescriptor_t x, const void*, const void*,
                     const cudnnTensorDescriptor_t dx_descriptor, void* dx) {
  return entry(Api::lt_matmul, [&] {
    library::submit(stream_of(handle),
                    describe_memory_bound(
                        "pool_bwd", {y->tensor, dy->tensor, x->tensor, dx_descriptor->tensor}),
                    {{dx, dx_descriptor->tensor.extent()}});
    return CUDNN_STATUS_SUCCESS;
  });
}

PHANTORA_EXPORT cudnnStatus_t cudnnActivationForward(
    cudnnHandle_t handle, cudnnActivationDescriptor_t, const void*, const cudnnTensorDescriptor_t x,
    const void*, const void*, const cudnnTensorDescriptor_t y_descriptor, void* y) {
  return entry(Api::lt_matmul, [&] {
    library::submit(stream_of(handle),
                    describe_memory_bound("activation_fwd", {x->tensor, y_descriptor->tensor}),
                    {{y, y_descriptor->tensor.extent()}});
    return CUDNN_STATUS_SUCCESS;
  });
}

PHANTORA_EXPORT cudnnStatus_t cudnnSoftmaxForward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t,
                                                  cudnnSoftmaxMode_t, const void*,
                                                  const cudnnTensorDescriptor_t x, const void*,
                                                  const void*,
                                                  const cudnnTensorDescriptor_t y_descriptor,
                                                  void* y) {
  return entry(Api::lt_matmul, [&] {
    library::submit(stream_of(handle),
                    describe_memory_bound("softmax_fwd", {x->tensor, y_descriptor->tensor}),
                    {{y, y_descriptor->tensor.extent()}});
    return CUDNN_STATUS_SUCCESS;
  });
}

PHANTORA_EXPORT cudnnStatus_t cudnnSoftmaxBackward(
    cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t, cudnnSoftmaxMode_t, const void*,
    const cudnnTensorDescriptor_t y, const void*, const cudnnTensorDescriptor_t dy, const void*,
    const void*, const cudnnTensorDescriptor_t dx_descriptor, void* dx) {
  return entry(Api::lt_matmul, [&] {
    library::submit(
        stream_of(handle),
        describe_memory_bound("softmax_bwd", {y->tensor, dy->tensor, dx_descriptor->tensor}),
        {{dx, dx_descriptor->tensor.extent()}});
    return CUDNN_STATUS_SUCCESS;
  });
}
