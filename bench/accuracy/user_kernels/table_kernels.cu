// Kernels that look something up in small tables, at places that data name, and kernels with
// switches: a line of JSON for each. The same program runs on a GPU and under `phantora run`;
// ../user_kernels.py sets the two beside each other.
//
//   nvcc -std=c++17 -O3 -arch=sm_90 -o table_kernels table_kernels.cu
#include "timing.hpp"

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace {

template <int entries>
__device__ float floats[entries];

__global__ void fill(unsigned* x, long n) {
  for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n;
       i += (long)gridDim.x * blockDim.x) {
    unsigned h = (unsigned)i * 0x9e3779b9u;
    h ^= h >> 16;
    h *= 0x85ebca6bu;
    x[i] = h ^ h >> 13;
  }
}

// ---------------------------------------------------------------- variables of the module

template <int entries>
__global__ void from_variable(const unsigned* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = floats<entries>[x[i] % entries];
}

/// Weights of four bits, eight to a word, and a scale for 64 of them.
__global__ void dequantize(const unsigned* packed, const float* scales, __nv_bfloat16* out,
                           int words) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= words) return;
  const unsigned word = packed[i];
  const float scale = scales[i / 8];
  __nv_bfloat16 values[8];
  for (int k = 0; k < 8; ++k) values[k] = __float2bfloat16(floats<16>[word >> 4 * k & 15] * scale);
  *reinterpret_cast<uint4*>(out + 8 * i) = *reinterpret_cast<const uint4*>(values);
}

// ---------------------------------------------------------------- tables by pointer

__global__ void from_table(const unsigned* x, const float* table, float* y, int entries, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = table[x[i] % entries];
}

/// A row of four floats of the table for each index.
__global__ void rows_of_four(const unsigned* x, const float4* table, float4* y, int rows, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = table[x[i] % rows];
}

/// 64 entries for each index: what L1 takes, not memory.
__global__ void sums_of_64(const unsigned* x, const float* table, float* y, int entries, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned at = x[i];
  float sum = 0;
  for (int k = 0; k < 64; ++k) {
    sum += table[at & (entries - 1)];
    at = at * 1664525u + 1013904223u;
    at ^= at >> 15;
  }
  y[i] = sum;
}

/// The same of sectors of 32 bytes, by two threads each, and of rows of 128 bytes, by eight.
template <int threads_of_a_row>
__device__ float sum_of_rows(unsigned at, const float4* table, int rows, int i) {
  float sum = 0;
  for (int k = 0; k < 64; ++k) {
    const float4 v = table[(at & (rows - 1)) * threads_of_a_row + i % threads_of_a_row];
    sum += v.x + v.y + v.z + v.w;
    at = at * 1664525u + 1013904223u;
    at ^= at >> 15;
  }
  return sum;
}
__global__ void pairs_64(const unsigned* x, const float4* table, float* y, int rows, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = sum_of_rows<2>(x[i / 2], table, rows, i);
}
__global__ void rows_64(const unsigned* x, const float4* table, float* y, int rows, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = sum_of_rows<8>(x[i / 8], table, rows, i);
}

// ---------------------------------------------------------------- switches

__global__ void activation(const float* x, float* y, int kind, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float v = x[i];
  float result = 0;
  switch (kind) {
    case 0:
      result = fmaxf(v, 0.0f);
      break;
    case 1:
      result = v / (1.0f + expf(-v));
      break;
    case 2:
      result = tanhf(v);
      break;
    case 3:
      result = 0.5f * v * (1.0f + erff(v * 0.70710678f));
      break;
    case 4:
      result = log1pf(expf(v));
      break;
    case 5:
      result = v;
      for (int k = 0; k < 64; ++k) result = fmaf(result, v, 0.25f);
      break;
    case 6:
      result = v > 0 ? v : expm1f(v);
      break;
    default:
      return;
  }
  y[i] = result;
}

__global__ void border(const float* image, float* out, int mode, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  float sum = 0;
  for (int dy = -2; dy <= 2; ++dy) {
    for (int dx = -2; dx <= 2; ++dx) {
      int u = x + dx, v = y + dy;
      switch (mode) {
        case 0:
          u = min(max(u, 0), width - 1), v = min(max(v, 0), height - 1);
          break;
        case 1:
          u = u < 0        ? -u
              : u >= width ? 2 * width - 2 - u
                           : u,
          v = v < 0         ? -v
              : v >= height ? 2 * height - 2 - v
                            : v;
          break;
        case 2:
          u = (u + width) % width, v = (v + height) % height;
          break;
        case 3:
          if (u < 0 || v < 0 || u >= width || v >= height) continue;
          break;
        default:
          break;
      }
      sum += image[v * width + u];
    }
  }
  out[y * width + x] = sum / 25;
}

template <class Launch>
void show(const char* kernel, long size, double flops, double bytes, Launch launch) {
  ::show(kernel, size, timed(launch, 20), flops, "fp32", bytes);
}

}  // namespace

int main() {
  constexpr int threads = 256;
  const auto blocks = [](long n) { return blocks_of(n, threads); };
  constexpr long most = 1L << 26;
  unsigned* x;
  float *y, *table;
  MUST(cudaMalloc(&x, most * 4));
  MUST(cudaMalloc(&y, most * 16));
  MUST(cudaMalloc(&table, 1 << 20));
  fill<<<4096, 256>>>(x, most);
  for (const long n : {1L << 20, 1L << 24, 1L << 26}) {
    const double moved = 8.0 * n;
    show("from_16", n, 0, moved, [&] { from_variable<16><<<blocks(n), threads>>>(x, y, n); });
    show("from_256", n, 0, moved, [&] { from_variable<256><<<blocks(n), threads>>>(x, y, n); });
    show("from_4096", n, 0, moved, [&] { from_variable<4096><<<blocks(n), threads>>>(x, y, n); });
    show("from_16384", n, 0, moved, [&] { from_variable<16384><<<blocks(n), threads>>>(x, y, n); });
    show("dequantize", n, 0, 0.5 * n + n / 16.0 + 2.0 * n,
         [&] { dequantize<<<blocks(n / 8), threads>>>(x, y, (__nv_bfloat16*)(y + most), n / 8); });
  }
  for (const int entries : {64, 1000, 8000, 30000}) {
    // A table of its own size: where an allocation ends is where the table does.
    float* small;
    MUST(cudaMalloc(&small, entries * 4L));
    show("from_table", entries, 0, 8.0 * (1 << 24),
         [&] { from_table<<<blocks(1 << 24), threads>>>(x, small, y, entries, 1 << 24); });
    if (entries % 4 == 0)
      show("rows_of_four", entries / 4, 0, 20.0 * (1 << 24), [&] {
        rows_of_four<<<blocks(1 << 24), threads>>>(x, (const float4*)small, (float4*)y, entries / 4,
                                                   1 << 24);
      });
    MUST(cudaFree(small));
  }
  for (const int entries : {32, 256, 1024, 4096, 16384, 65536, 1 << 18}) {
    float* small;
    MUST(cudaMalloc(&small, entries * 4L));
    show("sums_of_64", entries, 64.0 * (1 << 20), 8.0 * (1 << 20),
         [&] { sums_of_64<<<blocks(1 << 20), threads>>>(x, small, y, entries, 1 << 20); });
    MUST(cudaFree(small));
  }
  // What the L2 cache answers.
  for (const int entries : {1 << 20, 1 << 21, 1 << 22}) {
    float* small;
    MUST(cudaMalloc(&small, entries * 4L));
    const auto* const fours = reinterpret_cast<const float4*>(small);
    show("sums_of_64", entries, 64.0 * (1 << 20), 8.0 * (1 << 20),
         [&] { sums_of_64<<<blocks(1 << 20), threads>>>(x, small, y, entries, 1 << 20); });
    show("pairs_64", entries, 0, 0,
         [&] { pairs_64<<<blocks(1 << 20), threads>>>(x, fours, y, entries / 8, 1 << 20); });
    show("rows_64", entries, 0, 0,
         [&] { rows_64<<<blocks(1 << 20), threads>>>(x, fours, y, entries / 32, 1 << 20); });
    MUST(cudaFree(small));
  }
  for (int kind = 0; kind < 7; ++kind)
    show("activation", kind, 0, 8.0 * (1 << 24),
         [&] { activation<<<blocks(1 << 24), threads>>>((const float*)x, y, kind, 1 << 24); });
  for (int mode = 0; mode < 4; ++mode)
    show("border", mode, 0, 8.0 * 4096 * 4096, [&] {
      border<<<dim3(4096 / 32, 4096 / 8), dim3(32, 8)>>>((const float*)x, y, mode, 4096, 4096);
    });
}
