// Host time of CUDA, cuBLAS, cuDNN and NCCL calls while a real program trains on a real GPU:
//
//   g++ -O2 -std=c++20 -fPIC -shared -static-libstdc++ -static-libgcc -Iadapters -Iinclude
//     bench/accuracy/api_in_situ.cpp adapters/rank/runtime/{host_speed,cpu_clock}.cpp -o
//     api_in_situ.so
//   API_IN_SITU=out LD_PRELOAD=./api_in_situ.so python3 test/programs/train.py --model gpt2
//   --parallel none
//
// writes out.PID with a JSON line per call, and out.PID.first with one for each call of over 300 us
// (libraries load themselves at first use) and each kernel's first launch. A tight loop of one call
// (test/data/api_cost.jsonl) finds its code and data in the caches; between the operations of a
// framework it takes twice as long, and that is what a training step pays. It also times
// reference_work() there, cold, by which hosts of different speed are compared (api_cost.py). Calls
// within calls are not counted.

#include "rank/runtime/cpu_clock.hpp"
#include "rank/runtime/host_speed.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <dlfcn.h>
#include <nccl.h>
#include <unistd.h>

#undef cublasGemmEx

namespace {

double in_us(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::micro>{time}.count();
}
double now_us() { return in_us(std::chrono::steady_clock::now().time_since_epoch()); }

struct Call {
  const char* name;
  std::mutex mutex{};
  std::vector<double> us{};
  /// Since the same call before it had ended: medians tell how a call cools down.
  std::vector<std::pair<double, double>> by_gap{};
  double ended = 0;

  void add(double each) {
    const std::lock_guard lock{mutex};
    us.push_back(each);
  }
  void add(double begin, double end) {
    const std::lock_guard lock{mutex};
    us.push_back(end - begin);
    if (ended > 0) by_gap.emplace_back(begin - ended, end - begin);
    ended = end;
  }
};

struct Calls {
  std::mutex mutex;
  std::vector<Call*> all;
};
Calls& calls() {
  static auto* known = new Calls;  // outlives every thread
  return *known;
}

Call& call_named(const char* name) {
  const std::lock_guard lock{calls().mutex};
  return *calls().all.emplace_back(new Call{name});
}

/// Runs reference_work() about every 5 ms of the thread's CPU time.
void sample_host_speed() {
  static Call& work = call_named("reference_work");
  static Call& reading = call_named("thread_cpu_clock");
  thread_local int looked = 0;
  thread_local double last = 0;
  if (++looked % 64 != 0) return;
  const double begin = in_us(phantora::rank::thread_cpu_time());
  if (begin - last < 5000) return;
  [[maybe_unused]] static volatile unsigned result;
  result = phantora::rank::reference_work();
  const double end = in_us(phantora::rank::thread_cpu_time());
  last = in_us(phantora::rank::thread_cpu_time());
  work.add(end - begin);
  reading.add(last - end);
}

/// Where first uses are written; nullptr if nobody asked.
std::FILE* first_uses() {
  static std::FILE* const out = [] {
    const char* prefix = std::getenv("API_IN_SITU");
    return prefix == nullptr
               ? nullptr
               : std::fopen((prefix + ("." + std::to_string(getpid())) + ".first").c_str(), "w");
  }();
  return out;
}

void note_first_use(const char* call, double us, const char* kernel) {
  if (first_uses() == nullptr) return;
  std::fprintf(first_uses(), "{\"call\": \"%s\", \"us\": %.1f, \"kernel\": \"%s\"}\n", call, us,
               kernel);
}

/// The name of a kernel that was not launched before, else nullptr.
const char* name_if_new(cudaKernel_t kernel) {
  static std::mutex mutex;
  static auto* const seen = new std::unordered_set<cudaKernel_t>;
  const std::lock_guard lock{mutex};
  if (!seen->insert(kernel).second) return nullptr;
  using GetName = int (*)(const char**, cudaKernel_t);
  static const auto get_name = reinterpret_cast<GetName>(
      dlsym(dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY), "cuKernelGetName"));
  const char* name = "?";
  get_name(&name, kernel);
  return name;
}

thread_local int depth = 0;

class Timed {
 public:
  explicit Timed(Call& call, const char* new_kernel = nullptr) : call_{call}, kernel_{new_kernel} {
    if (depth++ == 0) sample_host_speed();
    begin_ = now_us();
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;
  ~Timed() {
    const double end = now_us(), us = end - begin_;
    if (--depth > 0) return;
    call_.add(begin_, end);
    if (kernel_ != nullptr || us > 300) note_first_use(call_.name, us, kernel_ ? kernel_ : "");
  }

 private:
  Call& call_;
  const char* kernel_;
  double begin_;
};

/// The real function; also in a library that the program loaded for itself alone.
void* real(const char* name) {
  if (void* found = dlsym(RTLD_NEXT, name)) return found;
  for (const char* library : {"libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13",
                              "libcudnn.so.9", "libcudnn_graph.so.9", "libnccl.so.2"}) {
    void* handle = dlopen(library, RTLD_NOLOAD | RTLD_LAZY);
    if (handle == nullptr) continue;
    if (void* found = dlsym(handle, name)) return found;
  }
  std::fprintf(stderr, "api_in_situ: nobody defines %s\n", name);
  std::abort();
}

/// For gaps of up to 1, 2, 4 ... us, how many calls there were and their median.
std::string by_gap(const std::vector<std::pair<double, double>>& calls) {
  std::string text;
  for (double least = 0, most = 1; most < 1e6; least = most, most *= 2) {
    std::vector<double> us;
    for (const auto& [gap, took] : calls)
      if (gap >= least && gap < most) us.push_back(took);
    if (us.size() < 10) continue;
    std::sort(us.begin(), us.end());
    std::array<char, 64> entry{};
    std::snprintf(entry.data(), entry.size(), "%s\"%.0f\": [%zu, %.2f]", text.empty() ? "" : ", ",
                  most, us.size(), us[us.size() / 2]);
    text += entry.data();
  }
  return text;
}

struct AtExit {
  ~AtExit() {
    const char* prefix = std::getenv("API_IN_SITU");
    if (prefix == nullptr) return;
    const std::string path = prefix + ("." + std::to_string(getpid()));
    std::FILE* out = nullptr;
    for (Call* call : calls().all) {
      const std::lock_guard lock{call->mutex};
      std::vector<double>& us = call->us;
      if (us.size() < 20) continue;
      if (out == nullptr) out = std::fopen(path.c_str(), "w");
      if (out == nullptr) return;
      std::sort(us.begin(), us.end());
      // First calls load kernels and choose algorithms: the mean is of all but the outer tenths.
      const std::size_t tenth = us.size() / 10;
      double sum = 0;
      for (std::size_t i = tenth; i < us.size() - tenth; ++i) sum += us[i];
      std::fprintf(out,
                   "{\"call\": \"%s\", \"n\": %zu, \"mean_us\": %.3f, \"p10_us\": %.3f, "
                   "\"p50_us\": %.3f, \"p90_us\": %.3f, \"median_us_by_gap\": {%s}}\n",
                   call->name, us.size(), sum / static_cast<double>(us.size() - 2 * tenth),
                   us[tenth], us[us.size() / 2], us[us.size() - 1 - tenth],
                   by_gap(call->by_gap).c_str());
    }
    if (out != nullptr) std::fclose(out);
  }
} at_exit;

}  // namespace

#define TIMED(result, name, parameters, arguments)                                \
  extern "C" result name parameters {                                             \
    static Call& timed_call = call_named(#name);                                  \
    static auto timed_real = reinterpret_cast<result(*) parameters>(real(#name)); \
    const Timed timed{timed_call};                                                \
    return timed_real arguments;                                                  \
  }
extern "C" cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block,
                                          void** arguments, size_t shared, cudaStream_t stream) {
  static Call& call = call_named("__cudaLaunchKernel");
  static auto launch = reinterpret_cast<decltype(&__cudaLaunchKernel)>(real("__cudaLaunchKernel"));
  const Timed timed{call, name_if_new(kernel)};
  return launch(kernel, grid, block, arguments, shared, stream);
}
TIMED(cudaError_t, cudaLaunchKernel,
      (const void* f, dim3 g, dim3 b, void** a, size_t m, cudaStream_t s), (f, g, b, a, m, s))
TIMED(cudaError_t, cudaLaunchKernelExC, (const cudaLaunchConfig_t* c, const void* f, void** a),
      (c, f, a))
TIMED(cudaError_t, cudaSetDevice, (int d), (d))
TIMED(cudaError_t, cudaFuncGetAttributes, (cudaFuncAttributes * a, const void* f), (a, f))
TIMED(cudaError_t, cudaMemcpyAsync,
      (void* d, const void* f, size_t n, cudaMemcpyKind k, cudaStream_t s), (d, f, n, k, s))
TIMED(cudaError_t, cudaMemsetAsync, (void* d, int v, size_t n, cudaStream_t s), (d, v, n, s))
TIMED(cudaError_t, cudaEventRecord, (cudaEvent_t e, cudaStream_t s), (e, s))
TIMED(cudaError_t, cudaEventRecordWithFlags, (cudaEvent_t e, cudaStream_t s, unsigned f), (e, s, f))
TIMED(cudaError_t, cudaEventQuery, (cudaEvent_t e), (e))
TIMED(cudaError_t, cudaEventCreateWithFlags, (cudaEvent_t * e, unsigned f), (e, f))
TIMED(cudaError_t, cudaEventDestroy, (cudaEvent_t e), (e))
TIMED(cudaError_t, cudaStreamWaitEvent, (cudaStream_t s, cudaEvent_t e, unsigned f), (s, e, f))
TIMED(cudaError_t, cudaStreamSynchronize, (cudaStream_t s), (s))
TIMED(cudaError_t, cudaDeviceSynchronize, (), ())
TIMED(cudaError_t, cudaStreamQuery, (cudaStream_t s), (s))
TIMED(cudaError_t, cudaStreamIsCapturing, (cudaStream_t s, cudaStreamCaptureStatus* c), (s, c))
TIMED(cudaError_t, cudaPointerGetAttributes, (cudaPointerAttributes * a, const void* p), (a, p))
TIMED(cublasStatus_t, cublasGemmEx,
      (cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
       const void* al, const void* a, cudaDataType at, int lda, const void* b, cudaDataType bt,
       int ldb, const void* be, void* c, cudaDataType ct, int ldc, cublasComputeType_t cp,
       cublasGemmAlgo_t g),
      (h, ta, tb, m, n, k, al, a, at, lda, b, bt, ldb, be, c, ct, ldc, cp, g))
TIMED(cublasStatus_t, cublasGemmStridedBatchedEx,
      (cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
       const void* al, const void* a, cudaDataType at, int lda, long long sa, const void* b,
       cudaDataType bt, int ldb, long long sb, const void* be, void* c, cudaDataType ct, int ldc,
       long long sc, int bc, cublasComputeType_t cp, cublasGemmAlgo_t g),
      (h, ta, tb, m, n, k, al, a, at, lda, sa, b, bt, ldb, sb, be, c, ct, ldc, sc, bc, cp, g))
TIMED(cublasStatus_t, cublasLtMatmul,
      (cublasLtHandle_t h, cublasLtMatmulDesc_t m, const void* al, const void* a,
       cublasLtMatrixLayout_t la, const void* b, cublasLtMatrixLayout_t lb, const void* be,
       const void* c, cublasLtMatrixLayout_t lc, void* d, cublasLtMatrixLayout_t ld,
       const cublasLtMatmulAlgo_t* g, void* w, size_t wn, cudaStream_t s),
      (h, m, al, a, la, b, lb, be, c, lc, d, ld, g, w, wn, s))
TIMED(cublasStatus_t, cublasLtMatmulAlgoGetHeuristic,
      (cublasLtHandle_t h, cublasLtMatmulDesc_t m, cublasLtMatrixLayout_t la,
       cublasLtMatrixLayout_t lb, cublasLtMatrixLayout_t lc, cublasLtMatrixLayout_t ld,
       cublasLtMatmulPreference_t p, int n, cublasLtMatmulHeuristicResult_t* r, int* o),
      (h, m, la, lb, lc, ld, p, n, r, o))
TIMED(cublasStatus_t, cublasSetStream_v2, (cublasHandle_t h, cudaStream_t s), (h, s))
TIMED(cudnnStatus_t, cudnnSetStream, (cudnnHandle_t h, cudaStream_t s), (h, s))
TIMED(cudnnStatus_t, cudnnBackendExecute,
      (cudnnHandle_t h, cudnnBackendDescriptor_t p, cudnnBackendDescriptor_t v), (h, p, v))
TIMED(cudnnStatus_t, cudnnBackendFinalize, (cudnnBackendDescriptor_t d), (d))
TIMED(cudnnStatus_t, cudnnBackendCreateDescriptor,
      (cudnnBackendDescriptorType_t t, cudnnBackendDescriptor_t* d), (t, d))
TIMED(cudnnStatus_t, cudnnBackendSetAttribute,
      (cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t a, cudnnBackendAttributeType_t t,
       int64_t n, const void* e),
      (d, a, t, n, e))
TIMED(cudnnStatus_t, cudnnRNNForward,
      (cudnnHandle_t h, cudnnRNNDescriptor_t r, cudnnForwardMode_t m, const int32_t l[],
       cudnnRNNDataDescriptor_t xd, const void* x, cudnnRNNDataDescriptor_t yd, void* y,
       cudnnTensorDescriptor_t hd, const void* hx, void* hy, cudnnTensorDescriptor_t cd,
       const void* cx, void* cy, size_t wn, const void* w, size_t sn, void* s, size_t rn, void* rs),
      (h, r, m, l, xd, x, yd, y, hd, hx, hy, cd, cx, cy, wn, w, sn, s, rn, rs))
TIMED(cudnnStatus_t, cudnnRNNBackwardData_v8,
      (cudnnHandle_t h, cudnnRNNDescriptor_t r, const int32_t l[], cudnnRNNDataDescriptor_t yd,
       const void* y, const void* dy, cudnnRNNDataDescriptor_t xd, void* dx,
       cudnnTensorDescriptor_t hd, const void* hx, const void* dhy, void* dhx,
       cudnnTensorDescriptor_t cd, const void* cx, const void* dcy, void* dcx, size_t wn,
       const void* w, size_t sn, void* s, size_t rn, void* rs),
      (h, r, l, yd, y, dy, xd, dx, hd, hx, dhy, dhx, cd, cx, dcy, dcx, wn, w, sn, s, rn, rs))
TIMED(cudnnStatus_t, cudnnRNNBackwardWeights_v8,
      (cudnnHandle_t h, cudnnRNNDescriptor_t r, cudnnWgradMode_t a, const int32_t l[],
       cudnnRNNDataDescriptor_t xd, const void* x, cudnnTensorDescriptor_t hd, const void* hx,
       cudnnRNNDataDescriptor_t yd, const void* y, size_t wn, void* dw, size_t sn, void* s,
       size_t rn, void* rs),
      (h, r, a, l, xd, x, hd, hx, yd, y, wn, dw, sn, s, rn, rs))
TIMED(ncclResult_t, ncclAllReduce,
      (const void* f, void* t, size_t n, ncclDataType_t d, ncclRedOp_t o, ncclComm_t c,
       cudaStream_t s),
      (f, t, n, d, o, c, s))
TIMED(ncclResult_t, ncclAllGather,
      (const void* f, void* t, size_t n, ncclDataType_t d, ncclComm_t c, cudaStream_t s),
      (f, t, n, d, c, s))
TIMED(ncclResult_t, ncclReduceScatter,
      (const void* f, void* t, size_t n, ncclDataType_t d, ncclRedOp_t o, ncclComm_t c,
       cudaStream_t s),
      (f, t, n, d, o, c, s))
TIMED(ncclResult_t, ncclSend,
      (const void* f, size_t n, ncclDataType_t d, int p, ncclComm_t c, cudaStream_t s),
      (f, n, d, p, c, s))
TIMED(ncclResult_t, ncclRecv,
      (void* t, size_t n, ncclDataType_t d, int p, ncclComm_t c, cudaStream_t s),
      (t, n, d, p, c, s))
TIMED(ncclResult_t, ncclGroupEnd, (), ())
