// Graphs: their nodes and edges, executables of them, and what they keep alive.

#include "cuda/graphs/node_parameters.hpp"
#include "rank/runtime/process.hpp"

#include <chrono>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

using namespace phantora::graphs;
namespace driver = phantora::driver;
namespace rank = phantora::rank;

namespace {

/// A call that does no more than to read or write our own tables.
template <class Body>
Status call(Body&& body) noexcept {
  return device_entry(Api::event_create, [&]() -> Status {
    body();
    return success;
  });
}

void add(NodeHandle* handle, GraphHandle graph, const NodeHandle* dependencies,
         const EdgeData* data, std::size_t count, rank::WorkPointer work) {
  expect(handle != nullptr);
  rank::Graph& into = graph_of(graph);
  const std::vector<rank::Edge> edges = edges_of(dependencies, data, count);
  for (std::size_t i = 0; i < edges.size(); ++i) {
    expect(edges[i].node->graph == &into);
    for (std::size_t j = 0; j < i; ++j) expect(edges[i].node != edges[j].node);
  }
  *handle = handle_of(&into.add(std::move(work), edges, rank::current_device()));
}

/// As cudaGraphGetNodes gives lists: how many there are without room, else as many as fit.
template <class Each>
void give(std::size_t there, std::size_t* count, bool room, Each each) {
  expect(count != nullptr);
  const std::size_t given = room ? std::min(*count, there) : 0;
  for (std::size_t i = 0; i < given; ++i) each(i);
  *count = room ? given : there;
}

void give(const std::vector<rank::Edge>& edges, NodeHandle* nodes, EdgeData* data,
          std::size_t* count) {
  give(edges.size(), count, nodes != nullptr, [&](std::size_t i) {
    nodes[i] = handle_of(edges[i].node);
    if (data != nullptr) std::memcpy(&data[i], edges[i].data.data(), sizeof *data);
  });
}

/// A node's work is of one type for good.
void change(NodeHandle handle, rank::WorkPointer work) {
  rank::Node& node = node_of(handle);
  expect(node.work->type() == work->type());
  node.work = std::move(work);
  node.data.clear();
}

void change(ExecutableHandle handle, NodeHandle node_handle, rank::WorkPointer work) {
  rank::Executable& executable = executable_of(handle);
  const rank::Node& node = node_of(node_handle);
  expect(executable.has(node) && executable.work(node)->type() == work->type());
  executable.set_work(node, std::move(work));
}

void change_child(ExecutableHandle handle, NodeHandle node_handle, GraphHandle child) {
  rank::Executable& executable = executable_of(handle);
  const rank::Node& node = node_of(node_handle);
  expect(executable.has(node) && executable.work(node)->child() != nullptr);
  if (executable.update(node, graph_of(child))) refuse(rank::Refusal::graph_update_failure);
}

void instantiate(ExecutableHandle* handle, GraphHandle graph, unsigned long long flags) {
  InstantiateParameters parameters{};
  parameters.flags = flags;
  const Status status = PHANTORA_API(GraphInstantiateWithParams)(handle, graph, &parameters);
  if (status != success) refuse(static_cast<rank::Refusal::Status>(status));
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

void write_dot(const rank::Graph& graph, std::ostream& out) {
  const auto name = [](const rank::Node& node) { return "node_" + std::to_string(node.id); };
  out << "subgraph cluster_" << graph.id() << " {\nlabel=\"graph_" << graph.id() << "\"\n";
  for (const auto& node : graph.nodes()) {
    out << name(*node) << " [shape=box, label=" << quoted(node->work->label()) << "]\n";
    if (const rank::Graph* const child = node->work->child()) write_dot(*child, out);
  }
  for (const auto& node : graph.nodes()) {
    for (const rank::Edge& edge : node->dependencies)
      out << name(*edge.node) << " -> " << name(*node) << "\n";
  }
  out << "}\n";
}

rank::UserObject& object_of(UserObjectHandle handle) {
  expect(handle != nullptr);
  return *reinterpret_cast<rank::UserObject*>(handle);
}

}  // namespace

// --- Threads beside captures ---

PHANTORA_EXPORT Status PHANTORA_API(ThreadExchangeStreamCaptureMode)(CaptureModeNumber* mode) {
  return entry(Api::is_capturing, [&]() -> Status {
    expect(mode != nullptr && *mode >= 0 && *mode <= 2);
    *mode = static_cast<CaptureModeNumber>(
        rank::exchange_capture_mode(static_cast<rank::CaptureMode>(*mode)));
    return success;
  });
}

// --- Graphs ---

PHANTORA_EXPORT Status PHANTORA_API(GraphCreate)(GraphHandle* graph, unsigned flags) {
  return call([&] {
    expect(graph != nullptr && flags == 0);
    *graph = handle_of(new rank::Graph);
  });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphDestroy)(GraphHandle graph) {
  return call([&] { delete &graph_of(graph); });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphClone)(GraphHandle* clone, GraphHandle original) {
  return call([&] {
    expect(clone != nullptr);
    *clone = handle_of(new rank::Graph(graph_of(original)));
  });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphNodeFindInClone)(NodeHandle* node, NodeHandle original,
                                                          GraphHandle clone) {
  return call([&] {
    expect(node != nullptr);
    *node = handle_of(graph_of(clone).clone_of(node_of(original)));
    expect(*node != nullptr);
  });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphGetNodes)(GraphHandle graph, NodeHandle* nodes,
                                                   std::size_t* count) {
  return call([&] {
    const auto& all = graph_of(graph).nodes();
    give(all.size(), count, nodes != nullptr,
         [&](std::size_t i) { nodes[i] = handle_of(all[i].get()); });
  });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphGetRootNodes)(GraphHandle graph, NodeHandle* nodes,
                                                       std::size_t* count) {
  return call([&] {
    std::vector<const rank::Node*> roots;
    for (const auto& node : graph_of(graph).nodes()) {
      if (node->dependencies.empty()) roots.push_back(node.get());
    }
    give(roots.size(), count, nodes != nullptr,
         [&](std::size_t i) { nodes[i] = handle_of(roots[i]); });
  });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphGetEdges)(GraphHandle graph, NodeHandle* from,
                                                   NodeHandle* to, EdgeData* data,
                                                   std::size_t* count) {
  return call([&] {
    std::vector<std::pair<rank::Edge, const rank::Node*>> edges;
    for (const auto& node : graph_of(graph).nodes()) {
      for (const rank::Edge& edge : node->dependencies) edges.emplace_back(edge, node.get());
    }
    expect((from == nullptr) == (to == nullptr));
    give(edges.size(), count, from != nullptr, [&](std::size_t i) {
      from[i] = handle_of(edges[i].first.node);
      to[i] = handle_of(edges[i].second);
      if (data != nullptr) std::memcpy(&data[i], edges[i].first.data.data(), sizeof *data);
    });
  });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphGetId)(GraphHandle graph, unsigned* id) {
  return call([&] {
    expect(id != nullptr);
    *id = static_cast<unsigned>(graph_of(graph).id());
  });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphAddDependencies)(GraphHandle graph, const NodeHandle* from,
                                                          const NodeHandle* to,
                                                          const EdgeData* data, std::size_t count) {
  return call([&] {
    const auto edges = edges_of(from, data, count);
    const auto ends = edges_of(to, nullptr, count);
    for (std::size_t i = 0; i < count; ++i)
      expect(graph_of(graph).connect(*edges[i].node, *ends[i].node, edges[i].data));
  });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphRemoveDependencies)(GraphHandle graph,
                                                             const NodeHandle* from,
                                                             const NodeHandle* to, const EdgeData*,
                                                             std::size_t count) {
  return call([&] {
    (void)graph_of(graph);
    const auto edges = edges_of(from, nullptr, count), ends = edges_of(to, nullptr, count);
    for (std::size_t i = 0; i < count; ++i)
      expect(rank::Graph::disconnect(*edges[i].node, *ends[i].node));
  });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphDebugDotPrint)(GraphHandle graph, const char* path,
                                                        unsigned) {
  return call([&] {
    expect(path != nullptr);
    std::ofstream file{path};
    file << "digraph dot {\n";
    write_dot(graph_of(graph), file);
    file << "}\n";
    file.close();
    if (!file) refuse(rank::Refusal::operating_system);
  });
}

// --- Nodes ---

PHANTORA_EXPORT Status PHANTORA_API(GraphAddEmptyNode)(NodeHandle* node, GraphHandle graph,
                                                       const NodeHandle* dependencies,
                                                       std::size_t count) {
  return call(
      [&] { add(node, graph, dependencies, nullptr, count, std::make_shared<rank::EmptyWork>()); });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphAddChildGraphNode)(NodeHandle* node, GraphHandle graph,
                                                            const NodeHandle* dependencies,
                                                            std::size_t count, GraphHandle child) {
  return call([&] { add(node, graph, dependencies, nullptr, count, work_of_child(child)); });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphChildGraphNodeGetGraph)(NodeHandle node,
                                                                 GraphHandle* graph) {
  return call([&] {
    expect(graph != nullptr);
    *graph = child_in(node_of(node));
  });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphAddKernelNode)(NodeHandle* node, GraphHandle graph,
                                                        const NodeHandle* dependencies,
                                                        std::size_t count,
                                                        const KernelParameters* parameters) {
  return call([&] {
    expect(parameters != nullptr);
    add(node, graph, dependencies, nullptr, count, work_of(*parameters));
  });
}
PHANTORA_EXPORT Status PHANTORA_API(GraphKernelNodeGetParams)(NodeHandle node,
                                                              KernelParameters* parameters) {
  return call([&] {
    expect(parameters != nullptr);
    tell(*parameters, node_of(node));
  });
}
PHANTORA_EXPORT Status PHANTORA_API(GraphKernelNodeSetParams)(NodeHandle node,
                                                              const KernelParameters* parameters) {
  return call([&] {
    expect(parameters != nullptr);
    change(node, work_of(*parameters));
  });
}
PHANTORA_EXPORT Status PHANTORA_API(GraphExecKernelNodeSetParams)(
    ExecutableHandle executable, NodeHandle node, const KernelParameters* parameters) {
  return call([&] {
    expect(parameters != nullptr);
    change(executable, node, work_of(*parameters));
  });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphKernelNodeCopyAttributes)(NodeHandle to, NodeHandle from) {
  return call([&] { node_of(to).attributes = node_of(from).attributes; });
}
PHANTORA_EXPORT Status PHANTORA_API(GraphKernelNodeGetAttribute)(NodeHandle node,
                                                                 AttributeNumber attribute,
                                                                 AttributeValue* value) {
  return call([&] {
    expect(value != nullptr && node_of(node).work->type() == rank::NodeType::kernel);
    *value = {};
    const auto& known = node_of(node).attributes;
    const auto found = known.find(static_cast<int>(attribute));
    if (found != known.end()) std::memcpy(value, found->second.data(), sizeof *value);
  });
}
PHANTORA_EXPORT Status PHANTORA_API(GraphKernelNodeSetAttribute)(NodeHandle node,
                                                                 AttributeNumber attribute,
                                                                 const AttributeValue* value) {
  return call([&] {
    expect(value != nullptr && node_of(node).work->type() == rank::NodeType::kernel);
    auto& kept = node_of(node).attributes[static_cast<int>(attribute)];
    static_assert(sizeof *value <= sizeof kept);
    std::memcpy(kept.data(), value, sizeof *value);
  });
}

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

PHANTORA_EXPORT Status PHANTORA_API(GraphAddHostNode)(NodeHandle* node, GraphHandle graph,
                                                      const NodeHandle* dependencies,
                                                      std::size_t count,
                                                      const HostParameters* parameters) {
  return call([&] {
    expect(parameters != nullptr);
    add(node, graph, dependencies, nullptr, count, work_of(*parameters));
  });
}
PHANTORA_EXPORT Status PHANTORA_API(GraphHostNodeGetParams)(NodeHandle node,
                                                            HostParameters* parameters) {
  return call([&] {
    expect(parameters != nullptr);
    tell(*parameters, node_of(node));
  });
}
PHANTORA_EXPORT Status PHANTORA_API(GraphHostNodeSetParams)(NodeHandle node,
                                                            const HostParameters* parameters) {
  return call([&] {
    expect(parameters != nullptr);
    change(node, work_of(*parameters));
  });
}
PHANTORA_EXPORT Status PHANTORA_API(GraphExecHostNodeSetParams)(ExecutableHandle executable,
                                                                NodeHandle node,
                                                                const HostParameters* parameters) {
  return call([&] {
    expect(parameters != nullptr);
    change(executable, node, work_of(*parameters));
  });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphAddEventRecordNode)(NodeHandle* node, GraphHandle graph,
                                                             const NodeHandle* dependencies,
                                                             std::size_t count, EventHandle event) {
  return call([&] { add(node, graph, dependencies, nullptr, count, work_of_record(event)); });
}
PHANTORA_EXPORT Status PHANTORA_API(GraphEventRecordNodeGetEvent)(NodeHandle node,
                                                                  EventHandle* event) {
  return call([&] {
    expect(event != nullptr);
    *event = event_in(node_of(node), rank::NodeType::event_record);
  });
}
PHANTORA_EXPORT Status PHANTORA_API(GraphEventRecordNodeSetEvent)(NodeHandle node,
                                                                  EventHandle event) {
  return call([&] { change(node, work_of_record(event)); });
}
PHANTORA_EXPORT Status PHANTORA_API(GraphExecEventRecordNodeSetEvent)(ExecutableHandle executable,
                                                                      NodeHandle node,
                                                                      EventHandle event) {
  return call([&] { change(executable, node, work_of_record(event)); });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphAddEventWaitNode)(NodeHandle* node, GraphHandle graph,
                                                           const NodeHandle* dependencies,
                                                           std::size_t count, EventHandle event) {
  return call([&] { add(node, graph, dependencies, nullptr, count, work_of_wait(event)); });
}
PHANTORA_EXPORT Status PHANTORA_API(GraphEventWaitNodeGetEvent)(NodeHandle node,
                                                                EventHandle* event) {
  return call([&] {
    expect(event != nullptr);
    *event = event_in(node_of(node), rank::NodeType::wait_event);
  });
}
PHANTORA_EXPORT Status PHANTORA_API(GraphEventWaitNodeSetEvent)(NodeHandle node,
                                                                EventHandle event) {
  return call([&] { change(node, work_of_wait(event)); });
}
PHANTORA_EXPORT Status PHANTORA_API(GraphExecEventWaitNodeSetEvent)(ExecutableHandle executable,
                                                                    NodeHandle node,
                                                                    EventHandle event) {
  return call([&] { change(executable, node, work_of_wait(event)); });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphAddMemAllocNode)(NodeHandle* node, GraphHandle graph,
                                                          const NodeHandle* dependencies,
                                                          std::size_t count,
                                                          AllocationParameters* parameters) {
  return call([&] {
    expect(parameters != nullptr);
    add(node, graph, dependencies, nullptr, count, work_of(*parameters));
  });
}
PHANTORA_EXPORT Status PHANTORA_API(GraphMemAllocNodeGetParams)(NodeHandle node,
                                                                AllocationParameters* parameters) {
  return call([&] {
    expect(parameters != nullptr);
    tell(*parameters, node_of(node));
  });
}
PHANTORA_EXPORT Status PHANTORA_API(GraphAddMemFreeNode)(NodeHandle* node, GraphHandle graph,
                                                         const NodeHandle* dependencies,
                                                         std::size_t count, DeviceAddress address) {
  return call([&] { add(node, graph, dependencies, nullptr, count, work_of_free(address)); });
}
#ifdef PHANTORA_DRIVER_API
PHANTORA_EXPORT Status cuGraphMemFreeNodeGetParams(NodeHandle node, DeviceAddress* address) {
  return call([&] {
    expect(address != nullptr);
    *address = freed_by(node_of(node));
  });
}
#else
PHANTORA_EXPORT Status cudaGraphMemFreeNodeGetParams(NodeHandle node, void* address) {
  return call([&] {
    expect(address != nullptr);
    *static_cast<void**>(address) = freed_by(node_of(node));
  });
}
#endif

PHANTORA_EXPORT Status PHANTORA_API(GraphAddNode)(NodeHandle* node, GraphHandle graph,
                                                  const NodeHandle* dependencies,
                                                  const EdgeData* data, std::size_t count,
                                                  NodeParameters* parameters) {
  return call([&] {
    expect(parameters != nullptr);
    add(node, graph, dependencies, data, count, work_of(*parameters));
    // The program is told of the graph that its node has, by which it finds that one's nodes.
    if (node_of(*node).work->child() != nullptr) parameters->graph.graph = child_in(node_of(*node));
  });
}
PHANTORA_EXPORT Status PHANTORA_API(GraphNodeSetParams)(NodeHandle node,
                                                        NodeParameters* parameters) {
  return call([&] {
    expect(parameters != nullptr);
    change(node, work_of(*parameters));
  });
}
PHANTORA_EXPORT Status PHANTORA_API(GraphExecNodeSetParams)(ExecutableHandle executable,
                                                            NodeHandle node,
                                                            NodeParameters* parameters) {
  return call([&] {
    expect(parameters != nullptr);
    if (static_cast<rank::NodeType>(parameters->type) == rank::NodeType::graph) {
      change_child(executable, node, parameters->graph.graph);
    } else {
      change(executable, node, work_of(*parameters));
    }
  });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphNodeGetType)(NodeHandle node, NodeTypeNumber* type) {
  return call([&] {
    expect(type != nullptr);
    *type = static_cast<NodeTypeNumber>(node_of(node).work->type());
  });
}
PHANTORA_EXPORT Status PHANTORA_API(GraphNodeGetContainingGraph)(NodeHandle node,
                                                                 GraphHandle* graph) {
  return call([&] {
    expect(graph != nullptr);
    *graph = handle_of(node_of(node).graph);
  });
}
PHANTORA_EXPORT Status PHANTORA_API(GraphNodeGetLocalId)(NodeHandle node, unsigned* id) {
  return call([&] {
    expect(id != nullptr);
    const auto& all = node_of(node).graph->nodes();
    const auto place = std::ranges::find(all, &node_of(node), &std::unique_ptr<rank::Node>::get);
    *id = static_cast<unsigned>(place - all.begin());
  });
}
PHANTORA_EXPORT Status PHANTORA_API(GraphNodeGetToolsId)(NodeHandle node, unsigned long long* id) {
  return call([&] {
    expect(id != nullptr);
    *id = node_of(node).id;
  });
}
PHANTORA_EXPORT Status PHANTORA_API(GraphNodeGetDependencies)(NodeHandle node, NodeHandle* nodes,
                                                              EdgeData* data, std::size_t* count) {
  return call([&] { give(node_of(node).dependencies, nodes, data, count); });
}
PHANTORA_EXPORT Status PHANTORA_API(GraphNodeGetDependentNodes)(NodeHandle node, NodeHandle* nodes,
                                                                EdgeData* data,
                                                                std::size_t* count) {
  return call([&] { give(node_of(node).dependents, nodes, data, count); });
}
PHANTORA_EXPORT Status PHANTORA_API(GraphDestroyNode)(NodeHandle node) {
  return call([&] { node_of(node).graph->remove(node_of(node)); });
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

// --- Executables ---

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

PHANTORA_EXPORT Status PHANTORA_API(GraphExecChildGraphNodeSetParams)(ExecutableHandle executable,
                                                                      NodeHandle node,
                                                                      GraphHandle child) {
  return call([&] { change_child(executable, node, child); });
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

// --- What graphs keep ---

PHANTORA_EXPORT Status PHANTORA_API(UserObjectCreate)(UserObjectHandle* handle, void* object,
                                                      HostFunction destroy, unsigned references,
                                                      unsigned flags) {
  return call([&] {
    constexpr unsigned no_destructor_sync = 1;  // cudaUserObjectNoDestructorSync, which must be
    expect(handle != nullptr && destroy != nullptr && references > 0 &&
           flags == no_destructor_sync);
    *handle = reinterpret_cast<UserObjectHandle>(
        new rank::UserObject{.destroy = destroy, .object = object, .references = references});
  });
}
PHANTORA_EXPORT Status PHANTORA_API(UserObjectRetain)(UserObjectHandle object, unsigned count) {
  return call([&] {
    expect(count > 0);
    rank::retain(object_of(object), count);
  });
}
PHANTORA_EXPORT Status PHANTORA_API(UserObjectRelease)(UserObjectHandle object, unsigned count) {
  return call([&] {
    expect(count > 0);
    rank::release(object_of(object), count);
  });
}
PHANTORA_EXPORT Status PHANTORA_API(GraphRetainUserObject)(GraphHandle graph,
                                                           UserObjectHandle object, unsigned count,
                                                           unsigned flags) {
  return call([&] {
    constexpr unsigned move = 1;  // cudaGraphUserObjectMove
    expect(count > 0 && flags <= move);
    graph_of(graph).keep(object_of(object), count, flags == move);
  });
}
PHANTORA_EXPORT Status PHANTORA_API(GraphReleaseUserObject)(GraphHandle graph,
                                                            UserObjectHandle object,
                                                            unsigned count) {
  return call([&] { expect(count > 0 && graph_of(graph).give_up(object_of(object), count)); });
}

namespace {

constexpr int used_now = 0, used_high = 1, reserved_now = 2, reserved_high = 3;

}  // namespace

PHANTORA_EXPORT Status PHANTORA_API(DeviceGetGraphMemAttribute)(int device,
                                                                MemoryAttribute attribute,
                                                                void* value) {
  return call([&] {
    expect(value != nullptr && valid_device(device) && attribute >= used_now &&
           attribute <= reserved_high);
    const driver::GraphMemoryUse use = driver::graph_memory_use(device);
    const bool high = attribute == used_high || attribute == reserved_high;
    *static_cast<std::uint64_t*>(value) = high ? use.high : use.now;
  });
}
PHANTORA_EXPORT Status PHANTORA_API(DeviceSetGraphMemAttribute)(int device,
                                                                MemoryAttribute attribute,
                                                                void* value) {
  return call([&] {
    expect(value != nullptr && valid_device(device) && *static_cast<std::uint64_t*>(value) == 0 &&
           (attribute == used_high || attribute == reserved_high));
    driver::reset_graph_memory_high(device);
  });
}
PHANTORA_EXPORT Status PHANTORA_API(DeviceGraphMemTrim)(int device) {
  return call([&] { expect(valid_device(device)); });  // nothing is kept that is not used
}
