// Nodes that copy and fill, whose calls differ between the two APIs.

#include "cuda/graphs/calls.hpp"

using namespace phantora::graphs;
namespace rank = phantora::rank;

PHANTORA_EXPORT Status PHANTORA_API(GraphMemcpyNodeGetParams)(NodeHandle node,
                                                              CopyParameters* parameters) {
  return get_parameters(node, parameters);
}
PHANTORA_EXPORT Status PHANTORA_API(GraphMemcpyNodeSetParams)(NodeHandle node,
                                                              const CopyParameters* parameters) {
  return set_parameters(node, parameters);
}

PHANTORA_EXPORT Status PHANTORA_API(GraphMemsetNodeGetParams)(NodeHandle node,
                                                              FillParameters* parameters) {
  return get_parameters(node, parameters);
}
PHANTORA_EXPORT Status PHANTORA_API(GraphMemsetNodeSetParams)(NodeHandle node,
                                                              const FillParameters* parameters) {
  return set_parameters(node, parameters);
}

// The driver is told in which context a copy or a fill happens, too.
#ifdef PHANTORA_DRIVER_API
#define PHANTORA_AND_CONTEXT , CUcontext
#else
#define PHANTORA_AND_CONTEXT
#endif

PHANTORA_EXPORT Status PHANTORA_API(GraphAddMemcpyNode)(
    NodeHandle* node, GraphHandle graph, const NodeHandle* dependencies, std::size_t count,
    const CopyParameters* parameters PHANTORA_AND_CONTEXT) {
  return add_node(node, graph, dependencies, count, parameters);
}
PHANTORA_EXPORT Status
PHANTORA_API(GraphExecMemcpyNodeSetParams)(ExecutableHandle executable, NodeHandle node,
                                           const CopyParameters* parameters PHANTORA_AND_CONTEXT) {
  return set_parameters(executable, node, parameters);
}
PHANTORA_EXPORT Status PHANTORA_API(GraphAddMemsetNode)(
    NodeHandle* node, GraphHandle graph, const NodeHandle* dependencies, std::size_t count,
    const FillParameters* parameters PHANTORA_AND_CONTEXT) {
  return add_node(node, graph, dependencies, count, parameters);
}
PHANTORA_EXPORT Status
PHANTORA_API(GraphExecMemsetNodeSetParams)(ExecutableHandle executable, NodeHandle node,
                                           const FillParameters* parameters PHANTORA_AND_CONTEXT) {
  return set_parameters(executable, node, parameters);
}

#ifndef PHANTORA_DRIVER_API

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
