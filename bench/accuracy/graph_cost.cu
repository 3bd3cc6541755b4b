// What CUDA graphs cost on a real GPU, and what stream capture refuses: a JSON line per figure.
//
//     nvcc -O2 -std=c++17 -arch=sm_90 -cudart static graph_cost.cu -o graph_cost && ./graph_cost
//
// Host times are medians of single calls by the steady clock; device times are of many nodes by
// events, the first launch of each graph left out.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <cuda_runtime.h>

namespace {

using Clock = std::chrono::steady_clock;

#define MUST(call)                                                                             \
  do {                                                                                         \
    const cudaError_t status_ = (call);                                                        \
    if (status_ != cudaSuccess) {                                                              \
      std::printf("{\"failed\": \"%s\", \"status\": %d}\n", #call, static_cast<int>(status_)); \
      (void)cudaGetLastError();                                                                \
    }                                                                                          \
  } while (false)

/// Keeps its blocks for so many cycles.
__global__ void spin(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}
__global__ void nothing() {}
/// Holds the stream back until the host has queued what comes behind it.
__global__ void gate(volatile int* open) {
  while (*open == 0) {
  }
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double microseconds(const std::function<void()>& work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

cudaStream_t stream, other;
int* gate_host;
int* gate_device;

using Fill = std::function<void(cudaStream_t)>;

cudaGraph_t captured(const Fill& fill, double* took = nullptr) {
  cudaGraph_t graph = nullptr;
  const double us = microseconds([&] {
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    fill(stream);
    MUST(cudaStreamEndCapture(stream, &graph));
  });
  if (took) *took = us;
  return graph;
}

/// Device time of what `issue` puts into the stream, all of it queued before it begins.
double device_us(const std::function<void()>& issue) {
  cudaEvent_t begin, end;
  MUST(cudaEventCreate(&begin));
  MUST(cudaEventCreate(&end));
  std::vector<double> times;
  for (int i = 0; i < 7; ++i) {
    *gate_host = 0;
    gate<<<1, 1, 0, stream>>>(gate_device);
    MUST(cudaEventRecord(begin, stream));
    issue();
    MUST(cudaEventRecord(end, stream));
    *gate_host = 1;
    MUST(cudaStreamSynchronize(stream));
    float ms = 0;
    MUST(cudaEventElapsedTime(&ms, begin, end));
    if (i > 0) times.push_back(1e3 * ms);
  }
  MUST(cudaEventDestroy(begin));
  MUST(cudaEventDestroy(end));
  return median(times);
}

void chain(cudaStream_t s, int nodes, int blocks, long long cycles) {
  for (int i = 0; i < nodes; ++i) spin<<<blocks, 128, 0, s>>>(cycles);
}

/// `branches` of `nodes` kernels each, forked and joined by events.
void branches(cudaStream_t s, int count, int nodes, long long cycles) {
  static std::vector<cudaStream_t> sides;
  while (static_cast<int>(sides.size()) < count) {
    cudaStream_t made;
    MUST(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
    sides.push_back(made);
  }
  cudaEvent_t fork;
  MUST(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  spin<<<1, 128, 0, s>>>(cycles);
  MUST(cudaEventRecord(fork, s));
  for (int b = 0; b < count; ++b) {
    MUST(cudaStreamWaitEvent(sides[static_cast<std::size_t>(b)], fork, 0));
    chain(sides[static_cast<std::size_t>(b)], nodes, 1, cycles);
    cudaEvent_t join;
    MUST(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    MUST(cudaEventRecord(join, sides[static_cast<std::size_t>(b)]));
    MUST(cudaStreamWaitEvent(s, join, 0));
  }
  spin<<<1, 128, 0, s>>>(cycles);
}

void host_costs() {
  for (const int nodes : {1, 10, 100, 300, 1000, 3000}) {
    double capture = 0;
    cudaGraph_t graph = captured([&](cudaStream_t s) { chain(s, nodes, 1, 0); }, &capture);
    cudaGraphExec_t exec;
    const double instantiate = microseconds([&] { MUST(cudaGraphInstantiate(&exec, graph, 0)); });
    const double first = microseconds([&] { MUST(cudaGraphLaunch(exec, stream)); });
    MUST(cudaStreamSynchronize(stream));
    std::vector<double> idle, busy;
    for (int i = 0; i < (nodes > 300 ? 60 : 200); ++i) {
      idle.push_back(microseconds([&] { MUST(cudaGraphLaunch(exec, stream)); }));
      MUST(cudaStreamSynchronize(stream));
    }
    *gate_host = 0;
    gate<<<1, 1, 0, stream>>>(gate_device);
    for (int i = 0; i < 20; ++i)
      busy.push_back(microseconds([&] { MUST(cudaGraphLaunch(exec, stream)); }));
    *gate_host = 1;
    MUST(cudaStreamSynchronize(stream));
    cudaGraphExecUpdateResultInfo result;
    const double update = microseconds([&] { MUST(cudaGraphExecUpdate(exec, graph, &result)); });
    const double destroy = microseconds([&] { MUST(cudaGraphExecDestroy(exec)); });
    const double destroy_graph = microseconds([&] { MUST(cudaGraphDestroy(graph)); });
    std::printf(
        "{\"case\": \"host\", \"shape\": \"chain\", \"nodes\": %d, \"capture_us\": %.3f, "
        "\"instantiate_us\": %.3f, \"first_launch_us\": %.3f, \"launch_us\": %.3f, "
        "\"launch_behind_work_us\": %.3f, \"update_us\": %.3f, \"exec_destroy_us\": %.3f, "
        "\"graph_destroy_us\": %.3f}\n",
        nodes, capture, instantiate, first, median(idle), median(busy), update, destroy,
        destroy_graph);
  }
  for (const int count : {2, 4, 8, 16}) {
    cudaGraph_t graph = captured([&](cudaStream_t s) { branches(s, count, 12, 0); });
    cudaGraphExec_t exec;
    MUST(cudaGraphInstantiate(&exec, graph, 0));
    MUST(cudaGraphLaunch(exec, stream));
    MUST(cudaStreamSynchronize(stream));
    std::vector<double> idle;
    for (int i = 0; i < 200; ++i) {
      idle.push_back(microseconds([&] { MUST(cudaGraphLaunch(exec, stream)); }));
      MUST(cudaStreamSynchronize(stream));
    }
    std::printf(
        "{\"case\": \"host\", \"shape\": \"branches\", \"branches\": %d, \"nodes\": %d, "
        "\"launch_us\": %.3f}\n",
        count, 2 + 12 * count, median(idle));
    MUST(cudaGraphExecDestroy(exec));
    MUST(cudaGraphDestroy(graph));
  }
  std::vector<double> launch, graph_add;
  for (int i = 0; i < 500; ++i) {
    launch.push_back(microseconds([&] { nothing<<<1, 1, 0, stream>>>(); }));
    if (i % 50 == 49) MUST(cudaStreamSynchronize(stream));
  }
  cudaGraph_t graph;
  MUST(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t node = nullptr;
  for (int i = 0; i < 500; ++i) {
    cudaKernelNodeParams p{};
    p.func = reinterpret_cast<void*>(nothing);
    p.gridDim = p.blockDim = dim3(1);
    cudaGraphNode_t before = node;
    graph_add.push_back(microseconds([&] {
      MUST(cudaGraphAddKernelNode(&node, graph, before ? &before : nullptr, before ? 1 : 0, &p));
    }));
  }
  MUST(cudaGraphDestroy(graph));
  std::printf("{\"case\": \"host\", \"call\": \"launch of a kernel\", \"us\": %.3f}\n",
              median(launch));
  std::printf("{\"case\": \"host\", \"call\": \"cudaGraphAddKernelNode\", \"us\": %.3f}\n",
              median(graph_add));
  // From the call to the end of its wait, of a kernel and of graphs of one and of ten.
  const auto round_trip = [&](const std::function<void()>& work) {
    std::vector<double> times;
    for (int i = 0; i < 300; ++i) {
      times.push_back(microseconds([&] {
        work();
        MUST(cudaStreamSynchronize(stream));
      }));
    }
    return median(times);
  };
  std::printf("{\"case\": \"round_trip\", \"what\": \"kernel\", \"us\": %.3f}\n",
              round_trip([&] { nothing<<<1, 1, 0, stream>>>(); }));
  for (const int nodes : {1, 2, 10, 100}) {
    cudaGraph_t g = captured([&](cudaStream_t s) {
      for (int i = 0; i < nodes; ++i) nothing<<<1, 1, 0, s>>>();
    });
    cudaGraphExec_t exec;
    MUST(cudaGraphInstantiate(&exec, g, 0));
    std::printf("{\"case\": \"round_trip\", \"what\": \"graph\", \"nodes\": %d, \"us\": %.3f}\n",
                nodes, round_trip([&] { MUST(cudaGraphLaunch(exec, stream)); }));
    MUST(cudaGraphExecDestroy(exec));
    MUST(cudaGraphDestroy(g));
  }
}

void device_costs() {
  const int nodes = 400;  // fewer than the driver queues before a launch blocks
  for (const int blocks : {1, 132}) {
    for (const long long cycles : {0LL, 4000LL, 20000LL}) {
      const double one = device_us([&] { chain(stream, nodes, blocks, cycles); });
      cudaGraph_t graph = captured([&](cudaStream_t s) { chain(s, nodes, blocks, cycles); });
      cudaGraphExec_t exec;
      MUST(cudaGraphInstantiate(&exec, graph, 0));
      MUST(cudaGraphLaunch(exec, stream));
      MUST(cudaStreamSynchronize(stream));
      const double all = device_us([&] { MUST(cudaGraphLaunch(exec, stream)); });
      std::printf(
          "{\"case\": \"chain\", \"blocks\": %d, \"cycles\": %lld, \"stream_us_per_node\": %.4f, "
          "\"graph_us_per_node\": %.4f}\n",
          blocks, cycles, one / nodes, all / nodes);
      MUST(cudaGraphExecDestroy(exec));
      MUST(cudaGraphDestroy(graph));
    }
  }
  // The same kernel twice as long: what is not its own time is the gap.
  for (const bool graphs : {false, true}) {
    double times[2];
    for (int i = 0; i < 2; ++i) {
      const long long cycles = i == 0 ? 20000 : 40000;
      cudaGraph_t graph = captured([&](cudaStream_t s) { chain(s, nodes, 132, cycles); });
      cudaGraphExec_t exec;
      MUST(cudaGraphInstantiate(&exec, graph, 0));
      times[i] = device_us([&] {
                   if (graphs) {
                     MUST(cudaGraphLaunch(exec, stream));
                   } else {
                     chain(stream, nodes, 132, cycles);
                   }
                 }) /
                 nodes;
      MUST(cudaGraphExecDestroy(exec));
      MUST(cudaGraphDestroy(graph));
    }
    std::printf(
        "{\"case\": \"gap\", \"by\": \"%s\", \"us_20000_cycles\": %.4f, \"us_40000_cycles\": %.4f, "
        "\"beside_cycles_us\": %.4f}\n",
        graphs ? "graph" : "stream", times[0], times[1], 2 * times[0] - times[1]);
  }
  for (const int count : {1, 2, 4, 8, 16, 32}) {
    cudaGraph_t graph = captured([&](cudaStream_t s) { branches(s, count, 10, 20000); });
    cudaGraphExec_t exec;
    MUST(cudaGraphInstantiate(&exec, graph, 0));
    MUST(cudaGraphLaunch(exec, stream));
    MUST(cudaStreamSynchronize(stream));
    const double by_graph = device_us([&] { MUST(cudaGraphLaunch(exec, stream)); });
    const double by_streams = device_us([&] { branches(stream, count, 10, 20000); });
    std::printf(
        "{\"case\": \"branches\", \"branches\": %d, \"nodes_each\": 10, \"cycles\": 20000, "
        "\"graph_us\": %.3f, \"streams_us\": %.3f}\n",
        count, by_graph, by_streams);
    MUST(cudaGraphExecDestroy(exec));
    MUST(cudaGraphDestroy(graph));
  }
  // Launches of a graph behind one another.
  for (const int size : {1, 10}) {
    cudaGraph_t graph = captured([&](cudaStream_t s) { chain(s, size, 132, 20000); });
    cudaGraphExec_t exec;
    MUST(cudaGraphInstantiate(&exec, graph, 0));
    MUST(cudaGraphLaunch(exec, stream));
    MUST(cudaStreamSynchronize(stream));
    const int launches = 20;
    const double all = device_us([&] {
      for (int i = 0; i < launches; ++i) MUST(cudaGraphLaunch(exec, stream));
    });
    std::printf(
        "{\"case\": \"launches\", \"nodes\": %d, \"cycles\": 20000, \"us_per_launch\": %.4f}\n",
        size, all / launches);
    MUST(cudaGraphExecDestroy(exec));
    MUST(cudaGraphDestroy(graph));
  }
}

// --- What captures refuse ---

/// Begins a capture in `mode` on this thread, makes the call (here or on another thread), and tells
/// what it and the end of the capture return.
void refusals() {
  void *buffer, *host;
  MUST(cudaMalloc(&buffer, 1 << 20));
  MUST(cudaMallocHost(&host, 1 << 20));
  static char pageable[1 << 16];
  cudaEvent_t plain, inside, outside;
  MUST(cudaEventCreate(&plain));
  MUST(cudaEventCreate(&inside));
  MUST(cudaEventCreate(&outside));
  cudaStream_t blocking;
  MUST(cudaStreamCreate(&blocking));
  MUST(cudaEventRecord(outside, other));
  MUST(cudaDeviceSynchronize());
  cudaGraph_t small = captured([&](cudaStream_t s) { nothing<<<1, 1, 0, s>>>(); });
  cudaGraphExec_t exec;
  MUST(cudaGraphInstantiate(&exec, small, 0));
  struct Case {
    const char* name;
    std::function<cudaError_t()> call;
  };
  cudaStream_t captured_stream = nullptr;
  void* made = nullptr;
  const std::vector<Case> cases{
      {"cudaStreamSynchronize captured", [&] { return cudaStreamSynchronize(captured_stream); }},
      {"cudaStreamQuery captured", [&] { return cudaStreamQuery(captured_stream); }},
      {"cudaStreamSynchronize other", [&] { return cudaStreamSynchronize(other); }},
      {"cudaStreamQuery other", [&] { return cudaStreamQuery(other); }},
      {"cudaStreamSynchronize legacy", [&] { return cudaStreamSynchronize(nullptr); }},
      {"cudaDeviceSynchronize", [&] { return cudaDeviceSynchronize(); }},
      {"cudaEventQuery other", [&] { return cudaEventQuery(outside); }},
      {"cudaEventSynchronize other", [&] { return cudaEventSynchronize(outside); }},
      {"cudaEventQuery captured", [&] { return cudaEventQuery(inside); }},
      {"cudaEventSynchronize captured", [&] { return cudaEventSynchronize(inside); }},
      {"cudaEventElapsedTime captured",
       [&] {
         float ms;
         return cudaEventElapsedTime(&ms, outside, inside);
       }},
      {"cudaEventElapsedTime other",
       [&] {
         float ms;
         return cudaEventElapsedTime(&ms, outside, outside);
       }},
      {"cudaEventRecord other", [&] { return cudaEventRecord(plain, other); }},
      {"cudaEventCreate",
       [&] {
         cudaEvent_t e;
         return cudaEventCreate(&e);
       }},
      {"cudaStreamCreate",
       [&] {
         cudaStream_t s;
         return cudaStreamCreate(&s);
       }},
      {"cudaMalloc", [&] { return cudaMalloc(&made, 4096); }},
      {"cudaFree",
       [&] {
         void* p = made;
         made = nullptr;
         return cudaFree(p);
       }},
      {"cudaMallocHost", [&] { return cudaMallocHost(&made, 4096); }},
      {"cudaFreeHost",
       [&] {
         void* p = made;
         made = nullptr;
         return cudaFreeHost(p);
       }},
      {"cudaMemGetInfo",
       [&] {
         size_t a, b;
         return cudaMemGetInfo(&a, &b);
       }},
      {"cudaMemcpy", [&] { return cudaMemcpy(buffer, pageable, 1024, cudaMemcpyHostToDevice); }},
      {"cudaMemset", [&] { return cudaMemset(buffer, 0, 1024); }},
      {"kernel legacy",
       [&] {
         nothing<<<1, 1>>>();
         return cudaGetLastError();
       }},
      {"kernel other",
       [&] {
         nothing<<<1, 1, 0, other>>>();
         return cudaGetLastError();
       }},
      {"cudaMemcpyAsync h2d pageable captured",
       [&] {
         return cudaMemcpyAsync(buffer, pageable, 1024, cudaMemcpyHostToDevice, captured_stream);
       }},
      {"cudaMemcpyAsync d2h pageable captured",
       [&] {
         return cudaMemcpyAsync(pageable, buffer, 1024, cudaMemcpyDeviceToHost, captured_stream);
       }},
      {"cudaMemcpyAsync h2d pinned captured",
       [&] {
         return cudaMemcpyAsync(buffer, host, 1024, cudaMemcpyHostToDevice, captured_stream);
       }},
      {"cudaMemcpyAsync h2h captured",
       [&] {
         return cudaMemcpyAsync(pageable, host, 1024, cudaMemcpyHostToHost, captured_stream);
       }},
      {"cudaMallocAsync captured", [&] { return cudaMallocAsync(&made, 4096, captured_stream); }},
      {"cudaMallocAsync other", [&] { return cudaMallocAsync(&made, 4096, other); }},
      {"cudaFreeAsync not of the graph", [&] { return cudaFreeAsync(made, captured_stream); }},
      {"cudaStreamWaitEvent not captured",
       [&] { return cudaStreamWaitEvent(captured_stream, outside, 0); }},
      {"cudaStreamWaitEvent never recorded",
       [&] {
         cudaEvent_t e;
         (void)cudaEventCreate(&e);
         return cudaStreamWaitEvent(captured_stream, e, 0);
       }},
      {"cudaStreamWaitEvent external",
       [&] { return cudaStreamWaitEvent(captured_stream, outside, cudaEventWaitExternal); }},
      {"cudaStreamWaitEvent legacy on captured",
       [&] { return cudaStreamWaitEvent(nullptr, inside, 0); }},
      {"cudaEventRecordWithFlags external",
       [&] { return cudaEventRecordWithFlags(plain, captured_stream, cudaEventRecordExternal); }},
      {"cudaStreamAddCallback captured",
       [&] {
         return cudaStreamAddCallback(
             captured_stream, [](cudaStream_t, cudaError_t, void*) {}, nullptr, 0);
       }},
      {"cudaLaunchHostFunc captured",
       [&] {
         return cudaLaunchHostFunc(
             captured_stream, [](void*) {}, nullptr);
       }},
      {"cudaGraphLaunch captured", [&] { return cudaGraphLaunch(exec, captured_stream); }},
      {"cudaGraphLaunch other", [&] { return cudaGraphLaunch(exec, other); }},
      {"cudaStreamBeginCapture again",
       [&] { return cudaStreamBeginCapture(captured_stream, cudaStreamCaptureModeRelaxed); }},
      {"cudaStreamBeginCapture legacy",
       [&] { return cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed); }},
      {"cudaStreamEndCapture other",
       [&] {
         cudaGraph_t g;
         return cudaStreamEndCapture(other, &g);
       }},
      {"cudaStreamIsCapturing legacy",
       [&] {
         cudaStreamCaptureStatus s;
         return cudaStreamIsCapturing(nullptr, &s);
       }},
      {"cudaStreamDestroy captured fork", [&] { return cudaSuccess; }},
      {"cudaDeviceGetAttribute",
       [&] {
         int v;
         return cudaDeviceGetAttribute(&v, cudaDevAttrWarpSize, 0);
       }},
      {"cudaFuncGetAttributes",
       [&] {
         cudaFuncAttributes a;
         return cudaFuncGetAttributes(&a, nothing);
       }},
      {"cudaGraphInstantiate",
       [&] {
         cudaGraphExec_t x;
         return cudaGraphInstantiate(&x, small, 0);
       }},
  };
  const char* modes[] = {"global", "thread_local", "relaxed"};
  for (const bool blocks : {false, true}) {
    captured_stream = blocks ? blocking : stream;
    for (int mode = 0; mode < 3; ++mode) {
      for (const bool here : {true, false}) {
        for (const Case& one : cases) {
          MUST(cudaStreamBeginCapture(captured_stream, static_cast<cudaStreamCaptureMode>(mode)));
          nothing<<<1, 1, 0, captured_stream>>>();
          MUST(cudaEventRecord(inside, captured_stream));
          cudaError_t status = cudaSuccess;
          if (here) {
            status = one.call();
          } else {
            std::thread{[&] {
              status = one.call();
              (void)cudaGetLastError();
            }}.join();
          }
          (void)cudaGetLastError();
          cudaGraph_t graph = nullptr;
          const cudaError_t end = cudaStreamEndCapture(captured_stream, &graph);
          (void)cudaGetLastError();
          size_t nodes = 0;
          if (end == cudaSuccess && graph) {
            (void)cudaGraphGetNodes(graph, nullptr, &nodes);
            (void)cudaGraphDestroy(graph);
          }
          std::printf(
              "{\"case\": \"refusal\", \"stream\": \"%s\", \"mode\": \"%s\", \"thread\": \"%s\", "
              "\"call\": \"%s\", \"status\": %d, \"end\": %d, \"nodes\": %zu}\n",
              blocks ? "blocking" : "non_blocking", modes[mode], here ? "same" : "other", one.name,
              static_cast<int>(status), static_cast<int>(end), nodes);
        }
      }
    }
  }
  // Forks, joins and ends.
  const auto tell = [](const char* what, cudaError_t status) {
    std::printf("{\"case\": \"rule\", \"what\": \"%s\", \"status\": %d}\n", what,
                static_cast<int>(status));
    (void)cudaGetLastError();
  };
  cudaGraph_t graph = nullptr;
  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  MUST(cudaEventRecord(inside, stream));
  MUST(cudaStreamWaitEvent(other, inside, 0));
  nothing<<<1, 1, 0, other>>>();
  tell("end in the forked stream", cudaStreamEndCapture(other, &graph));
  tell("end after that", cudaStreamEndCapture(stream, &graph));
  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  MUST(cudaEventRecord(inside, stream));
  MUST(cudaStreamWaitEvent(other, inside, 0));
  nothing<<<1, 1, 0, other>>>();
  tell("end unjoined", cudaStreamEndCapture(stream, &graph));
  cudaStreamCaptureStatus capturing;
  MUST(cudaStreamIsCapturing(other, &capturing));
  tell("forked stream afterwards (its capture status)", static_cast<cudaError_t>(capturing));
  tell("query of an event of an ended capture", cudaEventQuery(inside));
  tell("wait for an event of an ended capture", cudaStreamWaitEvent(stream, inside, 0));
  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  MUST(cudaStreamBeginCapture(other, cudaStreamCaptureModeRelaxed));
  nothing<<<1, 1, 0, stream>>>();
  MUST(cudaEventRecord(inside, stream));
  tell("merge of two captures", cudaStreamWaitEvent(other, inside, 0));
  tell("end of the one", cudaStreamEndCapture(stream, &graph));
  tell("end of the other", cudaStreamEndCapture(other, &graph));
  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  cudaError_t status = cudaSuccess;
  std::thread{[&] { status = cudaStreamEndCapture(stream, &graph); }}.join();
  tell("end by another thread", status);
  tell("end by its own thread after that", cudaStreamEndCapture(stream, &graph));
  tell("end without a capture", cudaStreamEndCapture(stream, &graph));
  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  tell("end of an empty capture", cudaStreamEndCapture(stream, &graph));
  size_t nodes = 99;
  if (graph) (void)cudaGraphGetNodes(graph, nullptr, &nodes);
  tell("nodes of it", static_cast<cudaError_t>(nodes));
}

}  // namespace

int main() {
  int driver = 0, runtime = 0;
  cudaDeviceProp properties{};
  MUST(cudaDriverGetVersion(&driver));
  MUST(cudaRuntimeGetVersion(&runtime));
  MUST(cudaGetDeviceProperties(&properties, 0));
  std::printf("{\"case\": \"machine\", \"gpu\": \"%s\", \"driver\": %d, \"runtime\": %d}\n",
              properties.name, driver, runtime);
  MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  MUST(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  MUST(cudaHostAlloc(reinterpret_cast<void**>(&gate_host), sizeof(int), cudaHostAllocMapped));
  MUST(cudaHostGetDevicePointer(reinterpret_cast<void**>(&gate_device), gate_host, 0));
  host_costs();
  std::fflush(stdout);
  device_costs();
  std::fflush(stdout);
  refusals();
  MUST(cudaDeviceSynchronize());
}
