#!/usr/bin/env python3
"""What calls of native programs take on the host of a real GPU: first launches, allocations, libraries' handles.

Usage: native_calls.py FOLDER    writes sources there and builds FOLDER/native_calls (nvcc on PATH, 2 minutes)

FOLDER/native_calls prints one JSON line per call: its name, size (bytes; of modules: instructions of 16 bytes) and us.
test/data/h200_native_calls.jsonl.gz is what two runs printed on a lent H200 (2026-11-24, driver 580.159.04, CUDA 13.0,
16 cores), h200_pool_calls.jsonl.gz what three runs of KEPT alone did (2026-11-29, the same driver);
include/phantora/simulation/host_cost.hpp and adapters/rank/kernels/kernel_launch.cpp say what follows.
"""
import pathlib
import subprocess
import sys

SIZES = (64, 256, 1024, 4096, 16384)  # of a module's larger kernel
COPIES = 3  # modules of each size

MODULE = """#include <cuda_runtime.h>
__global__ void big_{name}(float* p) {{
  float x = p[0], y = p[1];
{body}
  p[threadIdx.x] = x + y;
}}
__global__ void small_{name}(float* p) {{ p[threadIdx.x] += 1.0f; }}
void launch_big_{name}(float* p) {{ big_{name}<<<1, 32>>>(p); }}
void launch_small_{name}(float* p) {{ small_{name}<<<1, 32>>>(p); }}
"""

HEAD = """#include <cuda_runtime.h>
#include <cublas_v2.h>
#include <cufft.h>
#include <curand.h>
#include <chrono>
#include <cstdio>
#include <vector>
#include <algorithm>
using Clock = std::chrono::steady_clock;
static double us(Clock::time_point a) { return std::chrono::duration<double, std::micro>(Clock::now() - a).count(); }
"""

MAIN = """template <class F> static void timed(const char* what, long size, F f) {
  auto t = Clock::now(); f(); double d = us(t);
  std::printf("{\\"call\\": \\"%s\\", \\"size\\": %ld, \\"us\\": %.2f}\\n", what, size, d);
}
int main() {
  timed("cudaFree(0)", 0, [] { cudaFree(0); });
  float* p; timed("first cudaMalloc", 4096, [&] { cudaMalloc(&p, 4096); });
  cudaMemset(p, 0, 4096); cudaDeviceSynchronize();
"""

# A pool that keeps what is freed (TensorFlow's, PyTorch's cudaMallocAsync): 40 tensors live, kernels run between the calls.
KEPT = """  cudaMemPool_t pool; cudaDeviceGetDefaultMemPool(&pool, 0);
  unsigned long long all_of_it = ~0ULL; cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all_of_it);
  for (long size : {4096L, 65536L, 1048576L, 16777216L, 134217728L}) {
    std::vector<void*> live(40);
    for (auto& q : live) cudaMallocAsync(&q, size, 0);
    for (int i = 0; i < 400; ++i) {
      void*& q = live[i * 7 % 40];
      timed("cudaFreeAsync kept", size, [&] { cudaFreeAsync(q, 0); });
      cudaMemsetAsync(p, 0, 4096, 0);
      timed("cudaMallocAsync kept", size, [&] { cudaMallocAsync(&q, size, 0); });
      cudaMemsetAsync(q, 0, 4096, 0);
    }
    for (auto& q : live) cudaFreeAsync(q, 0);
    cudaDeviceSynchronize();
  }
"""

REST = """  for (long size : {256L, 4096L, 65536L, 524288L, 1048576L, 1572864L, 2097152L, 4194304L, 20971520L, 67108864L, 268435456L, 1073741824L})
    for (int i = 0; i < 12; ++i) {
      void* q; timed("cudaMalloc in turn", size, [&] { cudaMalloc(&q, size); });
      timed("cudaFree in turn", size, [&] { cudaFree(q); });
    }
  for (long size : {256L, 4096L, 65536L, 262144L, 524288L, 1048576L, 2097152L, 20971520L}) {
    std::vector<void*> all(40);
    for (auto& q : all) timed("cudaMalloc of many", size, [&] { cudaMalloc(&q, size); });
    for (auto& q : all) timed("cudaFree of many", size, [&] { cudaFree(q); });
  }
  for (long size : {4096L, 65536L, 1048576L, 16777216L, 268435456L})
    for (int i = 0; i < 6; ++i) {
      void* q; timed("cudaMallocHost", size, [&] { cudaMallocHost(&q, size); });
      timed("cudaFreeHost", size, [&] { cudaFreeHost(q); });
      timed("cudaMallocManaged", size, [&] { cudaMallocManaged(&q, size); });
      timed("cudaFree managed", size, [&] { cudaFree(q); });
      timed("cudaMallocAsync", size, [&] { cudaMallocAsync(&q, size, 0); });
      timed("cudaFreeAsync", size, [&] { cudaFreeAsync(q, 0); });
      cudaDeviceSynchronize();
    }
""" + KEPT + """  for (int i = 0; i < 4; ++i) {
    cublasHandle_t b; timed("cublasCreate", 0, [&] { cublasCreate(&b); }); timed("cublasDestroy", 0, [&] { cublasDestroy(b); });
    cufftHandle f; timed("cufftPlan1d", 4096, [&] { cufftPlan1d(&f, 4096, CUFFT_C2C, 16); }); timed("cufftDestroy", 0, [&] { cufftDestroy(f); });
    curandGenerator_t g; timed("curandCreateGenerator", 0, [&] { curandCreateGenerator(&g, CURAND_RNG_PSEUDO_DEFAULT); });
    timed("curandGenerateUniform", 4096, [&] { curandGenerateUniform(g, p, 1024); cudaDeviceSynchronize(); });
    timed("curandDestroyGenerator", 0, [&] { curandDestroyGenerator(g); });
    cudaStream_t s; timed("cudaStreamCreate", 0, [&] { cudaStreamCreate(&s); }); timed("cudaStreamDestroy", 0, [&] { cudaStreamDestroy(s); });
    cudaEvent_t e; timed("cudaEventCreate", 0, [&] { cudaEventCreate(&e); }); timed("cudaEventDestroy", 0, [&] { cudaEventDestroy(e); });
    cudaDeviceProp prop; timed("cudaGetDeviceProperties", 0, [&] { cudaGetDeviceProperties(&prop, 0); });
    cudaFuncAttributes a; timed("cudaFuncGetAttributes", 0, [&] { cudaFuncGetAttributes(&a, (const void*)launch_big_64_0); });
  }
}
"""

LAUNCHES = """  timed("first of module", {size}, [&] {{ launch_big_{name}(p); }});
  cudaDeviceSynchronize();
  timed("second of module", {size}, [&] {{ launch_small_{name}(p); }});
  cudaDeviceSynchronize();
  timed("again", {size}, [&] {{ launch_big_{name}(p); }});
  cudaDeviceSynchronize();
"""


def main(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    modules = [(size, f"{size}_{copy}") for copy in range(COPIES) for size in SIZES]
    for size, name in modules:
        body = "\n".join(f"  x = fmaf(x, y, {1 + i * 1e-3:.4f}f); y = fmaf(y, x, {2 + i * 1e-3:.4f}f);" for i in range(size // 2))
        (folder / f"module_{name}.cu").write_text(MODULE.format(name=name, body=body))
    declared = "".join(f"void launch_big_{name}(float*);\nvoid launch_small_{name}(float*);\n" for _, name in modules)
    launches = "".join(LAUNCHES.format(size=size, name=name) for size, name in modules)
    (folder / "main.cu").write_text(HEAD + declared + MAIN + launches + REST)
    objects = []
    for source in sorted(folder.glob("*.cu")):
        objects.append(str(source.with_suffix(".o")))
        subprocess.run(["nvcc", "-std=c++17", "-O1", "-arch=sm_90", "-c", str(source), "-o", objects[-1]], check=True)
    subprocess.run(["nvcc", "-arch=sm_90", *objects, "-o", str(folder / "native_calls"), "-lcublas", "-lcufft", "-lcurand"],
                   check=True)


main(*sys.argv[1:])
