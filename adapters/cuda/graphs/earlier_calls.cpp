// Calls of CUDA before 12.3, which know no edge data: what CUDA 12's runtime and the driver have
// under the names that later ones took over.

#include "cuda/graphs/api.hpp"

using namespace phantora::graphs;

// These are the later names' symbols, for the headers give them to the names.
extern "C" {
Status PHANTORA_API(StreamUpdateCaptureDependencies)(StreamHandle, NodeHandle*, const EdgeData*,
                                                     std::size_t, unsigned);
Status PHANTORA_API(StreamGetCaptureInfo)(StreamHandle, CaptureStatusNumber*, CaptureId*,
                                          GraphHandle*, const NodeHandle**, const EdgeData**,
                                          std::size_t*);
Status PHANTORA_API(GraphAddDependencies)(GraphHandle, const NodeHandle*, const NodeHandle*,
                                          const EdgeData*, std::size_t);
Status PHANTORA_API(GraphRemoveDependencies)(GraphHandle, const NodeHandle*, const NodeHandle*,
                                             const EdgeData*, std::size_t);
Status PHANTORA_API(GraphGetEdges)(GraphHandle, NodeHandle*, NodeHandle*, EdgeData*, std::size_t*);
Status PHANTORA_API(GraphNodeGetDependencies)(NodeHandle, NodeHandle*, EdgeData*, std::size_t*);
Status PHANTORA_API(GraphNodeGetDependentNodes)(NodeHandle, NodeHandle*, EdgeData*, std::size_t*);
Status PHANTORA_API(GraphAddNode)(NodeHandle*, GraphHandle, const NodeHandle*, const EdgeData*,
                                  std::size_t, NodeParameters*);
}

#define PHANTORA_SYMBOL(name) __asm__(name) __attribute__((visibility("default")))
#ifdef PHANTORA_DRIVER_API
#define PHANTORA_NAME(name) "cu" name
#else
#define PHANTORA_NAME(name) "cuda" name
#endif
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define PHANTORA_STREAM_NAME(name) PHANTORA_NAME(name) "_ptsz"
#else
#define PHANTORA_STREAM_NAME(name) PHANTORA_NAME(name)
#endif

extern "C" Status phantora_update_dependencies(StreamHandle, NodeHandle*, std::size_t, unsigned)
    PHANTORA_SYMBOL(PHANTORA_STREAM_NAME("StreamUpdateCaptureDependencies"));
Status phantora_update_dependencies(StreamHandle stream, NodeHandle* nodes, std::size_t count,
                                    unsigned flags) {
  return PHANTORA_API(StreamUpdateCaptureDependencies)(stream, nodes, nullptr, count, flags);
}

extern "C" Status phantora_capture_info(StreamHandle, CaptureStatusNumber*, CaptureId*)
    PHANTORA_SYMBOL(PHANTORA_STREAM_NAME("StreamGetCaptureInfo"));
Status phantora_capture_info(StreamHandle stream, CaptureStatusNumber* status, CaptureId* id) {
  return PHANTORA_API(StreamGetCaptureInfo)(stream, status, id, nullptr, nullptr, nullptr, nullptr);
}

extern "C" Status phantora_capture_info_v2(StreamHandle, CaptureStatusNumber*, CaptureId*,
                                           GraphHandle*, const NodeHandle**, std::size_t*)
    PHANTORA_SYMBOL(PHANTORA_STREAM_NAME("StreamGetCaptureInfo_v2"));
Status phantora_capture_info_v2(StreamHandle stream, CaptureStatusNumber* status, CaptureId* id,
                                GraphHandle* graph, const NodeHandle** dependencies,
                                std::size_t* count) {
  return PHANTORA_API(StreamGetCaptureInfo)(stream, status, id, graph, dependencies, nullptr,
                                            count);
}

#ifndef CUDA_API_PER_THREAD_DEFAULT_STREAM

extern "C" Status phantora_add_dependencies(GraphHandle, const NodeHandle*, const NodeHandle*,
                                            std::size_t)
    PHANTORA_SYMBOL(PHANTORA_NAME("GraphAddDependencies"));
Status phantora_add_dependencies(GraphHandle graph, const NodeHandle* from, const NodeHandle* to,
                                 std::size_t count) {
  return PHANTORA_API(GraphAddDependencies)(graph, from, to, nullptr, count);
}

extern "C" Status phantora_remove_dependencies(GraphHandle, const NodeHandle*, const NodeHandle*,
                                               std::size_t)
    PHANTORA_SYMBOL(PHANTORA_NAME("GraphRemoveDependencies"));
Status phantora_remove_dependencies(GraphHandle graph, const NodeHandle* from, const NodeHandle* to,
                                    std::size_t count) {
  return PHANTORA_API(GraphRemoveDependencies)(graph, from, to, nullptr, count);
}

extern "C" Status phantora_edges(GraphHandle, NodeHandle*, NodeHandle*, std::size_t*)
    PHANTORA_SYMBOL(PHANTORA_NAME("GraphGetEdges"));
Status phantora_edges(GraphHandle graph, NodeHandle* from, NodeHandle* to, std::size_t* count) {
  return PHANTORA_API(GraphGetEdges)(graph, from, to, nullptr, count);
}

extern "C" Status phantora_dependencies(NodeHandle, NodeHandle*, std::size_t*)
    PHANTORA_SYMBOL(PHANTORA_NAME("GraphNodeGetDependencies"));
Status phantora_dependencies(NodeHandle node, NodeHandle* nodes, std::size_t* count) {
  return PHANTORA_API(GraphNodeGetDependencies)(node, nodes, nullptr, count);
}

extern "C" Status phantora_dependents(NodeHandle, NodeHandle*, std::size_t*)
    PHANTORA_SYMBOL(PHANTORA_NAME("GraphNodeGetDependentNodes"));
Status phantora_dependents(NodeHandle node, NodeHandle* nodes, std::size_t* count) {
  return PHANTORA_API(GraphNodeGetDependentNodes)(node, nodes, nullptr, count);
}

extern "C" Status phantora_add_node(NodeHandle*, GraphHandle, const NodeHandle*, std::size_t,
                                    NodeParameters*) PHANTORA_SYMBOL(PHANTORA_NAME("GraphAddNode"));
Status phantora_add_node(NodeHandle* node, GraphHandle graph, const NodeHandle* dependencies,
                         std::size_t count, NodeParameters* parameters) {
  return PHANTORA_API(GraphAddNode)(node, graph, dependencies, nullptr, count, parameters);
}

#ifdef PHANTORA_DRIVER_API
// Before 11.4 the driver told in words what hinders.
extern "C" CUresult phantora_instantiate(CUgraphExec*, CUgraph, CUgraphNode*, char*, std::size_t)
    PHANTORA_SYMBOL("cuGraphInstantiate_v2");
CUresult phantora_instantiate(CUgraphExec* executable, CUgraph graph, CUgraphNode* hindrance,
                              char* log, std::size_t size) {
  if (hindrance) *hindrance = nullptr;
  if (log && size > 0) *log = '\0';
  return cuGraphInstantiateWithFlags(executable, graph, 0);
}
#endif

#endif
