// Child graphs that the program hands over: whose nodes go on being its own to change.
#include "expect.hpp"

namespace {

constexpr std::size_t words = 4;

/// A node that fills `words` bytes at `where`.
CUDA_MEMSET_NODE_PARAMS fill(CUdeviceptr where, unsigned value) {
  CUDA_MEMSET_NODE_PARAMS parameters{};
  parameters.dst = where;
  parameters.elementSize = 1;
  parameters.width = words;
  parameters.height = 1;
  parameters.value = value;
  return parameters;
}

unsigned value_at(CUdeviceptr where) {
  unsigned value = 0;
  WORKS(cuMemcpyDtoH(&value, where, words));
  return value;
}

void child(CUgraphChildGraphNodeOwnership ownership, CUresult changes, unsigned second) {
  CUcontext context = nullptr;
  WORKS(cuCtxGetCurrent(&context));
  CUdeviceptr memory = 0;
  WORKS(cuMemAlloc(&memory, words));
  CUgraph parent = nullptr, inner = nullptr;
  WORKS(cuGraphCreate(&parent, 0));
  WORKS(cuGraphCreate(&inner, 0));
  CUgraphNode node = nullptr, inside = nullptr;
  CUDA_MEMSET_NODE_PARAMS parameters = fill(memory, 1);
  WORKS(cuGraphAddMemsetNode(&inside, inner, nullptr, 0, &parameters, context));
  CUgraphNodeParams described{};
  described.type = CU_GRAPH_NODE_TYPE_GRAPH;
  described.graph.graph = inner;
  described.graph.ownership = ownership;
  WORKS(cuGraphAddNode(&node, parent, nullptr, nullptr, 0, &described));
  CUgraph there = nullptr;
  WORKS(cuGraphChildGraphNodeGetGraph(node, &there));
  EXPECT((there == inner) == (ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE));
  CUgraphExec executable = nullptr;
  WORKS(cuGraphInstantiate(&executable, parent, 0));
  WORKS(cuGraphLaunch(executable, nullptr));
  WORKS(cuStreamSynchronize(nullptr));
  EXPECT(value_at(memory) == 0x01010101);
  // By the node that the program made: the parent's own where the graph was moved.
  parameters = fill(memory, 2);
  EXPECT_STATUS(changes, cuGraphExecMemsetNodeSetParams(executable, inside, &parameters, context));
  WORKS(cuGraphLaunch(executable, nullptr));
  WORKS(cuStreamSynchronize(nullptr));
  EXPECT(value_at(memory) == second);
  WORKS(cuGraphExecDestroy(executable));
  WORKS(cuGraphDestroy(parent));
  if (ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE) WORKS(cuGraphDestroy(inner));
}

}  // namespace

int main() {
  WORKS(cudaSetDevice(0));
  WORKS(cudaFree(nullptr));
  child(CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE, CUDA_ERROR_INVALID_VALUE, 0x01010101);
  child(CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE, CUDA_SUCCESS, 0x02020202);
  return failures != 0;
}
