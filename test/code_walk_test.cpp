#include "rank/code/code_walk.hpp"

#include "rank/code/behind_pointers.hpp"
#include "rank/code/code_execution.hpp"
#include "rank/code/device_code.hpp"
#include "rank/code/launch_memory.hpp"
#include "rank/code/machine_code.hpp"
#include "rank/code/tensor_map.hpp"
#include "rank/code/warp_timing.hpp"
#include "rank/kernels/kernel_launch.hpp"
#include "rank/kernels/stable_work.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/memory/host_reach.hpp"
#include "rank/runtime/timeline.hpp"
#include "rank/small_data.hpp"
#include "rank_fakes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <deque>
#include <fstream>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include <elf.h>
#include <gtest/gtest.h>

namespace phantora::rank {
namespace {

/// The machine code (sm_90, nvcc 13.0) of kernels in bench/accuracy/user_kernels, by name, and of
///     __global__ void spin(long long cycles) {
///       const long long start = clock64();
///       while (clock64() - start < cycles) {
///       }
///     }
///     __global__ void count_tokens(const long long* tokens, int* counts, long long* last,
///                                  int* total) {
///       if (threadIdx.x == 0) {
///         const long long token = tokens[blockIdx.x];
///         counts[token] += 1;
///         last[blockIdx.x] = token;
///         total[blockIdx.x] += 1;
///       }
///     }
///     __global__ void block_total(const int* x, int* total, bool twice) {
///       asm volatile("griddepcontrol.wait;");
///       asm volatile("griddepcontrol.launch_dependents;");
///       __shared__ int sum;
///       if (threadIdx.x == 0) sum = 0;
///       __syncthreads();
///       atomicAdd(&sum, x[blockIdx.x * blockDim.x + threadIdx.x]);
///       __syncthreads();
///       if (threadIdx.x == 0) total[blockIdx.x] = twice ? 2 * sum : sum;
///     }
///     __global__ void heads(const float* x, float* by_head, const int* units, int n) {
///       int i = blockIdx.x * blockDim.x + threadIdx.x;
///       if (i < n) by_head[i / units[0] * 100 + i % units[0]] = x[i];
///     }
///     __global__ void through_table(int* const* tables, const int* index, const int* flags,
///                                   int* counts) {
///       int* const row = tables[blockIdx.x];
///       if (flags[threadIdx.x] != 0) row[index[threadIdx.x]] = 1;
///       if (threadIdx.x == 0) counts[blockIdx.x] = 2;
///     }
///     __global__ void bins(const int* x, int* bins, int* odd) {
///       atomicAdd(&bins[x[threadIdx.x]], 1);
///       if (x[threadIdx.x] % 2 != 0) atomicAdd(odd, 1);
///     }
///     __global__ void number(int* x, int first) { x[threadIdx.x] = first + threadIdx.x; }
///     __global__ void rows_of(const float* x, float* by_row, float* last, const long long* width,
///                             long long n) {
///       const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
///       if (i >= n) return;
///       by_row[i / width[0] * 100 + i % width[1]] = x[i];
///       last[i / width[2]] = x[0];
///     }
///     __global__ void rows_by_pointer(const float* const* rows, const int* lengths, float* out,
///                                     int n) {
///       const float* row = rows[blockIdx.x];
///       float total = 0;
///       for (int i = threadIdx.x; i < n; i += blockDim.x) total += row[i];
///       if (lengths[blockIdx.x] > 7) out[blockIdx.x * blockDim.x + threadIdx.x] = total;
///     }
///     __global__ void intervals(const int* start, const float* x, float* y, int threads) {
///       const int i =
///           start[(blockIdx.x * blockDim.x + threadIdx.x) / threads] + threadIdx.x % threads;
///       y[blockIdx.x * blockDim.x + threadIdx.x] = x[i];
///     }
///     __global__ void own_rows(const float* const* rows, float* out, int n) {
///       const int row = blockIdx.x * blockDim.x + threadIdx.x;
///       const float* x = rows[row];
///       float total = 0;
///     #pragma unroll 1
///       for (int i = 0; i < n; ++i) total += x[i];
///       out[row] = total;
///     }
///     __global__ void write_rows(float* const* rows, const int* index, int scale) {
///       rows[blockIdx.x][index[threadIdx.x] + threadIdx.x * scale] = 1;
///     }
///     __global__ void until_small(const volatile float* error, float* x, int most) {
///       float total = 0;
///       for (int k = 0; k < most && *error > 1e-3F; ++k) total += x[k * 32 + threadIdx.x];
///       x[threadIdx.x] = total;
///     }
///     __global__ void count_warps(int* total, int* of_blocks) {
///       if (threadIdx.x % 32 != 0) return;
///       asm volatile("red.global.add.u32 [%0], 1;" ::"l"(total + threadIdx.x / 32 % 4));
///       asm volatile("red.global.add.u32 [%0], 1;" ::"l"(of_blocks + blockIdx.x * 8));
///     }
///     __global__ void through_shared(const int* start, float* y) {
///       __shared__ int first;
///       if (threadIdx.x == 0) first = start[blockIdx.x];
///       __syncthreads();
///       y[first + threadIdx.x] = 1;
///     }
///     __global__ void unless_not(const int* done, const float* x, float* y, int n) {
///       const int i = blockIdx.x * blockDim.x + threadIdx.x;
///       float total = 0;
///       if (done[blockIdx.x] == 0) {
///     #pragma unroll 1
///         for (int k = 0; k < n; ++k) total += x[k * blockDim.x * gridDim.x + i];
///       } else {
///         total = x[i];
///       }
///       y[i] = total;
///     }
///     __device__ void product(const float* a, const float* b, float* c, int n) {
///       __shared__ float as[32][32], bs[32][32];
///       const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
///       float total = 0;
///       for (int k = 0; k < n; k += 32) {
///         as[threadIdx.y][threadIdx.x] = a[y * n + k + threadIdx.x];
///         bs[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + x];
///         __syncthreads();
///         for (int j = 0; j < 32; ++j) total += as[threadIdx.y][j] * bs[j][threadIdx.x];
///         __syncthreads();
///       }
///       c[y * n + x] = total;
///     }
///     __global__ void products(const float* a, const float* b, float* c, int n) {
///       const size_t first = size_t(blockIdx.z) * n * n;
///       product(a + first, b + first, c + first, n);
///     }
///     __global__ void products_of(const float* const* a, const float* const* b, float* const* c,
///     int n) {
///       product(a[blockIdx.z], b[blockIdx.z], c[blockIdx.z], n);
///     }
///     __constant__ float table[64];
///     __global__ void from_table(float* y, int different) {
///       y[blockIdx.x * blockDim.x + threadIdx.x] = table[threadIdx.x % different];
///     }
///     __global__ void doubles(const double* x, const float* f, const long long* l, double* y,
///     float* g,
///                             long long* m, int* k, double c, int n) {
///       const int i = threadIdx.x;
///       const double a = x[i], b = x[i + n];
///       const float p = f[i], q = f[i + n];
///       const long long w = l[i];
///       y[i] = a + b;
///       y[n + i] = a - b;
///       y[2 * n + i] = -fabs(a) * b;
///       y[3 * n + i] = fma(a, -b, 1.5);
///       y[4 * n + i] = fma(-a, c, b);
///       y[5 * n + i] = a / b;
///       y[6 * n + i] = sqrt(fabs(a));
///       y[7 * n + i] = fmin(a, b);
///       y[8 * n + i] = fmax(a, c);
///       y[9 * n + i] = floor(a);
///       y[10 * n + i] = rint(b);
///       y[11 * n + i] = __dadd_rz(a, b);
///       y[12 * n + i] = __dmul_ru(a, b);
///       y[13 * n + i] = p;
///       y[14 * n + i] = w;
///       y[15 * n + i] = (unsigned long long)w;
///       y[16 * n + i] = (int)w;
///       y[17 * n + i] = exp(a / 1e3);
///       g[i] = a;
///       g[n + i] = w;
///       g[2 * n + i] = fmaf(p, -q, 1.5F);
///       g[3 * n + i] = fmaf(p, q, -(float)c);
///       g[4 * n + i] = __fmaf_rd(p, q, 1.0F);
///       g[5 * n + i] = rintf(p);
///       g[6 * n + i] = expf(p / 64);
///       g[7 * n + i] = sinf(p / 64);
///       m[i] = a;
///       m[n + i] = floor(b);
///       m[2 * n + i] = (long long)(unsigned long long)fabs(b);
///       m[3 * n + i] = p;
///       k[i] = a;
///       k[n + i] = (int)(unsigned)b;
///       k[2 * n + i] = __double2int_rn(a);
///       k[3 * n + i] = (a < b) + 2 * (a >= c) + 4 * (a != a) + 8 * !(a <= b);
///       k[4 * n + i] = (int)w * n - (int)(w >> 3);
///     }
///     __global__ void switched(const float* x, float* y, int kind, int n) {
///       const int i = blockIdx.x * blockDim.x + threadIdx.x;
///       float total = 0;
///       switch (kind) {
///         case 0:
///     #pragma unroll 1
///           for (int k = 0; k < n; ++k) total += x[k * blockDim.x * gridDim.x + i];
///           break;
///         case 1: total = x[i]; break;
///         case 2: total = x[i] * x[i + 1]; break;
///         case 3: total = x[3 * i] + 3; break;
///         case 4: total = x[i + 7] - x[i]; break;
///         case 5: total = fabsf(x[2 * i]); break;
///         default: return;
///       }
///       y[i] = total;
///     }
///     __device__ float lut[16] = {-1, -0.7, ...};
///     __global__ void through_variable(const unsigned char* x, float* y) {
///       const int i = blockIdx.x * blockDim.x + threadIdx.x;
///       y[i] = lut[x[i] & 15];
///     }
///     __global__ void bags(const float* x, const int* index, const int* begins, float* y) {
///       float total = 0;
///     #pragma unroll 1
///       for (int i = begins[blockIdx.x]; i < begins[blockIdx.x + 1]; ++i)
///         total += x[index[i] * 32 + threadIdx.x];
///       y[blockIdx.x * 32 + threadIdx.x] = total;
///     }
///     __global__ void first_blocks(const int* blocks, const float* x, float* y) {
///       if (blockIdx.x >= blocks[0]) return;
///       y[blockIdx.x * blockDim.x + threadIdx.x] = 2 * x[blockIdx.x * blockDim.x + threadIdx.x];
///     }
///     __global__ void own_or_shared(const int* x, int* y, int n, bool own) {
///       __shared__ int shared[32];
///       int kept = 0;
///       shared[threadIdx.x] = 0;
///       int* const total = own ? &kept : &shared[threadIdx.x];
///       for (int i = 0; i < n; ++i) *total += x[i];
///       y[threadIdx.x] = kept + shared[threadIdx.x];
///     }
///     __global__ void all_reduce(const float* const* buffers, volatile unsigned* const* flags,
///                                float* y, int rank, unsigned turn, int n) {
///       if (threadIdx.x < 2) {
///         flags[threadIdx.x][2 * blockIdx.x + rank] = turn;
///         while (flags[rank][2 * blockIdx.x + threadIdx.x] != turn) {
///         }
///       }
///       __syncthreads();
///       const float* const a = buffers[0];
///       const float* const b = buffers[1];
///     #pragma unroll 1
///       for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
///         y[i] = a[i] + b[i];
///     }
///     __global__ void barrier(unsigned* const* flags, int rank) {
///       while (atomicCAS_system(&flags[threadIdx.x][rank], 0, 1) != 0) {
///       }
///       while (atomicCAS_system(&flags[rank][threadIdx.x], 1, 0) != 1) {
///       }
///     }
///     __global__ void tell(volatile unsigned* progress, const float* x, float* y) {
///       y[threadIdx.x] = 2 * x[threadIdx.x];
///       if (threadIdx.x == 0) *progress = 1;
///     }
/// "through_halves" is "through_variable" with -rdc=true, which makes immediates of the variable's
/// address.
struct MachineCode {
  std::vector<std::uint64_t> words{};
  CodeLinks links{};
};
const std::map<std::string, MachineCode>& codes() {
  static const auto all = [] {
    std::map<std::string, MachineCode> kernels;
    std::ifstream file{PHANTORA_TEST_DATA "/user_kernels.code"};
    MachineCode* code = nullptr;
    for (std::string line; std::getline(file, line);) {
      std::istringstream words{line};
      if (std::string word, name; line.starts_with("kernel ")) {
        words >> word >> name;
        code = &kernels[name];
      } else if (line.starts_with("jumps ")) {
        words >> word >> std::hex;
        for (std::uint32_t jump = 0; words >> jump;) code->links.jumps.push_back(jump);
      } else if (line.starts_with("variable ")) {
        VariableAddress& variable = code->links.variables.emplace_back();
        words >> word >> std::hex >> variable.at >> variable.in_bank >> variable.variable >>
            variable.bytes;
      } else {
        std::uint64_t low = 0, high = 0;
        words >> std::hex >> low >> high;
        code->words.push_back(low);
        code->words.push_back(high);
      }
    }
    return kernels;
  }();
  return all;
}

/// The parameters of a launch, as they lie in the constant bank of sm_90.
class Launch {
 public:
  Launch(KernelQuery::Dim3 grid, KernelQuery::Dim3 block) : grid_{grid}, block_{block} {
    std::size_t at = 0;
    for (const auto& size : {block, grid}) {
      for (const std::uint32_t extent : {size.x, size.y, size.z}) {
        put(at, extent);
        at += sizeof extent;
      }
    }
  }
  template <class T>
  Launch& with(T value) {
    next_ = (next_ + sizeof value - 1) / sizeof value * sizeof value;
    put(next_, value);
    next_ += sizeof value;
    return *this;
  }
  /// The i-th operand's address: they lie far apart.
  Launch& pointer(std::uint64_t i) { return with(std::uint64_t{0x7f0000000000} + (i << 32)); }

  Launch& at(const void* address) { return with(reinterpret_cast<std::uint64_t>(address)); }

  [[nodiscard]] std::optional<CodeWork> walk(const std::string& kernel,
                                             ReadConstants* looked_at = nullptr) const {
    CodeLaunch launched = launch(kernel);
    launched.looked_at = looked_at;
    return rank::walk(launched);
  }
  /// With what is known of device memory.
  [[nodiscard]] std::optional<CodeWork> walk_with_data(const std::string& kernel) const {
    LaunchMemory memory;
    CodeLaunch launched = launch(kernel);
    launched.known = &memory;
    return rank::walk(launched);
  }
  /// On a GPU that is shown memory of others, though at no address that the parameters tell.
  [[nodiscard]] std::optional<CodeWork> walk_beside_peers(const std::string& kernel) const {
    CodeLaunch launched = launch(kernel);
    launched.is_of_peer = [](std::uint64_t) { return false; };
    return rank::walk(launched);
  }
  /// On a GPU of so many SMs.
  [[nodiscard]] std::optional<CodeWork> walk_on(const std::string& kernel, int sms) const {
    CodeLaunch launched = launch(kernel);
    launched.sms = sms;
    return rank::walk(launched);
  }
  /// Where each pointer leads to a MiB.
  [[nodiscard]] std::optional<CodeWork> walk_to_a_mebibyte(const std::string& kernel,
                                                           ReadConstants& tables,
                                                           double l2_bytes) const {
    CodeLaunch launched = launch(kernel);
    launched.l2_bytes = l2_bytes;
    launched.reach = [](std::uint64_t) { return std::uint64_t{1} << 20; };
    launched.tables = &tables;
    return rank::walk(launched);
  }
  /// With as much shared memory as the kernels have.
  [[nodiscard]] std::optional<Reach> execute(const std::string& kernel,
                                             std::int64_t most = most_executed) const {
    return attempt(kernel, most).reach;
  }
  [[nodiscard]] Attempt attempt(const std::string& kernel, std::int64_t most) const {
    return rank::execute(launch(kernel), 16384, {}, most);
  }
  [[nodiscard]] std::optional<Reach> reach(const std::string& kernel) const {
    return rank::reach(launch(kernel)).reach;
  }
  [[nodiscard]] std::optional<Reach> reach_of_all_ways(const std::string& kernel) const {
    return rank::reach_of_all_ways(launch(kernel)).reach;
  }

 private:
  [[nodiscard]] CodeLaunch launch(const std::string& kernel) const {
    const MachineCode& code = codes().at(kernel);
    return {.code = std::as_bytes(std::span{code.words}),
            .grid = grid_,
            .block = block_,
            .constants = bank_,
            .links = code.links,
            .architecture = 90,
            .writes_before = small_data().tensor_ends.count()};
  }
  template <class T>
  void put(std::size_t at, T value) {
    if (bank_.size() < at + sizeof value) bank_.resize(at + sizeof value);
    std::memcpy(bank_.data() + at, &value, sizeof value);
  }
  KernelQuery::Dim3 grid_, block_;
  std::vector<std::byte> bank_;
  std::size_t next_ = 0x210;
};

TEST(CodeWalk, TellsWhatOfTheConstantsItLookedAt) {
  // saxpy(int n, float a, const float* x, float* y), and behind these what no code looks at.
  ReadConstants looked_at;
  ASSERT_TRUE((Launch{{4096, 1, 1}, {256, 1, 1}}
                   .with(1 << 20)
                   .with(2.0F)
                   .pointer(0)
                   .pointer(1)
                   .with(std::uint64_t{77})
                   .walk("saxpy", &looked_at)));
  for (const std::size_t read : {0x0U, 0x210U, 0x214U, 0x218U, 0x21cU, 0x220U, 0x224U})
    EXPECT_TRUE(looked_at.has(read)) << read;
  EXPECT_FALSE(looked_at.has(0x228));
  EXPECT_FALSE(looked_at.has(0x22c));
  // What is new is told once.
  ReadConstants all;
  EXPECT_TRUE(all.add(looked_at));
  EXPECT_FALSE(all.add(looked_at));
}

TEST(CodeWalk, CountsWhatAThreadDoesOnce) {
  const auto work =
      Launch{{4096, 1, 1}, {256, 1, 1}}.with(1 << 20).with(2.0F).pointer(0).pointer(1).walk(
          "saxpy");
  ASSERT_TRUE(work);
  const double warps = 4096 * 8;
  EXPECT_EQ(work->sectors, 3 * 4 * warps);  // two loads and a store of 128 bytes
  EXPECT_EQ(work->l1_passes, 3 * warps);
  EXPECT_EQ(work->read_bytes, 2 * 4.0 * (1 << 20));
  EXPECT_EQ(work->written_bytes, 4.0 * (1 << 20));
  EXPECT_EQ(work->partial_sectors, 0);
  EXPECT_EQ(work->guessed, 0);
  // y = a x + y: both are read, and the second is written.
  const std::uint64_t x = 0x7f0000000000, y = x + (std::uint64_t{1} << 32), bytes = 4 << 20;
  EXPECT_EQ(work->read, (std::vector<AddressRange>{{x, x + bytes}, {y, y + bytes}}));
  EXPECT_EQ(work->written, (std::vector<AddressRange>{{y, y + bytes}}));
}

TEST(CodeWalk, CountsLoopsThroughByTheirParameters) {
  const auto products = [](int n) {
    const auto blocks = static_cast<std::uint32_t>(n / 64);
    return Launch{{blocks, blocks, 1}, {128, 1, 1}}.pointer(0).pointer(1).pointer(2).with(n).walk(
        "mma_gemm");
  };
  for (const double n : {64, 1024, 4096}) {
    const auto work = products(static_cast<int>(n));
    ASSERT_TRUE(work) << n;
    EXPECT_EQ(work->half_flops, 2 * n * n * n);
    EXPECT_EQ(work->read_bytes, 2 * 2 * n * n);
    EXPECT_EQ(work->written_bytes, 4 * n * n);
  }
  // The trips in between are not gone through one by one, and come to the same.
  const auto fma = [](int n) {
    return Launch{{1, 1, 1}, {32, 32, 1}}
        .pointer(0)
        .pointer(1)
        .pointer(2)
        .with(n)
        .walk("matmul_tiled")
        ->fma;
  };
  EXPECT_EQ(fma(32 * 100) - fma(32 * 99), fma(32 * 6) - fma(32 * 5));
  const auto dfma = [](int rounds) {
    return Launch{{1, 1, 1}, {32, 1, 1}}.pointer(0).with(rounds).walk("dfma_chain")->fp64;
  };
  EXPECT_EQ(dfma(100'000) - dfma(50'000), 4 * 50'000);
}

TEST(CodeWalk, SumsGridStrides) {
  const auto work =
      Launch{{1056, 1, 1}, {256, 1, 1}}.pointer(0).pointer(1).with(1 << 24).walk("sum");
  ASSERT_TRUE(work);
  EXPECT_NEAR(work->read_bytes, 4.0 * (1 << 24), 0.01 * (1 << 24));
  EXPECT_GT(work->atomics, 0);
}

TEST(CodeWalk, GoesWhereSwitchesLead) {
  const auto read = [](int kind) {
    const auto work =
        Launch{{4096, 1, 1}, {256, 1, 1}}.pointer(0).pointer(1).with(kind).with(100).walk(
            "switched");
    EXPECT_TRUE(work);
    return work->read_bytes / (4096 * 256 * sizeof(float));
  };
  EXPECT_NEAR(read(0), 100, 1);
  EXPECT_NEAR(read(1), 1, 0.01);
  EXPECT_NEAR(read(5), 2, 0.02);  // every second float: all sectors
  EXPECT_EQ(read(6), 0);
}

TEST(CodeWalk, ReadsAVariableOfTheModuleFromL1) {
  // A byte of each thread says which of 16 floats it writes. These are a line of L1, and come from
  // the L2 cache once for each SM.
  constexpr int sms = 132;
  constexpr double n = 4096 * 256, warps = n / 32;
  for (const char* const kernel : {"through_variable", "through_halves"}) {
    const auto work = Launch{{4096, 1, 1}, {256, 1, 1}}.pointer(0).pointer(1).walk_on(kernel, sms);
    ASSERT_TRUE(work) << kernel;
    EXPECT_DOUBLE_EQ(work->sectors, (n + 4 * n) / 32 + sms * 2) << kernel;
    EXPECT_DOUBLE_EQ(work->read_bytes, n + 64) << kernel;
    EXPECT_EQ(work->random_bytes, 0) << kernel;
    EXPECT_DOUBLE_EQ(work->l1_passes, 3 * warps) << kernel;
  }
}

TEST(CodeWalk, SeesHowAccessesLie) {
  const int n = 2048;
  const auto work =
      Launch{{64, 64, 1}, {32, 8, 1}}.pointer(0).pointer(1).with(n).walk("transpose_naive");
  ASSERT_TRUE(work);
  EXPECT_EQ(work->partial_sectors, double{n} * n);  // each thread's store goes to another sector
  EXPECT_EQ(work->partial_lines, double{n} * n);
}

TEST(CodeWalk, SaysWhereOnlyDataTell) {
  const auto rows = Launch{{512, 1, 1}, {128, 1, 1}}
                        .pointer(0)
                        .pointer(1)
                        .pointer(2)
                        .pointer(3)
                        .pointer(4)
                        .with(1 << 16)
                        .walk("sparse_rows");
  ASSERT_TRUE(rows);
  EXPECT_GT(rows->guessed, 0.5);
  const int n = 1 << 20;
  const auto gathered =
      Launch{{4096, 1, 1}, {256, 1, 1}}.pointer(0).pointer(1).pointer(2).with(n).walk("gather");
  ASSERT_TRUE(gathered);
  EXPECT_EQ(gathered->guessed, 0);
  EXPECT_EQ(gathered->random_bytes, 32.0 * n);
  const auto counted =
      Launch{{1056, 1, 1}, {256, 1, 1}}.pointer(0).pointer(1).with(n).walk("histogram_shared");
  ASSERT_TRUE(counted);
  EXPECT_EQ(counted->atomics, 1056 * 256);
}

TEST(CodeWalk, AWarpBehindOnePointerReadsSideBySide) {
  constexpr int n = 4096;
  constexpr double blocks = 1000, warps = blocks * 8;
  const auto work = Launch{{1000, 1, 1}, {256, 1, 1}}.pointer(0).pointer(1).pointer(2).with(n).walk(
      "rows_by_pointer");
  ASSERT_TRUE(work);
  // The rows; of each warp once its pointer, its length and what it writes. The block's warps have
  // the first two in common.
  EXPECT_DOUBLE_EQ(work->sectors, blocks * (n / 8 + 2) + warps * 4);
  EXPECT_DOUBLE_EQ(work->written_bytes, blocks * 256 * sizeof(float));
  EXPECT_DOUBLE_EQ(work->random_bytes, 0);
  EXPECT_DOUBLE_EQ(work->guessed, 0);
  // No row is another's, as far as anybody knows.
  EXPECT_NEAR(work->read_bytes, blocks * (n * sizeof(float)), 0.01 * blocks * n * sizeof(float));
}

TEST(CodeWalk, BasesThatPartsOfAWarpShareAreToldApart) {
  const auto of = [](int threads) {
    return *Launch{{1000, 1, 1}, {32, 1, 1}}.pointer(0).pointer(1).pointer(2).with(threads).walk(
        "intervals");
  };
  constexpr double warps = 1000;
  for (const int threads : {32, 16, 8}) {
    const double intervals = 32.0 / threads;
    // Their begins are side by side, in one sector; each is of whole sectors.
    EXPECT_DOUBLE_EQ(of(threads).sectors, warps * (1 + 4 + 4)) << threads;
    EXPECT_DOUBLE_EQ(of(threads).random_bytes, threads == 8 ? intervals * 32 * warps : 0)
        << threads;
  }
  // Less than a sector costs a sector.
  EXPECT_DOUBLE_EQ(of(4).sectors, warps * (1 + 8 + 4));
  // A begin of each thread's own: random.
  EXPECT_DOUBLE_EQ(of(1).sectors, warps * (4 + 32 + 4));
  EXPECT_DOUBLE_EQ(of(1).random_bytes, warps * 32 * 32);
}

TEST(CodeWalk, AThreadsOwnRowIsReadSectorBySector) {
  const auto sectors = [](int n) {
    return Launch{{1000, 1, 1}, {32, 1, 1}}.pointer(0).pointer(1).with(n).walk("own_rows")->sectors;
  };
  // Each of the 32 goes on to the next sector after 8 elements: never less than what it reads.
  EXPECT_DOUBLE_EQ(sectors(8 * 64) - sectors(8 * 32), 1000.0 * 32 * 32);
}

TEST(CodeWalk, BlocksThatReadTheirBaseFromSharedMemoryHaveTheirOwn) {
  const auto work = Launch{{1000, 1, 1}, {64, 1, 1}}.pointer(0).pointer(1).walk("through_shared");
  ASSERT_TRUE(work);
  EXPECT_DOUBLE_EQ(work->written_bytes, 1000 * 64 * sizeof(float));
  EXPECT_EQ(work->partial_sectors, 0);
  EXPECT_EQ(work->random_bytes, 0);
}

TEST(CodeWalk, AWarpGoesTheLongerOfTwoWays) {
  constexpr int n = 100;
  const auto work =
      Launch{{1000, 1, 1}, {32, 1, 1}}.pointer(0).pointer(1).pointer(2).with(n).walk("unless_not");
  ASSERT_TRUE(work);
  EXPECT_DOUBLE_EQ(work->sectors, 1000 * (1 + 4 * n + 4));  // whole lines: all threads go there
}

TEST(CodeWalk, ProductsThroughATableCostWhatTheyCostWithoutOne) {
  constexpr int n = 256;
  constexpr double matrices = 8, warps = matrices * 8 * 8 * 32;
  const auto of = [](const char* kernel) {
    return *Launch{{8, 8, 8}, {32, 32, 1}}.pointer(0).pointer(1).pointer(2).with(n).walk(kernel);
  };
  const CodeWork direct = of("products"), through = of("products_of");
  EXPECT_DOUBLE_EQ(direct.read_bytes, 2 * matrices * n * n * sizeof(float));
  EXPECT_DOUBLE_EQ(direct.written_bytes, matrices * n * n * sizeof(float));
  // Beside the pointers, which a block's warps have in common.
  EXPECT_NEAR(through.sectors, direct.sectors, 0.1 * direct.sectors);
  EXPECT_DOUBLE_EQ(through.l1_passes, direct.l1_passes + 3 * 2 * warps);
  EXPECT_EQ(through.random_bytes, 0);
  EXPECT_EQ(through.partial_sectors, 0);
  // Matrices reach as far as the sampled warps that met them.
  EXPECT_NEAR(through.read_bytes, direct.read_bytes, 0.15 * direct.read_bytes);
}

TEST(CodeWalk, UnknownIndicesBehindOnePointerAreRandom) {
  const auto work =
      Launch{{1000, 1, 1}, {32, 1, 1}}.pointer(0).pointer(1).with(1).walk("write_rows");
  ASSERT_TRUE(work);
  EXPECT_DOUBLE_EQ(work->partial_sectors, 1000 * 32);
  EXPECT_DOUBLE_EQ(work->written_bytes, 1000 * 32 * 32);
  EXPECT_DOUBLE_EQ(work->random_bytes, 3 * 1000 * 32 * 32);
}

TEST(CodeWalk, ACriterionEndsALoopBeforeItsBound) {
  const auto sectors = [](int most) {
    const auto work =
        Launch{{1000, 1, 1}, {32, 1, 1}}.pointer(0).pointer(1).with(most).walk("until_small");
    EXPECT_GT(work->guessed, 0.3);
    return work->sectors;
  };
  // Of seven trips, of which the eighth look sends the warp away.
  EXPECT_EQ(sectors(100), sectors(10'000));
  EXPECT_LT(sectors(3), sectors(100));
}

TEST(CodeWalk, SeesTheSectorThatAllCountersAreIn) {
  const auto work = Launch{{1000, 1, 1}, {256, 1, 1}}.pointer(0).pointer(1).walk("count_warps");
  ASSERT_TRUE(work);
  EXPECT_DOUBLE_EQ(work->atomics, 1000 * 8);
  EXPECT_DOUBLE_EQ(work->atomic_sectors, 1000 * 8);
  // Four numbers in one sector; each block has one of its own beside.
  EXPECT_DOUBLE_EQ(work->hot_atomics, 1000 * 8);
}

TEST(CodeWalk, DifferentConstantsAreReadOneAfterTheOther) {
  const auto passes = [](int different) {
    return Launch{{1000, 1, 1}, {32, 1, 1}}
        .pointer(0)
        .with(different)
        .walk("from_table")
        ->l1_passes;
  };
  EXPECT_DOUBLE_EQ(passes(32) - passes(1), 31 * 1000);
  EXPECT_DOUBLE_EQ(passes(8) - passes(1), 7 * 1000);
}

TEST(MachineCode, LoopsTellByHowMuchTheyAreUnrolled) {
  const auto& code = codes().at("sparse_rows").words;
  const code::Program program = code::parse(std::as_bytes(std::span{code}), 90, no_links);
  std::vector<int> unrolled;
  for (const auto& loop : program.loops) unrolled.push_back(loop.unrolled);
  EXPECT_EQ(unrolled, (std::vector<int>{1, 16}));
  // A step of a block's size is the program's own.
  const auto& strides = codes().at("rows_by_pointer").words;
  for (const auto& loop : code::parse(std::as_bytes(std::span{strides}), 90, no_links).loops)
    EXPECT_EQ(loop.unrolled, 1);
}

TEST(CodeWalk, AKernelThatWaitsForTheClockTakesThatLong) {
  for (const std::int64_t cycles : {10'000LL, 2'000'000LL, 2'000'000'000LL}) {
    const auto spin = Launch{{1, 1, 1}, {1, 1, 1}}.with(cycles).walk("spin");
    ASSERT_TRUE(spin);
    EXPECT_EQ(spin->guessed, 0);
    // To a turn of the loop, and what comes before and after.
    EXPECT_GE(spin->warp_cycles, static_cast<double>(cycles));
    EXPECT_LT(spin->warp_cycles, static_cast<double>(cycles) + 500);
  }
}

TEST(CodeWalk, EndsWhateverItIsGiven) {
  EXPECT_FALSE(Launch({1, 1, 1}, {32, 1, 1}).walk("saxpy") == std::nullopt);  // without parameters
  std::vector<std::uint64_t> noise;
  std::uint64_t state = 1;
  for (int i = 0; i < 4000; ++i)
    noise.push_back(state = state * 6364136223846793005ULL + 1442695040888963407ULL);
  for (std::size_t from = 0; from + 400 <= noise.size(); from += 40) {
    (void)walk({.code = std::as_bytes(std::span{noise}.subspan(from, 400)),
                .grid = {7, 1, 1},
                .block = {64, 1, 1},
                .constants = {}});
  }
  EXPECT_FALSE(walk({}));
}

// Instructions of sm_90, as nvdisasm -hex prints them.
constexpr std::uint64_t nop = 0x7918, exit = 0x794d, always = 0x3800000;

/// Of a launch whose only parameter, at 0x210, is a pointer.
std::vector<std::byte> constants_with_a_pointer() {
  std::vector<std::byte> constants(0x218);
  const std::uint64_t pointer = 0x7f0000000000;
  std::memcpy(constants.data() + 0x210, &pointer, sizeof pointer);
  return constants;
}

/// One warp goes through the code.
std::optional<CodeWork> walk_of_a_warp(const std::vector<std::uint64_t>& code,
                                       std::span<const std::byte> constants) {
  return walk({.code = std::as_bytes(std::span{code}),
               .grid = {1, 1, 1},
               .block = {32, 1, 1},
               .constants = constants});
}

TEST(CodeWalk, SharedMemoryByGenericAddressesIsSharedMemory) {
  const auto work = walk_of_a_warp({0x0000000000097919, 0x2f00,        // S2R R9, SR_SWINHI
                                    0x0000040000087802, 0xf00,         // MOV R8, 0x400
                                    0x0000000408047980, 0x000c101900,  // LD.E R4, [R8.64]
                                    exit, always},
                                   {});
  ASSERT_TRUE(work);
  EXPECT_EQ(work->l1_passes, 1);
  EXPECT_EQ(work->sectors, 0);
}

// At the stack's end, and 16 KiB from there.
TEST(CodeWalk, FollowsRegistersThatWerePutAside) {
  const std::vector<std::byte> constants = constants_with_a_pointer();
  for (const std::uint64_t offset : {0xfffff8ULL, 0xffbff8ULL}) {
    const auto work =
        walk_of_a_warp({0x00000a00ff017b82, 0x800,                    // LDC R1, c[0x0][0x28]
                        0x00008400ff027b82, 0xa00,                    // LDC.64 R2, c[0x0][0x210]
                        0x0000000201007387 | offset << 40, 0x100a00,  // STL.64 [R1+offset], R2
                        0x0000000001047983 | offset << 40, 0x100a00,  // LDL.64 R4, [R1+offset]
                        0x0000000404067980, 0x000c101900,             // LD.E R6, [R4.64]
                        exit, always},
                       constants);
    ASSERT_TRUE(work);
    EXPECT_EQ(work->read_bytes, 4);
    EXPECT_EQ(work->random_bytes, 0);
  }
}

// What is read of the stack is there after 29 cycles, and after 378 where the L2 cache has it.
TEST(CodeWalk, SaysHowMuchLongerStacksInL2AreWaitedFor) {
  const auto waits = [](std::uint64_t waits_for_the_first) {
    return walk_of_a_warp(
               {0x00000a00ff017b82, 0x800,                                   // LDC R1, c[0x0][0x28]
                0xfffff80001047983, 0x100a00,                                // LDL.64 R4, [R1-0x8]
                0x0000000404067210, 0x07ffe0ff | waits_for_the_first << 52,  // IADD3
                0x0000000404067210, 0x07ffe0ff | waits_for_the_first << 52, exit, always},
               {})
        .value()
        .stack_waits;
  };
  EXPECT_NEAR(waits(1), 378 - 29, 1e-9);
  EXPECT_EQ(waits(0), 0);
}

TEST(CodeWalk, StoresAndComparisonsUnderUnknownGuardsLeaveRegistersAlone) {
  const std::vector<std::byte> constants = constants_with_a_pointer();
  const auto work = walk_of_a_warp({0x0000000000007919,
                                    0x2100,  // S2R R0, SR_TID.X
                                    0x00008400ff027b82,
                                    0xa00,  // LDC.64 R2, c[0x0][0x210]
                                    0x0000000400047825,
                                    0x078e0202,  // R4 = R2 + 4 R0
                                    0x0000000404067980,
                                    0x000c101900,  // LD.E R6, [R4.64]
                                    0x000000010600780c,
                                    0x03f06270,  // ISETP.GE P0
                                    0x000000010600080c,
                                    0x03f26270,  // @P0 ISETP.GE P1
                                    0x0000000407000988,
                                    0x08000804,  // @P0 STS [R7+UR4], R4
                                    0x0000000400087825,
                                    0x078e0202,  // R8 = R2 + 4 R0
                                    0x00000004080a7980,
                                    0x000c101900,  // LD.E R10, [R8.64]
                                    exit,
                                    always},
                                   constants);
  ASSERT_TRUE(work);
  EXPECT_EQ(work->random_bytes, 0);
}

TEST(CodeWalk, TexturesGiveTheComponentsThatAreAskedFor) {
  const std::vector<std::byte> constants = constants_with_a_pointer();
  // TLD.LZ RZ, R6, R16, UR4, 0x0, 1D, 0x3 beside R8, and TEX.LL RZ, R3, ... 0x1 beside R4.
  const auto work = walk_of_a_warp({0x0000000000007919, 0x2100,      // S2R R0, SR_TID.X
                                    0x00008400ff027b82, 0xa00,       // LDC.64 R2, c[0x0][0x210]
                                    0x0000000400047825, 0x078e0202,  // R4 = R2 + 4 R0
                                    0x0000000400087825, 0x078e0202,  // R8 = R2 + 4 R0
                                    0x000004ff10067f66, 0x089e03ff, 0x2000040002037f60, 0x099e01ff,
                                    0x00000004080a7980, 0x000c101900,  // LD.E R10, [R8.64]
                                    0x00000004040a7980, 0x000c101900,  // LD.E R10, [R4.64]
                                    exit, always},
                                   constants);
  ASSERT_TRUE(work);
  EXPECT_EQ(work->l1_passes,
            2 * 8 + 2);  // 4 threads of a texture load at once, a pass of each other
  EXPECT_EQ(work->random_bytes, 0);
}

TEST(CodeWalk, GoesLongWaysByFewerWarps) {
  const auto straight = [&](std::size_t instructions) {
    std::vector<std::uint64_t> code;
    for (std::size_t i = 1; i < instructions; ++i) code.insert(code.end(), {nop, always});
    code.insert(code.end(), {exit, always});
    return walk({.code = std::as_bytes(std::span{code}),
                 .grid = {1000, 1, 1},
                 .block = {256, 1, 1},
                 .constants = {}});
  };
  constexpr double warps = 8000;
  // A few of them are gone through to their ends.
  for (const std::size_t length : {std::size_t{100}, std::size_t{600'000}}) {
    const auto work = straight(length);
    ASSERT_TRUE(work);
    EXPECT_EQ(work->instructions, warps * static_cast<double>(length));
  }
  EXPECT_FALSE(straight(3'000'000));
}

// One warp of 16 does more than to end: it loads what the others would multiply.
TEST(CodeWalk, CountsTheRolesThatWarpsHave) {
  std::vector<std::uint64_t> code{0x0000000000007919, 0x2100,      // S2R R0, SR_TID.X
                                  0x000000200000780c, 0x03f06270,  // ISETP.GE P0, R0, 32
                                  0x000000000000094d, always};     // @P0 EXIT
  for (int i = 0; i < 9'996; ++i) code.insert(code.end(), {nop, always});
  code.insert(code.end(), {exit, always});
  const auto work = walk({.code = std::as_bytes(std::span{code}),
                          .grid = {1000, 1, 1},
                          .block = {512, 1, 1},
                          .constants = {}});
  ASSERT_TRUE(work);
  EXPECT_EQ(work->instructions, 1000 * (10'000 + 15 * 3));
  // The block is there until its first warp ends, whatever the fifteen others do.
  EXPECT_GE(work->warp_cycles, 10'000);
  EXPECT_DOUBLE_EQ(work->warp_cycles, work->longest_cycles);
}

// Block b of 64 goes 64 - b times through three instructions, beside two others: 99.5 in the mean.
TEST(CodeWalk, CountsWorkThatFallsFromBlockToBlock) {
  const std::vector<std::uint64_t> code{0x0000000000007919,
                                        0x2500,  // S2R R0, SR_CTAID.X
                                        0x0000000100007810,
                                        0x07ffe0ff,  // IADD3 R0, R0, 1
                                        0x000000400000780c,
                                        0x03f05270,  // ISETP.NE P0, R0, 64
                                        0xfffffffc00f40947,
                                        0x0383ffff,  // @P0 BRA to IADD3
                                        exit,
                                        always};
  const auto work = walk({.code = std::as_bytes(std::span{code}),
                          .grid = {64, 1, 1},
                          .block = {256, 1, 1},
                          .constants = {}});
  ASSERT_TRUE(work);
  EXPECT_EQ(work->instructions, 64 * 8 * 99.5);
}

// A loop until a counter is 64, entered at 65: where a guess led there, the warp goes on after the
// trips that tell. Entered at 0 it runs 64 times.
TEST(CodeWalk, LeavesLoopsWhoseEndIsBehindThem) {
  const auto instructions = [](std::uint64_t first) {
    const auto work = walk_of_a_warp({first << 32 | 0xff007810,
                                      0x07ffe0ff,  // IADD3 R0, RZ, first
                                      0x0000000100007810,
                                      0x07ffe0ff,  // IADD3 R0, R0, 1
                                      0x000000400000780c,
                                      0x03f05270,  // ISETP.NE P0, R0, 64
                                      0xfffffffc00f40947,
                                      0x0383ffff,  // @P0 BRA to the second
                                      exit, always},
                                     {});
    return work ? work->instructions : 0;
  };
  EXPECT_EQ(instructions(0), 1 + 64 * 3 + 1);
  EXPECT_EQ(instructions(65), 1 + 3 * 3 + 1);
}

// A compiler that runs out of predicates keeps them as bits of a register, or of a word of the
// stack, of which nothing else was ever written: what such a bit says is known. The first loop runs
// twice, since P0 holds in its first trip, the second once.
TEST(CodeWalk, PredicatesThatAreBitsAreKnown) {
  constexpr std::uint64_t clears = 0x078ec0ff, sets = 0x078efcff, asks = 0x0782c0ff;
  const auto in_register = walk_of_a_warp({0x000000ffff00720c, 0x03f02070,  // ISETP.EQ P0, RZ, RZ
                                           0xfffffffe09097812, clears,      // LOP3 R9, R9, ~1, AND
                                           0x0000000109090812, sets,  // @P0 LOP3 R9, R9, 1, OR
                                           0x000000ffff00720c, 0x03f05070,  // ISETP.NE P0, RZ, RZ
                                           0x0000000109ff7812, asks,  // LOP3 P1, RZ, R9, 1, AND
                                           0xfffffffc00ec1947, 0x0383ffff,  // @P1 BRA to the second
                                           exit, always},
                                          {});
  ASSERT_TRUE(in_register);
  EXPECT_EQ(in_register->instructions, 1 + 2 * 5 + 1);
  EXPECT_EQ(in_register->guessed, 0);
  const auto on_stack = walk_of_a_warp({0x00000a00ff017b82, 0x800,       // LDC R1, c[0x0][0x28]
                                        0xfffff80001097983, 0x100800,    // LDL R9, [R1-0x8]
                                        0xfffffffe09097812, clears,      // LOP3 R9, R9, ~1, AND
                                        0x0000000109ff7812, asks,        // LOP3 P1, RZ, R9, 1, AND
                                        0xfffffffc00f01947, 0x0383ffff,  // @P1 BRA to the second
                                        exit, always},
                                       std::vector<std::byte>(0x218));
  ASSERT_TRUE(on_stack);
  EXPECT_EQ(on_stack->instructions, 1 + 4 + 1);
  EXPECT_EQ(on_stack->guessed, 0);
}

// A kernel waits for other GPUs that looks at flags of system scope (volatile, or atomics for the
// system) in a loop, and sets some. "tell" sets one for whoever looks, "until_small" looks at what
// a host may write, and "spin" waits for its clock.
TEST(CodeWalk, KnowsKernelsThatWaitForOtherGpus) {
  const auto meets = [](const char* kernel) {
    return meets_others(std::as_bytes(std::span{codes().at(kernel).words}), 90);
  };
  EXPECT_TRUE(meets("all_reduce"));
  EXPECT_TRUE(meets("barrier"));
  EXPECT_FALSE(meets("tell"));
  EXPECT_FALSE(meets("until_small"));
  EXPECT_FALSE(meets("spin"));
}

// One trip for each flag: it is there once the other GPU has answered, or told. Addresses of flags
// and of data come from tables, which the GPU itself has.
TEST(CodeWalk, WaitsForOtherGpusAsLongAsTheirLinksTake) {
  const auto cycles = [&](const Launch& launch, const char* kernel) {
    const auto work = launch.walk_beside_peers(kernel);
    return work ? work->warp_cycles : 0;
  };
  const Launch barrier = Launch{{1, 1, 1}, {2, 1, 1}}.pointer(0).with(0);
  // The table, which is there then, and two flags of another's; some instructions beside.
  const double flags = code::memory_latency + 2 * code::peer_latency;
  EXPECT_GT(cycles(barrier, "barrier"), flags);
  EXPECT_LT(cycles(barrier, "barrier"), flags + 400);
  // Each trip of the sum reads both GPUs' buffers, side by side.
  const auto reduce = [&](int trips) {
    return cycles(
        Launch{{1, 1, 1}, {32, 1, 1}}.pointer(0).pointer(1).pointer(2).with(0).with(1U).with(32 *
                                                                                             trips),
        "all_reduce");
  };
  EXPECT_NEAR((reduce(64) - reduce(32)) / 32, code::peer_latency, 0.1 * code::peer_latency);
}

// A flag is written into the lower half of a register whose upper half stays what it was: what the
// flag says is known. Here it is 0, and the loop runs once.
TEST(CodeWalk, AFlagInHalfARegisterIsKnown) {
  const auto work = walk_of_a_warp({0x00007610ff107816, 0x10,        // PRMT R16, RZ, 0x7610, R16
                                    0x000000ff10ff7812, 0x0780c0ff,  // LOP3 P0, RZ, R16, 0xff, AND
                                    0xfffffffc00f40947, 0x0383ffff,  // @P0 BRA to the first
                                    exit, always},
                                   {});
  ASSERT_TRUE(work);
  EXPECT_EQ(work->instructions, 4);
  EXPECT_EQ(work->guessed, 0);
}

// Two bounds lie in memory, and nothing but the exit in its middle ends the loop between them: it
// runs as often as others of unknown length.
TEST(CodeWalk, ALoopWithoutAnotherEndEndsInItsMiddle) {
  const auto work = walk_of_a_warp({0x00008400ff027b82, 0xa00,       // LDC.64 R2, c[0x0][0x210]
                                    0x0000000402067981, 0x0c1e1900,  // LDG.E R6, [R2.64]
                                    0x0000040402007981, 0x0c1e1900,  // LDG.E R0, [R2.64+4]
                                    0x0000000100007810, 0x07ffe0ff,  // IADD3 R0, R0, 1
                                    0x000000060000720c, 0x03f06270,  // ISETP.GE P0, R0, R6
                                    0x000000000000094d, always,      // @P0 EXIT
                                    0xfffffffc00f07947, 0x0383ffff,  // BRA to the fourth
                                    exit, always},
                                   constants_with_a_pointer());
  ASSERT_TRUE(work);
  EXPECT_EQ(work->instructions, 3 + 7 * 4 + 3);
  EXPECT_GT(work->guessed, 0.5);
}

// F2F.BF16 has a result of one register: the address in the next two is still known. Each thread
// stores two bytes, 16 from the next one's: a line has four sectors, and a sector two threads.
TEST(CodeWalk, AConversionLeavesTheNextRegisterAlone) {
  const std::vector<std::byte> constants = constants_with_a_pointer();
  const auto work = walk_of_a_warp({0x0000000000007919, 0x2100,      // S2R R0, SR_TID.X
                                    0x00008400ff027b82, 0xa00,       // LDC.64 R2, c[0x0][0x210]
                                    0x0000001000047825, 0x078e0202,  // R4 = R2 + 16 R0
                                    0x0000000600037304, 0x00202000,  // F2F.BF16.F32 R3, R6
                                    0x0000000604007986, 0x0c101504,  // STG.E.U16 [R4.64], R6
                                    exit, always},
                                   constants);
  ASSERT_TRUE(work);
  EXPECT_EQ(work->random_bytes, 0);
  EXPECT_EQ(work->partial_sectors, 16);
  EXPECT_EQ(work->partial_lines, 4);
}

TEST(CodeWalk, AnArrivalHasNoPredicate) {
  const auto work = walk_of_a_warp({0x000000ffff00720c, 0x03f05070,  // ISETP.NE P0, RZ, RZ
                                    0x00003002ffff79a7, 0x0800000a,  // SYNCS.ARRIVE RZ, ... R2
                                    0x000000000000094d, always,      // @P0 EXIT
                                    nop, always, exit, always},
                                   {});
  ASSERT_TRUE(work);
  EXPECT_EQ(work->instructions, 5);
}

TEST(CodeWalk, AWaitAtABarrierLeavesRegistersAlone) {
  const std::vector<std::byte> constants = constants_with_a_pointer();
  const auto work = walk_of_a_warp({0x0000000000007919, 0x2100,      // S2R R0, SR_TID.X
                                    0x00008400ff027b82, 0xa00,       // LDC.64 R2, c[0x0][0x210]
                                    0x0000100eff0075a7, 0x0800014d,  // SYNCS.PHASECHK P0, ... R14
                                    0x0000000400047825, 0x078e0202,  // R4 = R2 + 4 R0
                                    0x0000000404067980, 0x0c101900,  // LD.E R6, [R4.64]
                                    exit, always},
                                   constants);
  ASSERT_TRUE(work);
  EXPECT_EQ(work->read_bytes, 128);
  EXPECT_EQ(work->random_bytes, 0);
}

TEST(CodeWalk, CopiesToSharedMemoryHaveOffsetsOfTheirOwn) {
  const std::vector<std::byte> constants = constants_with_a_pointer();
  const auto work = walk_of_a_warp({0x0000000000007919, 0x2100,      // S2R R0, SR_TID.X
                                    0x00008400ff027b82, 0xa00,       // LDC.64 R2, c[0x0][0x210]
                                    0x0000001000027825, 0x078e0202,  // R2 = R2 + 16 R0
                                    // LDGSTS.128 [R15], [R2], [R15+0x7000], [R2+0x200], and
                                    // [R15+0x100], [R2-0x200]
                                    0x00000000020f7fae, 0x0b901c46, 0x07000200020f7fae, 0x0b901c46,
                                    0x00100e00020f7fae, 0x0b901c46, exit, always},
                                   constants);
  ASSERT_TRUE(work);
  EXPECT_EQ(work->read_bytes, 3 * 512);
  EXPECT_EQ(work->sectors, 3 * 16);
}

// 16 sectors that all of 1,000 blocks read come to each of 132 SMs once.
TEST(CodeWalk, TablesThatAllBlocksReadStayInL1) {
  std::vector<std::byte> constants(0x218);
  const std::vector<std::uint64_t> code{0x0000000000007919,
                                        0x2100,  // S2R R0, SR_TID.X
                                        0x00008400ff027b82,
                                        0xa00,  // LDC.64 R2, c[0x0][0x210]
                                        0x0000001000027825,
                                        0x078e0202,  // R2 = R2 + 16 R0
                                        0x00000000020f7fae,
                                        0x0b901c46,  // LDGSTS.128 [R15], [R2]
                                        exit,
                                        always};
  for (const int sms : {0, 132}) {
    const auto work = walk({.code = std::as_bytes(std::span{code}),
                            .grid = {1000, 1, 1},
                            .block = {32, 1, 1},
                            .constants = constants,
                            .sms = sms});
    ASSERT_TRUE(work);
    EXPECT_DOUBLE_EQ(work->sectors, 16 * (sms == 0 ? 1000 : sms));
  }
}

// A box of 64 x 8 halves that begins at column 64 and row 46 of 96 x 50: 4 rows of 64 bytes are
// there. Then 4,096 bytes in one piece.
TEST(CodeWalk, CountsWhatIsCopiedInBulk) {
  constexpr std::size_t parameters = 0x210;
  std::vector<std::byte> constants(0x2e0);
  const auto put = [&](std::size_t at, const auto& value) {
    std::memcpy(constants.data() + at, &value, sizeof value);
  };
  const std::uint64_t address = 0x7f0000000000;
  put(parameters + 0x30, TensorMap{.address = address,
                                   .element_bits = 16,
                                   .rank = 2,
                                   .sizes = {96, 50},
                                   .strides = {192},
                                   .box = {64, 8}});
  put(0x2c0, address + 0x100000);
  put(0x2c8, std::uint32_t{4096});
  put(0x2cc, std::uint32_t{64});
  put(0x2d0, std::uint32_t{46});
  const auto moves = [&](std::vector<std::uint64_t> code) {
    code.insert(code.end(), {exit, always});
    return walk({.code = std::as_bytes(std::span{code}),
                 .grid = {1, 1, 1},
                 .block = {32, 1, 1},
                 .constants = constants,
                 .parameters_at = parameters})
        .value();
  };
  std::vector<std::uint64_t> box{0x0000b300000a7ab9, 0x0800,       // ULDC UR10, c[0x0][0x2cc]
                                 0x0000b400000b7ab9, 0x0800,       // ULDC UR11, c[0x0][0x2d0]
                                 0x0000660000047ab9, 0x0a00,       // ULDC.64 UR4, c[0x0][0x198]
                                 0x0000003004107890, 0x0ff1e03f,   // UIADD3 UR16, UP0, UR4, 0x30
                                 0x000000053f117290, 0x087fe43f};  // UIADD3.X UR17, URZ, UR5
  std::vector<std::uint64_t> load = box, store = box;
  load.insert(load.end(), {0x00000008100075b4, 0x08008000});  // UTMALDG.2D [UR8], [UR16]
  const CodeWork read = moves(load);
  EXPECT_EQ(read.sectors, 8);
  EXPECT_EQ(read.read_bytes, 256);
  EXPECT_EQ(read.written_bytes, 0);
  store.insert(store.end(), {0x0000000a00057c82, 0x08000000,    // UMOV UR5, UR10
                             0x0000000b00067c82, 0x08000000,    // UMOV UR6, UR11
                             0x00000004100073b5, 0x08008000});  // UTMASTG.2D [UR4], [UR16]
  const CodeWork written = moves(store);
  EXPECT_EQ(written.sectors, 8);
  EXPECT_EQ(written.read_bytes, 0);
  EXPECT_EQ(written.written_bytes, 256);
  const CodeWork piece = moves({0x0000b20000047ab9, 0x0800,        // ULDC UR4, c[0x0][0x2c8]
                                0x000000043f047899, 0x08011604,    // USHF.R.U32.HI UR4, URZ, 4, UR4
                                0x0000b00000067ab9, 0x0a00,        // ULDC.64 UR6, c[0x0][0x2c0]
                                0x0000541004047896, 0x0800003f,    // UPRMT UR4, UR4, 0x5410, URZ
                                0x00000008060073ba, 0x08000204});  // UBLKCP.S.G [UR8], [UR6], UR4
  EXPECT_EQ(piece.sectors, 128);
  EXPECT_EQ(piece.read_bytes, 4096);
}

// The data of the first trip are waited for, those of the others have been asked for meanwhile.
TEST(CodeWalk, WaitsAtABarrierOnce) {
  const auto cycles = [](std::uint64_t first) {
    // R0 = 0, then ten times: what `first` is, IADD3 R0, R0, 1, ISETP.NE P0, R0, 10, @P0 BRA back.
    return walk_of_a_warp(
               {0x00000000ff007424, 0x078e00ff, first, 0x0800014d, 0x0000000100007810, 0x07ffe0ff,
                0x0000000a0000780c, 0x03f05270, 0xfffffffc00f00947, 0x0383ffff, exit, always},
               {})
        .value()
        .warp_cycles;
  };
  const double waiting = cycles(0x0000100eff0075a7), not_waiting = cycles(nop);
  EXPECT_GE(waiting - not_waiting, 880);  // a no-operation keeps a pipe for a cycle or two
  EXPECT_LT(waiting - not_waiting, 2 * 900);
}

// A warp that asks for more registers asks until the pool of its block has them.
TEST(CodeWalk, RegistersThatAreAskedForAreThere) {
  const auto work =
      walk_of_a_warp({nop, always, 0x00000100000079c8, 0x08000600,  // USETMAXREG.TRY_ALLOC UP0
                      0x000000000000781c, 0x03f0f008,               // PLOP3 P0 = UP0
                      0xfffffffc00f08947, 0x0383ffff,               // @!P0 BRA to the first
                      exit, always},
                     {});
  ASSERT_TRUE(work);
  EXPECT_EQ(work->instructions, 5);
}

/// Elements in device memory of which some are known.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(std::size_t count)
      : count_{count}, base_{static_cast<std::byte*>(allocate(0, count * sizeof(T)))} {}
  explicit OnDevice(const std::vector<T>& values) : OnDevice{values.size()} {
    write(base_, values.data(), values.size() * sizeof(T));
  }
  ~OnDevice() { deallocate(base_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  [[nodiscard]] const void* address() const { return base_; }
  void forget(std::size_t element) { rank::forget(base_ + element * sizeof(T), sizeof(T)); }
  /// nullopt: not known.
  [[nodiscard]] std::vector<std::optional<T>> values() const {
    std::vector<std::optional<T>> all(count_);
    for (std::size_t i = 0; i < count_; ++i) {
      if (!known(base_ + i * sizeof(T), sizeof(T))) continue;
      T value{};
      read(&value, base_ + i * sizeof(T), sizeof value);
      all[i] = value;
    }
    return all;
  }

 private:
  std::size_t count_;
  std::byte* base_;
};

std::vector<float> counted(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

// Lengths on the device, as of bags and sequences, say how often loops run.
TEST(CodeWalk, KnownMemoryTellsHowOftenLoopsRun) {
  const OnDevice<float> x{std::size_t{1} << 20}, y{std::size_t{1} << 10};
  const OnDevice<int> index{std::size_t{1} << 16};
  const auto of = [&](const std::vector<int>& begins) {
    const OnDevice<int> on_device{begins};
    const Launch launch = Launch{{static_cast<std::uint32_t>(begins.size() - 1), 1, 1}, {32, 1, 1}}
                              .at(x.address())
                              .at(index.address())
                              .at(on_device.address())
                              .at(y.address());
    const auto blind = launch.walk("bags");
    EXPECT_TRUE(blind && blind->by_data && blind->guessed > 0 && !blind->knew);
    const auto work = launch.walk_with_data("bags");
    EXPECT_TRUE(work && work->knew);
    EXPECT_EQ(work->guessed, 0);
    return *work;
  };
  // As many instructions for each trip, and as many sectors: 4 of a row, and one of each 8 indices,
  // of which those that a warp has just read come from its L1 cache.
  const double trip = of({0, 4}).instructions - of({0, 3}).instructions;
  EXPECT_GT(trip, 5);
  EXPECT_EQ(of({0, 10}).instructions - of({0, 3}).instructions, 7 * trip);
  EXPECT_EQ(of({0, 1000}).instructions - of({0, 3}).instructions, 997 * trip);
  EXPECT_NEAR(of({0, 1000}).sectors, 4 * 1000 + 1000 / 8, 50);
  // Of two blocks one has most to do.
  const CodeWork two = of({0, 1000, 1004});
  EXPECT_EQ(two.instructions, of({0, 1000}).instructions + of({0, 4}).instructions);
  const double one = of({0, 1000}).longest_cycles, other = of({0, 4}).longest_cycles;
  EXPECT_NEAR(two.longest_cycles / one, 1, 1e-3);
  EXPECT_NEAR(two.warp_cycles / ((one + other) / 2), 1, 1e-3);
}

// Grids are as large as they may have to be, and what lies in memory says how many blocks there
// are.
TEST(CodeWalk, KnownMemoryTellsWhichBlocksHaveNothingToDo) {
  const OnDevice<float> x{std::size_t{1} << 20}, y{std::size_t{1} << 20};
  const auto of = [&](int blocks, std::uint32_t grid) {
    const OnDevice<int> number{std::vector<int>{blocks}};
    return *Launch{{grid, 1, 1}, {32, 1, 1}}
                .at(number.address())
                .at(x.address())
                .at(y.address())
                .walk_with_data("first_blocks");
  };
  const double works = of(1, 1).instructions, ends = of(0, 1).instructions;
  EXPECT_LT(ends, works);
  EXPECT_EQ(of(3, 10).instructions, 3 * works + 7 * ends);
  EXPECT_EQ(of(3, 10).written_bytes, 3 * 128);
}

/// An ELF file for sm_90 with one kernel, whose parameters lie as in a launch; the section table is
/// last, as in what ptxas writes.
std::vector<std::byte> cubin(const std::string& kernel, const std::string& mangled,
                             const std::vector<std::uint32_t>& parameters) {
  std::vector<std::byte> info;
  const auto attribute = [&](std::uint8_t number, std::array<std::uint16_t, 6> words,
                             std::uint16_t bytes) {
    const std::array<std::uint8_t, 2> head{4, number};
    const auto add = [&](const void* part, std::size_t size) {
      const auto* const first = static_cast<const std::byte*>(part);
      info.insert(info.end(), first, first + size);
    };
    add(head.data(), head.size());
    add(&bytes, sizeof bytes);
    add(words.data(), bytes);
  };
  std::uint32_t offset = 0;
  for (std::uint16_t i = 0; i < parameters.size(); ++i) {
    offset = (offset + parameters[i] - 1) / parameters[i] * parameters[i];
    const std::uint32_t packed = parameters[i] << 18;
    attribute(0x17,
              {0, 0, i, static_cast<std::uint16_t>(offset), static_cast<std::uint16_t>(packed),
               static_cast<std::uint16_t>(packed >> 16)},
              12);
    offset += parameters[i];
  }
  attribute(0x0a, {0, 0, 0x210, static_cast<std::uint16_t>(offset)}, 8);
  const std::string names = std::string(1, '\0') + ".nv.info." + mangled + '\0' + ".text." +
                            mangled + '\0' + ".nv.constant2." + mangled + '\0';
  const MachineCode& code = codes().at(kernel);
  const std::span<const std::byte> parts[] = {info, std::as_bytes(std::span{code.words}),
                                              std::as_bytes(std::span{names}),
                                              std::as_bytes(std::span{code.links.jumps})};
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_flags = 90;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = std::size(parts);
  header.e_shstrndx = 2;
  std::array<Elf64_Shdr, std::size(parts)> sections{};
  std::vector<std::byte> file(sizeof header);
  for (std::size_t i = 0; i < sections.size(); ++i) {
    sections[i].sh_type = SHT_PROGBITS;
    sections[i].sh_offset = file.size();
    sections[i].sh_size = parts[i].size();
    file.insert(file.end(), parts[i].begin(), parts[i].end());
  }
  sections[0].sh_name = 1;
  sections[1].sh_name = static_cast<std::uint32_t>(names.find(".text."));
  sections[3].sh_name = static_cast<std::uint32_t>(names.find(".nv.constant2."));
  header.e_shoff = file.size();
  const auto table = std::as_bytes(std::span{sections});
  file.insert(file.end(), table.begin(), table.end());
  std::memcpy(file.data(), &header, sizeof header);
  return file;
}

/// A kernel of a program, by the code of `codes()`. It lives as long as the process.
Kernel& kernel_of_program(const std::string& name, const char* mangled,
                          const std::vector<std::uint32_t>& parameters) {
  struct Program {
    std::vector<std::byte> file;
    Module module{};
    Kernel kernel{};
  };
  // Never destroyed: what a kernel was read as is reached through it alone.
  static auto& programs = *new std::deque<Program>;
  Program& program = programs.emplace_back();
  program.file = cubin(name, mangled, parameters);
  program.module.image = program.file.data();
  program.kernel.module = &program.module;
  program.kernel.mangled = mangled;
  return program.kernel;
}

// Memory that nothing is known of: pages of its own.
TEST(CodeExecution, ResultsMayLieInMemoryOfWhichNothingIsKnown) {
  Kernel& gather = kernel_of_program("gather", "_Z6gatherPKfPKiPfi", {8, 8, 8, 4});
  const OnDevice<float> in{counted(100)};
  const OnDevice<int> index{std::vector<int>{99, 0, 7}};
  const OnDevice<float> out{std::size_t{1} << 16};
  const void* addresses[] = {in.address(), index.address(),
                             static_cast<const float*>(out.address()) + 4096};
  int count = 3;
  void* arguments[] = {&addresses[0], &addresses[1], &addresses[2], &count};
  launch_kernel(gather, {{1, 1, 1}, {32, 1, 1}, 0}, arguments, legacy_stream(0));
  const auto values = out.values();
  EXPECT_EQ(values[4096], 100);
  EXPECT_EQ(values[4097], 1);
  EXPECT_EQ(values[4098], 8);
  EXPECT_EQ(values[4099], std::nullopt);
}

// A launch's price is that of the lengths which lie there now, wherever they lie.
TEST(CodeExecution, KnownMemoryIsToldBesideWhatTheParametersTell) {
  Kernel& bags = kernel_of_program("bags", "_Z4bagsPKfPKiS2_Pf", {8, 8, 8, 8});
  const OnDevice<float> x{std::size_t{1} << 20};
  const OnDevice<int> index{std::size_t{1} << 16};
  const auto launched = [&](const std::vector<int>& begins) {
    const OnDevice<float> y{std::size_t{1} << 10};
    const OnDevice<int> on_device{begins};
    const void* addresses[] = {x.address(), index.address(), on_device.address(), y.address()};
    void* arguments[] = {&addresses[0], &addresses[1], &addresses[2], &addresses[3]};
    launch_kernel(bags, {{1, 1, 1}, {32, 1, 1}, 0}, arguments, legacy_stream(0));
    return fakes::process().launched.back();
  };
  const KernelQuery three = launched({0, 3}), thousand = launched({0, 1000}),
                    again = launched({0, 3});
  const auto like = [](KernelQuery query) {
    query.operands = {};
    return query;
  };
  EXPECT_EQ(like(three), like(again));
  EXPECT_EQ(three.operands.read, again.operands.read);
  EXPECT_GT(three.operands.cold, again.operands.cold);  // the cache holds what was read before
  EXPECT_EQ(three.features, thousand.features);
  EXPECT_EQ(three.bytes, thousand.bytes);
  EXPECT_GT(thousand.by_data.at("warp_instructions"), 100 * three.by_data.at("warp_instructions"));
  EXPECT_GT(thousand.by_data.at("bytes"), 1000 * 128);
  // Without them what the parameters tell is all.
  const OnDevice<float> y{std::size_t{1} << 10};
  const OnDevice<int> unknown{2};
  const void* addresses[] = {x.address(), index.address(), unknown.address(), y.address()};
  void* arguments[] = {&addresses[0], &addresses[1], &addresses[2], &addresses[3]};
  launch_kernel(bags, {{1, 1, 1}, {32, 1, 1}, 0}, arguments, legacy_stream(0));
  EXPECT_EQ(fakes::process().launched.back().features, three.features);
  EXPECT_TRUE(fakes::process().launched.back().by_data.empty());
}

TEST(CodeExecution, MemoryIsFilledFirstFromNothingButNumbers) {
  Kernel& number = kernel_of_program("number", "_Z6numberPii", {8, 4});
  const OnDevice<int> out{std::size_t{1} << 16};
  const void* address = static_cast<const int*>(out.address()) + 4096;
  int first = 5;
  void* arguments[] = {&address, &first};
  launch_kernel(number, {{1, 1, 1}, {32, 1, 1}, 0}, arguments, legacy_stream(0));
  const auto values = out.values();
  EXPECT_EQ(values[4096], 5);
  EXPECT_EQ(values[4096 + 31], 36);
  EXPECT_EQ(values[4096 + 32], std::nullopt);
  // From what is not known nothing comes, the first time and later.
  Kernel& gather = kernel_of_program("gather", "_Z6gatherPKfPKiPfi", {8, 8, 8, 4});
  const OnDevice<float> fresh{std::size_t{1} << 16};
  const auto* const middle = static_cast<const float*>(fresh.address()) + 4096;
  const void* addresses[] = {middle, middle + 64, middle + 128};
  int count = 3;
  void* all[] = {&addresses[0], &addresses[1], &addresses[2], &count};
  for (int i = 0; i < 2; ++i) {
    launch_kernel(gather, {{1, 1, 1}, {32, 1, 1}, 0}, all, legacy_stream(0));
    EXPECT_EQ(fresh.values()[4096 + 128], std::nullopt);
  }
}

TEST(CodeExecution, ComputesWhatIsKnown) {
  OnDevice<float> x{counted(100)}, y{std::vector<float>(100, 5)};
  x.forget(7);
  y.forget(8);
  const auto reached = Launch{{2, 1, 1}, {64, 1, 1}}
                           .with(90)
                           .with(2.0F)
                           .at(x.address())
                           .at(y.address())
                           .execute("saxpy");
  ASSERT_TRUE(reached);
  EXPECT_TRUE(reached->gave);
  ASSERT_EQ(reached->written.size(), 1U);
  EXPECT_EQ(reached->written[0].last - reached->written[0].first, 90 * sizeof(float));
  const auto values = y.values();
  for (std::size_t i = 0; i < 100; ++i) {
    if (i == 7 || i == 8) {
      EXPECT_EQ(values[i], std::nullopt);
    } else {
      EXPECT_EQ(values[i], i < 90 ? 2 * static_cast<float>(i + 1) + 5 : 5) << i;
    }
  }
}

/// Of "doubles": 32 threads' numbers with signs, halves between whole ones, infinities, and such as
/// no 32 bits hold.
struct OfDoubles {
  static constexpr std::size_t n = 32;
  static constexpr double c = -2.75;
  std::vector<double> x = std::vector<double>(2 * n);
  std::vector<float> f = std::vector<float>(2 * n);
  std::vector<long long> l = std::vector<long long>(n);
  OfDoubles() {
    std::mt19937_64 random;
    for (std::size_t i = 0; i < 2 * n; ++i) {
      const int exponent = static_cast<int>(random() % 25) - 8;
      const double mantissa = static_cast<double>(random() >> 11U) * 0x1p-53 + 0.5;
      x[i] = std::ldexp(i % 3 == 0 ? -mantissa : mantissa, exponent);
      f[i] = static_cast<float>(x[i]) / 3.0F;
    }
    const double edges[] = {0.5, 1.5, 2.5, -0.5, -1.5, 7, -7, 3e9, -3e9, 1e19, 5e-320, INFINITY};
    std::copy(std::begin(edges), std::end(edges), x.begin());
    for (std::size_t i = 0; i < n; ++i)
      l[i] = static_cast<long long>(random() >> (2 * i)) * (i % 2 != 0 ? -1 : 1);
  }
};

/// A conversion to an integer as GPUs make it: beyond its range comes its nearest number.
template <class T>
T to_integer(double whole) {
  const double least = static_cast<double>(std::numeric_limits<T>::min());
  const double most = std::ldexp(1.0, std::numeric_limits<T>::digits);
  return whole >= most    ? std::numeric_limits<T>::max()
         : whole <= least ? std::numeric_limits<T>::min()
                          : static_cast<T>(whole);
}

// IEEE 754 leaves no choice for sums, products, quotients, roots and conversions: the processor
// that runs this has the same. Exponential functions are approximations of CUDA's own.
TEST(CodeExecution, ComputesDoubles) {
  const OfDoubles in;
  constexpr std::size_t n = OfDoubles::n;
  constexpr double c = OfDoubles::c;
  const OnDevice<double> x{in.x}, y{std::vector<double>(18 * n)};
  const OnDevice<float> f{in.f}, g{std::vector<float>(8 * n)};
  const OnDevice<long long> l{in.l}, m{std::vector<long long>(4 * n)};
  const OnDevice<int> k{std::vector<int>(5 * n)};
  ASSERT_TRUE((Launch{{1, 1, 1}, {n, 1, 1}}
                   .at(x.address())
                   .at(f.address())
                   .at(l.address())
                   .at(y.address())
                   .at(g.address())
                   .at(m.address())
                   .at(k.address())
                   .with(c)
                   .with(static_cast<int>(n))
                   .execute("doubles")));
  const auto doubles = y.values();
  const auto floats = g.values();
  const auto longs = m.values();
  const auto ints = k.values();
  for (std::size_t i = 0; i < n; ++i) {
    SCOPED_TRACE(i);
    const double a = in.x[i], b = in.x[i + n];
    const float p = in.f[i], q = in.f[i + n];
    const long long w = in.l[i];
    // By how much the nearest sum is off (Knuth, "The Art of Computer Programming" 2, 4.2.2).
    const double sum = a + b, of_b = sum - a, sum_error = (a - (sum - of_b)) + (b - of_b);
    const double toward_zero =
        sum_error != 0 && (sum_error < 0) != (sum < 0) ? std::nextafter(sum, 0.0) : sum;
    const double expected[] = {a + b,
                               a - b,
                               -std::fabs(a) * b,
                               std::fma(a, -b, 1.5),
                               std::fma(-a, c, b),
                               a / b,
                               std::sqrt(std::fabs(a)),
                               std::fmin(a, b),
                               std::fmax(a, c),
                               std::floor(a),
                               std::nearbyint(b),
                               toward_zero,
                               0,
                               static_cast<double>(p),
                               static_cast<double>(w),
                               static_cast<double>(static_cast<unsigned long long>(w)),
                               static_cast<double>(static_cast<int>(w))};
    for (std::size_t row = 0; row < 17; ++row) {
      if (row == 12) continue;
      EXPECT_EQ(doubles[row * n + i], expected[row]) << row;
    }
    // By how much a product is off, fma() says, where that is no number too small.
    const double product = a * b, error = std::fma(a, b, -product);
    if (std::fabs(product) > 1e-280 && std::isfinite(product)) {
      EXPECT_EQ(doubles[12 * n + i], error > 0 ? std::nextafter(product, INFINITY) : product);
    }
    const double grown = std::exp(a / 1e3);
    if (std::isfinite(grown) && grown > 0) {
      EXPECT_NEAR(doubles[17 * n + i].value_or(-1) / grown, 1, 1e-15);
    } else {
      EXPECT_EQ(doubles[17 * n + i], grown);
    }
    // A product of floats is exact as a double, and so is what a sum of doubles is off by.
    const double of_floats = static_cast<double>(p) * q, one_more = of_floats + 1,
                 more_error = of_floats - (one_more - 1) + 0.0;
    float down = static_cast<float>(one_more);
    if (down > one_more || (down == one_more && more_error < 0))
      down = std::nextafter(down, -std::numeric_limits<float>::infinity());
    const float expected_floats[] = {
        static_cast<float>(a),
        static_cast<float>(w),
        std::fma(p, -q, 1.5F),
        std::fma(p, q, -static_cast<float>(c)),
        down,
        std::nearbyint(p),
    };
    for (std::size_t row = 0; row < 6; ++row)
      EXPECT_EQ(floats[row * n + i], expected_floats[row]) << row;
    const float risen = std::exp(p / 64);
    if (std::isfinite(risen) && risen > 0) {
      EXPECT_NEAR(floats[6 * n + i].value_or(-1) / risen, 1, 1e-6);
    } else {
      EXPECT_EQ(floats[6 * n + i], risen);
    }
    if (std::isfinite(p)) {
      EXPECT_NEAR(floats[7 * n + i].value_or(-2), std::sin(p / 64), 2e-7);
    }
    const long long expected_longs[] = {
        to_integer<long long>(std::trunc(a)), to_integer<long long>(std::floor(b)),
        static_cast<long long>(to_integer<unsigned long long>(std::trunc(std::fabs(b)))),
        to_integer<long long>(std::trunc(static_cast<double>(p)))};
    for (std::size_t row = 0; row < 4; ++row)
      EXPECT_EQ(longs[row * n + i], expected_longs[row]) << row;
    const int expected_ints[] = {
        to_integer<int>(std::trunc(a)), static_cast<int>(to_integer<unsigned>(std::trunc(b))),
        to_integer<int>(std::nearbyint(a)), (a < b ? 1 : 0) + (a >= c ? 2 : 0) + (a <= b ? 0 : 8),
        static_cast<int>(static_cast<unsigned>(w) * static_cast<unsigned>(n) -
                         static_cast<unsigned>(w >> 3))};
    for (std::size_t row = 0; row < 5; ++row)
      EXPECT_EQ(ints[row * n + i], expected_ints[row]) << row;
  }
}

// The same parameter of another launch need not be an address.
TEST(BehindPointers, WhatLeadsNowhereHasNoContent) {
  const OnDevice<int> tensor{std::vector<int>{1, 2, 3, 4}};
  constexpr std::size_t parameters = 0x210;
  std::vector<std::byte> constants(parameters + sizeof(void*));
  const auto leads_to = [&](std::uint64_t address) {
    std::memcpy(constants.data() + parameters, &address, sizeof address);
  };
  const auto begin = reinterpret_cast<std::uint64_t>(tensor.address());
  leads_to(begin);
  const BehindPointers read{{{begin, begin + 16}}, constants};
  const std::uint64_t content = read.content(constants);
  leads_to(4096);  // where a process has nothing
  EXPECT_NE(read.content(constants), content);
  leads_to(begin);
  EXPECT_EQ(read.content(constants), content);
}

TEST(BehindPointers, ConstantsAreAlikeWhereTheirPointersStandAlike) {
  const OnDevice<int> one{std::vector<int>(4096)}, other{std::vector<int>(4096)};
  const auto constants = [](const void* first, const void* second, std::uint64_t number) {
    std::vector<std::byte> bytes(3 * sizeof(void*));
    std::memcpy(bytes.data(), &first, sizeof first);
    std::memcpy(bytes.data() + 8, &second, sizeof second);
    std::memcpy(bytes.data() + 16, &number, sizeof number);
    return related_pointers(bytes);
  };
  const auto* const x = static_cast<const int*>(one.address());
  const auto* const y = static_cast<const int*>(other.address());
  // Allocations begin at 256 bytes, which are 64 integers.
  EXPECT_EQ(constants(x, y, 5), constants(y, x, 5));
  EXPECT_EQ(constants(x, y, 5), constants(x + 64, y + 128, 5));
  EXPECT_NE(constants(x, y, 5), constants(x, y, 6));
  EXPECT_NE(constants(x, y, 5), constants(x + 1, y, 5));
  EXPECT_EQ(constants(x, x + 10, 5), constants(y + 64, y + 74, 5));
  EXPECT_NE(constants(x, x + 10, 5), constants(x, x + 11, 5));
  EXPECT_NE(constants(x, x, 5), constants(x, y, 5));
  EXPECT_NE(constants(x, x + 64, 5), constants(x, y + 64, 5));
}

TEST(BehindPointers, AddressesThatLieInMemoryAreSeen) {
  const OnDevice<int> tensor{std::vector<int>{1, 2, 3, 4}};
  const auto address = reinterpret_cast<std::uint64_t>(tensor.address());
  OnDevice<std::uint64_t> table{std::vector<std::uint64_t>{7, address, 9}};
  const auto begin = reinterpret_cast<std::uint64_t>(table.address());
  EXPECT_TRUE(holds_addresses({{begin, begin + 24}}));
  EXPECT_TRUE(holds_addresses({{begin + 4, begin + 16}}));
  EXPECT_FALSE(holds_addresses({{begin, begin + 8}, {begin + 16, begin + 24}}));
  EXPECT_FALSE(holds_addresses({{begin + 12, begin + 24}}));  // a part of one
  table.forget(1);
  EXPECT_FALSE(holds_addresses({{begin, begin + 24}}));
}

/// The first `count` elements of `to` become those of `from` that the indices name.
void launch_gather(Kernel& gather, const OnDevice<float>& from, const OnDevice<int>& indices,
                   const OnDevice<float>& to, int count) {
  const void* addresses[] = {from.address(), indices.address(), to.address()};
  void* all[] = {&addresses[0], &addresses[1], &addresses[2], &count};
  launch_kernel(gather, {{1, 1, 1}, {32, 1, 1}, 0}, all, legacy_stream(0));
}

// Positions go on by one in each step, and what is looked up there is never known: after a while
// that is taken on trust. Where more is known than then, it is executed at once.
TEST(CodeExecution, WhatGaveNothingForManyDataIsTakenToGiveNothing) {
  Kernel& gather = kernel_of_program("gather", "_Z6gatherPKfPKiPfi", {8, 8, 8, 4});
  OnDevice<float> from{std::vector<float>(64, 10)};
  for (std::size_t i = 0; i < 64; ++i) from.forget(i);
  const OnDevice<float> to{std::vector<float>(64, 5)};
  const auto gathered = [&](const std::vector<int>& at) {
    launch_gather(gather, from, OnDevice<int>{at}, to, 2);
    auto values = to.values();
    EXPECT_EQ(values[2], 5);
    values.resize(2);
    return values;
  };
  using Values = std::vector<std::optional<float>>;
  for (int step = 0; step < 40; ++step) EXPECT_EQ(gathered({step, step + 1}), Values(2)) << step;
  const std::vector<float> known(64, 20);
  write(const_cast<void*>(from.address()), known.data(), known.size() * sizeof(float));
  EXPECT_EQ(gathered({40, 41}), (Values{20, 20}));
}

TEST(CodeExecution, ALaunchIsKnownAgainWhereverItsTensorsLie) {
  Kernel& gather = kernel_of_program("gather", "_Z6gatherPKfPKiPfi", {8, 8, 8, 4});
  const auto gathered = [&](const std::vector<int>& at, bool known) {
    OnDevice<float> from{std::vector<float>{10, 11, 12, 13}};
    if (!known)
      for (std::size_t i = 0; i < 4; ++i) from.forget(i);
    const OnDevice<int> indices{at};
    const OnDevice<float> to{std::vector<float>(64, 5)};
    launch_gather(gather, from, indices, to, 3);
    auto values = to.values();
    EXPECT_EQ(values[3], 5);
    EXPECT_EQ(values[63], 5);
    values.resize(3);
    return values;
  };
  using Values = std::vector<std::optional<float>>;
  const Values nothing(3);
  // Nothing known comes of it, in one place after the other, until what it reads is known.
  std::deque<OnDevice<float>> between;  // so that allocations lie in other places
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(gathered({2, 0, 1}, false), nothing);
    between.emplace_back(std::vector<float>(1000));
  }
  EXPECT_EQ(gathered({2, 0, 1}, true), (Values{12, 10, 11}));
  EXPECT_EQ(gathered({3, 3, 0}, true), (Values{13, 13, 10}));
  EXPECT_EQ(gathered({3, 3, 0}, false), nothing);
}

TEST(StableWork, IsWalkedNowAndThen) {
  StableWork stable;
  CodeWork work;
  work.instructions = 1000;
  // Three walks that find the same as the one before, and then one of so many launches:
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(stable.is_taken_to_last());
    stable.note(work, work);
  }
  for (const int each : {1, 2, 4, 8, 16, 16}) {
    for (int i = 1; i < each; ++i) EXPECT_TRUE(stable.is_taken_to_last()) << each << ' ' << i;
    EXPECT_FALSE(stable.is_taken_to_last()) << each;
    stable.note(work, work);
  }
  // What is different is looked at again.
  CodeWork more = work;
  more.instructions = 1020;
  for (int i = 1; i < 16; ++i) EXPECT_TRUE(stable.is_taken_to_last());
  EXPECT_FALSE(stable.is_taken_to_last());
  stable.note(work, more);
  EXPECT_FALSE(stable.is_taken_to_last());
  stable.note(more, std::nullopt);  // data told nothing
  EXPECT_FALSE(stable.is_taken_to_last());
}

TEST(CodeExecution, WarpsShareMemoryBetweenBarriers) {
  constexpr std::size_t n = 64;
  std::vector<float> left(n * n), right(n * n);
  for (std::size_t i = 0; i < n * n; ++i) {
    left[i] = static_cast<float>(i % 7);
    right[i] = static_cast<float>(i % 5) - 2;
  }
  OnDevice<float> a{left}, b{right}, c{n * n};
  a.forget(3 * n + 1);
  ASSERT_TRUE((Launch{{2, 2, 1}, {32, 32, 1}}
                   .at(a.address())
                   .at(b.address())
                   .at(c.address())
                   .with(static_cast<int>(n))
                   .execute("matmul_tiled")));
  const auto values = c.values();
  for (std::size_t row = 0; row < n; ++row) {
    for (std::size_t column = 0; column < n; ++column) {
      float sum = 0;
      for (std::size_t k = 0; k < n; ++k) sum += left[row * n + k] * right[k * n + column];
      const std::optional<float> expected = row == 3 ? std::nullopt : std::optional{sum};
      ASSERT_EQ(values[row * n + column], expected) << row << " " << column;
    }
  }
}

// A million floats from random places of a MiB: all of that is read, once, beside the indices. Each
// asks for a sector of 32 bytes; of those behind the first MiB a cache that keeps a half of it
// (0.525 of an L2 cache) does not answer a half, and then the sector beside comes for nothing.
TEST(CodeWalk, TablesAreReadOnceWhereTheCacheKeepsThem) {
  const int n = 1 << 20;
  const OnDevice<float> in{counted(1)}, out{counted(1)};
  const OnDevice<int> places{std::vector<int>(1)};
  ReadConstants tables;
  const auto with = [&](double l2_bytes) {
    return Launch{{4096, 1, 1}, {256, 1, 1}}
        .at(in.address())
        .at(places.address())
        .at(out.address())
        .with(n)
        .walk_to_a_mebibyte("gather", tables, l2_bytes);
  };
  const auto kept = with(50e6), half = with(0.5 / 0.525 * (1 << 20));
  ASSERT_TRUE(kept && half);
  EXPECT_EQ(kept->read_bytes, 4.0 * n + (1 << 20));
  EXPECT_EQ(kept->written_bytes, 4.0 * n);
  EXPECT_EQ(kept->random_bytes, 0);
  // The places and all of the table, which lie within 4 MiB here, and are one piece.
  const auto at = [](const auto& operand) {
    return reinterpret_cast<std::uint64_t>(operand.address());
  };
  const std::uint64_t from = std::min(at(in), at(places)),
                      to = std::max(at(in) + (std::uint64_t{1} << 20U),
                                    at(places) + std::uint64_t{4} * n);
  EXPECT_EQ(kept->read, (std::vector<AddressRange>{{from, to}}));
  EXPECT_EQ(kept->written, (std::vector<AddressRange>{{at(out), at(out) + std::uint64_t{4} * n}}));
  EXPECT_DOUBLE_EQ(half->read_bytes, 4.0 * n + (1 << 20) + 0.5 * (32.0 * n - (1 << 20)));
  EXPECT_DOUBLE_EQ(half->random_bytes, 0.5 * 32.0 * n);
  EXPECT_TRUE(tables.has(0x210));
  EXPECT_FALSE(tables.has(0x218));
  EXPECT_FALSE(tables.has(0x220));
}

TEST(CodeExecution, GathersByIndicesThatAreKnown) {
  OnDevice<float> in{counted(1000)}, out{std::vector<float>(40, 0)};
  std::vector<int> places(40);
  for (int i = 0; i < 40; ++i) places[static_cast<std::size_t>(i)] = 999 - 20 * i;
  OnDevice<int> index{places};
  index.forget(5);
  ASSERT_TRUE((Launch{{1, 1, 1}, {64, 1, 1}}
                   .at(in.address())
                   .at(index.address())
                   .at(out.address())
                   .with(40)
                   .execute("gather")));
  const auto values = out.values();
  for (std::size_t i = 0; i < 40; ++i) {
    if (i == 5) {
      EXPECT_EQ(values[i], std::nullopt);
    } else {
      EXPECT_EQ(values[i], 1000 - 20 * static_cast<float>(i));
    }
  }
}

TEST(CodeExecution, DividesIntegers) {
  // A division goes by a float's reciprocal and back, and is exact.
  OnDevice<float> x{counted(60)}, by_head{std::vector<float>(400, 0)};
  OnDevice<int> units{std::vector<int>{17}};
  ASSERT_TRUE((Launch{{2, 1, 1}, {32, 1, 1}}
                   .at(x.address())
                   .at(by_head.address())
                   .at(units.address())
                   .with(60)
                   .execute("heads")));
  std::vector<float> expected(400, 0);
  for (std::size_t i = 0; i < 60; ++i) expected[i / 17 * 100 + i % 17] = static_cast<float>(i + 1);
  const auto values = by_head.values();
  for (std::size_t i = 0; i < 400; ++i) EXPECT_EQ(values[i], expected[i]) << i;
}

TEST(CodeExecution, AStoreSomewhereLeavesWhatDoesNotHangOnItKnown) {
  OnDevice<long long> tokens{{3, 5, 7}};
  tokens.forget(1);
  OnDevice<int> counts{std::vector<int>(16, 1)}, total{{10, 20, 30}};
  OnDevice<long long> last{{-1, -1, -1}};
  const auto reached = Launch{{3, 1, 1}, {32, 1, 1}}
                           .at(tokens.address())
                           .at(counts.address())
                           .at(last.address())
                           .at(total.address())
                           .execute("count_tokens");
  ASSERT_TRUE(reached);
  EXPECT_TRUE(reached->gave);
  using Totals = std::vector<std::optional<int>>;
  using Tokens = std::vector<std::optional<long long>>;
  EXPECT_EQ(total.values(), (Totals{11, 21, 31}));
  EXPECT_EQ(last.values(), (Tokens{3, std::nullopt, 7}));
  // Which one was counted is not known, and so none is: what is stored before and after it too.
  EXPECT_EQ(counts.values(), Totals(16));
}

TEST(CodeExecution, WarpsAddUpInSharedMemory) {
  std::vector<int> numbers(3 * 64);
  std::iota(numbers.begin(), numbers.end(), 1);
  OnDevice<int> x{numbers}, total{std::vector<int>(3, -1)};
  x.forget(64 + 40);
  // The last parameter is a byte, and nothing lies behind it.
  ASSERT_TRUE((Launch{{3, 1, 1}, {64, 1, 1}}
                   .at(x.address())
                   .at(total.address())
                   .with(true)
                   .execute("block_total")));
  using Totals = std::vector<std::optional<int>>;
  EXPECT_EQ(total.values(), (Totals{64 * 65, std::nullopt, 2 * (128 * 64 + 32 * 65)}));
}

// Histograms and counters: nobody asks what was there before.
TEST(CodeExecution, ThreadsAddUpInDeviceMemory) {
  const OnDevice<int> x{std::vector<int>{3, 1, 3, 0, 3, 2, 1, 3}};
  const OnDevice<int> bins{std::vector<int>(4)}, odd{std::vector<int>{5}};
  ASSERT_TRUE((Launch{{1, 1, 1}, {8, 1, 1}}
                   .at(x.address())
                   .at(bins.address())
                   .at(odd.address())
                   .execute("bins")));
  EXPECT_EQ(bins.values(), (std::vector<std::optional<int>>{1, 2, 1, 4}));
  EXPECT_EQ(odd.values()[0], 11);
}

// Counts at indices that nobody knows, in a part of an allocation.
TEST(CodeExecution, WhatIsAddedToGoesAsFarAsItWasWritten) {
  OnDevice<int> x{std::vector<int>(8, 3)};
  for (std::size_t i = 0; i < 8; ++i) x.forget(i);
  const OnDevice<int> memory{std::vector<int>(64)}, odd{std::vector<int>{5}};
  const Launch launch =
      Launch{{1, 1, 1}, {8, 1, 1}}.at(x.address()).at(memory.address()).at(odd.address());
  const auto first = reinterpret_cast<std::uint64_t>(memory.address());
  const auto bytes = [&] {
    const auto reached = launch.reach("bins");
    if (!reached) return std::uint64_t{0};
    const auto found = std::ranges::find(reached->written, first, &AddressRange::first);
    return found == reached->written.end() ? 0 : found->last - found->first;
  };
  // Nobody wrote the counts that is known to: to the allocation's end, which is a multiple of 512.
  EXPECT_GE(bytes(), 64 * sizeof(int));
  small_data().tensor_ends.note(memory.address(), 4 * sizeof(int));
  EXPECT_EQ(bytes(), 4 * sizeof(int));
}

// Sums on the stack or in shared memory, by one address, as TensorFlow's sums of columns in bf16.
TEST(CodeExecution, AddressesThatStayOnTheChipReachNoMemory) {
  const OnDevice<int> x{std::vector<int>(40, 2)}, y{std::vector<int>(64, 1)};
  for (const bool own : {true, false}) {
    const Launch launch =
        Launch{{1, 1, 1}, {32, 1, 1}}.at(x.address()).at(y.address()).with(40).with(own);
    EXPECT_FALSE(launch.execute("own_or_shared")) << own;
    const auto reached = launch.reach("own_or_shared");
    ASSERT_TRUE(reached) << own;
    const auto first = reinterpret_cast<std::uint64_t>(y.address());
    EXPECT_EQ(reached->written, (std::vector<AddressRange>{{first, first + 32 * sizeof(int)}}));
    const auto all = launch.reach_of_all_ways("own_or_shared");
    ASSERT_TRUE(all) << own;
    ASSERT_EQ(all->written.size(), 1);
    EXPECT_EQ(all->written[0].first, first);
  }
}

TEST(CodeExecution, GoesWhereSwitchesLead) {
  const OnDevice<float> x{counted(256)};
  const auto results = [&](int kind) {
    const OnDevice<float> y{64};
    const auto reached = Launch{{2, 1, 1}, {32, 1, 1}}
                             .at(x.address())
                             .at(y.address())
                             .with(kind)
                             .with(3)
                             .execute("switched");
    EXPECT_TRUE(reached);
    return y.values();
  };
  const std::vector<float (*)(float)> cases{
      [](float i) { return 3 * (i + 1) + 3 * 64; },  // x[i] + x[64 + i] + x[128 + i]
      [](float i) { return i + 1; },
      [](float i) { return (i + 1) * (i + 2); },
      [](float i) { return 3 * i + 1 + 3; },
      [](float) { return 7.0F; },
      [](float i) { return 2 * i + 1; }};
  for (std::size_t kind = 0; kind < cases.size(); ++kind) {
    const auto values = results(static_cast<int>(kind));
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(values[i], cases[kind](static_cast<float>(i))) << kind << ": " << i;
  }
  for (const auto& value : results(6)) EXPECT_EQ(value, std::nullopt);
  // The table of a program's kernel is in its file.
  Kernel& switched = kernel_of_program("switched", "_Z8switchedPKfPfii", {8, 8, 4, 4});
  const OnDevice<float> y{64};
  const void* addresses[] = {x.address(), y.address()};
  int kind = 3, n = 0;
  void* arguments[] = {&addresses[0], &addresses[1], &kind, &n};
  launch_kernel(switched, {{2, 1, 1}, {32, 1, 1}, 0}, arguments, legacy_stream(0));
  EXPECT_EQ(y.values()[63], 3 * 63 + 1 + 3);
}

TEST(CodeExecution, WhatItCannotDoIsNotDone) {
  const OnDevice<float> in{counted(1 << 12)};
  const OnDevice<float> total{std::vector<float>{3}};
  // Atomic sums of floats come in any order.
  const auto sum =
      Launch{{2, 1, 1}, {256, 1, 1}}.at(in.address()).at(total.address()).with(1 << 12);
  EXPECT_FALSE(sum.execute("sum"));
  EXPECT_EQ(total.values()[0], 3);
  const auto reached = sum.reach("sum");
  ASSERT_TRUE(reached);
  ASSERT_EQ(reached->written.size(), 1U);
  EXPECT_EQ(reached->written[0].first, reinterpret_cast<std::uint64_t>(total.address()));
  EXPECT_EQ(reached->written[0].last - reached->written[0].first, sizeof(float));
}

TEST(CodeExecution, ALargeLaunchReachesWhatItsEndsReach) {
  constexpr int n = 1'000'003;
  const OnDevice<float> x{n}, y{2 * n};
  const auto reached = Launch{{4096, 1, 1}, {256, 1, 1}}
                           .with(n)
                           .with(2.0F)
                           .at(x.address())
                           .at(y.address())
                           .reach("saxpy");
  ASSERT_TRUE(reached);
  EXPECT_FALSE(reached->gave);
  ASSERT_EQ(reached->written.size(), 1U);
  EXPECT_EQ(reached->written[0].first, reinterpret_cast<std::uint64_t>(y.address()));
  EXPECT_EQ(reached->written[0].last - reached->written[0].first, n * sizeof(float));
}

TEST(CodeExecution, LongLaunchesAreExecutedOnSmallResultsOnly) {
  // One warp for each token, of some 30 instructions.
  constexpr std::uint32_t n = 3000;
  std::vector<long long> each(n);
  std::iota(each.begin(), each.end(), 0);
  OnDevice<long long> tokens{each}, last{std::vector<long long>(n, -1)};
  OnDevice<int> counts{std::vector<int>(n, 1)}, total{std::vector<int>(n, 0)};
  const auto count = Launch{{n, 1, 1}, {32, 1, 1}}
                         .at(tokens.address())
                         .at(counts.address())
                         .at(last.address())
                         .at(total.address());
  EXPECT_FALSE(count.execute("count_tokens"));
  EXPECT_EQ(counts.values()[n - 1], 1);
  ASSERT_TRUE(count.execute("count_tokens", most_executed_long));
  EXPECT_EQ(counts.values(), std::vector<std::optional<int>>(n, 2));
  EXPECT_EQ(last.values()[n - 1], n - 1);
  // It is given up where what it has written by then is not known.
  for (std::uint32_t i = 0; i < n; ++i) {
    counts.forget(i);
    last.forget(i);
    tokens.forget(i);
    total.forget(i);
  }
  EXPECT_FALSE(count.execute("count_tokens", most_executed_long));
  // As many warps that write 128 bytes each: more than is executed of any operand.
  const OnDevice<float> x{counted(2 * n * 32)}, y{counted(2 * n * 32)};
  const auto sums = Launch{{2 * n, 1, 1}, {32, 1, 1}}
                        .with(static_cast<int>(2 * n * 32))
                        .with(2.0F)
                        .at(x.address())
                        .at(y.address());
  EXPECT_FALSE(sums.execute("saxpy", most_executed_long));
}

TEST(CodeExecution, ASixteenthOfTheBlocksTellsThatALaunchIsTooLong) {
  // As above, ten times as many tokens: a sixteenth of them is a long launch, too.
  constexpr std::uint32_t n = 30'000;
  std::vector<long long> each(n);
  std::iota(each.begin(), each.end(), 0);
  const OnDevice<long long> tokens{each}, last{std::vector<long long>(n, -1)};
  const OnDevice<int> counts{std::vector<int>(n, 1)}, total{std::vector<int>(n, 0)};
  const auto count = Launch{{n, 1, 1}, {32, 1, 1}}
                         .at(tokens.address())
                         .at(counts.address())
                         .at(last.address())
                         .at(total.address());
  const Attempt whole = count.attempt("count_tokens", most_executed_long);
  ASSERT_TRUE(whole.reach);
  const Attempt too_long = count.attempt("count_tokens", whole.steps * 2 / 3);
  EXPECT_EQ(too_long.obstacle, Obstacle::length);
  EXPECT_TRUE(too_long.gave);  // so that it keeps no other launch from being tried
  EXPECT_GT(too_long.steps, most_executed);
  EXPECT_LT(too_long.steps, whole.steps / 15);
}

TEST(CodeExecution, LongProductsAreNotExecuted) {
  // Nothing hangs on the elements of a product but other numbers: small ones are computed alone.
  const auto product = [](std::uint32_t n) {
    const OnDevice<float> a{counted(n * n)}, b{counted(n * n)}, c{n * n};
    return Launch{{n / 32, n / 32, 1}, {32, 32, 1}}
        .at(a.address())
        .at(b.address())
        .at(c.address())
        .with(static_cast<int>(n))
        .execute("matmul_tiled", most_executed_long)
        .has_value();
  };
  EXPECT_TRUE(product(64));    // some 20,000 instructions of warps
  EXPECT_FALSE(product(128));  // some 160,000
}

TEST(CodeExecution, LongLaunchesThatGiveNothingAreFew) {
  constexpr std::int64_t launch = 200'000;
  LongLaunches all;
  std::int64_t gives = 0, does_not = 0;
  all.note(100, true, gives);
  // Three of these are 600,000.
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(all.most(does_not), most_executed_long) << i;
    all.note(launch, false, does_not);
    all.note(most_executed, false, does_not);  // short ones cost nothing
  }
  EXPECT_EQ(does_not, 3 * launch);
  EXPECT_EQ(all.most(does_not), most_executed);
  EXPECT_EQ(all.most(0), most_executed);
  // A kernel that gave something is tried whatever others cost, and goes on while it gives.
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(all.most(gives), most_executed_long) << i;
    all.note(launch, i % 2 == 0, gives);
  }
  // Its credit ends.
  all.note(launch, false, gives);
  EXPECT_EQ(all.most(gives), most_executed);
}

/// Two blocks that store behind a table's pointers, at indices that are not known.
struct ThroughTable {
  explicit ThroughTable(const std::vector<const void*>& pointers) : tables{pointers} {
    for (std::size_t i = 0; i < 32; ++i) index.forget(i);
  }
  OnDevice<const void*> tables;
  OnDevice<int> index{std::vector<int>(32, 3)}, flags{std::vector<int>(32, 1)}, counts{{0, 0}};
  Launch launch = Launch{{2, 1, 1}, {32, 1, 1}}
                      .at(tables.address())
                      .at(index.address())
                      .at(flags.address())
                      .at(counts.address());
};

TEST(CodeExecution, StoresThroughATableReachWhatItLeadsTo) {
  OnDevice<int> first{std::vector<int>(64, 1)}, second{std::vector<int>(64, 1)},
      none{std::vector<int>(64, 1)};
  ThroughTable stores{{first.address(), second.address(), none.address()}};
  const Launch& launch = stores.launch;
  OnDevice<int>& counts = stores.counts;
  using Numbers = std::vector<std::optional<int>>;
  // To the ends of what two blocks' pointers lead to, and to two counts.
  const auto ends = [](const std::optional<Reach>& reached) {
    std::vector<std::uint64_t> firsts;
    for (const AddressRange& range : reached->written) firsts.push_back(range.first);
    std::ranges::sort(firsts);
    return firsts;
  };
  const auto addresses = [](std::initializer_list<const void*> of) {
    std::vector<std::uint64_t> all;
    for (const void* address : of) all.push_back(reinterpret_cast<std::uint64_t>(address));
    std::ranges::sort(all);
    return all;
  };
  const auto reached = launch.reach("through_table");
  ASSERT_TRUE(reached);
  EXPECT_EQ(ends(reached), addresses({first.address(), second.address(), counts.address()}));
  // Whatever blocks do: the table has three, and the others are only read.
  const auto all = launch.reach_of_all_ways("through_table");
  ASSERT_TRUE(all);
  EXPECT_EQ(ends(all),
            addresses({first.address(), second.address(), none.address(), counts.address()}));
  // Executed, what does not hang on the index is known.
  ASSERT_TRUE(launch.execute("through_table"));
  EXPECT_EQ(counts.values(), (Numbers{2, 2}));
  EXPECT_EQ(first.values(), Numbers(64));
  EXPECT_EQ(second.values(), Numbers(64));
  EXPECT_EQ(none.values(), Numbers(64, 1));
  EXPECT_EQ(stores.tables.values()[2], std::optional{none.address()});
}

TEST(CodeExecution, StoresSomewhereBehindHostMemoryAreSeen) {
  // As to managed memory: which of its bytes, the index would tell, and that is not known.
  std::vector<int> row(64, 1);
  device_reaches(row.data(), row.size() * sizeof(int));
  const ThroughTable stores{{row.data(), row.data()}};
  const Launch& launch = stores.launch;
  const auto host = reinterpret_cast<std::uint64_t>(row.data());
  const std::vector<std::optional<Reach>> all{launch.execute("through_table"),
                                              launch.reach("through_table"),
                                              launch.reach_of_all_ways("through_table")};
  device_leaves(row.data());
  for (const std::optional<Reach>& reached : all) {
    ASSERT_TRUE(reached);
    const auto found = std::ranges::find(reached->written, host, &AddressRange::first);
    ASSERT_NE(found, reached->written.end());
    EXPECT_EQ(found->last, host);
  }
  EXPECT_EQ(row, std::vector<int>(64, 1));
}

TEST(CodeExecution, FunctionsDoNotMixWhatTheirCallersHave) {
  // Divisions of 64 bits are functions, which four places call.
  const OnDevice<float> x{1000}, by_row{2000}, last{100};
  const OnDevice<long long> width{3};
  const auto reached = Launch{{4, 1, 1}, {256, 1, 1}}
                           .at(x.address())
                           .at(by_row.address())
                           .at(last.address())
                           .at(width.address())
                           .with(std::int64_t{1000})
                           .reach_of_all_ways("rows_of");
  ASSERT_TRUE(reached);
  std::vector<std::uint64_t> firsts;
  for (const AddressRange& range : reached->written) firsts.push_back(range.first);
  std::ranges::sort(firsts);
  std::vector<std::uint64_t> expected{reinterpret_cast<std::uint64_t>(by_row.address()),
                                      reinterpret_cast<std::uint64_t>(last.address())};
  std::ranges::sort(expected);
  EXPECT_EQ(firsts, expected);
}

TEST(CodeExecution, PointersPutAsideKeepApart) {
  // Two pointers lie on the stack: what is behind the first is read, behind the second written.
  const OnDevice<float> from{1}, to{1};
  const auto reached = Launch{{1, 1, 1}, {32, 1, 1}}
                           .at(from.address())
                           .at(to.address())
                           .reach_of_all_ways("put_aside");
  ASSERT_TRUE(reached);
  ASSERT_EQ(reached->written.size(), 1U);
  EXPECT_EQ(reached->written.front().first, reinterpret_cast<std::uint64_t>(to.address()));
}

}  // namespace
}  // namespace phantora::rank
