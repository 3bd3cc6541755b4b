// Recurrent networks. Their weights lie in one buffer: the matrices of all layers, then the biases.
// Nothing is executed.
#include "cuda/cudnn/handle.hpp"
#include "cuda/cudnn/legacy.hpp"
#include "cuda/cudnn/recurrent_spaces.hpp"
#include "cuda/library/operation.hpp"

#include <phantora/kernels/kernel_work.hpp>

using namespace phantora::cudnn;
namespace library = phantora::library;
using phantora::KernelQuery;

struct cudnnRNNStruct {
  cudnnRNNMode_t mode{};
  cudnnRNNBiasMode_t bias{};
  cudnnDataType_t type{};
  int directions = 1, input = 0, hidden = 0, projection = 0, layers = 1;
  cudnnMathType_t math{};
  cudnnRNNAlgo_t algorithm{};
  bool dropout = false, padded = false;

  /// Gates, each with one matrix for the input and one for the state.
  [[nodiscard]] int gates() const { return mode == CUDNN_LSTM ? 4 : mode == CUDNN_GRU ? 3 : 1; }
  /// Whether one kernel does a layer: in bf16 and fp64 there is none, whatever is asked for.
  [[nodiscard]] bool persists() const {
    return algorithm != CUDNN_RNN_ALGO_STANDARD &&
           (type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_HALF);
  }
  [[nodiscard]] bool projects() const { return mode == CUDNN_LSTM && projection != hidden; }
  [[nodiscard]] int state() const { return projects() ? projection : hidden; }
  [[nodiscard]] int layer_input(int pseudo_layer) const {
    return pseudo_layer < directions ? input : state() * directions;
  }
  [[nodiscard]] int biases() const {
    return bias == CUDNN_RNN_NO_BIAS ? 0 : bias == CUDNN_RNN_DOUBLE_BIAS ? 2 : 1;
  }
};

struct cudnnRNNDataStruct {
  cudnnDataType_t type{};
  int steps = 0, batch = 0, width = 0;
  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(steps) * static_cast<std::size_t>(batch) *
           static_cast<std::size_t>(width) * size_of(type);
  }
};

namespace {

using Rnn = cudnnRNNStruct;

/// A matrix or bias vector in the weight buffer, in elements.
struct Part {
  std::size_t offset = 0;
  int rows = 0, columns = 0;
  [[nodiscard]] std::size_t count() const {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
  }
};

/// Calls `visit(pseudo layer, linear layer id, whether a bias, part)` for each part in order.
template <class Visit>
std::size_t walk(const Rnn& rnn, Visit visit) {
  std::size_t at = 0;
  const auto place = [&](int layer, int id, bool is_bias, int rows, int columns) {
    const Part part{at, rows, columns};
    at += part.count();
    visit(layer, id, is_bias, part);
  };
  const int gates = rnn.gates(), pseudo_layers = rnn.layers * rnn.directions;
  for (int layer = 0; layer < pseudo_layers; ++layer) {
    for (int id = 0; id < gates; ++id) place(layer, id, false, rnn.hidden, rnn.layer_input(layer));
    for (int id = gates; id < 2 * gates; ++id) place(layer, id, false, rnn.hidden, rnn.state());
    if (rnn.projects()) place(layer, 2 * gates, false, rnn.projection, rnn.hidden);
  }
  for (int layer = 0; layer < pseudo_layers; ++layer) {
    for (int id = 0; id < rnn.biases() * gates; ++id) {
      const bool recurrent_only = rnn.bias == CUDNN_RNN_SINGLE_REC_BIAS;
      place(layer, recurrent_only ? id + gates : id, true, rnn.hidden, 1);
    }
  }
  return at;
}

std::size_t weight_count(const Rnn& rnn) {
  return walk(rnn, [](int, int, bool, const Part&) {});
}

/// The whole pass as one operation. Every weight is used once per step and sequence; backwards, the
/// gradients of data and of weights cost as much again each.
KernelQuery describe(const char* name, const Rnn& rnn, const cudnnRNNDataStruct& x) {
  const auto weights = static_cast<double>(weight_count(rnn));
  const double rows = static_cast<double>(x.steps) * x.batch;
  KernelQuery query;
  query.name = name;
  query.features = {{"steps", x.steps},     {"batch", x.batch},     {"input", rnn.input},
                    {"hidden", rnn.hidden}, {"layers", rnn.layers}, {"directions", rnn.directions},
                    {"gates", rnn.gates()}};
  // FMA alone forbids the tensor cores to a network in fp32.
  const bool tf32 = rnn.type == CUDNN_DATA_FLOAT && rnn.math != CUDNN_FMA_MATH;
  query.attributes = {{"type", name_of(rnn.type)},
                      {"compute", rnn.type == CUDNN_DATA_DOUBLE ? "fp64"
                                  : tf32                        ? "tf32"
                                                                : "fp32"}};
  query.flops = 2 * weights * rows;
  // The recurrent weights are read again in each step, as far as they do not stay in the SMs.
  const auto element = static_cast<double>(size_of(rnn.type));
  query.bytes = element * (weights * x.steps + rows * (rnn.input + 4.0 * rnn.gates() * rnn.hidden));
  return query;
}

RecurrentSpaces spaces_of(const Rnn& rnn, const cudnnRNNDataStruct& x) {
  const auto size = [](int count) { return static_cast<std::size_t>(count); };
  return phantora::cudnn::spaces_of({.gates = size(rnn.gates()),
                                     .directions = size(rnn.directions),
                                     .layers = size(rnn.layers),
                                     .steps = size(x.steps),
                                     .batch = size(x.batch),
                                     .input = size(rnn.input),
                                     .hidden = size(rnn.hidden),
                                     .projection = rnn.projects() ? size(rnn.projection) : 0,
                                     .element = size_of(rnn.type),
                                     .dropout = rnn.dropout,
                                     .packed = !rnn.padded,
                                     .persistent = rnn.persists()});
}

/// Within a call: the host goes on when it has launched the whole pass, of which the GPU does the
/// first steps meanwhile. Unless the weights stay in the SMs, cuDNN launches a product and the
/// gates' kernel for each step of each layer, and so small networks wait for the host.
void issue(cudnnHandle_t handle, const Rnn& rnn, const KernelQuery& query,
           std::initializer_list<library::Output> outputs) {
  library::submit(stream_of(handle), query, outputs);
  const double layers = rnn.layers * rnn.directions;
  const double parts = phantora::describe(query).repeats;
  const bool by_steps = rnn.algorithm == CUDNN_RNN_ALGO_STANDARD && parts > layers;
  const phantora::Duration first = host_cost(Api::rnn_layer);
  const phantora::Duration all =
      by_steps ? phantora::times(host_cost(Api::rnn_step), parts) : phantora::times(first, layers);
  if (all > first) phantora::rank::costs_more(all - first);
}

}  // namespace

PHANTORA_EXPORT cudnnStatus_t cudnnCreateRNNDescriptor(cudnnRNNDescriptor_t* descriptor) {
  *descriptor = new cudnnRNNStruct;
  return CUDNN_STATUS_SUCCESS;
}
PHANTORA_EXPORT cudnnStatus_t cudnnDestroyRNNDescriptor(cudnnRNNDescriptor_t descriptor) {
  delete descriptor;
  return CUDNN_STATUS_SUCCESS;
}
PHANTORA_EXPORT cudnnStatus_t cudnnCreateRNNDataDescriptor(cudnnRNNDataDescriptor_t* descriptor) {
  *descriptor = new cudnnRNNDataStruct;
  return CUDNN_STATUS_SUCCESS;
}
PHANTORA_EXPORT cudnnStatus_t cudnnDestroyRNNDataDescriptor(cudnnRNNDataDescriptor_t descriptor) {
  delete descriptor;
  return CUDNN_STATUS_SUCCESS;
}

PHANTORA_EXPORT cudnnStatus_t cudnnSetRNNDescriptor_v8(
    cudnnRNNDescriptor_t descriptor, cudnnRNNAlgo_t algorithm, cudnnRNNMode_t mode,
    cudnnRNNBiasMode_t bias, cudnnDirectionMode_t direction, cudnnRNNInputMode_t,
    cudnnDataType_t type, cudnnDataType_t, cudnnMathType_t math, std::int32_t input,
    std::int32_t hidden, std::int32_t projection, std::int32_t layers,
    cudnnDropoutDescriptor_t dropout, std::uint32_t flags) {
  if (!descriptor) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (input < 1 || hidden < 1 || layers < 1) return CUDNN_STATUS_BAD_PARAM;
  *descriptor = {mode,
                 bias,
                 type,
                 direction == CUDNN_BIDIRECTIONAL ? 2 : 1,
                 input,
                 hidden,
                 projection,
                 layers,
                 math,
                 algorithm,
                 dropout != nullptr && dropout->probability > 0,
                 (flags & CUDNN_RNN_PADDED_IO_ENABLED) != 0};
  return CUDNN_STATUS_SUCCESS;
}

PHANTORA_EXPORT cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t descriptor,
                                                        cudnnDataType_t type, cudnnRNNDataLayout_t,
                                                        int steps, int batch, int width,
                                                        const int[], void*) {
  if (!descriptor) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *descriptor = {type, steps, batch, width};
  return CUDNN_STATUS_SUCCESS;
}

PHANTORA_EXPORT cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t, cudnnRNNDescriptor_t rnn,
                                                         std::size_t* bytes) {
  if (!rnn || !bytes) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *bytes = weight_count(*rnn) * size_of(rnn->type);
  return CUDNN_STATUS_SUCCESS;
}

PHANTORA_EXPORT cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t, cudnnRNNDescriptor_t rnn,
                                                        cudnnForwardMode_t mode,
                                                        cudnnRNNDataDescriptor_t x,
                                                        std::size_t* workspace,
                                                        std::size_t* reserve) {
  if (!rnn || !x) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  const RecurrentSpaces spaces = spaces_of(*rnn, *x);
  const bool trains = mode == CUDNN_FWD_MODE_TRAINING;
  if (workspace) *workspace = trains ? spaces.training : spaces.inference;
  if (reserve) *reserve = trains ? spaces.reserve : 0;
  return CUDNN_STATUS_SUCCESS;
}

PHANTORA_EXPORT cudnnStatus_t cudnnGetRNNWeightParams(
    cudnnHandle_t, cudnnRNNDescriptor_t rnn, std::int32_t pseudo_layer, std::size_t,
    const void* weights, std::int32_t id, cudnnTensorDescriptor_t matrix, void** matrix_address,
    cudnnTensorDescriptor_t bias, void** bias_address) {
  return entry(Api::library_setup, [&] {
    if (!rnn) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    // Callers ask for the matrix, the bias or both. A part that does not exist has no dimensions.
    for (const bool is_bias : {false, true}) {
      void** const address = is_bias ? bias_address : matrix_address;
      const cudnnTensorDescriptor_t descriptor = is_bias ? bias : matrix;
      Part found;
      walk(*rnn, [&](int layer, int part_id, bool part_is_bias, const Part& part) {
        if (layer == pseudo_layer && part_id == id && part_is_bias == is_bias) found = part;
      });
      const bool exists = found.rows > 0;
      auto* const base = static_cast<std::byte*>(const_cast<void*>(weights));
      if (address) *address = exists ? base + found.offset * size_of(rnn->type) : nullptr;
      if (descriptor) {
        descriptor->tensor = {rnn->type,
                              {exists ? 1 : 0, found.rows, found.columns},
                              {found.rows * found.columns, found.columns, 1}};
      }
    }
    return CUDNN_STATUS_SUCCESS;
  });
}

PHANTORA_EXPORT cudnnStatus_t cudnnRNNForward(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn,
                                              cudnnForwardMode_t, const std::int32_t[],
                                              cudnnRNNDataDescriptor_t x, const void*,
                                              cudnnRNNDataDescriptor_t y_descriptor, void* y,
                                              cudnnTensorDescriptor_t h, const void*, void* hy,
                                              cudnnTensorDescriptor_t c, const void*, void* cy,
                                              std::size_t, const void*, std::size_t, void*,
                                              std::size_t reserve_size, void* reserve) {
  return entry(Api::rnn_layer, [&] {
    if (!handle || !rnn || !x || !y_descriptor) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    issue(handle, *rnn, describe("rnn_fwd", *rnn, *x),
          {{y, y_descriptor->bytes()},
           {hy, h ? h->tensor.extent() : 0},
           {cy, c ? c->tensor.extent() : 0},
           {reserve, reserve_size}});
    return CUDNN_STATUS_SUCCESS;
  });
}

PHANTORA_EXPORT cudnnStatus_t cudnnRNNBackwardData_v8(
    cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, const std::int32_t[], cudnnRNNDataDescriptor_t,
    const void*, const void*, cudnnRNNDataDescriptor_t x, void* dx, cudnnTensorDescriptor_t h,
    const void*, const void*, void* dhx, cudnnTensorDescriptor_t c, const void*, const void*,
    void* dcx, std::size_t, const void*, std::size_t, void*, std::size_t, void*) {
  return entry(Api::rnn_layer, [&] {
    if (!handle || !rnn || !x) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    issue(handle, *rnn, describe("rnn_bwd_data", *rnn, *x),
          {{dx, x->bytes()}, {dhx, h ? h->tensor.extent() : 0}, {dcx, c ? c->tensor.extent() : 0}});
    return CUDNN_STATUS_SUCCESS;
  });
}

PHANTORA_EXPORT cudnnStatus_t cudnnRNNBackwardWeights_v8(
    cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, cudnnWgradMode_t, const std::int32_t[],
    cudnnRNNDataDescriptor_t x, const void*, cudnnTensorDescriptor_t, const void*,
    cudnnRNNDataDescriptor_t, const void*, std::size_t weight_bytes, void* dw, std::size_t, void*,
    std::size_t, void*) {
  return entry(Api::rnn_layer, [&] {
    if (!handle || !rnn || !x) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    issue(handle, *rnn, describe("rnn_bwd_weights", *rnn, *x), {{dw, weight_bytes}});
    return CUDNN_STATUS_SUCCESS;
  });
}
