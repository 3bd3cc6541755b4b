// Executables of graphs: made, updated, and with nodes that do not run.

#include "cuda/graphs/calls.hpp"

#include <chrono>

using namespace phantora::graphs;
namespace rank = phantora::rank;

namespace {

void instantiate(ExecutableHandle* handle, GraphHandle graph, unsigned long long flags) {
  InstantiateParameters parameters{};
  parameters.flags = flags;
  const Status status = PHANTORA_API(GraphInstantiateWithParams)(handle, graph, &parameters);
  if (status != success) refuse(static_cast<rank::Refusal::Status>(status));
}

}  // namespace

#ifdef PHANTORA_DRIVER_API
// cuda.h gives this the name of the call with flags, which comes below.
#undef cuGraphInstantiate
extern "C" CUresult cuGraphInstantiateWithFlags(CUgraphExec*, CUgraph, unsigned long long);
#else
PHANTORA_EXPORT cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                                 unsigned long long flags) {
  return call([&] { instantiate(executable, graph, flags); });
}
#endif
PHANTORA_EXPORT Status PHANTORA_API(GraphInstantiateWithFlags)(ExecutableHandle* executable,
                                                               GraphHandle graph,
                                                               unsigned long long flags) {
  return call([&] { instantiate(executable, graph, flags); });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphExecDestroy)(ExecutableHandle executable) {
  return call([&] { delete &executable_of(executable); });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphExecGetId)(ExecutableHandle executable, unsigned* id) {
  return call([&] {
    expect(id != nullptr);
    *id = static_cast<unsigned>(executable_of(executable).id());
  });
}

#ifdef PHANTORA_DRIVER_API
PHANTORA_EXPORT CUresult cuGraphExecGetFlags(CUgraphExec executable, cuuint64_t* flags) {
#else
PHANTORA_EXPORT cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t executable,
                                                  unsigned long long* flags) {
#endif
  return call([&] {
    expect(flags != nullptr);
    *flags = executable_of(executable).flags();
  });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphExecUpdate)(ExecutableHandle executable, GraphHandle graph,
                                                     UpdateResult* result) {
  return call([&] {
    expect(result != nullptr);
    *result = {};
    constexpr std::chrono::nanoseconds node{320};  // 374 us for 1,000, 959 for 3,000: LaunchCost
    rank::costs_more(executable_of(executable).size() * node);
    const auto differs = executable_of(executable).update(graph_of(graph));
    if (!differs) return;
    constexpr int topology_changed = 2, type_changed = 3;
    result->result =
        static_cast<UpdateResultNumber>(differs->type ? type_changed : topology_changed);
    result->errorNode = handle_of(differs->node);
    refuse(rank::Refusal::graph_update_failure);
  });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphNodeSetEnabled)(ExecutableHandle executable,
                                                         NodeHandle node, unsigned enabled) {
  return call([&] {
    expect(executable_of(executable).has(node_of(node)));
    const rank::NodeType type = node_of(node).work->type();
    expect(type == rank::NodeType::kernel || type == rank::NodeType::memcpy ||
           type == rank::NodeType::memset);
    executable_of(executable).enable(node_of(node), enabled != 0);
  });
}
PHANTORA_EXPORT Status PHANTORA_API(GraphNodeGetEnabled)(ExecutableHandle executable,
                                                         NodeHandle node, unsigned* enabled) {
  return call([&] {
    expect(enabled != nullptr && executable_of(executable).has(node_of(node)));
    *enabled = executable_of(executable).enabled(node_of(node)) ? 1 : 0;
  });
}
