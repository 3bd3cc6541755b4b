// Stream capture and launches of graphs: what knows a default stream.

#include "cuda/graphs/api.hpp"

#include <chrono>
#include <memory>

using namespace phantora::graphs;
namespace rank = phantora::rank;

namespace {

/// How a capture's state is told; the program's arrays live until its thread asks again.
Status tell(const rank::CaptureInfo& info, CaptureStatusNumber* status, CaptureId* id,
            GraphHandle* graph, const NodeHandle** dependencies, const EdgeData** edges,
            std::size_t* count) {
  expect(status != nullptr);
  thread_local std::vector<NodeHandle> nodes;
  thread_local std::vector<EdgeData> data;
  nodes.clear();
  data.clear();
  for (const rank::Edge& edge : info.dependencies) {
    nodes.push_back(handle_of(edge.node));
    std::memcpy(&data.emplace_back(), edge.data.data(), sizeof(EdgeData));
  }
  *status = static_cast<CaptureStatusNumber>(info.status);
  if (id) *id = info.id;
  if (graph) *graph = handle_of(info.graph);
  if (dependencies) *dependencies = nodes.empty() ? nullptr : nodes.data();
  if (edges) *edges = data.empty() ? nullptr : data.data();
  if (count) *count = nodes.size();
  return success;
}

/// Host time beside that of a launch of an empty graph: medians on an H200's host, driver 580,
/// torch not loaded, 2026-11-22 (bench/accuracy/h200_graphs.jsonl: chains of 1 to 3,000 kernels).
struct LaunchCost {
  static constexpr std::chrono::nanoseconds node{1};  ///< 1.23 us for 1 node, 5.2 us for 3,000
  static constexpr std::chrono::nanoseconds first_node{900};  ///< 1.02 ms for 1,000, 2.68 for 3,000
  static constexpr std::chrono::microseconds instantiate{30};
  static constexpr std::chrono::nanoseconds instantiate_node{4'400};  ///< 13.1 ms for 3,000
};

rank::CaptureMode mode_of(CaptureModeNumber mode) {
  expect(mode >= 0 && mode <= 2);
  return static_cast<rank::CaptureMode>(mode);
}

}  // namespace

PHANTORA_EXPORT Status PHANTORA_API(StreamBeginCapture)(StreamHandle stream,
                                                        CaptureModeNumber mode) {
  return device_entry(Api::is_capturing, [&] {
    rank::begin_capture(stream_of(stream), mode_of(mode));
    return success;
  });
}

PHANTORA_EXPORT Status PHANTORA_API(StreamBeginCaptureToGraph)(
    StreamHandle stream, GraphHandle graph, const NodeHandle* dependencies, const EdgeData* edges,
    std::size_t count, CaptureModeNumber mode) {
  return device_entry(Api::is_capturing, [&] {
    rank::begin_capture(stream_of(stream), mode_of(mode), &graph_of(graph),
                        edges_of(dependencies, edges, count));
    return success;
  });
}

PHANTORA_EXPORT Status PHANTORA_API(StreamEndCapture)(StreamHandle stream, GraphHandle* graph) {
  return device_entry(Api::is_capturing, [&] {
    expect(graph != nullptr);
    *graph = nullptr;
    *graph = handle_of(rank::end_capture(stream_of(stream)));
    return success;
  });
}

PHANTORA_EXPORT Status PHANTORA_API(StreamIsCapturing)(StreamHandle stream,
                                                       CaptureStatusNumber* status) {
  return device_entry(Api::is_capturing, [&] {
    return tell(rank::capture_info(stream_of(stream)), status, nullptr, nullptr, nullptr, nullptr,
                nullptr);
  });
}

PHANTORA_EXPORT Status PHANTORA_API(StreamGetCaptureInfo)(
    StreamHandle stream, CaptureStatusNumber* status, CaptureId* id, GraphHandle* graph,
    const NodeHandle** dependencies, const EdgeData** edges, std::size_t* count) {
  return device_entry(Api::is_capturing, [&] {
    return tell(rank::capture_info(stream_of(stream)), status, id, graph, dependencies, edges,
                count);
  });
}

PHANTORA_EXPORT Status PHANTORA_API(StreamUpdateCaptureDependencies)(StreamHandle stream,
                                                                     NodeHandle* dependencies,
                                                                     const EdgeData* edges,
                                                                     std::size_t count,
                                                                     unsigned flags) {
  return device_entry(Api::is_capturing, [&] {
    expect(flags <= 1);  // cudaStreamAddCaptureDependencies, cudaStreamSetCaptureDependencies
    rank::update_capture_dependencies(stream_of(stream), edges_of(dependencies, edges, count),
                                      flags == 0);
    return success;
  });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphLaunch)(ExecutableHandle executable, StreamHandle stream) {
  return device_entry(Api::graph_launch, [&] {
    rank::Executable& launched = executable_of(executable);
    rank::costs_more(launched.uploaded() ? launched.size() * LaunchCost::node
                                         : launched.size() * LaunchCost::first_node);
    launched.launch(stream_of(stream));
    return success;
  });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphUpload)(ExecutableHandle executable, StreamHandle stream) {
  return device_entry(Api::graph_launch, [&] {
    (void)executable_of(executable);
    (void)stream_of(stream);
    return success;
  });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphInstantiateWithParams)(ExecutableHandle* executable,
                                                                GraphHandle graph,
                                                                InstantiateParameters* parameters) {
  return device_entry(Api::event_create, [&] {
    expect(executable != nullptr && parameters != nullptr);
    rank::refuse_if_unsafe();
    constexpr unsigned long long device_launch = 4;  // cudaGraphInstantiateFlagDeviceLaunch
    if (parameters->flags & device_launch) {
      rank::unsupported("cudaGraphInstantiate with cudaGraphInstantiateFlagDeviceLaunch");
      refuse(rank::Refusal::not_supported);
    }
    auto made = rank::Executable::make(graph_of(graph), parameters->flags);
    parameters->result_out = static_cast<InstantiateResult>(made ? 0 : 2);  // invalid structure
    expect(made != nullptr);
    rank::costs_more(LaunchCost::instantiate + made->size() * LaunchCost::instantiate_node);
    *executable = reinterpret_cast<ExecutableHandle>(made.release());
    return success;
  });
}
