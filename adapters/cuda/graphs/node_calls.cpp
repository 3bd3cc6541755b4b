// Nodes: what each does, in a graph and in an executable of it, and what it depends on.

#include "cuda/graphs/calls.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

using namespace phantora::graphs;
namespace rank = phantora::rank;

namespace {

void change_child(ExecutableHandle handle, NodeHandle node_handle, GraphHandle child) {
  rank::Executable& executable = executable_of(handle);
  const rank::Node& node = node_of(node_handle);
  expect(executable.has(node) && executable.work(node)->child() != nullptr);
  if (executable.update(node, graph_of(child))) refuse(rank::Refusal::graph_update_failure);
}

}  // namespace

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
PHANTORA_EXPORT Status PHANTORA_API(GraphExecChildGraphNodeSetParams)(ExecutableHandle executable,
                                                                      NodeHandle node,
                                                                      GraphHandle child) {
  return call([&] { change_child(executable, node, child); });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphAddKernelNode)(NodeHandle* node, GraphHandle graph,
                                                        const NodeHandle* dependencies,
                                                        std::size_t count,
                                                        const KernelParameters* parameters) {
  return add_node(node, graph, dependencies, count, parameters);
}
PHANTORA_EXPORT Status PHANTORA_API(GraphKernelNodeGetParams)(NodeHandle node,
                                                              KernelParameters* parameters) {
  return get_parameters(node, parameters);
}
PHANTORA_EXPORT Status PHANTORA_API(GraphKernelNodeSetParams)(NodeHandle node,
                                                              const KernelParameters* parameters) {
  return set_parameters(node, parameters);
}
PHANTORA_EXPORT Status PHANTORA_API(GraphExecKernelNodeSetParams)(
    ExecutableHandle executable, NodeHandle node, const KernelParameters* parameters) {
  return set_parameters(executable, node, parameters);
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

PHANTORA_EXPORT Status PHANTORA_API(GraphAddHostNode)(NodeHandle* node, GraphHandle graph,
                                                      const NodeHandle* dependencies,
                                                      std::size_t count,
                                                      const HostParameters* parameters) {
  return add_node(node, graph, dependencies, count, parameters);
}
PHANTORA_EXPORT Status PHANTORA_API(GraphHostNodeGetParams)(NodeHandle node,
                                                            HostParameters* parameters) {
  return get_parameters(node, parameters);
}
PHANTORA_EXPORT Status PHANTORA_API(GraphHostNodeSetParams)(NodeHandle node,
                                                            const HostParameters* parameters) {
  return set_parameters(node, parameters);
}
PHANTORA_EXPORT Status PHANTORA_API(GraphExecHostNodeSetParams)(ExecutableHandle executable,
                                                                NodeHandle node,
                                                                const HostParameters* parameters) {
  return set_parameters(executable, node, parameters);
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
  return add_node(node, graph, dependencies, count, parameters);
}
PHANTORA_EXPORT Status PHANTORA_API(GraphMemAllocNodeGetParams)(NodeHandle node,
                                                                AllocationParameters* parameters) {
  return get_parameters(node, parameters);
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
  return set_parameters(node, parameters);
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
