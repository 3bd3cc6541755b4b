// What an intercepted call costs the thread that makes it, in CPU time of this machine. To be run
// under `phantora run` on one GPU; bench/README.md has the commands. The clocks are read by system
// calls, since those of the C library show virtual time.
//
// usage: interception_bench [RESULTS.json [NAME [MOST]]]
// NAME: only calls whose names begin so; MOST: no more of each in a round, to count instructions

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <cublasLt.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace {

double raw_ns(clockid_t clock) {
  timespec now{};
  syscall(SYS_clock_gettime, clock, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

template <class Status>
void must(Status status, const char* what) {
  if (status == Status{}) return;
  std::fprintf(stderr, "%s failed: %d\n", what, static_cast<int>(status));
  std::exit(1);
}
#define MUST(call) must(call, #call)

struct Result {
  std::string name;
  double cpu_ns = 0, wall_ns = 0;
};
std::vector<Result> results;
std::string only;
long most = LONG_MAX;

/// Times `calls` calls of `f`; the least of five rounds, since the machine does other things too.
template <class F>
void time_of(const char* name, long calls, F f) {
  if (!std::string{name}.starts_with(only)) return;
  calls = std::min(calls, most);
  Result best{name, INFINITY, INFINITY};
  for (int round = 0; round < 5; ++round) {
    f();
    MUST(cudaDeviceSynchronize());
    const double cpu = raw_ns(CLOCK_THREAD_CPUTIME_ID), wall = raw_ns(CLOCK_MONOTONIC);
    for (long i = 0; i < calls; ++i) f();
    const auto per_call = [&](double ns) { return ns / static_cast<double>(calls); };
    best.cpu_ns = std::min(best.cpu_ns, per_call(raw_ns(CLOCK_THREAD_CPUTIME_ID) - cpu));
    best.wall_ns = std::min(best.wall_ns, per_call(raw_ns(CLOCK_MONOTONIC) - wall));
  }
  std::printf("%-44s %8.0f ns of CPU %8.0f ns\n", name, best.cpu_ns, best.wall_ns);
  std::fflush(stdout);
  results.push_back(best);
}

/// PyTorch's fill of a float tensor, as far as its launch is read: the parameters.
constexpr const char* fill_name =
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_"
    "T1_";

CUfunction load_fill() {
  const std::string text = std::string{".version 8.0\n.target sm_80\n.address_size 64\n"} +
                           ".visible .entry " + fill_name +
                           "(.param .u32 a, .param .align 4 .b8 b[4], .param .align 8 .b8 c[8])\n"
                           "{ ret; }\n";
  CUmodule module{};
  CUfunction fill{};
  MUST(cuModuleLoadData(&module, text.c_str()));
  MUST(cuModuleGetFunction(&fill, module, fill_name));
  return fill;
}

void time_launches(cudaStream_t stream, void* memory) {
  CUfunction fill = load_fill();
  int elements = 1 << 24;
  float value = 1;
  void* parameters[] = {&elements, &value, &memory};
  const auto launch = [&] {
    cuLaunchKernel(fill, 16384, 1, 1, 256, 1, 1, 0, stream, parameters, nullptr);
  };
  time_of("launch", 200'000, launch);
  time_of("cudaStreamSynchronize after a launch", 4'000, [&] {
    launch();
    cudaStreamSynchronize(stream);
  });
  time_of("cudaMemsetAsync, 32 MiB", 100'000,
          [&] { cudaMemsetAsync(memory, 0, 32 << 20, stream); });
  const auto time_copy = [&](const char* name, void* to) {
    time_of(name, 100'000, [&] {
      cudaMemcpyAsync(to, static_cast<char*>(to) + (32 << 20), 16 << 20, cudaMemcpyDeviceToDevice,
                      stream);
    });
  };
  // What is known of the source moves with it: here that it is zeros, there nothing.
  void* unknown = nullptr;
  MUST(cudaMalloc(&unknown, 64 << 20));
  MUST(cudaMemset(memory, 0, 64 << 20));
  time_copy("cudaMemcpyAsync on the GPU, 16 MiB", memory);
  time_copy("cudaMemcpyAsync of unknown data", unknown);
  MUST(cudaFree(unknown));
  int word = 0;
  time_of("cudaMemcpy to the host, 4 bytes", 4'000,
          [&] { cudaMemcpy(&word, memory, 4, cudaMemcpyDeviceToHost); });
}

void time_events(cudaStream_t stream) {
  cudaEvent_t event{};
  MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  time_of("cudaEventRecord", 200'000, [&] { cudaEventRecord(event, stream); });
  time_of("cudaStreamWaitEvent", 200'000, [&] { cudaStreamWaitEvent(stream, event, 0); });
  time_of("cudaEventQuery of a done event", 4'000, [&] { cudaEventQuery(event); });
}

void time_memory(cudaStream_t stream) {
  time_of("cudaMallocAsync and cudaFreeAsync", 50'000, [&] {
    void* memory = nullptr;
    cudaMallocAsync(&memory, 1 << 20, stream);
    cudaFreeAsync(memory, stream);
  });
  time_of("cudaMalloc and cudaFree", 20'000, [&] {
    void* memory = nullptr;
    cudaMalloc(&memory, 1 << 20);
    cudaFree(memory);
  });
}

void time_matmul(cudaStream_t stream, void* memory) {
  cublasLtHandle_t handle{};
  cublasLtMatmulDesc_t operation{};
  cublasLtMatrixLayout_t layout{};
  MUST(cublasLtCreate(&handle));
  MUST(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  constexpr int n = 1024;
  MUST(cublasLtMatrixLayoutCreate(&layout, CUDA_R_16BF, n, n, n));
  char* const a = static_cast<char*>(memory);
  char* const b = a + 2 * n * n;
  char* const c = b + 2 * n * n;
  const float one = 1, zero = 0;
  time_of("cublasLtMatmul, 1024 x 1024 of bfloat16", 50'000, [&] {
    cublasLtMatmul(handle, operation, &one, a, layout, b, layout, &zero, c, layout, c, layout,
                   nullptr, nullptr, 0, stream);
  });
}

void time_collective(cudaStream_t stream, void* memory) {
  ncclUniqueId id{};
  ncclComm_t communicator{};
  MUST(ncclGetUniqueId(&id));
  MUST(ncclCommInitRank(&communicator, 1, id, 0));
  time_of("ncclAllReduce of one rank, 16 MiB", 50'000, [&] {
    ncclAllReduce(memory, memory, 4 << 20, ncclFloat, ncclSum, communicator, stream);
  });
}

void time_questions(cudaStream_t stream) {
  time_of("cudaGetLastError", 200'000, [] { cudaGetLastError(); });
  time_of("cudaStreamIsCapturing", 200'000, [&] {
    cudaStreamCaptureStatus status{};
    cudaStreamIsCapturing(stream, &status);
  });
  time_of("clock_gettime", 200'000, [] {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
  });
}

/// Virtual time that passes while the program computes, beside the CPU time that it takes.
void compare_charged_time() {
  if (!only.empty()) return;
  const auto virtual_ns = [] {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
  };
  const double begin = virtual_ns(), cpu_begin = raw_ns(CLOCK_THREAD_CPUTIME_ID);
  double charged = 0;
  for (int i = 0; i < 20'000; ++i) {
    for (volatile int work = 0; work < 50'000;) work = work + 1;
    charged = virtual_ns() - begin;
  }
  const double cpu = raw_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_begin;
  std::printf("charged %.4f of %.3f s of CPU time (1 with --host-scale 1)\n", charged / cpu,
              cpu / 1e9);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2) only = argv[2];
  if (argc > 3) most = std::strtol(argv[3], nullptr, 10);
  cudaStream_t stream{};
  MUST(cudaStreamCreate(&stream));
  void* memory = nullptr;
  MUST(cudaMalloc(&memory, 64 << 20));
  time_launches(stream, memory);
  time_events(stream);
  time_memory(stream);
  time_matmul(stream, memory);
  time_collective(stream, memory);
  time_questions(stream);
  compare_charged_time();

  if (argc < 2) return 0;
  std::ofstream out{argv[1]};
  out << "{\n";
  for (const Result& result : results) {
    out << "  \"" << result.name << "\": {\"cpu_ns\": " << result.cpu_ns
        << ", \"wall_ns\": " << result.wall_ns << (&result == &results.back() ? "}\n" : "},\n");
  }
  out << "}\n";
  return out ? 0 : 1;
}
