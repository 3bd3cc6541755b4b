#include "cuda/cudnn/graph.hpp"

#include "cuda/cudnn/operations.hpp"

#include <algorithm>
#include <set>
#include <string>

namespace phantora::cudnn {
namespace {

Tensor tensor_of(const Descriptor& descriptor) {
  return {descriptor.get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE).value_or(CUDNN_DATA_FLOAT),
          descriptor.list<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS),
          descriptor.list<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES)};
}

Tensor tensor_of(const Descriptor& operation, cudnnBackendAttributeName_t name) {
  const Reference tensor = operation.reference(name);
  return tensor ? tensor_of(*tensor) : Tensor{};
}

/// An operation's name in kernel queries and which of its attributes are tensors that it writes.
struct Kind {
  cudnnBackendDescriptorType_t type;
  const char* name;
  std::vector<cudnnBackendAttributeName_t> outputs;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
       "conv_fwd",
       {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y}},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
       "conv_bwd_data",
       {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX}},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
       "conv_bwd_filter",
       {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW}},
      {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
       "pointwise",
       {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_ATTR_OPERATION_POINTWISE_DXDESC}},
      {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, "gemm", {CUDNN_ATTR_OPERATION_MATMUL_CDESC}},
      {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
       "reduction",
       {CUDNN_ATTR_OPERATION_REDUCTION_YDESC}},
      {CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR,
       "gen_stats",
       {CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC}},
      {CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR,
       "norm_fwd",
       {CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC,
        CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC,
        CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC,
        CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC}},
      {CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR,
       "norm_bwd",
       {CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC,
        CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC}},
      {CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR,
       "resample_fwd",
       {CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC}},
      {CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR,
       "resample_bwd",
       {CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC}},
      {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, "reshape", {CUDNN_ATTR_OPERATION_RESHAPE_YDESC}},
      {CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR, "rng", {CUDNN_ATTR_OPERATION_RNG_YDESC}},
      {CUDNN_BACKEND_OPERATION_CONCAT_DESCRIPTOR,
       "concat",
       {CUDNN_ATTR_OPERATION_CONCAT_OUTPUT_DESC}},
      {CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR,
       "sdpa_fwd",
       {CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC}},
      {CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR,
       "sdpa_bwd",
       {CUDNN_ATTR_OPERATION_SDPA_BWD_DQDESC, CUDNN_ATTR_OPERATION_SDPA_BWD_DKDESC,
        CUDNN_ATTR_OPERATION_SDPA_BWD_DVDESC}},
      {CUDNN_BACKEND_OPERATION_DIAGONAL_BAND_MASK_DESCRIPTOR,
       "band_mask",
       {CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_YDESC}},
      {CUDNN_BACKEND_OPERATION_SOFTMAX_DESCRIPTOR,
       "softmax",
       {CUDNN_ATTR_OPERATION_SOFTMAX_YDESC, CUDNN_ATTR_OPERATION_SOFTMAX_STATS_DESC,
        CUDNN_ATTR_OPERATION_SOFTMAX_MAX_DESC, CUDNN_ATTR_OPERATION_SOFTMAX_SUM_EXP_DESC}},
      {CUDNN_BACKEND_OPERATION_TRANSPOSE_DESCRIPTOR,
       "transpose",
       {CUDNN_ATTR_OPERATION_TRANSPOSE_YDESC}},
      {CUDNN_BACKEND_OPERATION_SLICE_DESCRIPTOR, "slice", {CUDNN_ATTR_OPERATION_SLICE_YDESC}},
  };
  return all;
}

const Kind* kind_of(const Descriptor& operation) {
  const auto found = std::find_if(kinds().begin(), kinds().end(),
                                  [&](const Kind& kind) { return kind.type == operation.type; });
  return found == kinds().end() ? nullptr : &*found;
}

std::vector<Reference> operations(const Descriptor& graph) {
  return graph.references(CUDNN_ATTR_OPERATIONGRAPH_OPS);
}

std::vector<Reference> operations(const Descriptor& graph, cudnnBackendDescriptorType_t type) {
  std::vector<Reference> found;
  for (const Reference& operation : operations(graph)) {
    if (operation->type == type) found.push_back(operation);
  }
  return found;
}

/// The graph's convolution; null if it has none.
Reference convolution_in(const Descriptor& graph) {
  for (const Reference& operation : operations(graph)) {
    if (operation->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
        operation->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
        operation->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR) {
      return operation;
    }
  }
  return nullptr;
}

Convolution convolution_of(const Descriptor& operation, bool tensor_cores) {
  Convolution c;
  Reference geometry;
  switch (operation.type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      c.pass = Pass::forward;
      c.image = tensor_of(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X);
      c.filter = tensor_of(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W);
      c.output = tensor_of(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
      geometry = operation.reference(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
      break;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      c.pass = Pass::backward_data;
      c.image = tensor_of(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX);
      c.filter = tensor_of(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W);
      c.output = tensor_of(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY);
      geometry = operation.reference(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC);
      break;
    default:
      c.pass = Pass::backward_filter;
      c.image = tensor_of(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X);
      c.filter = tensor_of(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW);
      c.output = tensor_of(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY);
      geometry = operation.reference(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC);
      break;
  }
  if (geometry) {
    c.padding = geometry->list<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
    c.stride = geometry->list<std::int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
    c.dilation = geometry->list<std::int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  }
  if (c.image.type == CUDNN_DATA_FLOAT && tensor_cores) c.compute = "tf32";
  return c;
}

/// Whether an operation of the graph, or of the graph that attention applies to its scores, is one.
template <class Predicate>
bool any_operation(const Descriptor& graph, const Predicate& is_one) {
  for (const Reference& operation : operations(graph)) {
    if (is_one(*operation)) return true;
    for (const auto name :
         {CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH, CUDNN_ATTR_OPERATION_SDPA_BWD_SUBGRAPH}) {
      const Reference inner = operation->reference(name);
      if (inner && any_operation(*inner, is_one)) return true;
    }
  }
  return false;
}

bool is_pointwise(const Descriptor& operation, cudnnPointwiseMode_t mode) {
  const Reference pointwise = operation.reference(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  return pointwise && pointwise->get<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE) == mode;
}

/// By comparing indices, as a causal mask does.
bool masks_by_index(const Descriptor& graph) {
  return any_operation(graph, [](const Descriptor& operation) {
    return operation.type == CUDNN_BACKEND_OPERATION_DIAGONAL_BAND_MASK_DESCRIPTOR ||
           is_pointwise(operation, CUDNN_POINTWISE_GEN_INDEX);
  });
}

/// By a tensor of the program's, with a number for each pair of a query and a key.
bool adds_a_mask(const Descriptor& graph) {
  return any_operation(graph, [](const Descriptor& operation) {
    if (!is_pointwise(operation, CUDNN_POINTWISE_ADD)) return false;
    const Reference added = operation.reference(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    if (!added || added->get<std::uint8_t>(CUDNN_ATTR_TENSOR_IS_VIRTUAL).value_or(0) != 0)
      return false;
    const Tensor tensor = tensor_of(*added);
    return tensor.dim(2) > 1 && tensor.dim(3) > 1;
  });
}

bool draws_numbers(const Descriptor& graph) {
  return any_operation(graph, [](const Descriptor& operation) {
    return operation.type == CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR ||
           operation.reference(CUDNN_ATTR_OPERATION_SDPA_FWD_DROPOUT_SEED_DESC);
  });
}

/// K as [b, h, s, d] from the [b, h, d, s] that the first product has.
Tensor transposed(Tensor tensor) {
  if (tensor.dims.size() >= 2) {
    const std::size_t last = tensor.dims.size() - 1;
    std::swap(tensor.dims[last], tensor.dims[last - 1]);
    std::swap(tensor.strides[last], tensor.strides[last - 1]);
  }
  return tensor;
}

/// Attention, as one operation or as the products that the frontend composes it from: two forward
/// (Q K^T, P V), five backward. nullopt if the graph is something else.
std::optional<Attention> operands_of_attention(const Descriptor& graph) {
  for (const Reference& operation : operations(graph)) {
    if (operation->type == CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR) {
      return Attention{false, masks_by_index(graph),
                       tensor_of(*operation, CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC),
                       tensor_of(*operation, CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC),
                       tensor_of(*operation, CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC)};
    }
    if (operation->type == CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR) {
      return Attention{true, masks_by_index(graph),
                       tensor_of(*operation, CUDNN_ATTR_OPERATION_SDPA_BWD_QDESC),
                       tensor_of(*operation, CUDNN_ATTR_OPERATION_SDPA_BWD_KDESC),
                       tensor_of(*operation, CUDNN_ATTR_OPERATION_SDPA_BWD_VDESC)};
    }
  }
  const auto products = operations(graph, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  if (products.size() < 2) return std::nullopt;
  Attention attention;
  attention.backward = products.size() >= 4;
  attention.causal = masks_by_index(graph);
  const auto operand = [&](std::size_t i, cudnnBackendAttributeName_t name) {
    return tensor_of(*products[i], name);
  };
  attention.q = operand(0, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
  attention.k = transposed(operand(0, CUDNN_ATTR_OPERATION_MATMUL_BDESC));
  attention.v = operand(1, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
  // Backward, the second product is P^T dO, and dO is as deep as V.
  return attention;
}

std::optional<Attention> attention_in(const Descriptor& graph) {
  auto attention = operands_of_attention(graph);
  if (attention) {
    attention->masked = adds_a_mask(graph);
    attention->dropout = draws_numbers(graph);
  }
  return attention;
}

KernelQuery product_query(const Descriptor& operation) {
  const Tensor a = tensor_of(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
  const Tensor b = tensor_of(operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
  const Tensor c = tensor_of(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
  const auto last = [](const Tensor& t, std::size_t from_end) {
    return t.dims.size() >= from_end ? t.dims[t.dims.size() - from_end] : 1;
  };
  // Row-major C = A B is column-major C^T = B^T A^T, which is how cuBLAS would be asked.
  const std::int64_t rows = last(c, 2), columns = last(c, 1), inner = last(a, 1);
  const std::int64_t batch =
      std::max<std::int64_t>(1, c.elements() / std::max<std::int64_t>(1, rows * columns));
  const bool b_transposed = b.strides.size() >= 2 && b.strides.back() != 1;
  const bool a_transposed = a.strides.size() >= 2 && a.strides.back() != 1;
  const auto number = [](std::int64_t v) { return static_cast<double>(v); };
  KernelQuery query;
  query.name = "gemm";
  query.features = {{"m", number(columns)},
                    {"n", number(rows)},
                    {"k", number(inner)},
                    {"batch", number(batch)},
                    {"lda", number(b_transposed ? inner : columns)},
                    {"ldb", number(a_transposed ? rows : inner)},
                    {"ldc", number(columns)},
                    {"a_align", 16},
                    {"b_align", 16},
                    {"c_align", 16}};
  query.attributes = {{"a_type", name_of(b.type)},
                      {"b_type", name_of(a.type)},
                      {"c_type", name_of(c.type)},
                      {"compute", "fp32"},
                      {"transa", b_transposed ? "T" : "N"},
                      {"transb", a_transposed ? "T" : "N"},
                      {"epilogue", "none"}};
  query.flops = 2 * number(rows) * number(columns) * number(inner) * number(batch);
  for (const Tensor& tensor : {a, b, c}) {
    query.bytes += number(tensor.elements()) * static_cast<double>(size_of(tensor.type));
  }
  return query;
}

/// Every tensor that operations of the graph refer to and that is in memory, once.
std::vector<Reference> memory_tensors(const Descriptor& graph) {
  std::vector<Reference> found;
  std::set<std::int64_t> seen;
  for (const Reference& operation : operations(graph)) {
    for (const auto& [name, attribute] : operation->attributes) {
      for (const Reference& reference : attribute.descriptors) {
        if (!reference || reference->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR) continue;
        if (reference->get<unsigned char>(CUDNN_ATTR_TENSOR_IS_VIRTUAL).value_or(0)) continue;
        if (reference->get<unsigned char>(CUDNN_ATTR_TENSOR_IS_BY_VALUE).value_or(0)) continue;
        const auto id = reference->get<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID).value_or(0);
        if (seen.insert(id).second) found.push_back(reference);
      }
    }
  }
  return found;
}

}  // namespace

bool supported(const Descriptor& graph) {
  const auto all = operations(graph);
  return !all.empty() && std::all_of(all.begin(), all.end(), [](const Reference& operation) {
    return kind_of(*operation) != nullptr;
  });
}

std::vector<Engine> engines(const Descriptor& graph) {
  const Reference operation = convolution_in(graph);
  if (!operation) return {Engine{}};
  const bool single = convolution_of(*operation, false).image.type == CUDNN_DATA_FLOAT;
  // Fourier transforms, which need most, are done in single precision.
  if (single) return {{.tensor_cores = true}, {}, {.widest = true}};
  return {{.tensor_cores = true}, {.tensor_cores = true, .widest = true}};
}

std::size_t workspace_bytes(const Descriptor& graph, Engine engine) {
  if (const Reference operation = convolution_in(graph)) {
    const Convolution c = convolution_of(*operation, engine.tensor_cores);
    return engine.widest ? widest_workspace_bytes(c) : workspace_bytes(c);
  }
  const auto attention = attention_in(graph);
  return attention ? workspace_bytes(*attention) : 0;
}

Execution execution(const Descriptor& graph, Engine engine,
                    const std::map<std::int64_t, void*>& pointers) {
  Execution result;
  if (const Reference operation = convolution_in(graph)) {
    Convolution c = convolution_of(*operation, engine.tensor_cores);
    c.tried = graph.tried;
    result.queries.push_back(describe(c));
    if (engine.widest)
      result.queries.push_back(
          describe_memory_bound("tensor_transform", {c.image, c.filter, c.output}));
  } else if (const auto attention = attention_in(graph)) {
    result.queries.push_back(describe(*attention));
  } else if (const auto products = operations(graph, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
             !products.empty()) {
    result.queries.push_back(product_query(*products.front()));
  } else {
    std::vector<Tensor> tensors;
    for (const Reference& tensor : memory_tensors(graph)) tensors.push_back(tensor_of(*tensor));
    const auto all = operations(graph);
    result.queries.push_back(describe_memory_bound(kind_of(*all.front())->name, tensors));
  }
  for (const Reference& operation : operations(graph)) {
    for (const cudnnBackendAttributeName_t name : kind_of(*operation)->outputs) {
      const Reference tensor = operation->reference(name);
      if (!tensor) continue;
      const auto id = tensor->get<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
      const auto found = id ? pointers.find(*id) : pointers.end();
      if (found != pointers.end()) {
        result.outputs.push_back({found->second, tensor_of(*tensor).extent()});
      }
    }
  }
  for (const Reference& tensor : memory_tensors(graph)) {
    const auto id = tensor->get<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    const auto found = id ? pointers.find(*id) : pointers.end();
    if (found == pointers.end()) continue;
    const bool is_output = std::ranges::any_of(result.outputs, [&](const library::Output& output) {
      return output.address == found->second;
    });
    if (!is_output) result.inputs.push_back({found->second, tensor_of(*tensor).extent()});
  }
  return result;
}

}  // namespace phantora::cudnn
