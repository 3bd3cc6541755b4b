// What the stand-in NVRTC reads from a source, and what a launch then knows of the kernel.
#include "cuda/nvrtc/source.hpp"
#include "rank/code/fat_binary.hpp"
#include "rank/code/ptx.hpp"
#include "rank/kernels/kernel_effect.hpp"
#include "rank/kernels/kernel_name.hpp"

#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace phantora {
namespace {

using Sizes = std::vector<std::uint32_t>;

TEST(NvrtcSource, ParametersOfPlainKernels) {
  const auto kernels = nvrtc::read_kernels(R"(
    // __global__ void commented(int n) {}
    extern "C" __global__ void __launch_bounds__(256, 2)
    saxpy(const float a, const float* __restrict__ x, float *y, size_t n = 1) { y[0] = a * x[0]; }
    __global__ void empty() {}
    __global__ static void nothing(void) {}
    __global__ void mixed(unsigned int count, unsigned long long big, char c, int v[], double2 d) {}
  )",
                                           {});
  ASSERT_EQ(kernels.size(), 4u);
  EXPECT_EQ(kernels[0].signature, "saxpy(float, float const*, float*, size_t)");
  EXPECT_EQ(kernels[0].parameter_sizes, (Sizes{4, 8, 8, 8}));
  EXPECT_EQ(kernels[1].signature, "empty()");
  EXPECT_EQ(kernels[2].parameter_sizes, Sizes{});
  EXPECT_EQ(kernels[3].parameter_sizes, (Sizes{4, 8, 1, 8}));
  EXPECT_EQ(kernels[3].unknown_type, "double2");
}

TEST(NvrtcSource, TemplatesAreReadAsTheirNameExpressionsSay) {
  const auto kernels = nvrtc::read_kernels(R"(
    namespace fill { template <typename T, int N = 4> __global__ void set(T* out, const T value) {} }
  )",
                                           {"fill::set<double, 2>", "fill::missing<int>"});
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].signature, "fill::set<double, 2>(double*, double)");
  EXPECT_EQ(kernels[0].parameter_sizes, (Sizes{8, 8}));
  const rank::Ptx ptx{nvrtc::to_ptx(kernels, "sm_90")};
  const auto* found = ptx.find(nvrtc::entry_name("fill::set<double, 2>"));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->parameter_sizes, (Sizes{8, 8}));
  EXPECT_EQ(found->signature, kernels[0].signature);
}

// Kernels without extern "C" may be asked for by their mangled name.
TEST(NvrtcSource, MangledNamesFindPlainEntries) {
  const rank::Ptx ptx{
      nvrtc::to_ptx(nvrtc::read_kernels("__global__ void f(float* x) {}", {}), "sm_90")};
  ASSERT_NE(ptx.find("_Z1fPf"), nullptr);
  EXPECT_EQ(ptx.find("_Z1gPf"), nullptr);
}

TEST(NvrtcSource, SourcesThatDoNotCompileAreReadAsFarAsTheyGo) {
  const auto kernels = nvrtc::read_kernels(
      "using A = B; using B = A; __global__ void f(int n, A a) {}", {"f<", "&"});
  ASSERT_FALSE(kernels.empty());
  EXPECT_EQ(kernels[0].parameter_sizes, Sizes{4});
  EXPECT_EQ(kernels[0].unknown_type, "A");
  for (const char* text : {"__global__", "__global__ void f(", "template<__global__ void f(int",
                           "__global__ void __launch_bounds__(", "/* __global__ void f()",
                           "extern \"C\" __global__ void f(Array<char*, 99999999999> a) {"}) {
    EXPECT_LE(nvrtc::read_kernels(text, {}).size(), 1u) << text;
  }
}

// A body tells what its kernel asks of the driver, and so do the functions that it names.
TEST(NvrtcSource, AssertionsAndPrintsOfAKernelAreTold) {
  const auto kernels = nvrtc::read_kernels(R"(
    __device__ void check(int n) { if (n > 3) { assert(n < 5); } }
    __device__ int twice(int n) { return 2 * n; }
    __global__ void checks(int n) { check(n); }
    __global__ void prints(int n) { for (int i = 0; i < n; ++i) { printf("%d", i); } }
    __global__ void quiet(int assert) { twice(assert); }
  )",
                                           {});
  ASSERT_EQ(kernels.size(), 3u);
  const rank::Ptx ptx{nvrtc::to_ptx(kernels, "sm_90")};
  using Names = std::vector<std::string>;
  EXPECT_EQ(ptx.find("checks")->externals, Names{"__assertfail"});
  EXPECT_EQ(ptx.find("prints")->externals, Names{"vprintf"});
  EXPECT_EQ(ptx.find("quiet")->externals, Names{});
}

TEST(NvrtcSource, VariablesOfKnownTypesHaveSizes) {
  const auto variables = nvrtc::read_variables(R"(
    __device__ float sums[16][2];
    static __constant__ int limit = 5;
    __device__ const Option options[MOST];
    __device__ int f(int n) { return n; }
    struct S { __device__ S() = default; };
    namespace n { __device__ int inner; }
  )");
  ASSERT_EQ(variables.size(), 3u);
  const rank::Ptx ptx{nvrtc::to_ptx({}, "sm_90", variables)};
  ASSERT_NE(ptx.variable("sums"), nullptr);
  EXPECT_EQ(ptx.variable("sums")->size, 128u);
  EXPECT_EQ(ptx.variable("sums")->value, std::vector<std::byte>(128));
  ASSERT_NE(ptx.variable("limit"), nullptr);
  EXPECT_EQ(ptx.variable("limit")->size, 4u);
  EXPECT_TRUE(ptx.variable("limit")->constant);
  EXPECT_TRUE(ptx.variable("limit")->value.empty());
  ASSERT_NE(ptx.variable("options"), nullptr);
  EXPECT_EQ(ptx.variable("options")->size, 0u);
  EXPECT_EQ(ptx.variable("inner"), nullptr);
}

TEST(Ptx, ReadsWhatCompilersWrite) {
  const rank::Ptx ptx{R"(
    .version 8.5
    .target sm_90
    /* .entry no( */
    .visible .entry add(
      .param .u64 .ptr .global .align 4 add_param_0,
      .param .f32 add_param_1,  // a scalar
      .param .align 8 .b8 add_param_2[24],
      .param .f16x2 p3,
      .param .u64 .ptr .global .align 4 p4
    )
    .maxntid 128, 2, 1
    .minnctapersm 2
    { ret; }
    .entry none { ret; }
  )"};
  ASSERT_EQ(ptx.kernels().size(), 2u);
  EXPECT_EQ(ptx.find("add")->parameter_sizes, (Sizes{8, 4, 24, 4, 8}));
  EXPECT_EQ(ptx.find("add")->parameter_offsets, (Sizes{0, 8, 16, 40, 48}));
  EXPECT_EQ(ptx.find("add")->max_threads, 256);
  EXPECT_TRUE(ptx.find("none")->parameter_sizes.empty());
  rank::FatBinary image{"// text\n.version 8.5\n.target sm_90\n.entry k(.param .u32 n) { ret; }"};
  ASSERT_TRUE(image.find("k", 90));
  EXPECT_EQ(image.find("k", 90)->parameter_sizes, Sizes{4});
  EXPECT_FALSE(image.find("l", 90));
}

// nvopencc's text of 2011, which programs still carry, begins with a tab.
TEST(Ptx, TextMayBeginWithBlanks) {
  for (const char* text : {"\t.version 1.4\n\t.target sm_10\n.entry k(.param .u64 n) { exit; }",
                           "\r\n .version 8.5\n.target sm_90\n.entry k(.param .u64 n) { ret; }"}) {
    rank::FatBinary image{text};
    ASSERT_TRUE(image.find("k", 90)) << text;
    EXPECT_EQ(image.find("k", 90)->parameter_sizes, Sizes{8});
  }
}

// As nvcc 13.0 writes them (-ptx -arch=compute_90): a __shared__ array of one kernel stands in its
// body, one that several use, or that nvopencc wrote, outside.
TEST(Ptx, ReadsVariablesAndCalls) {
  const rank::Ptx ptx{R"(
    .version 9.0
    .target sm_90
    .extern .func  (.param .b32 func_retval0) vprintf
    (
      .param .b64 vprintf_param_0,
      .param .b64 vprintf_param_1
    )
    ;
    .extern .func __assertfail(.param .b64 p0, .param .b32 p1);
    .global .align 4 .u32 counter = 7;
    .visible .global .align 4 .b8 table[12] = {1, 0, 0, 0, 2, 0, 0, 0, 3};
    .const .align 4 .f32 scale = 0f40200000;
    .global .align 8 .u64 where = table;
    .extern .global .align 4 .b8 elsewhere[];
    .extern .shared .align 16 .b8 dynamic[];
    .shared .align 4 .b8 common[100];
    .visible .func check(
      .param .b32 check_param_0
    )
    {
      { // callseq 0, 0
      .param .b64 param0;
      call.uni
      __assertfail,
      (
      param0
      );
      }
      ret;
    }
    .visible .entry loud(
      .param .u64 .ptr .global .align 4 loud_param_0
    )
    {
      .shared .align 8 .b8 own[256];
      call.uni check, (param0);
      { // callseq 1, 0
      call.uni (retval0),
      vprintf,
      (
      param0,
      param1
      );
      }
      mov.u32 %r1, common;
      ld.shared.u32 %r2, [common+4];
      ret;
    }
    .visible .entry quiet() { ret; }
  )"};
  ASSERT_NE(ptx.find("loud"), nullptr);
  EXPECT_EQ(ptx.find("loud")->externals, (std::vector<std::string>{"vprintf", "__assertfail"}));
  EXPECT_EQ(ptx.find("loud")->static_shared, 356u);
  EXPECT_EQ(ptx.find("loud")->parameter_sizes, Sizes{8});
  EXPECT_TRUE(ptx.find("quiet")->externals.empty());
  EXPECT_EQ(ptx.find("quiet")->static_shared, 0u);
  const auto bytes = [](std::initializer_list<int> values) {
    std::vector<std::byte> made;
    for (const int value : values) made.push_back(static_cast<std::byte>(value));
    return made;
  };
  ASSERT_NE(ptx.variable("counter"), nullptr);
  EXPECT_EQ(ptx.variable("counter")->value, bytes({7, 0, 0, 0}));
  EXPECT_FALSE(ptx.variable("counter")->constant);
  ASSERT_NE(ptx.variable("table"), nullptr);
  EXPECT_EQ(ptx.variable("table")->value, bytes({1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0}));
  ASSERT_NE(ptx.variable("scale"), nullptr);
  EXPECT_EQ(ptx.variable("scale")->value, bytes({0, 0, 0x20, 0x40}));
  EXPECT_TRUE(ptx.variable("scale")->constant);
  ASSERT_NE(ptx.variable("where"), nullptr);
  EXPECT_EQ(ptx.variable("where")->size, 8u);
  EXPECT_TRUE(ptx.variable("where")->value.empty());
  EXPECT_EQ(ptx.variable("elsewhere"), nullptr);
}

/// A container with one entry, whose fields are as in FatBinary's.
struct Container {
  std::uint32_t magic = 0xba55ed50;
  std::uint16_t version = 1, header_size = 16;
  std::uint64_t size = 0;
  struct {
    std::uint16_t kind = 1, version = 0x101;
    std::uint32_t header_size = 64;
    std::uint64_t payload_size = 0;
    std::uint32_t compressed_size = 0, unknown = 0, version_of_isa = 0, architecture = 80;
    std::uint32_t name_offset = 0, name_size = 0;
    std::uint64_t flags = 0, zero = 0, decompressed_size = 0;
  } entry;
  char text[128] = ".version 8.5\n.target sm_80\n.entry k(.param .u32 n) { ret; }";
};

// nvcc -gencode arch=compute_80,code=compute_80 makes programs with PTX alone.
TEST(Ptx, IsReadInContainers) {
  Container container;
  container.entry.payload_size = sizeof container.text;
  container.size = sizeof container.entry + sizeof container.text;
  rank::FatBinary image{&container};
  const auto kernel = image.find("k", 90);
  ASSERT_TRUE(kernel);
  EXPECT_EQ(kernel->parameter_sizes, Sizes{4});
  EXPECT_EQ(kernel->architecture, 0);
  EXPECT_TRUE(image.code(*kernel, "k").empty());
  EXPECT_EQ(image.has("k", 90), true);
  EXPECT_EQ(image.has("l", 90), false);
  container.entry.kind = 9;  // nobody knows what
  EXPECT_EQ(rank::FatBinary{&container}.has("k", 90), std::nullopt);
}

TEST(Ptx, BrokenTextIsReadAsFarAsItGoes) {
  for (const std::string text :
       {".entry", ".entry f(", ".entry f(.param", ".entry f(.param .b8 x[", "/* .entry f()",
        ".entry f(.param .align", "//: ", "//: f", "//= ", ".entry f(.param .b8 x[99999999999])",
        ".global .b8 x[99999999999] = {1", ".global", ".shared .b8 x[4294967295]; .entry f() { x",
        ".entry f() { call", ".entry f() { call (", ".func (", ".func",
        ".const .u32 x = {{1}, {2}};"}) {
    EXPECT_LE(rank::Ptx{text}.kernels().size(), 1u) << text;
  }
  const rank::Ptx large{".entry f(.param .b8 x[4000000000]) .maxntid 1000, 1000, 1000, 1000 {"};
  EXPECT_EQ(large.find("f")->parameter_sizes, Sizes{32764});
  EXPECT_EQ(large.find("f")->max_threads, 1024);
}

// The shape of what the jiterator writes (ATen/native/cuda/jit_utils.cpp).
TEST(Jiterated, ElementwiseKernelIsExecuted) {
  const auto kernels = nvrtc::read_kernels(R"(
    template <typename T> T exp2_kernel(T a) { return exp2(a); }
    extern "C" __global__
    void exp2_kernel_vectorized4_kernel(
        const int N, Array<char*, 1+1> data, float scalar_val) //[1+1],
    {
      using scalar_t = double;
      double arg0[8]; float out0[8];
      out0[j] = exp2_kernel<double>(arg0[j] );
      using vec_t_output = aligned_vector<float, vec_size>;
    })",
                                           {});
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].parameter_sizes, (Sizes{4, 16, 4}));
  const rank::Signature parts = rank::signature(kernels[0].signature);
  EXPECT_EQ(parts.kernel.arguments,
            (std::vector<std::string_view>{"exp2_kernel", "1", "float", "double"}));
  const auto meaning = rank::read_jiterated(parts, {});
  ASSERT_NE(meaning, nullptr);
  int n = 3;
  std::byte* data[2] = {reinterpret_cast<std::byte*>(16), reinterpret_cast<std::byte*>(4096)};
  float scalar = 0;
  void* const arguments[] = {&n, data, &scalar};
  const auto effect = meaning->effect({arguments, kernels[0].parameter_sizes, {}});
  ASSERT_TRUE(effect);
  ASSERT_EQ(effect->operands.size(), 2u);
  EXPECT_EQ(effect->operands[0].extent, 3 * sizeof(float));
  EXPECT_TRUE(effect->operands[0].written);
  EXPECT_EQ(effect->operands[1].extent, 3 * sizeof(double));
  EXPECT_EQ(effect->bytes, 36);
  EXPECT_TRUE(effect->compute);
}

TEST(Jiterated, UnknownFunctionIsDescribedAndNotExecuted) {
  const auto kernels = nvrtc::read_kernels(R"(
    extern "C" __global__ void mine_kernel(const int numel, Array<char*, 2+1> data,
      OffsetCalculator<2> input_calculator, OffsetCalculator<1> output_calculator,
      LoadWithoutCast l, StoreWithoutCast s, float scalar_val,float extra_arg_0) {
      at::Half out0[8];
      arg0[j] = l.load<at::Half>(data[1], input_offsets[0], 0);
      out0[j] = mine<float>(arg0[j], arg1[j] , extra_arg_0);
      s.store<at::Half>(out0[j], data[0], output_offsets[0], 0);
    })",
                                           {});
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].parameter_sizes, (Sizes{4, 24, 504, 404, 1, 1, 4, 4}));
  const auto meaning = rank::read_jiterated(rank::signature(kernels[0].signature), {});
  ASSERT_NE(meaning, nullptr);
  int n = 10;
  std::byte* data[3] = {};
  // One dimension of 10 elements; the inputs' strides are 2 and 0 elements, the output's 1.
  std::vector<std::uint32_t> in(126), out(101);
  in[0] = out[0] = 1;
  in[1] = out[1] = 10;
  in[76] = 2;
  out[76] = 1;
  char none = 0;
  float scalar = 0;
  void* const arguments[] = {&n, data, in.data(), out.data(), &none, &none, &scalar, &scalar};
  const auto effect = meaning->effect({arguments, kernels[0].parameter_sizes, {}});
  ASSERT_TRUE(effect);
  EXPECT_EQ(effect->operands[0].extent, 20u);
  EXPECT_EQ(effect->operands[1].extent, 38u);
  EXPECT_EQ(effect->operands[2].extent, 2u);
  EXPECT_EQ(effect->bytes, 20 + 20 + 2);
  EXPECT_FALSE(effect->compute);
}

TEST(Jiterated, ReductionHasPyTorchsLayout) {
  const auto kernels = nvrtc::read_kernels(R"(
    namespace reducer { using scalar_t = int; using arg_t = int64_t; using out_scalar_t = int64_t;
      inline __device__ arg_t combine(arg_t a, arg_t b) { return a * b; } }
    extern "C" __launch_bounds__(512, 4) __global__ void reduction_prod_kernel(ReduceJitOp r) { r.run(); }
  )",
                                           {});
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].signature, "reduction_prod_kernel<int, int64_t, int64_t, a*b>(ReduceJitOp)");
  EXPECT_EQ(kernels[0].parameter_sizes, Sizes{1048});
  EXPECT_NE(rank::read_reduction(rank::signature(kernels[0].signature), {}), nullptr);
}

}  // namespace
}  // namespace phantora
