// Kernels as users write them, each in a few sizes, timed by events: a line of JSON for each.
// The same program runs on a GPU and under `phantora run`; ../user_kernels.py sets the two beside
// each other. `flops` and `bytes` are what the algorithm needs at least: no time may be shorter
// than the GPU's peaks allow for them.
//
//   nvcc -std=c++17 -O3 -arch=sm_90 -o user_kernels user_kernels.cu
#include "timing.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

namespace {

// ---------------------------------------------------------------- streaming

__global__ void saxpy(int n, float a, const float* x, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

__global__ void copy_vectors(const float4* in, float4* out, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    out[i] = in[i];
}

__global__ void gelu(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float x = in[i];
  out[i] = 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}

__global__ void black_scholes(float* call, float* put, const float* price, const float* strike,
                              const float* years, float rate, float volatility, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float s = price[i], k = strike[i], t = years[i];
  const float root = sqrtf(t);
  const float d1 =
      (logf(s / k) + (rate + 0.5f * volatility * volatility) * t) / (volatility * root);
  const float d2 = d1 - volatility * root;
  const float n1 = normcdff(d1), n2 = normcdff(d2);
  const float discounted = k * expf(-rate * t);
  call[i] = s * n1 - discounted * n2;
  put[i] = discounted * (1.0f - n2) - s * (1.0f - n1);
}

// ---------------------------------------------------------------- moving data about

__global__ void transpose_naive(const float* in, float* out, int n) {
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) out[x * n + y + j] = in[(y + j) * n + x];
}

__global__ void transpose_tiled(const float* in, float* out, int n) {
  __shared__ float tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x;
  y = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}

__global__ void gather(const float* in, const int* index, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[index[i]];
}

__global__ void scatter(const float* in, const int* index, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[index[i]] = in[i];
}

__global__ void bitonic_step(unsigned* keys, int distance, int length) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int other = i ^ distance;
  if (other <= i) return;
  const unsigned a = keys[i], b = keys[other];
  if ((a > b) == ((i & length) == 0)) {
    keys[i] = b;
    keys[other] = a;
  }
}

// ---------------------------------------------------------------- stencils

__global__ void stencil_2d(const float* in, float* out, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 1 || y < 1 || x >= width - 1 || y >= height - 1) return;
  const int i = y * width + x;
  out[i] = 0.2f * (in[i] + in[i - 1] + in[i + 1] + in[i - width] + in[i + width]);
}

__global__ void stencil_3d(const float* in, float* out, int nx, int ny, int nz) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 1 || y < 1 || x >= nx - 1 || y >= ny - 1) return;
  const int plane = nx * ny;
  int i = plane + y * nx + x;
  float below = in[i - plane], here = in[i];
  for (int z = 1; z < nz - 1; ++z, i += plane) {
    const float above = in[i + plane];
    out[i] = 0.4f * here + 0.1f * (below + above + in[i - 1] + in[i + 1] + in[i - nx] + in[i + nx]);
    below = here;
    here = above;
  }
}

// ---------------------------------------------------------------- reductions and rows

__global__ void sum(const float* in, float* out, int n) {
  __shared__ float partial[256];
  float mine = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    mine += in[i];
  partial[threadIdx.x] = mine;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, partial[0]);
}

__global__ void histogram_shared(const unsigned char* in, unsigned* bins, int n) {
  __shared__ unsigned mine[256];
  mine[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&mine[in[i]], 1u);
  __syncthreads();
  atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}

__global__ void scan_blocks(const float* in, float* out, float* sums, int n) {
  __shared__ float values[2][512];
  const int i = blockIdx.x * 512 + threadIdx.x;
  int from = 0;
  values[0][threadIdx.x] = i < n ? in[i] : 0.0f;
  __syncthreads();
  for (int distance = 1; distance < 512; distance *= 2) {
    const float value = values[from][threadIdx.x];
    values[1 - from][threadIdx.x] =
        threadIdx.x >= distance ? value + values[from][threadIdx.x - distance] : value;
    from = 1 - from;
    __syncthreads();
  }
  if (i < n) out[i] = values[from][threadIdx.x];
  if (threadIdx.x == 511) sums[blockIdx.x] = values[from][511];
}

__device__ float block_maximum(float value, float* shared) {
  for (int lane = 16; lane > 0; lane /= 2)
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, lane));
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  value = shared[0];
  for (int w = 1; w < blockDim.x / 32; ++w) value = fmaxf(value, shared[w]);
  return value;
}
__device__ float block_sum(float value, float* shared) {
  for (int lane = 16; lane > 0; lane /= 2) value += __shfl_xor_sync(0xffffffffu, value, lane);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  value = 0;
  for (int w = 0; w < blockDim.x / 32; ++w) value += shared[w];
  return value;
}

__global__ void softmax_rows(const float* in, float* out, int columns) {
  __shared__ float shared[32];
  const float* row = in + static_cast<size_t>(blockIdx.x) * columns;
  float* result = out + static_cast<size_t>(blockIdx.x) * columns;
  float largest = -1e30f;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) largest = fmaxf(largest, row[c]);
  largest = block_maximum(largest, shared);
  float total = 0;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) total += expf(row[c] - largest);
  total = block_sum(total, shared);
  for (int c = threadIdx.x; c < columns; c += blockDim.x)
    result[c] = expf(row[c] - largest) / total;
}

__global__ void layer_norm(const float* in, float* out, const float* weight, const float* bias,
                           int rows, int columns) {
  const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  const float* x = in + static_cast<size_t>(row) * columns;
  float total = 0;
  for (int c = lane; c < columns; c += 32) total += x[c];
  for (int w = 16; w > 0; w /= 2) total += __shfl_xor_sync(0xffffffffu, total, w);
  const float mean = total / columns;
  float squares = 0;
  for (int c = lane; c < columns; c += 32) squares += (x[c] - mean) * (x[c] - mean);
  for (int w = 16; w > 0; w /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, w);
  const float scale = rsqrtf(squares / columns + 1e-5f);
  for (int c = lane; c < columns; c += 32)
    out[static_cast<size_t>(row) * columns + c] = (x[c] - mean) * scale * weight[c] + bias[c];
}

// ---------------------------------------------------------------- products

__global__ void matmul_naive(const float* a, const float* b, float* c, int n) {
  const int col = blockIdx.x * blockDim.x + threadIdx.x,
            row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= n || col >= n) return;
  float total = 0;
  for (int k = 0; k < n; ++k) total += a[row * n + k] * b[k * n + col];
  c[row * n + col] = total;
}

template <class T>
__device__ void product_by_tiles(const T* a, const T* b, T* c, int n) {
  __shared__ T left[32][32], right[32][32];
  const int x = threadIdx.x, y = threadIdx.y;
  const int col = blockIdx.x * 32 + x, row = blockIdx.y * 32 + y;
  T total = 0;
  for (int tile = 0; tile < n; tile += 32) {
    left[y][x] = a[row * n + tile + x];
    right[y][x] = b[(tile + y) * n + col];
    __syncthreads();
    for (int k = 0; k < 32; ++k) total += left[y][k] * right[k][x];
    __syncthreads();
  }
  c[row * n + col] = total;
}
__global__ void matmul_tiled(const float* a, const float* b, float* c, int n) {
  product_by_tiles(a, b, c, n);
}
__global__ void dgemm_tiled(const double* a, const double* b, double* c, int n) {
  product_by_tiles(a, b, c, n);
}

/// Each warp makes a tile of 16 x 16, straight from memory.
__global__ void wmma_gemm(const __half* a, const __half* b, float* c, int n) {
  using namespace nvcuda;
  const int col = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 16;
  const int row = (blockIdx.y * blockDim.y + threadIdx.y) * 16;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> left;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> right;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> total;
  wmma::fill_fragment(total, 0.0f);
  for (int k = 0; k < n; k += 16) {
    wmma::load_matrix_sync(left, a + row * n + k, n);
    wmma::load_matrix_sync(right, b + k * n + col, n);
    wmma::mma_sync(total, left, right, total);
  }
  wmma::store_matrix_sync(c + row * n + col, total, n, wmma::mem_row_major);
}

/// 64 x 64 by four warps, operands in shared memory, mma.sync; b is stored by columns.
__global__ void mma_gemm(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int n) {
  __shared__ __nv_bfloat16 left[64][40], right[64][40];
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const int row = blockIdx.y * 64, col = blockIdx.x * 64;
  float total[8][4] = {};
  for (int k0 = 0; k0 < n; k0 += 32) {
    for (int i = thread; i < 64 * 4; i += 128) {
      const int r = i / 4, k = i % 4 * 8;
      *reinterpret_cast<uint4*>(&left[r][k]) =
          *reinterpret_cast<const uint4*>(&a[(row + r) * n + k0 + k]);
      *reinterpret_cast<uint4*>(&right[r][k]) =
          *reinterpret_cast<const uint4*>(&b[(col + r) * n + k0 + k]);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 32; k += 16) {
      const int r = warp * 16 + lane / 4, kk = k + lane % 4 * 2;
      const unsigned a0 = *reinterpret_cast<const unsigned*>(&left[r][kk]);
      const unsigned a1 = *reinterpret_cast<const unsigned*>(&left[r + 8][kk]);
      const unsigned a2 = *reinterpret_cast<const unsigned*>(&left[r][kk + 8]);
      const unsigned a3 = *reinterpret_cast<const unsigned*>(&left[r + 8][kk + 8]);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const unsigned b0 = *reinterpret_cast<const unsigned*>(&right[j * 8 + lane / 4][kk]);
        const unsigned b1 = *reinterpret_cast<const unsigned*>(&right[j * 8 + lane / 4][kk + 8]);
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
            "{%8,%9}, {%0,%1,%2,%3};"
            : "+f"(total[j][0]), "+f"(total[j][1]), "+f"(total[j][2]), "+f"(total[j][3])
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
      }
    }
    __syncthreads();
  }
  for (int j = 0; j < 8; ++j) {
    float* out = &c[(row + warp * 16 + lane / 4) * n + col + j * 8 + lane % 4 * 2];
    out[0] = total[j][0];
    out[1] = total[j][1];
    out[8 * n] = total[j][2];
    out[8 * n + 1] = total[j][3];
  }
}

/// A thread for each score, as the first version of anybody's attention has it.
__global__ void attention_scores(float* scores, const float* q, const float* k, int length,
                                 int size) {
  const int to = blockIdx.x * blockDim.x + threadIdx.x, from = blockIdx.y, head = blockIdx.z;
  if (to >= length) return;
  const float* query = q + (static_cast<size_t>(head) * length + from) * size;
  const float* key = k + (static_cast<size_t>(head) * length + to) * size;
  float total = 0;
  for (int i = 0; i < size; ++i) total += query[i] * key[i];
  scores[(static_cast<size_t>(head) * length + from) * length + to] = total * rsqrtf(size);
}

// ---------------------------------------------------------------- arithmetic

__global__ void nbody(const float4* bodies, float4* forces, int n, float softening) {
  __shared__ float4 tile[256];
  const int i = blockIdx.x * 256 + threadIdx.x;
  const float4 me = bodies[i];
  float3 force = {0, 0, 0};
  for (int first = 0; first < n; first += 256) {
    tile[threadIdx.x] = bodies[first + threadIdx.x];
    __syncthreads();
#pragma unroll 8
    for (int j = 0; j < 256; ++j) {
      const float4 other = tile[j];
      const float x = other.x - me.x, y = other.y - me.y, z = other.z - me.z;
      const float inverse = rsqrtf(x * x + y * y + z * z + softening);
      const float s = other.w * inverse * inverse * inverse;
      force.x += x * s;
      force.y += y * s;
      force.z += z * s;
    }
    __syncthreads();
  }
  forces[i] = {force.x, force.y, force.z, 0};
}

__global__ void mandelbrot(int* out, int width, int height, int most) {
  const int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
  if (px >= width || py >= height) return;
  const float cx = -2.0f + 3.0f * px / width, cy = -1.5f + 3.0f * py / height;
  float x = 0, y = 0;
  int i = 0;
  while (i < most && x * x + y * y < 4.0f) {
    const float next = x * x - y * y + cx;
    y = 2 * x * y + cy;
    x = next;
    ++i;
  }
  out[py * width + px] = i;
}

/// Rounds like those of a hash: integer additions, shifts and logic.
__global__ void hash_rounds(const unsigned* in, unsigned* out, int n, int rounds) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned a = in[i], b = a ^ 0x6a09e667u, c = a + 0xbb67ae85u, d = ~a;
  for (int r = 0; r < rounds; ++r) {
    const unsigned t = (a & b) ^ (~a & c);
    const unsigned s = __funnelshift_l(a, a, 7) ^ __funnelshift_l(a, a, 18) ^ (a >> 3);
    const unsigned u = d + t + s + 0x428a2f98u;
    d = c;
    c = b;
    b = a;
    a = u + __funnelshift_l(d, d, 11);
  }
  out[i] = a ^ b ^ c ^ d;
}

__global__ void dfma_chain(double* out, int rounds) {
  double a = threadIdx.x, b = 1.0, c = 2.0, d = 3.0;
  for (int i = 0; i < rounds; ++i) {
    a = a * 1.0000001 + 0.5;
    b = b * 1.0000001 + 0.5;
    c = c * 1.0000001 + 0.5;
    d = d * 1.0000001 + 0.5;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = a + b + c + d;
}

/// Rows of a sparse matrix, one to a thread, all with as many entries: only the data tell.
__global__ void sparse_rows(const int* start, const int* column, const float* value, const float* x,
                            float* y, int rows) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float total = 0;
  for (int i = start[row]; i < start[row + 1]; ++i) total += value[i] * x[column[i]];
  y[row] = total;
}

/// 5 x 5 filter over a picture, from memory and constant parameters.
struct Filter {
  float weight[25];
};
__global__ void filter_5x5(const float* in, float* out, Filter filter, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 2 || y < 2 || x >= width - 2 || y >= height - 2) return;
  float total = 0;
  for (int dy = -2; dy <= 2; ++dy)
    for (int dx = -2; dx <= 2; ++dx)
      total += filter.weight[(dy + 2) * 5 + dx + 2] * in[(y + dy) * width + x + dx];
  out[y * width + x] = total;
}

// ---------------------------------------------------------------- what fills the operands

__device__ unsigned mixed(unsigned x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ (x >> 16);
}
__global__ void fill_random(float* out, size_t n) {
  for (size_t i = blockIdx.x * size_t{256} + threadIdx.x; i < n; i += size_t{256} * gridDim.x)
    out[i] = 1.0f + (mixed(static_cast<unsigned>(i)) & 0xffff) / 65536.0f;
}
__global__ void fill_indices(int* out, int n) {
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += 256 * gridDim.x) out[i] = mixed(i) % n;
}
__global__ void fill_starts(int* out, int n, int each) {
  for (int i = blockIdx.x * 256 + threadIdx.x; i <= n; i += 256 * gridDim.x) out[i] = i * each;
}

// ---------------------------------------------------------------- timing

constexpr size_t pool_bytes = size_t{3} << 30;
char* pool;

/// The i-th of six equal parts of the pool, half a GiB each.
template <class T>
T* part(int i) {
  return reinterpret_cast<T*>(pool + i * (pool_bytes / 6));
}

void kernels() {
  float *x = part<float>(0), *y = part<float>(1), *z = part<float>(2);
  int* const index = part<int>(3);
  const int most = static_cast<int>(pool_bytes / 6 / 4);
  fill_random<<<1024, 256>>>(x, most);
  fill_random<<<1024, 256>>>(y, most);
  fill_random<<<1024, 256>>>(z, most);
  fill_random<<<1024, 256>>>(part<float>(4), most);
  fill_random<<<1024, 256>>>(part<float>(5), most);

  for (const int n : {1 << 20, 1 << 23, 1 << 26}) {
    show("saxpy", n, timed([=] { saxpy<<<blocks_of(n, 256), 256>>>(n, 2.0f, x, y); }, 20), 2.0 * n,
         "fp32", 12.0 * n);
    show("copy_vectors", n,
         timed([=] { copy_vectors<<<1056, 256>>>(part<float4>(0), part<float4>(1), n / 4); }, 20),
         0, "", 8.0 * n);
    show("gelu", n, timed([=] { gelu<<<blocks_of(n, 512), 512>>>(x, y, n); }, 20), 8.0 * n, "fp32",
         8.0 * n);
  }
  for (const int n : {1 << 20, 1 << 22, 1 << 24}) {
    show("black_scholes", n,
         timed(
             [=] {
               black_scholes<<<blocks_of(n, 128), 128>>>(part<float>(4), part<float>(5), x, y, z,
                                                         0.02f, 0.3f, n);
             },
             20),
         40.0 * n, "fp32", 20.0 * n);
  }
  for (const int n : {2048, 4096, 8192}) {
    const dim3 grid(n / 32, n / 32), block(32, 8);
    const double bytes = 8.0 * n * n;
    show("transpose_naive", n, timed([=] { transpose_naive<<<grid, block>>>(x, y, n); }, 10), 0, "",
         bytes);
    show("transpose_tiled", n, timed([=] { transpose_tiled<<<grid, block>>>(x, y, n); }, 10), 0, "",
         bytes);
    const dim3 cells(blocks_of(n, 32), blocks_of(n, 8));
    show("stencil_2d", n, timed([=] { stencil_2d<<<cells, block>>>(x, y, n, n); }, 10), 5.0 * n * n,
         "fp32", bytes);
    Filter filter;
    for (float& weight : filter.weight) weight = 0.04f;
    show("filter_5x5", n, timed([=] { filter_5x5<<<cells, block>>>(x, y, filter, n, n); }, 10),
         50.0 * n * n, "fp32", bytes);
  }
  for (const int n : {1 << 20, 1 << 24, 1 << 26}) {
    fill_indices<<<1024, 256>>>(index, n);
    show("gather", n, timed([=] { gather<<<blocks_of(n, 256), 256>>>(x, index, y, n); }, 5), 0, "",
         12.0 * n);
    show("scatter", n, timed([=] { scatter<<<blocks_of(n, 256), 256>>>(x, index, y, n); }, 5), 0,
         "", 12.0 * n);
    show("bitonic_step", n,
         timed([=] { bitonic_step<<<n / 512, 512>>>(part<unsigned>(2), 1 << 10, 1 << 14); }, 10), 0,
         "", 4.0 * n);
    show("sum", n, timed([=] { sum<<<1056, 256>>>(x, part<float>(5), n); }, 20), 1.0 * n, "fp32",
         4.0 * n);
    show("histogram_shared", n,
         timed(
             [=] { histogram_shared<<<1056, 256>>>(part<unsigned char>(3), part<unsigned>(5), n); },
             10),
         0, "", 1.0 * n);
    show("scan_blocks", n,
         timed([=] { scan_blocks<<<n / 512, 512>>>(x, y, part<float>(5), n); }, 10), 1.0 * n,
         "fp32", 8.0 * n);
  }
  for (const int n : {128, 256, 512}) {
    const dim3 grid(n / 32, n / 8), block(32, 8);
    show("stencil_3d", n, timed([=] { stencil_3d<<<grid, block>>>(x, y, n, n, n); }, 10),
         8.0 * n * n * n, "fp32", 8.0 * n * n * n);
  }
  for (const int columns : {512, 2048, 8192}) {
    const int rows = 8192;
    const double n = 1.0 * rows * columns;
    show("softmax_rows", columns, timed([=] { softmax_rows<<<rows, 256>>>(x, y, columns); }, 10),
         3 * n, "fp32", 8 * n);
    show("layer_norm", columns,
         timed([=] { layer_norm<<<rows / 8, 256>>>(x, y, z, z + columns, rows, columns); }, 10),
         7 * n, "fp32", 8 * n);
  }
  for (const int n : {512, 1024, 2048}) {
    const double flops = 2.0 * n * n * n;
    const dim3 grid(n / 32, n / 32), block(32, 32);
    show("matmul_naive", n, timed([=] { matmul_naive<<<grid, block>>>(x, y, z, n); }, 5), flops,
         "fp32", 12.0 * n * n);
    show("matmul_tiled", n, timed([=] { matmul_tiled<<<grid, block>>>(x, y, z, n); }, 5), flops,
         "fp32", 12.0 * n * n);
    show("dgemm_tiled", n,
         timed(
             [=] {
               dgemm_tiled<<<grid, block>>>(part<double>(0), part<double>(1), part<double>(2), n);
             },
             5),
         flops, "fp64", 24.0 * n * n);
  }
  for (const int n : {1024, 2048, 4096}) {
    const double flops = 2.0 * n * n * n;
    show("wmma_gemm", n,
         timed(
             [=] {
               wmma_gemm<<<dim3(n / 64, n / 64), dim3(128, 4)>>>(part<__half>(0), part<__half>(1),
                                                                 z, n);
             },
             5),
         flops, "half", 8.0 * n * n);
    show("mma_gemm", n,
         timed(
             [=] {
               mma_gemm<<<dim3(n / 64, n / 64), 128>>>(part<__nv_bfloat16>(0),
                                                       part<__nv_bfloat16>(1), z, n);
             },
             5),
         flops, "half", 8.0 * n * n);
  }
  for (const int length : {512, 1024, 2048}) {
    const int heads = 24, size = 64;
    const double scores = 1.0 * heads * length * length;
    show("attention_scores", length,
         timed(
             [=] {
               attention_scores<<<dim3(length / 128, length, heads), 128>>>(z, x, y, length, size);
             },
             5),
         2.0 * size * scores, "fp32", 4.0 * scores);
  }
  for (const int n : {8192, 32768, 131072}) {
    show("nbody", n,
         timed([=] { nbody<<<n / 256, 256>>>(part<float4>(0), part<float4>(1), n, 0.01f); }, 3),
         19.0 * n * n, "fp32", 32.0 * n);
  }
  for (const int n : {1024, 4096}) {
    show("mandelbrot", n,
         timed([=] { mandelbrot<<<dim3(n / 16, n / 16), dim3(16, 16)>>>(index, n, n, 256); }, 5), 0,
         "fp32", 4.0 * n * n);
  }
  for (const int rounds : {64, 1024}) {
    const int n = 1 << 22;
    show(
        "hash_rounds", rounds,
        timed(
            [=] { hash_rounds<<<n / 256, 256>>>(part<unsigned>(0), part<unsigned>(1), n, rounds); },
            5),
        0, "", 8.0 * n);
    show("dfma_chain", rounds,
         timed([=] { dfma_chain<<<2112, 256>>>(part<double>(1), rounds); }, 10),
         8.0 * rounds * 2112 * 256, "fp64", 8.0 * 2112 * 256);
  }
  for (const int rows : {1 << 16, 1 << 20}) {
    const int each = 32;
    fill_starts<<<1024, 256>>>(part<int>(4), rows, each);
    fill_indices<<<1024, 256>>>(index, rows * each);
    // Columns within `rows`.
    show("sparse_rows", rows,
         timed([=] { sparse_rows<<<rows / 128, 128>>>(part<int>(4), index, x, y, z, rows); }, 5),
         2.0 * rows * each, "fp32", 12.0 * rows * each);
  }
}

/// Copies and kernels in several streams at once: GB/s of all together.
void together() {
  constexpr int streams = 4;
  const size_t bytes = size_t{256} << 20;
  cudaStream_t stream[streams];
  cudaEvent_t start, stop[streams];
  for (int i = 0; i < streams; ++i) {
    MUST(cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking));
    MUST(cudaEventCreate(&stop[i]));
  }
  MUST(cudaEventCreate(&start));
  char* host;
  MUST(cudaMallocHost(reinterpret_cast<void**>(&host), 4 * bytes));
  const auto run = [&](const char* what, int used, const std::function<void(int)>& issue) {
    std::vector<double> rounds;
    std::vector<std::vector<double>> each(used);
    for (int round = 0; round < 4; ++round) {
      MUST(cudaDeviceSynchronize());
      MUST(cudaEventRecord(start, stream[0]));
      for (int i = 1; i < used; ++i) MUST(cudaStreamWaitEvent(stream[i], start, 0));
      for (int k = 0; k < 4; ++k)
        for (int i = 0; i < used; ++i) issue(i);
      for (int i = 0; i < used; ++i) MUST(cudaEventRecord(stop[i], stream[i]));
      MUST(cudaDeviceSynchronize());
      double longest = 0;
      for (int i = 0; i < used; ++i) {
        float ms = 0;
        MUST(cudaEventElapsedTime(&ms, start, stop[i]));
        longest = std::max<double>(longest, ms);
        if (round > 0) each[i].push_back(1000.0 * ms / 4);
      }
      if (round > 0) rounds.push_back(1000.0 * longest / 4);
    }
    std::printf("{\"together\": \"%s\", \"us\": %.1f, \"streams_us\": [", what, median(rounds));
    for (int i = 0; i < used; ++i) std::printf("%s%.1f", i ? ", " : "", median(each[i]));
    std::printf("]}\n");
    std::fflush(stdout);
  };
  const auto from = [](int i) { return part<char>(i); };
  const auto to = [=](int i) { return part<char>(i) + bytes; };
  const auto d2d = [&](int i) {
    MUST(cudaMemcpyAsync(to(i), from(i), bytes, cudaMemcpyDeviceToDevice, stream[i]));
  };
  const auto h2d = [&](int i) {
    MUST(cudaMemcpyAsync(to(i), host + i * bytes, bytes, cudaMemcpyHostToDevice, stream[i]));
  };
  const auto d2h = [&](int i) {
    MUST(cudaMemcpyAsync(host + i * bytes, from(i), bytes, cudaMemcpyDeviceToHost, stream[i]));
  };
  const auto kernel = [&](int i) {
    copy_vectors<<<1056, 256, 0, stream[i]>>>(part<float4>(i),
                                              reinterpret_cast<float4*>(part<char>(i) + bytes),
                                              static_cast<int>(bytes / 16));
  };
  const auto arithmetic = [&](int i) {
    dfma_chain<<<2112, 256, 0, stream[i]>>>(part<double>(5), 2000);
  };
  run("d2d", 1, d2d);
  run("d2d, d2d", 2, d2d);
  run("d2d x 4", 4, d2d);
  run("h2d", 1, h2d);
  run("h2d, h2d", 2, h2d);
  run("h2d x 4", 4, h2d);
  run("d2h", 1, d2h);
  run("d2h, d2h", 2, d2h);
  run("h2d, d2h", 2, [&](int i) { i == 0 ? h2d(i) : d2h(i); });
  run("h2d x 2, d2h x 2", 4, [&](int i) { i % 2 == 0 ? h2d(i) : d2h(i); });
  run("kernel", 1, kernel);
  run("kernel, kernel", 2, kernel);
  run("kernel, d2d", 2, [&](int i) { i == 0 ? kernel(i) : d2d(i); });
  run("kernel, h2d", 2, [&](int i) { i == 0 ? kernel(i) : h2d(i); });
  run("arithmetic", 1, arithmetic);
  run("arithmetic, d2d", 2, [&](int i) { i == 0 ? arithmetic(i) : d2d(i); });
  run("arithmetic, h2d", 2, [&](int i) { i == 0 ? arithmetic(i) : h2d(i); });
}

}  // namespace

int main(int argc, char** argv) {
  MUST(cudaMalloc(reinterpret_cast<void**>(&pool), pool_bytes));
  if (argc < 2 || argv[1][0] == 'k') kernels();
  if (argc < 2 || argv[1][0] == 't') together();
  MUST(cudaDeviceSynchronize());
}
