// Nodes that copy and fill, whose calls differ between the two APIs.

#include "cuda/graphs/calls.hpp"

using namespace phantora::graphs;
namespace rank = phantora::rank;

PHANTORA_EXPORT Status PHANTORA_API(GraphMemcpyNodeGetParams)(NodeHandle node,
                                                              CopyParameters* parameters) {
  return call([&] {
    expect(parameters != nullptr);
    tell(*parameters, node_of(node));
  });
}
PHANTORA_EXPORT Status PHANTORA_API(GraphMemcpyNodeSetParams)(NodeHandle node,
                                                              const CopyParameters* parameters) {
  return call([&] {
    expect(parameters != nullptr);
    change(node, work_of(*parameters));
  });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphMemsetNodeGetParams)(NodeHandle node,
                                                              FillParameters* parameters) {
  return call([&] {
    expect(parameters != nullptr);
    tell(*parameters, node_of(node));
  });
}
PHANTORA_EXPORT Status PHANTORA_API(GraphMemsetNodeSetParams)(NodeHandle node,
                                                              const FillParameters* parameters) {
  return call([&] {
    expect(parameters != nullptr);
    change(node, work_of(*parameters));
  });
}

#ifdef PHANTORA_DRIVER_API

// The driver is told in which context a copy or a fill happens.

PHANTORA_EXPORT CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph,
                                              const CUgraphNode* dependencies, std::size_t count,
                                              const CUDA_MEMCPY3D* parameters, CUcontext) {
  return call([&] {
    expect(parameters != nullptr);
    add(node, graph, dependencies, nullptr, count, work_of(*parameters));
  });
}
PHANTORA_EXPORT CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                                        const CUDA_MEMCPY3D* parameters,
                                                        CUcontext) {
  return call([&] {
    expect(parameters != nullptr);
    change(executable, node, work_of(*parameters));
  });
}
PHANTORA_EXPORT CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph,
                                              const CUgraphNode* dependencies, std::size_t count,
                                              const CUDA_MEMSET_NODE_PARAMS* parameters,
                                              CUcontext) {
  return call([&] {
    expect(parameters != nullptr);
    add(node, graph, dependencies, nullptr, count, work_of(*parameters));
  });
}
PHANTORA_EXPORT CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                                        const CUDA_MEMSET_NODE_PARAMS* parameters,
                                                        CUcontext) {
  return call([&] {
    expect(parameters != nullptr);
    change(executable, node, work_of(*parameters));
  });
}

#else

PHANTORA_EXPORT cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                   const cudaGraphNode_t* dependencies,
                                                   std::size_t count,
                                                   const cudaMemcpy3DParms* parameters) {
  return call([&] {
    expect(parameters != nullptr);
    add(node, graph, dependencies, nullptr, count, work_of(*parameters));
  });
}
PHANTORA_EXPORT cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t executable,
                                                             cudaGraphNode_t node,
                                                             const cudaMemcpy3DParms* parameters) {
  return call([&] {
    expect(parameters != nullptr);
    change(executable, node, work_of(*parameters));
  });
}
PHANTORA_EXPORT cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                   const cudaGraphNode_t* dependencies,
                                                   std::size_t count,
                                                   const cudaMemsetParams* parameters) {
  return call([&] {
    expect(parameters != nullptr);
    add(node, graph, dependencies, nullptr, count, work_of(*parameters));
  });
}
PHANTORA_EXPORT cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t executable,
                                                             cudaGraphNode_t node,
                                                             const cudaMemsetParams* parameters) {
  return call([&] {
    expect(parameters != nullptr);
    change(executable, node, work_of(*parameters));
  });
}

// The runtime has short forms for copies of one row, to and from registered variables too.

PHANTORA_EXPORT cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph,
                                                     const cudaGraphNode_t* dependencies,
                                                     std::size_t count, void* to, const void* from,
                                                     std::size_t bytes, cudaMemcpyKind) {
  return call(
      [&] { add(node, graph, dependencies, nullptr, count, work_of_row(to, from, bytes)); });
}
PHANTORA_EXPORT cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* to,
                                                           const void* from, std::size_t bytes,
                                                           cudaMemcpyKind) {
  return call([&] { change(node, work_of_row(to, from, bytes)); });
}
PHANTORA_EXPORT cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t executable,
                                                               cudaGraphNode_t node, void* to,
                                                               const void* from, std::size_t bytes,
                                                               cudaMemcpyKind) {
  return call([&] { change(executable, node, work_of_row(to, from, bytes)); });
}
PHANTORA_EXPORT cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t* node, cudaGraph_t graph,
                                                           const cudaGraphNode_t* dependencies,
                                                           std::size_t count, const void* symbol,
                                                           const void* from, std::size_t bytes,
                                                           std::size_t offset, cudaMemcpyKind) {
  return call([&] {
    add(node, graph, dependencies, nullptr, count,
        work_of_row(in_symbol(symbol, offset, bytes), from, bytes));
  });
}
PHANTORA_EXPORT cudaError_t
cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void* symbol, const void* from,
                                     std::size_t bytes, std::size_t offset, cudaMemcpyKind) {
  return call([&] { change(node, work_of_row(in_symbol(symbol, offset, bytes), from, bytes)); });
}
PHANTORA_EXPORT cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(
    cudaGraphExec_t executable, cudaGraphNode_t node, const void* symbol, const void* from,
    std::size_t bytes, std::size_t offset, cudaMemcpyKind) {
  return call([&] {
    change(executable, node, work_of_row(in_symbol(symbol, offset, bytes), from, bytes));
  });
}
PHANTORA_EXPORT cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t* node,
                                                             cudaGraph_t graph,
                                                             const cudaGraphNode_t* dependencies,
                                                             std::size_t count, void* to,
                                                             const void* symbol, std::size_t bytes,
                                                             std::size_t offset, cudaMemcpyKind) {
  return call([&] {
    add(node, graph, dependencies, nullptr, count,
        work_of_row(to, in_symbol(symbol, offset, bytes), bytes));
  });
}
PHANTORA_EXPORT cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void* to,
                                                                   const void* symbol,
                                                                   std::size_t bytes,
                                                                   std::size_t offset,
                                                                   cudaMemcpyKind) {
  return call([&] { change(node, work_of_row(to, in_symbol(symbol, offset, bytes), bytes)); });
}
PHANTORA_EXPORT cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(
    cudaGraphExec_t executable, cudaGraphNode_t node, void* to, const void* symbol,
    std::size_t bytes, std::size_t offset, cudaMemcpyKind) {
  return call(
      [&] { change(executable, node, work_of_row(to, in_symbol(symbol, offset, bytes), bytes)); });
}

#endif
