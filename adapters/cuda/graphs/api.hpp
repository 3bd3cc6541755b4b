#pragma once

#include "cuda/both_apis.hpp"

// The types that the runtime API and the driver API have of their own in their calls on graphs.

namespace phantora::graphs {

using namespace phantora::both_apis;

#ifdef PHANTORA_DRIVER_API

using StreamHandle = CUstream;
using EventHandle = CUevent;
using GraphHandle = CUgraph;
using NodeHandle = CUgraphNode;
using ExecutableHandle = CUgraphExec;
using UserObjectHandle = CUuserObject;
using HostFunction = CUhostFn;
using EdgeData = CUgraphEdgeData;
using CaptureModeNumber = CUstreamCaptureMode;
using CaptureStatusNumber = CUstreamCaptureStatus;
using CaptureId = cuuint64_t;
using NodeTypeNumber = CUgraphNodeType;
using InstantiateParameters = CUDA_GRAPH_INSTANTIATE_PARAMS;
using InstantiateResult = CUgraphInstantiateResult;
using UpdateResult = CUgraphExecUpdateResultInfo;
using UpdateResultNumber = CUgraphExecUpdateResult;
using AttributeNumber = CUkernelNodeAttrID;
using AttributeValue = CUkernelNodeAttrValue;
using MemoryAttribute = CUgraphMem_attribute;
using NodeParameters = CUgraphNodeParams;
using KernelParameters = CUDA_KERNEL_NODE_PARAMS;
using CopyParameters = CUDA_MEMCPY3D;
using FillParameters = CUDA_MEMSET_NODE_PARAMS;
using HostParameters = CUDA_HOST_NODE_PARAMS;
using AllocationParameters = CUDA_MEM_ALLOC_NODE_PARAMS;
using DeviceAddress = CUdeviceptr;
constexpr auto ownership_moves = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;

#else

using StreamHandle = cudaStream_t;
using EventHandle = cudaEvent_t;
using GraphHandle = cudaGraph_t;
using NodeHandle = cudaGraphNode_t;
using ExecutableHandle = cudaGraphExec_t;
using UserObjectHandle = cudaUserObject_t;
using HostFunction = cudaHostFn_t;
using EdgeData = cudaGraphEdgeData;
using CaptureModeNumber = cudaStreamCaptureMode;
using CaptureStatusNumber = cudaStreamCaptureStatus;
using CaptureId = unsigned long long;
using NodeTypeNumber = cudaGraphNodeType;
using InstantiateParameters = cudaGraphInstantiateParams;
using InstantiateResult = cudaGraphInstantiateResult;
using UpdateResult = cudaGraphExecUpdateResultInfo;
using UpdateResultNumber = cudaGraphExecUpdateResult;
using AttributeNumber = cudaKernelNodeAttrID;
using AttributeValue = cudaKernelNodeAttrValue;
using MemoryAttribute = cudaGraphMemAttributeType;
using NodeParameters = cudaGraphNodeParams;
using KernelParameters = cudaKernelNodeParams;
using CopyParameters = cudaMemcpy3DParms;
using FillParameters = cudaMemsetParams;
using HostParameters = cudaHostNodeParams;
using AllocationParameters = cudaMemAllocNodeParams;
using DeviceAddress = void*;
constexpr auto ownership_moves = cudaGraphChildGraphOwnershipMove;

#endif

}  // namespace phantora::graphs

#include "rank/runtime/capture.hpp"
#include "rank/runtime/executable.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

namespace phantora::graphs {
namespace {

// Handles are addresses of ours.
inline rank::Graph& graph_of(GraphHandle handle) {
  expect(handle != nullptr);
  return *reinterpret_cast<rank::Graph*>(handle);
}
inline rank::Node& node_of(NodeHandle handle) {
  expect(handle != nullptr);
  return *reinterpret_cast<rank::Node*>(handle);
}
inline rank::Executable& executable_of(ExecutableHandle handle) {
  expect(handle != nullptr);
  return *reinterpret_cast<rank::Executable*>(handle);
}
inline rank::Event& event_of(EventHandle handle) {
  expect(handle != nullptr);
  return *reinterpret_cast<rank::Event*>(handle);
}
inline GraphHandle handle_of(const rank::Graph* graph) {
  return reinterpret_cast<GraphHandle>(const_cast<rank::Graph*>(graph));
}
inline NodeHandle handle_of(const rank::Node* node) {
  return reinterpret_cast<NodeHandle>(const_cast<rank::Node*>(node));
}

/// @param data  of the edges; nullptr: ordinary ones.
[[maybe_unused]] std::vector<rank::Edge> edges_of(const NodeHandle* nodes, const EdgeData* data,
                                                  std::size_t count) {
  static_assert(sizeof(EdgeData) == sizeof(rank::EdgeData));
  expect(count == 0 || nodes != nullptr);
  std::vector<rank::Edge> edges;
  for (std::size_t i = 0; i < count; ++i) {
    rank::Edge& edge = edges.emplace_back(rank::Edge{&node_of(nodes[i])});
    if (data != nullptr) std::memcpy(edge.data.data(), &data[i], sizeof(EdgeData));
  }
  return edges;
}

}  // namespace
}  // namespace phantora::graphs
