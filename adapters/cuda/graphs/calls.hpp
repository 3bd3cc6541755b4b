#pragma once

#include "cuda/graphs/node_parameters.hpp"
#include "rank/runtime/process.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

/// What the calls on graphs, nodes and executables have in common.
namespace phantora::graphs {
namespace {

/// A call that does no more than to read or write our own tables.
/// @param name  the entry point's, which a profiler is told
template <class Body>
Status call(Body&& body, const char* name = __builtin_FUNCTION()) noexcept {
  return device_entry({Api::event_create, name}, [&]() -> Status {
    body();
    return success;
  });
}

/// As cudaGraphGetNodes gives lists: how many there are without room, else as many as fit.
template <class Each>
void give(std::size_t there, std::size_t* count, bool room, Each each) {
  expect(count != nullptr);
  const std::size_t given = room ? std::min(*count, there) : 0;
  for (std::size_t i = 0; i < given; ++i) each(i);
  *count = room ? given : there;
}

inline void give(const std::vector<rank::Edge>& edges, NodeHandle* nodes, EdgeData* data,
                 std::size_t* count) {
  give(edges.size(), count, nodes != nullptr, [&](std::size_t i) {
    nodes[i] = handle_of(edges[i].node);
    if (data != nullptr) std::memcpy(&data[i], edges[i].data.data(), sizeof *data);
  });
}

inline void add(NodeHandle* handle, GraphHandle graph, const NodeHandle* dependencies,
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

/// A node's work is of one type for good.
inline void change(NodeHandle handle, rank::WorkPointer work) {
  rank::Node& node = node_of(handle);
  expect(node.work->type() == work->type());
  node.work = std::move(work);
  node.data.clear();
}

inline void change(ExecutableHandle handle, NodeHandle node_handle, rank::WorkPointer work) {
  rank::Executable& executable = executable_of(handle);
  const rank::Node& node = node_of(node_handle);
  expect(executable.has(node) && executable.work(node)->type() == work->type());
  executable.set_work(node, std::move(work));
}

// The calls on a node that a structure of parameters describes.

template <class Parameters>
Status add_node(NodeHandle* node, GraphHandle graph, const NodeHandle* dependencies,
                std::size_t count, Parameters* parameters,
                const char* name = __builtin_FUNCTION()) {
  const auto body = [&] {
    expect(parameters != nullptr);
    add(node, graph, dependencies, nullptr, count, work_of(*parameters));
  };
  return call(body, name);
}
template <class Parameters>
Status get_parameters(NodeHandle node, Parameters* parameters,
                      const char* name = __builtin_FUNCTION()) {
  const auto body = [&] {
    expect(parameters != nullptr);
    tell(*parameters, node_of(node));
  };
  return call(body, name);
}
template <class Parameters>
Status set_parameters(NodeHandle node, Parameters* parameters,
                      const char* name = __builtin_FUNCTION()) {
  const auto body = [&] {
    expect(parameters != nullptr);
    change(node, work_of(*parameters));
  };
  return call(body, name);
}
template <class Parameters>
Status set_parameters(ExecutableHandle executable, NodeHandle node, Parameters* parameters,
                      const char* name = __builtin_FUNCTION()) {
  const auto body = [&] {
    expect(parameters != nullptr);
    change(executable, node, work_of(*parameters));
  };
  return call(body, name);
}

}  // namespace
}  // namespace phantora::graphs
