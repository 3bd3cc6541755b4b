#include <phantora/error.hpp>
#include <phantora/kernels/builtin_cost_model.hpp>
#include <phantora/kernels/fitted_model.hpp>
#include <phantora/kernels/fourier.hpp>
#include <phantora/kernels/gpu_model.hpp>
#include <phantora/kernels/kernel_check.hpp>
#include <phantora/kernels/kernel_cost_model.hpp>
#include <phantora/kernels/kernel_limits.hpp>
#include <phantora/kernels/kernel_signature.hpp>
#include <phantora/kernels/kernel_work.hpp>
#include <phantora/kernels/measured_table.hpp>
#include <phantora/kernels/roofline.hpp>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace phantora {
namespace {

using namespace std::chrono_literals;

KernelQuery gemm(double m, double n, double k, double c_align = 16) {
  return {.name = "gemm",
          .features = {{"m", m}, {"n", n}, {"k", k}, {"batch", 1}, {"c_align", c_align}},
          .attributes = {{"a_type", "bf16"},
                         {"b_type", "bf16"},
                         {"c_type", "bf16"},
                         {"compute", "fp32"},
                         {"transa", "N"},
                         {"transb", "N"},
                         {"epilogue", "none"}}};
}

/// Any query that an adapter could make, and many that none would.
KernelQuery random_query(std::mt19937& random) {
  static const std::vector<std::string> names{
      "gemm",
      "conv_fwd",
      "conv_bwd_data",
      "conv_bwd_filter",
      "sdpa_fwd",
      "sdpa_bwd",
      "pytorch_sdpa_fwd",
      "pytorch_sdpa_bwd",
      "batch_norm_fwd_train",
      "batch_norm_bwd",
      "batch_norm_fwd_infer",
      "rnn_fwd",
      "rnn_bwd_data",
      "rnn_bwd_weights",
      "memcpy_h2d_pinned",
      "memcpy_d2h_pageable",
      "memcpy_d2d",
      "memcpy_p2p",
      "memset",
      "",
      "k",
      "<(",
      "void at::native::vectorized_elementwise_kernel<4, f<float>, std::array<char*, 3ul> >(int)",
      "void at::native::elementwise_kernel<128, 4, g>(int)",
      "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<c10::BFloat16, f> >(f)",
      "void at::native::multi_tensor_apply_kernel<at::native::TensorListMetadata<2>, "
      "F<float, 2> >(int)",
      "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>, false, "
      "true>(p)",
      "void cutlass::device_kernel<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2, a, "
      "b, 64, cutlass::bfloat16_t, float, c, true>, d, e> >(f)",
      "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(P::AttentionKernel<a, b, true, 64, 64, "
      "64>::Params)",
      "triton_poi_fused_add_0"};
  static const std::vector<std::string> features{
      "m",        "n",      "k",     "batch",   "c",      "h",    "w",     "r",     "s",
      "stride_h", "groups", "b",     "d",       "s_q",    "s_kv", "numel", "lines", "rows",
      "cols",     "h_kv",   "pad_h", "a_align", "splits", "dims", "t"};
  static const std::vector<std::string> types{"bf16", "fp16", "fp32", "fp64", "fp8_e4m3", "odd"};
  const auto size = [&](double bits) {
    return std::floor(std::exp2(std::uniform_real_distribution{0.0, bits}(random)));
  };
  KernelQuery query{.name = names[random() % names.size()]};
  if (random() % 2 == 0) {
    query.grid = {1 + static_cast<std::uint32_t>(random() % 100000),
                  1 + static_cast<std::uint32_t>(random() % 64), 1};
    query.block = {1 + static_cast<std::uint32_t>(random() % 1024), 1, 1};
  }
  if (random() % 2 == 0) query.bytes = size(36.0);
  for (const std::string& feature : features) {
    if (random() % 2 == 0) query.features[feature] = random() % 16 == 0 ? 0.0 : size(8.0);
  }
  for (const char* attribute : {"type", "a_type", "c_type", "compute", "layout", "causal"}) {
    if (random() % 2 == 0) query.attributes[attribute] = types[random() % types.size()];
  }
  return query;
}

TEST(GpuModel, UnknownNamesAreRefusedWithTheKnownOnes) {
  try {
    gpu_model("h300");
    FAIL() << "expected ConfigError";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "unknown GPU 'h300': expected one of a100, h100, h200, b200, l40s");
  }
}

TEST(GpuModel, H200IsAsItsDriverReportsIt) {
  const GpuModel gpu = gpu_model("h200");
  EXPECT_EQ(gpu.name, "NVIDIA H200");
  EXPECT_EQ(gpu.memory.count(), 150109880320);
  // cudaMemGetInfo's first answer on the real one: 149557477376 bytes free.
  EXPECT_EQ((gpu.memory - gpu.context_memory).count(), 149557477376);
  EXPECT_EQ(gpu.sm_count, 132);
}

TEST(KernelSignature, TakesTemplatesApart) {
  const auto s = parse_signature(
      "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::"
      "TensorListMetadata<2>, F<float, (Mode)1>, std::plus<float> >(at::native::X<2>, float)");
  EXPECT_EQ(s.base, "multi_tensor_apply_kernel");
  ASSERT_EQ(s.arguments.size(), 3U);
  EXPECT_EQ(s.arguments[0], "at::native::TensorListMetadata<2>");
  EXPECT_EQ(s.arguments[1], "F<float, (Mode)1>");
  EXPECT_EQ(parse_signature("nvjet_sm90_tst_128x128").base, "nvjet_sm90_tst_128x128");
  EXPECT_EQ(
      parse_signature("std::enable_if<true, void>::type internal::gemvx::kernel<int, 7>(P<int>)")
          .base,
      "kernel");
  EXPECT_EQ(last_type_bytes("f(at::X&)::{lambda(float, c10::BFloat16)#1}"), 2.0);
  EXPECT_EQ(last_type_bytes("at::native::FillFunctor<c10::complex<float> >"), 8.0);
  EXPECT_EQ(last_type_bytes("f(at::X&)::{lambda(c10::complex<double>)#1}"), 16.0);
}

// Instances for either 16-bit type are one family: what is measured of one prices the other.
TEST(KernelSignature, HalvesAreAlike) {
  EXPECT_EQ(with_halves_alike("F<c10::Half, float, c10::Half>"),
            "F<c10::BFloat16, float, c10::BFloat16>");
  EXPECT_EQ(with_halves_alike("F<float>"), "F<float>");
  const auto family = [](const char* name) { return describe({.name = name, .bytes = 64}).family; };
  EXPECT_EQ(
      family("void at::native::vectorized_elementwise_kernel<4, F<c10::Half>, A>(int, F)"),
      family("void at::native::vectorized_elementwise_kernel<4, F<c10::BFloat16>, A>(int, F)"));
  EXPECT_NE(family("void at::native::vectorized_elementwise_kernel<4, F<c10::Half>, A>(int, F)"),
            family("void at::native::vectorized_elementwise_kernel<4, F<float>, A>(int, F)"));
}

TEST(KernelWork, DenseAlgebraTakesWhatLapackCounts) {
  // LAPACK Working Note 41, appendix C: LU of a square matrix takes 2/3 n^3, Cholesky's n^3/3, QR
  // of a square one 4/3 n^3.
  constexpr double n = 300;
  const auto flops = [](KernelQuery query) { return describe(query).flops; };
  EXPECT_DOUBLE_EQ(flops({.name = "getrf", .features = {{"m", n}, {"n", n}}}), 2.0 / 3 * n * n * n);
  EXPECT_DOUBLE_EQ(flops({.name = "potrf", .features = {{"n", n}}}), n * n * n / 3);
  EXPECT_DOUBLE_EQ(flops({.name = "geqrf", .features = {{"m", n}, {"n", n}}}), 4.0 / 3 * n * n * n);
  EXPECT_DOUBLE_EQ(flops({.name = "trsm", .features = {{"n", n}, {"right", 7}}}), n * n * 7);
  // A batch is so many, and a product of complex numbers four of real ones.
  EXPECT_DOUBLE_EQ(flops({.name = "potrf",
                          .features = {{"n", n}, {"batch", 5}},
                          .attributes = {{"type", "complex64"}}}),
                   20 * n * n * n / 3);
}

TEST(KernelWork, ProductsOfComplexNumbersAreFourOfRealOnes) {
  KernelQuery query = gemm(64, 96, 32);
  query.attributes["a_type"] = query.attributes["b_type"] = query.attributes["c_type"] =
      "complex64";
  const KernelWork work = describe(query);
  EXPECT_EQ(work.k, 4 * 32);
  EXPECT_EQ(work.bytes, 8 * (64 * 32 + 32 * 96 + 64 * 96));
  EXPECT_EQ(work.arithmetic, Arithmetic::fp32);
}

TEST(Fourier, LengthsThatFitAnSmTakeOneKernel) {
  const auto passes = [](FourierShape shape) { return fourier_plan(shape).passes; };
  EXPECT_EQ(passes({.points = {16384, 1, 1}}), 1);
  EXPECT_EQ(passes({.points = {32768, 1, 1}}), 2);
  EXPECT_EQ(passes({.points = {20000, 1, 1}}), 3);  // no power of two
  EXPECT_EQ(passes({.points = {16384, 1, 1}, .wide = true}), 2);
  // A kernel for each dimension; columns fit up to 1,024 points.
  EXPECT_EQ(passes({.points = {128, 128, 128}}), 3);
  EXPECT_EQ(passes({.points = {128, 2048, 1}}), 3);
  // Real numbers: half as many points, and a kernel that puts the halves together.
  EXPECT_EQ(passes({.points = {1000, 1, 1}, .real = true}), 1);
  EXPECT_EQ(passes({.points = {2000, 1, 1}, .real = true}), 2);
  EXPECT_EQ(passes({.points = {1 << 20, 1, 1}, .real = true}), 3);
  EXPECT_EQ(passes({.points = {131, 1, 1}}), 1);  // Bluestein's, within an SM
  EXPECT_EQ(passes({.points = {10007, 1, 1}}), 6);
}

TEST(Fourier, WhatAKernelLeavesToTheNextIsTheWorkArea) {
  EXPECT_EQ(fourier_plan({.points = {4096, 1, 1}}).work_area, 0);
  EXPECT_EQ(fourier_plan({.points = {1 << 18, 1, 1}}).work_area, 1);
  EXPECT_EQ(fourier_plan({.points = {128, 4096, 1}}).work_area, 1);
  EXPECT_EQ(fourier_plan({.points = {2000, 1, 1}, .real = true}).work_area, 1);
}

TEST(Fourier, SmallFactorsAreThePrimesUpTo127) {
  EXPECT_TRUE(fourier_has_small_factors(1));
  EXPECT_TRUE(fourier_has_small_factors(2 * 3 * 5 * 7 * 127.0));
  EXPECT_FALSE(fourier_has_small_factors(131));
  EXPECT_FALSE(fourier_has_small_factors(4 * 10007.0));
}

TEST(KernelWork, ElementwiseBytesFollowFromTheSignature) {
  const auto bytes = [](const std::string& arguments, double numel) {
    return describe(
               {.name = "void at::native::vectorized_elementwise_kernel<" + arguments + ">(int)",
                .features = {{"numel", numel}}})
        .bytes;
  };
  // out = a + b in bf16 is 3 arrays of 2 bytes.
  EXPECT_EQ(bytes("8, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> ", 1000),
            6000);
  // The scalar multiplied in is a float, its operands are not.
  EXPECT_EQ(bytes("8, at::native::AUnaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, "
                  "at::native::binary_internal::MulFunctor<float> >, std::array<char*, 2ul> ",
                  1000),
            4000);
  // A cast to bf16 reads 4 bytes and writes 2.
  EXPECT_EQ(bytes("8, at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)::"
                  "{lambda(float)#1}, std::array<char*, 2ul> ",
                  1000),
            6000);
  // where: a bool and two floats, one float out.
  EXPECT_EQ(
      bytes("4, at::native::where_kernel_impl(at::TensorIterator&)::{lambda()#1}::operator()() "
            "const::{lambda(bool, float, float)#1}, std::array<char*, 4ul> ",
            1000),
      13000);
}

// Programs may have types of these names without template arguments.
TEST(KernelWork, NamesWeKnowWithoutTheirArgumentsAreRead) {
  for (const char* name : {"k<OpaqueType>(int)", "k<ReduceOp>(int)",
                           "k<Metadata<4>>::multi_tensor_apply_kernel(int)"}) {
    EXPECT_GE(describe({.name = name, .grid = {{1, 1, 1}}, .block = {32, 1, 1}}).bytes, 0) << name;
  }
}

TEST(KernelWork, ElementsFollowFromTheGridWhereTheyAreNotTold) {
  // 128 threads of 8 elements: 1024 per block.
  const KernelWork work = describe(
      {.name =
           "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
           "std::array<char*, 3ul> >(int)",
       .grid = {{10, 1, 1}},
       .block = {128, 1, 1}});
  EXPECT_EQ(work.bytes, 10 * 1024 * 12.0);
  EXPECT_FALSE(work.exact);
}

TEST(KernelWork, FlashAttentionIsDecodedFromGridAndName) {
  const std::string name =
      "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, "
      "cutlass::bfloat16_t>, false, true, false, false, true, true, false, false>(P)";
  const KernelQuery told{
      .name = name,
      .grid = {{8, 4, 12}},
      .block = {128, 1, 1},
      .features = {{"b", 4}, {"h", 12}, {"s_q", 1024}, {"s_kv", 1024}, {"d", 64}},
      .attributes = {{"causal", "1"}}};
  KernelQuery bare = told;
  bare.features.clear();
  bare.attributes.clear();
  // 2 products of 2 * b * h * s * s * d, half of them masked.
  EXPECT_EQ(describe(told).flops, 2 * 2.0 * 4 * 12 * 1024 * 1024 * 64 / 2);
  EXPECT_EQ(describe(bare).flops, describe(told).flops);
}

TEST(KernelWork, AFilterForEachChannelIsBoundByMemory) {
  KernelQuery query{.name = "conv_fwd",
                    .features = {{"n", 4},
                                 {"c", 64},
                                 {"h", 8},
                                 {"w", 8},
                                 {"k", 64},
                                 {"r", 7},
                                 {"s", 7},
                                 {"pad_h", 3},
                                 {"pad_w", 3},
                                 {"groups", 64}},
                    .attributes = {{"type", "bf16"}, {"layout", "nhwc"}}};
  const KernelWork work = describe(query);
  EXPECT_EQ(work.group, "conv_fwd/depthwise");
  EXPECT_EQ(work.limit, KernelLimit::memory);
  EXPECT_EQ(work.arithmetic, Arithmetic::fp32);  // no tensor core sums over one channel
  EXPECT_DOUBLE_EQ(work.m, 0.0);
  EXPECT_DOUBLE_EQ(work.flops, 2.0 * 4 * 64 * 8 * 8 * 49);
  EXPECT_DOUBLE_EQ(work.bytes, (2.0 * 4 * 64 * 8 * 8 + 64 * 49) * 2);
  // Groups of several channels are products, but not compared with those of all channels.
  query.features["groups"] = 8;
  EXPECT_EQ(describe(query).group, "conv_fwd/half/grouped");
  query.features["groups"] = 1;
  EXPECT_EQ(describe(query).group, "conv_fwd/half");
}

KernelQuery convolution(std::string name, std::string layout, double images, double channels,
                        double image, double filter, double groups = 1) {
  return {.name = std::move(name),
          .features = {{"n", images},
                       {"c", channels},
                       {"h", image},
                       {"w", image},
                       {"k", channels},
                       {"r", filter},
                       {"s", filter},
                       {"pad_h", std::floor(filter / 2)},
                       {"pad_w", std::floor(filter / 2)},
                       {"groups", groups}},
          .attributes = {{"type", "bf16"}, {"layout", std::move(layout)}}};
}

TEST(KernelWork, WhereChannelsComeFirstThreeTensorsAreConvertedByTiles) {
  // Image, filter and result, in tiles of 32 channels by 32 pixels or taps.
  const KernelWork work = describe(convolution("conv_fwd", "nchw", 4, 48, 7, 3));
  EXPECT_DOUBLE_EQ(work.conversions, 3.0);
  EXPECT_DOUBLE_EQ(work.conversion_tiles, 4.0 * 2 * 2 + 48 * 2 * 1 + 4 * 2 * 2);
  EXPECT_DOUBLE_EQ(work.converted_bytes, 2.0 * 2 * (4 * 48 * 49 + 48 * 48 * 9 + 4 * 48 * 49));
  EXPECT_EQ(work.kernel, ProductKernel::convolution);
  const KernelWork last = describe(convolution("conv_fwd", "nhwc", 4, 48, 7, 3));
  EXPECT_DOUBLE_EQ(last.conversions, 0.0);
  EXPECT_DOUBLE_EQ(last.m, work.m);
  const Roofline roofline{gpu_model("h200")};
  EXPECT_GT(roofline.seconds(work), roofline.seconds(last) + 3 * 2.6e-6);
  EXPECT_EQ(describe(convolution("conv_bwd_filter", "nhwc", 4, 48, 7, 3)).kernel,
            ProductKernel::filter_gradient);
}

TEST(KernelWork, AnImageOfOnePixelHasEitherLayout) {
  for (const char* name : {"conv_fwd", "conv_bwd_data", "conv_bwd_filter"}) {
    const KernelWork first = describe(convolution(name, "nchw", 32, 256, 1, 1));
    const KernelWork last = describe(convolution(name, "nhwc", 32, 256, 1, 1));
    EXPECT_EQ(first.group, last.group);
    EXPECT_EQ(first.m, last.m);
    EXPECT_EQ(first.batch, last.batch);
    EXPECT_EQ(first.conversions, 0.0);
  }
}

TEST(KernelWork, GroupsShareTilesAreWidenedOrRunApart) {
  // 16 channels each: four groups in a tile of 64.
  const KernelWork together = describe(convolution("conv_fwd", "nhwc", 8, 512, 14, 3, 32));
  EXPECT_EQ(together.batch, 8.0);
  EXPECT_EQ(together.n, 64.0);
  EXPECT_EQ(together.k, 64.0 * 9);
  EXPECT_EQ(together.conversions, 0.0);
  // 24 channels become 32, two groups of which share a tile; all three tensors are transformed.
  const KernelWork padded = describe(convolution("conv_fwd", "nhwc", 8, 192, 14, 3, 8));
  EXPECT_EQ(padded.batch, 4.0);
  EXPECT_EQ(padded.n, 64.0);
  EXPECT_EQ(padded.family, "nhwc/padded");
  EXPECT_GT(padded.conversion_tiles, 2.0 * 8 * 192 * 14 * 14 * 5 / 1024);
  // Two groups of as many are convolutions beside each other, each out of its tensor and into it.
  const KernelWork apart = describe(convolution("conv_fwd", "nhwc", 8, 48, 14, 3, 2));
  EXPECT_EQ(apart.repeats, 1.0);
  EXPECT_EQ(apart.batch, 2.0);
  EXPECT_EQ(apart.n, 24.0);
  EXPECT_EQ(apart.group, "conv_fwd/half");
  EXPECT_EQ(apart.family, "nhwc/apart");
  // There are eight streams for them; in TF32, more than 32 taps put groups of any width on those.
  KernelQuery wide = convolution("conv_fwd", "nhwc", 8, 512, 14, 7, 16);
  wide.attributes["type"] = "fp32";
  wide.attributes["compute"] = "tf32";
  EXPECT_EQ(describe(wide).repeats, 2.0);
  EXPECT_EQ(describe(wide).batch, 8.0);
}

TEST(KernelWork, ConvolutionsThatAreTriedLieBesideThoseThatAreNot) {
  const KernelQuery first = convolution("conv_fwd", "nhwc", 8, 512, 14, 3);
  KernelQuery tried = first;
  tried.attributes["plan"] = "tried";
  EXPECT_EQ(describe(tried).group, describe(first).group);
  EXPECT_EQ(describe(tried).family, describe(first).family);
  EXPECT_NE(describe(tried).coordinates, describe(first).coordinates);
}

TEST(KernelWork, MasksOfCutlassAttentionAreTold) {
  const auto work = [](const char* mask) {
    KernelQuery query{.name =
                          "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(P::AttentionKernel<a, b, "
                          "true, 64, 64, 64, true, true>::Params)",
                      .grid = {{16, 8, 4}},
                      .block = {32, 4, 1},
                      .features = {{"b", 4},
                                   {"h", 8},
                                   {"h_kv", 8},
                                   {"s_q", 1024},
                                   {"s_kv", 1024},
                                   {"d", 64},
                                   {"d_v", 64}}};
    if (*mask != 0) query.features[mask] = 1.0;
    return describe(query);
  };
  const KernelWork plain = work("");
  EXPECT_DOUBLE_EQ(plain.flops, 2.0 * 2 * 4 * 8 * 1024 * 1024 * 64);
  EXPECT_DOUBLE_EQ(work("causal").flops, plain.flops / 2);
  // A tensor of 2 bytes for each score, which kernels without one are no measure of.
  EXPECT_DOUBLE_EQ(work("bias").bytes, plain.bytes + 2.0 * 4 * 8 * 1024 * 1024);
  EXPECT_NE(work("bias").coordinates, plain.coordinates);
}

/// Positional embeddings of speech: 16 groups, of so many channels each, at so many places.
KernelQuery places(const char* name, double width, double taps, double images, double places) {
  KernelQuery query = convolution(name, "nchw", images, 16 * width, places, taps, 16);
  query.features["h"] = query.features["r"] = 1.0;
  query.features["pad_h"] = 0.0;
  return query;
}

TEST(KernelWork, LongFiltersOfGroupsRunOnThePlainUnits) {
  // wav2vec 2.0's, of 48 channels and 127 taps. Longer than the filter: of each group two kernels
  // for the ends, one after the other, and one for the inside, in two rounds of eight streams.
  const KernelWork ends = describe(places("conv_fwd", 48, 127, 6, 199));
  EXPECT_EQ(ends.group, "conv_fwd/half/plain_units");
  EXPECT_EQ(ends.arithmetic, Arithmetic::fp32);
  EXPECT_DOUBLE_EQ(ends.longest, 48 * 127 * (16 + 0.8 * 2));
  EXPECT_EQ(ends.m, 0.0);
  // Shorter: one kernel each, of tiles of 64 places.
  const KernelWork inside = describe(places("conv_fwd", 48, 127, 6, 99));
  EXPECT_DOUBLE_EQ(inside.longest, 48 * 127 * 2);
  EXPECT_EQ(inside.tiles, 8 * 10);  // 594 places
  // 64 channels fill a tile of the tensor cores, which short filters run on as well.
  EXPECT_EQ(describe(places("conv_fwd", 64, 127, 6, 199)).group, "conv_fwd/half");
  EXPECT_EQ(describe(places("conv_fwd", 48, 41, 6, 199)).group, "conv_fwd/half");
  // So do the gradients of the data, of several images.
  EXPECT_EQ(describe(places("conv_bwd_data", 48, 127, 6, 199)).group, "conv_bwd_data/half");
  const KernelWork one_image = describe(places("conv_bwd_data", 48, 127, 1, 199));
  EXPECT_EQ(one_image.group, "conv_bwd_data/half/plain_units");
  // 64 FLOP take a picosecond of the whole GPU.
  EXPECT_DOUBLE_EQ(one_image.flops / 64, 170.0 * 199 * 768 * 127);
  // What a wav2vec 2.0 takes on an H200: 0.68 ms for each group's ends, two streams of them.
  const auto cost =
      builtin_cost_model(gpu_model("h200")).estimate(places("conv_fwd", 48, 127, 6, 199));
  EXPECT_NEAR(to_seconds(cost->duration), 12e-3, 1.5e-3);
}

TEST(KernelWork, AVolumesFiltersForEachChannelAreAGroupOfTheirOwn) {
  KernelQuery query = convolution("conv_fwd", "nhwc", 8, 96, 14, 3, 96);
  const double flops = describe(query).flops;
  query.features["d"] = 14;
  query.features["t"] = 3;
  EXPECT_EQ(describe(query).group, "conv_fwd/depthwise/volume");
  EXPECT_GT(describe(query).flops, 100 * flops);
}

TEST(KernelWork, FiltersForEachChannelRunByTheirSizeAndNumber) {
  const auto filters = [](const char* name, double images, double taps, double each) {
    KernelQuery query = convolution(name, "nhwc", images, 64, 14, taps, 64);
    query.features["k"] = 64 * each;
    return query;
  };
  EXPECT_EQ(describe(filters("conv_fwd", 8, 7, 1)).group, "conv_fwd/depthwise");
  EXPECT_EQ(describe(filters("conv_fwd", 8, 1, 2)).group, "conv_fwd/depthwise");
  EXPECT_EQ(describe(filters("conv_fwd", 8, 9, 1)).group, "conv_fwd/depthwise/direct");
  EXPECT_EQ(describe(filters("conv_bwd_data", 8, 5, 2)).group, "conv_bwd_data/depthwise/direct");
  KernelQuery single = filters("conv_fwd", 8, 5, 2);
  single.attributes["type"] = "fp32";
  EXPECT_EQ(describe(single).group, "conv_fwd/depthwise/direct");
  // Two filters for a channel: a kernel for each, of 4 us and 0.05 for each tap at least. Of 64
  // FLOP for each picosecond and trips of half a microsecond all are made.
  const KernelWork few = describe(filters("conv_fwd", 1, 5, 2));
  EXPECT_EQ(few.group, "conv_fwd/depthwise/apart");
  EXPECT_NEAR(few.flops / 64e6 + few.round_trips * 0.5, 64 * (4.0 + 0.05 * 25), 1e-9);
  const KernelWork many = describe(filters("conv_fwd", 512, 5, 2));
  EXPECT_NEAR(many.flops / 64e6, 1e-6 * 512 * 14 * 14 * 128 * 25 * 2.8, 1e-6);
  EXPECT_EQ(many.round_trips, 0.0);
  // Filters' gradients do so where they are sums over more than 10,000 pixels.
  EXPECT_EQ(describe(filters("conv_bwd_filter", 51, 3, 2)).group,
            "conv_bwd_filter/depthwise/direct");
  EXPECT_EQ(describe(filters("conv_bwd_filter", 52, 3, 2)).group,
            "conv_bwd_filter/depthwise/apart");
}

TEST(KernelWork, GroupsThatMakeMoreChannelsThanComeInShareNoTile) {
  KernelQuery query = convolution("conv_fwd", "nhwc", 8, 512, 14, 3, 32);
  EXPECT_EQ(describe(query).family, "nhwc");
  query.features["k"] = 1024;  // 16 channels become 32
  EXPECT_EQ(describe(query).family, "nhwc/padded");
  query.features["groups"] = 4;  // 128 become 256
  EXPECT_EQ(describe(query).family, "nhwc/apart");
}

TEST(KernelWork, PicturesChannelsHaveOtherKernelsInEachTypeOf16Bits) {
  KernelQuery query = convolution("conv_fwd", "nhwc", 8, 3, 224, 3);
  query.features["k"] = 32;
  const std::string family = describe(query).family;
  query.attributes["type"] = "fp16";
  EXPECT_NE(describe(query).family, family);
  query.features["c"] = 32;
  const std::string wider = describe(query).family;
  query.attributes["type"] = "bf16";
  EXPECT_EQ(describe(query).family, wider);
}

TEST(KernelWork, ARecurrentNetworkGoesStepByStep) {
  KernelQuery query{.name = "rnn_fwd",
                    .features = {{"steps", 256},
                                 {"batch", 32},
                                 {"input", 1024},
                                 {"hidden", 1024},
                                 {"layers", 4},
                                 {"directions", 1},
                                 {"gates", 4}},
                    .attributes = {{"type", "bf16"}}};
  const KernelWork work = describe(query);
  EXPECT_EQ(work.group, "rnn_fwd/half");
  EXPECT_DOUBLE_EQ(work.repeats, 256 * 4);
  EXPECT_DOUBLE_EQ(work.m, 4096.0);
  EXPECT_DOUBLE_EQ(work.n, 32.0);
  EXPECT_DOUBLE_EQ(work.k, 1024.0);
  // The weights' gradients need no state of a step before: two products over all steps for each
  // layer.
  query.name = "rnn_bwd_weights";
  EXPECT_DOUBLE_EQ(describe(query).repeats, 8.0);
  EXPECT_DOUBLE_EQ(describe(query).k, 256.0 * 32);
  // cuDNN keeps few weights in the SMs, in any type but bf16.
  query.name = "rnn_fwd";
  query.features["hidden"] = 64;
  EXPECT_EQ(describe(query).group, "rnn_fwd/half");
  query.attributes["type"] = "fp16";
  EXPECT_EQ(describe(query).group, "rnn_fwd/persistent");
}

TEST(KernelWork, ARecurrentNetworksWeightsStayInTheSmsWhereTheyFit) {
  KernelQuery query{.name = "rnn_fwd", .attributes = {{"type", "fp32"}}};
  const auto persists = [&](const char* name, double gates, double hidden) {
    query.name = name;
    query.features = {
        {"steps", 100}, {"batch", 200}, {"input", 64}, {"hidden", hidden}, {"gates", gates}};
    return describe(query).group.ends_with("/persistent");
  };
  for (const double gates : {3.0, 4.0}) {
    EXPECT_TRUE(persists("rnn_fwd", gates, 192));
    EXPECT_FALSE(persists("rnn_fwd", gates, 200));
    EXPECT_TRUE(persists("rnn_bwd_data", gates, 128));
    EXPECT_FALSE(persists("rnn_bwd_data", gates, 136));
  }
  EXPECT_TRUE(persists("rnn_fwd", 1.0, 384));
  EXPECT_FALSE(persists("rnn_fwd", 1.0, 392));
  EXPECT_TRUE(persists("rnn_bwd_data", 1.0, 256));
  EXPECT_FALSE(persists("rnn_bwd_data", 1.0, 264));
  // A block has a sequence. Weights of 128 units fill an SM's registers, those of 64 a quarter.
  ASSERT_TRUE(persists("rnn_fwd", 4.0, 128));
  EXPECT_DOUBLE_EQ(describe(query).blocks, 200.0);
  EXPECT_DOUBLE_EQ(describe(query).resident, 1.0);
  ASSERT_TRUE(persists("rnn_fwd", 4.0, 64));
  EXPECT_DOUBLE_EQ(describe(query).resident, 4.0);
}

TEST(Roofline, TakesTf32OperandsAlongK) {
  // The tensor cores take them so; what lies across is turned first.
  KernelQuery query = gemm(4096, 4096, 4096);
  for (const char* key : {"a_type", "b_type", "c_type"}) query.attributes[key] = "fp32";
  query.attributes["compute"] = "tf32";
  const Roofline roofline{gpu_model("h200")};
  const auto time = [&](const char* a, const char* b) {
    query.attributes["transa"] = a;
    query.attributes["transb"] = b;
    return roofline.estimate(query)->duration;
  };
  EXPECT_LT(time("T", "N"), time("N", "N"));
  EXPECT_LT(time("N", "N"), time("N", "T"));
  EXPECT_EQ(time("N", "N"), time("T", "T"));
}

TEST(Roofline, TakesIntegersOfEightBitsByTheTensorCores) {
  const auto seconds = [](const char* gpu, const char* type, const char* compute, const char* a) {
    KernelQuery query = gemm(16384, 20448, 5120);
    query.attributes["a_type"] = query.attributes["b_type"] = type;
    query.attributes["c_type"] = std::string_view{type} == "int8" ? "int32" : type;
    query.attributes["compute"] = compute;
    query.attributes["transa"] = a;
    return to_seconds(Roofline{gpu_model(gpu)}.estimate(query)->duration);
  };
  // An H100 took 3,550 us for this one (h100_sweep20), both operands along k; nine of ten such
  // judges are within 15 %.
  EXPECT_NEAR(seconds("h100", "int8", "int32", "T"), 3550e-6, 533e-6);
  EXPECT_LT(6 * seconds("h100", "int8", "int32", "T"), seconds("h100", "int8", "int32", "N"));
  // An A100 has no fp8, and twice as many operations of 8-bit integers as of 16-bit floats.
  EXPECT_LT(seconds("a100", "int8", "int32", "T"), seconds("a100", "bf16", "fp32", "T"));
  EXPECT_LT(4 * seconds("a100", "int8", "int32", "T"), seconds("a100", "fp32", "fp32", "T"));
}

TEST(MeasuredTable, AnswersWhatWasMeasuredAndNothingElse) {
  const KernelQuery copy{.name = "memcpy_d2d", .bytes = 4096};
  const MeasuredTable table{{{gemm(64, 64, 64), 3us}, {copy, 1us}, {gemm(64, 64, 64), 4us}}};
  EXPECT_EQ(table.estimate(gemm(64, 64, 64))->duration, Duration{4us});
  EXPECT_EQ(table.estimate(gemm(64, 64, 64))->source, CostSource::measured);
  EXPECT_FALSE(table.estimate(gemm(64, 64, 65)));
  EXPECT_FALSE(table.estimate({.name = "memcpy_d2d", .bytes = 4097}));
  KernelQuery transposed = gemm(64, 64, 64);
  transposed.attributes["transa"] = "T";
  EXPECT_FALSE(table.estimate(transposed));
}

TEST(MeasuredTable, ExactHitsCarryTheirSpread) {
  const MeasuredTable table{{{gemm(64, 64, 64), 3us, 200ns}, {gemm(64, 64, 72), 3us}}};
  EXPECT_EQ(table.estimate(gemm(64, 64, 64))->stddev, Duration{200ns});
  EXPECT_EQ(table.estimate(gemm(64, 64, 72))->stddev, Duration{});
  // Of every kernel that comes with the library the spread is known.
  const KernelCostModel model = builtin_cost_model(gpu_model("h200"));
  for (const Measurement& row : builtin_measurements()) {
    ASSERT_GT(model.estimate(row.query)->stddev, Duration{}) << row.query.name;
  }
}

TEST(MeasuredTable, BytesAndSharedMemoryThatARowDoesNotKnowMatchAny) {
  const KernelQuery kernel{
      .name = "k", .grid = {{4, 1, 1}}, .block = {32, 1, 1}, .shared_bytes = 16};
  const MeasuredTable table{{{kernel, 2us}}};
  KernelQuery launched = kernel;
  launched.shared_bytes = 0;
  launched.bytes = 100;
  EXPECT_EQ(table.estimate(launched)->duration, Duration{2us});
}

TEST(Roofline, OneTileMoreThanAWaveCostsAnotherWave) {
  const Roofline roofline{gpu_model("h200")};
  // 128 x 192 is the smallest tile of full efficiency: 12 x 11 of them fill 132 SMs once.
  const auto time = [&](double m) { return roofline.seconds(describe(gemm(m, 192 * 11, 8192))); };
  const double full = time(128 * 12);
  EXPECT_GT(time(128 * 13), 1.05 * full);
  // Within the wave only the operands' few bytes less are felt.
  EXPECT_NEAR(time(128 * 12 - 8) / full, 1.0, 1e-3);
}

TEST(Roofline, StreamingKernelsAreBoundByMemory) {
  const Roofline roofline{gpu_model("h200")};
  // 3 GB at 0.89 of 4.8 TB/s, and 0.9 us.
  const double seconds = roofline.seconds(
      describe({.name = "void at::native::vectorized_elementwise_kernel<4, "
                        "at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int)",
                .features = {{"numel", 250e6}}}));
  EXPECT_NEAR(seconds, 3e9 / (0.89 * 4.8e12) + 0.9e-6, 1e-12);
}

// 132 SMs run 4 blocks of 512 threads each at once.
TEST(Roofline, BlocksThatFindNoRoomMakeTheirRoundTripsLater) {
  const Roofline roofline{gpu_model("h200")};
  KernelWork work;
  work.round_trips = 100.0;
  work.resident = 4.0;
  const auto seconds = [&](double blocks) {
    work.blocks = blocks;
    return roofline.seconds(work);
  };
  EXPECT_EQ(seconds(528.0), seconds(1.0));
  EXPECT_NEAR(seconds(529.0) - seconds(528.0), 100 * 0.21e-6, 1e-12);
  EXPECT_NEAR(seconds(5280.0) - seconds(528.0), 9 * 100 * 0.21e-6, 1e-12);
}

TEST(Roofline, ListsOfTensorsTakeAsLongAsTheirLongestChunk) {
  const Roofline roofline{gpu_model("h200")};
  const auto seconds = [&](double longest) {
    return roofline.seconds(describe(
        {.name = "void at::native::multi_tensor_apply_kernel<at::native::TensorListMetadata<1>, "
                 "F<float, 1, 1, 0> >(int)",
         .grid = {{8, 1, 1}},
         .block = {512, 1, 1},
         .features = {{"numel", 65'543}, {"cols", longest}}}));
  };
  // 32 times 4 elements of 512 threads, instead of 4 or 5 times.
  EXPECT_NEAR(seconds(65'536) - seconds(8'193), 27 * 0.21e-6, 1e-12);
  EXPECT_NEAR(seconds(8'193) - seconds(8'192), 0.21e-6, 1e-12);
}

// A block of two warps for each of 25 taps of 3 channels: each takes one of 4 images after the
// other, whose planes of 8 x 8 are 2 steps, and their begin 3.
TEST(KernelWork, GradientsOfTapsGoThroughTheImagesByWarps) {
  KernelQuery query{.name =
                        "void at::native::(anonymous namespace)::"
                        "conv_depthwise2d_grad_weight_kernel<float, unsigned int>(int)",
                    .grid = {{75, 1, 1}},
                    .block = {64, 1, 1},
                    .bytes = 4 * 2000.0,
                    .features = {{"numel", 768}, {"rows", 12}, {"cols", 25}}};
  EXPECT_NEAR(describe(query).round_trips, 2 * 5 * 0.2, 1e-12);
  EXPECT_NEAR(describe(query).flops, 64 * 1.05 * 75 * 64 * 2 * 5, 1e-6);
  query.features["numel"] = 12 * 65;
  EXPECT_NEAR(describe(query).round_trips, 2 * 6 * 0.2, 1e-12);
}

TEST(Roofline, InputsOfSeveralDimensionsAreFoundOneByOne) {
  const std::string name =
      "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, f, unsigned int, float, "
      "4, 4> >(f)";
  KernelQuery query{.name = name,
                    .grid = {{128, 1, 1}},
                    .block = {32, 16, 1},
                    .bytes = 4 * 67108864.0,
                    .features = {{"numel", 67108864}, {"rows", 128}, {"cols", 524288}}};
  const Roofline roofline{gpu_model("h200")};
  const auto seconds = [&] { return to_seconds(roofline.estimate(query)->duration); };
  const double in_a_row = seconds();
  query.features["dims"] = 2;
  // 1024 elements of each thread, of which 4 come at a time, and 1.5 ps for each of the GPU's.
  const double expected = 0.9e-6 + 256 * 0.5e-6 + 67108864 * 1.5e-12 * 64e12 / 66.9e12;
  EXPECT_NEAR(seconds(), expected, 1e-9);
  EXPECT_GT(seconds(), in_a_row);
  EXPECT_EQ(roofline.estimate(query)->source, CostSource::roofline);
}

TEST(KernelWork, ConcatenationGoesThroughItsLongestPart) {
  static constexpr double numel = 135168 * 60.0;  // 264 x 512 threads have a part
  const auto picoseconds = [](const char* kernel, const char* dimensions, double longest) {
    const std::string name = std::string{"void at::native::(anonymous namespace)::"} + kernel +
                             "<at::native::(anonymous namespace)::OpaqueType<2u>, unsigned int, " +
                             dimensions + ", 64, 64>(f)";
    // 64 FLOP take a picosecond of the whole GPU.
    return describe({.name = name,
                     .grid = {{264, 2, 1}},
                     .block = {512, 1, 1},
                     .bytes = 4 * numel,
                     .features = {{"numel", numel}, {"cols", longest}}})
               .flops /
           64.0;
  };
  EXPECT_NEAR(picoseconds("CatArrayBatchedCopy", "2", numel / 2), 2.1 * numel, 1.0);
  EXPECT_NEAR(picoseconds("CatArrayBatchedCopy", "4", numel / 2), 4.1 * numel, 1.0);
  EXPECT_NEAR(picoseconds("CatArrayBatchedCopy", "4", numel), 1.6 * 4.1 * numel, 1.0);
  EXPECT_NEAR(picoseconds("CatArrayBatchedCopy_alignedK_contig", "4", numel / 2),
              0.55 * 4.1 * numel, 1.0);
}

// DenseNet-201's last of its first block but one: 49 parts, of which each has the blocks of the
// longest. 1.19 cycles for each of them, at 1.98 GHz.
TEST(KernelWork, BlocksOfEveryPartAreStarted) {
  const KernelQuery query{
      .name =
          "void at::native::(anonymous "
          "namespace)::CatArrayBatchedCopy_alignedK_contig<at::native::("
          "anonymous namespace)::OpaqueType<2u>, unsigned int, 4, 128, 1, 8>(f)",
      .grid = {{3136, 49, 1}},
      .block = {128, 1, 1},
      .bytes = 44957696,
      .features = {{"numel", 11239424}, {"cols", 1605632}}};
  EXPECT_EQ(describe(query).starts, 3136.0 * 49);
  EXPECT_NEAR(to_seconds(Roofline{gpu_model("h200")}.estimate(query)->duration), 93.3e-6, 0.2e-6);
}

TEST(KernelWork, APixelOfResizedPlanesGoesThroughAllOfThem) {
  KernelQuery query{.name =
                        "void at::native::(anonymous namespace)::upsample_bilinear2d_out_frame<"
                        "float, float>(int)",
                    .grid = {{1, 1, 1}},
                    .block = {1024, 1, 1},
                    .bytes = 5.0 * 196 * 4096,
                    .features = {{"numel", 196.0 * 4096}, {"cols", 1.0}, {"rows", 4096}}};
  const double trips = describe(query).round_trips;
  query.features["rows"] = 8192;
  EXPECT_DOUBLE_EQ(describe(query).round_trips, 2 * trips);
  EXPECT_GT(describe(query).resident, 0.0);
  query.bytes += 20e6;  // that are read, and do not stay in the cache
  EXPECT_EQ(describe(query).resident, 0.0);
  query.features.erase("rows");  // not told: as if every thread had a pixel
  EXPECT_DOUBLE_EQ(describe(query).round_trips, trips * 196 / 1024);
}

TEST(KernelWork, PackedGradientsAreConvertedOneByOne) {
  constexpr double numel = 1 << 20;
  const auto picoseconds = [&](const char* from) {
    KernelQuery query{.name = std::string{"void chunk_cat_cuda_kernel<float, "} + from + ">(" +
                              from + "**, float*, long*, long)",
                      .bytes = 8 * numel};
    query.features["numel"] = numel;
    return describe(query).flops / 64 / numel;
  };
  EXPECT_DOUBLE_EQ(picoseconds("c10::BFloat16"), 2.9);
  EXPECT_EQ(picoseconds("float"), 0.0);  // as vectors
}

// An image of 8 x 8 pixels, of which every other in each direction is the middle of 3 x 3: 9 taps
// of 16 places, so that a pixel lies in 2.25 windows.
TEST(KernelWork, PoolingGoesThroughTheWindowsThatAPixelLiesIn) {
  constexpr double image = 64 * 256.0, pooled = image / 4;
  const auto picoseconds = [](const char* kernel, double numel, double bytes) {
    return describe({.name = std::string{"void at::native::(anonymous namespace)::"} + kernel +
                             "<c10::BFloat16, int>(f)",
                     .grid = {{64, 1, 1}},
                     .block = {256, 1, 1},
                     .bytes = bytes,
                     .features = {{"numel", numel}, {"cols", 9.0}}})
               .flops /
           64.0 / numel;
  };
  const double values = 2 * (image + pooled), indices = 8 * pooled;
  EXPECT_NEAR(picoseconds("avg_pool2d_backward_out_cuda_frame_nhwc", image, values),
              16.0 + 2.2 * 2.25, 1e-9);
  EXPECT_NEAR(picoseconds("max_pool_backward_nhwc", image, values + indices), 3.5 + 2.2 * 2.25,
              1e-9);
  EXPECT_NEAR(picoseconds("avg_pool2d_out_cuda_frame_nhwc", pooled, values), 17.0 + 4.5 + 6.0,
              1e-9);
  EXPECT_NEAR(picoseconds("max_pool_forward_nhwc", pooled, values + indices), 9.0 + 6.75 + 10.5,
              1e-9);
}

TEST(Roofline, PeersWithoutNvlinkCopyOverPcie) {
  const KernelWork copy = describe({.name = "memcpy_p2p", .bytes = 1e9});
  EXPECT_GT(Roofline{gpu_model("l40s")}.seconds(copy), Roofline{gpu_model("a100")}.seconds(copy));
}

TEST(FittedModel, LearnsAUniformInefficiencyExactly) {
  const GpuModel gpu = gpu_model("h200");
  const Roofline roofline{gpu};
  std::vector<Measurement> data;
  for (double m = 128; m <= 8192; m *= 2) {
    const KernelQuery query = gemm(m, 1024, 1024);
    data.push_back({query, duration_from_seconds(2.0 * roofline.seconds(describe(query)))});
  }
  const FittedModel model{gpu, data, gpu};
  const KernelQuery between = gemm(1536, 1024, 1024);
  const auto estimate = model.estimate(between);
  EXPECT_EQ(estimate->source, CostSource::fitted);
  // The prior on the group's mean, of variance 1 around the roofline, draws the estimate in by
  // about its share: log 2 * (0.1 / 7) / 1 = 1 %.
  EXPECT_NEAR(to_seconds(estimate->duration) / (2.0 * roofline.seconds(describe(between))), 1.0,
              0.02);
}

TEST(FittedModel, TheErrorGrowsWithTheDistanceToWhatWasMeasured) {
  const GpuModel gpu = gpu_model("h200");
  const FittedModel model{gpu, {{gemm(1024, 1024, 1024), 5us}, {gemm(2048, 1024, 1024), 9us}}, gpu};
  const auto relative = [&](const KernelQuery& query) {
    const auto e = model.estimate(query);
    return to_seconds(e->stddev) / to_seconds(e->duration);
  };
  EXPECT_LT(relative(gemm(1024, 1024, 1024)), relative(gemm(1024, 1024, 2048)));
  EXPECT_LT(relative(gemm(1024, 1024, 2048)), relative(gemm(16, 65536, 65536)));
}

TEST(FittedModel, LeavesForeignKernelsToTheNext) {
  const GpuModel gpu = gpu_model("h200");
  const FittedModel model{gpu, {{gemm(1024, 1024, 1024), 5us}}, gpu};
  EXPECT_FALSE(model.estimate({.name = "memset", .bytes = 10}));
}

TEST(FittedModel, LearnsWhatAnotherGpuRanAndTheOneDidNot) {
  const GpuModel h200 = gpu_model("h200"), h100 = gpu_model("h100");
  const KernelQuery stream{.name = "stream", .bytes = 12e9};
  const Roofline roofline{h200};
  const double expected = to_seconds(roofline.estimate(stream)->duration);
  // An H100 took twice what the roofline has for it; taken to the H200 that is `moved`.
  const Duration there =
      duration_from_seconds(2.0 * to_seconds(Roofline{h100}.estimate(stream)->duration));
  const double moved = Roofline{h100}.on(roofline, describe(stream), to_seconds(there));
  EXPECT_GT(moved, 1.5 * expected);
  const auto ratio = [&](const std::vector<Measurement>& own, const FittedModel::Elsewhere& other) {
    const auto estimate = FittedModel{h200, own, h200, other}.estimate(stream);
    return estimate ? to_seconds(estimate->duration) / expected : 0.0;
  };
  EXPECT_EQ(ratio({}, {}), 0.0);
  // The covariance with a kernel of the same sizes is 0.1 + 1 (signal and mean), a measurement's
  // noise 0.003, and the deviation of another GPU's where memory decides 0.11 squared: alone it
  // weighs 1.1 / (1.1 + 0.003 + 0.0121).
  EXPECT_NEAR(ratio({}, {h100, {{stream, there}}}), std::pow(moved / expected, 1.1 / 1.1151), 1e-4);
  // Beside a measurement of the H200's own, that is as the roofline has it, the inverse of
  // {{1.103, 1.1}, {1.1, 1.1151}} leaves it 1.1 * 0.003 / (1.103 * 1.1151 - 1.1 * 1.1).
  const double weight = 1.1 * 0.003 / (1.103 * 1.1151 - 1.1 * 1.1);
  EXPECT_NEAR(ratio({{stream, roofline.estimate(stream)->duration}}, {h100, {{stream, there}}}),
              std::pow(moved / expected, weight), 1e-4);
}

TEST(FittedModel, ComparesLaunchesOfWhichOnlyTheGridIsToldWithSuchIfItCan) {
  const GpuModel gpu = gpu_model("h200");
  const KernelQuery by_grid{.name = "reduce_kernel", .grid = {{8192}}, .block = {128}};
  KernelQuery sized = by_grid;
  sized.features = {{"numel", 1e9}, {"rows", 1e6}, {"cols", 1e3}};
  const auto us = [&](const std::vector<Measurement>& data) {
    return to_seconds(FittedModel{gpu, data, gpu}.estimate(by_grid)->duration) * 1e6;
  };
  const double alone = us({{by_grid, 20us}});
  EXPECT_NEAR(alone, 20, 1);
  EXPECT_EQ(us({{by_grid, 20us}, {sized, 1000us}}), alone);
  // Where no launch of the kernel was measured by its grid, those of known sizes tell what such a
  // grid takes.
  EXPECT_NEAR(us({{sized, 1000us}}), 1000, 50);
}

TEST(FittedModel, AnotherGpuTakesTheMemorysPartWithItsBandwidthAndTheRestWithItsUnits) {
  const GpuModel h200 = gpu_model("h200");
  const auto moved = [&](const KernelQuery& query, Duration measured, const GpuModel& target) {
    const auto here = FittedModel{h200, {{query, measured}}, h200}.estimate(query);
    const auto there = FittedModel{h200, {{query, measured}}, target}.estimate(query);
    EXPECT_EQ(there->source, CostSource::roofline);
    return to_seconds(there->duration) / to_seconds(here->duration);
  };
  // A product goes with the tensor cores' rate, 989.4 against 312 TFLOP/s, and for the lesser part,
  // of loads and stores, with SMs and clock: 132 at 1.98 against 108 at 1.41 GHz.
  // On the GPU itself what a product took once counts as noisy, and is not taken for all of it.
  EXPECT_NEAR(moved(gemm(4096, 4096, 4096), 200us, gpu_model("a100")), 2.97, 0.02);
  // 12 GB as fast as the memory reads: with the bandwidth, 4800 against 3350 GB/s.
  const KernelQuery stream{.name = "stream", .bytes = 12e9};
  EXPECT_NEAR(moved(stream, 2800us, gpu_model("h100")), 4800.0 / 3350.0, 0.001);
  // The same bytes in ten times the time wait for something else, which an H100 has as well, and an
  // A100 has 0.58 of: SMs times clock.
  const double pace = 132 * 1.98 / (108 * 1.41);
  EXPECT_NEAR(moved(stream, 28000us, gpu_model("h100")), 1.005, 0.001);
  EXPECT_NEAR(moved(stream, 28000us, gpu_model("a100")), pace, 0.02);
  // What stays in the cache asks nothing of the memory, and copies go with their link.
  const KernelQuery cached{.name = "cached", .bytes = 4e6};
  EXPECT_NEAR(moved(cached, 5us, gpu_model("h100")), 1.0, 1e-6);
  const KernelQuery copy{.name = "memcpy_h2d_pinned", .bytes = 1e9};
  EXPECT_NEAR(moved(copy, 18000us, gpu_model("a100")), 2.0, 0.001);
}

TEST(Roofline, OlderInstructionsReachAPartOfNewerTensorCores) {
  const auto share = [](const char* gpu, Arithmetic arithmetic) {
    const GpuModel model = gpu_model(gpu);
    return peak_rate(model, arithmetic, TensorInstruction::mma_sync).per_second() /
           peak_rate(model, arithmetic).per_second();
  };
  for (const char* hopper : {"h100", "h200"}) {
    EXPECT_NEAR(share(hopper, Arithmetic::half), 0.629, 1e-12);
    EXPECT_NEAR(share(hopper, Arithmetic::tf32), 0.629, 1e-12);
    // Outside the tensor cores, and where there is no newer one, an instruction is as good as any.
    EXPECT_EQ(share(hopper, Arithmetic::fp32), 1.0);
    EXPECT_EQ(share(hopper, Arithmetic::fp64), 1.0);
  }
  for (const char* older : {"a100", "l40s"}) EXPECT_EQ(share(older, Arithmetic::half), 1.0);
  // As many products for each SM and cycle as Hopper's.
  const auto each = [](const char* gpu) {
    const GpuModel model = gpu_model(gpu);
    return peak_rate(model, Arithmetic::half, TensorInstruction::mma_sync).per_second() /
           (model.sm_count * model.clock_hz);
  };
  EXPECT_NEAR(each("b200") / each("h200"), 1.0, 1e-9);
}

TEST(BuiltinCostModel, ReturnsEveryMeasuredTimeExactlyWhereTheSizeIsKnown) {
  for (const char* gpu : {"h200", "h100"}) {
    const std::vector<Measurement>& rows = builtin_measurements(gpu);
    const KernelCostModel model = builtin_cost_model(gpu_model(gpu));
    ASSERT_GT(rows.size(), 5000U);
    for (const Measurement& row : rows) {
      const auto estimate = model.estimate(row.query);
      const bool coded = row.query.features.contains("warp_instructions");
      if (coded || (row.query.features.empty() && row.query.bytes == 0)) {
        ASSERT_EQ(estimate->source, CostSource::fitted) << row.query.name;
        continue;
      }
      ASSERT_EQ(estimate->source, CostSource::measured) << row.query.name;
      ASSERT_EQ(estimate->duration, row.duration) << row.query.name;
    }
  }
}

TEST(BuiltinCostModel, AnswersWhatItDoesNotRefuseAndNeverWithZero) {
  for (const std::string& key : gpu_model_keys()) {
    const GpuModel gpu = gpu_model(key);
    const KernelCostModel model = builtin_cost_model(gpu);
    std::mt19937 random{11};
    int answered = 0;
    for (int round = 0; round < 5000; ++round) {
      KernelQuery query = random_query(random);
      try {
        check(query, gpu);
      } catch (const CostError&) {
        EXPECT_THROW((void)model.estimate(query), CostError) << query.name;
        // No program's launch is refused, whatever it is called.
        query.grid.emplace();
        query.features.clear();
        query.attributes.clear();
      }
      ++answered;
      const auto estimate = model.estimate(query);
      ASSERT_TRUE(estimate.has_value());
      // No kernel is shorter than a few hundred nanoseconds.
      ASSERT_GT(estimate->duration, Duration{100ns}) << query.name;
      ASSERT_GE(estimate->stddev.count(), 0);
      ASSERT_NE(estimate->source, CostSource::unknown);
      const bool measured = key == "h200" || key == "h100";
      ASSERT_TRUE(measured || estimate->source == CostSource::roofline ||
                  estimate->source == CostSource::grid);
      ASSERT_TRUE(estimate->limit && estimate->demand && estimate->memory_share);
      ASSERT_TRUE(*estimate->demand > 0.0 && *estimate->demand <= 1.0);
      ASSERT_TRUE(*estimate->memory_share >= 0.0 && *estimate->memory_share <= 1.0);
    }
    EXPECT_EQ(answered, 5000);
  }
}

TEST(BuiltinCostModel, EightfoldWorkTakesLonger) {
  const KernelCostModel model = builtin_cost_model(gpu_model("h200"));
  std::mt19937 random{5};
  for (int round = 0; round < 300; ++round) {
    const auto side = [&] { return 8.0 * static_cast<double>(1 + random() % 512); };
    const double m = side();
    const double n = side();
    const double k = side();
    EXPECT_LT(model.estimate(gemm(m, n, k))->duration,
              model.estimate(gemm(2 * m, 2 * n, 2 * k))->duration)
        << m << "x" << n << "x" << k;
  }
}

TEST(BuiltinCostModel, UnalignedOperandsAreSlower) {
  const KernelCostModel model = builtin_cost_model(gpu_model("h200"));
  const auto aligned = model.estimate(gemm(50264, 8192, 768))->duration;
  const auto odd = model.estimate(gemm(50257, 8192, 768, 2))->duration;
  EXPECT_GT(odd, 3 * aligned);
}

TEST(BuiltinCostModel, BiggerGpusAreFaster) {
  const KernelQuery product = gemm(16384, 8192, 8192);
  const KernelQuery copy{.name = "memcpy_d2d", .bytes = 1e9};
  const auto time = [](const char* key, const KernelQuery& query) {
    return builtin_cost_model(gpu_model(key)).estimate(query)->duration;
  };
  EXPECT_GT(time("a100", product), time("h100", product));
  EXPECT_GT(time("h100", product), time("b200", product));
  EXPECT_GT(time("a100", copy), time("h100", copy));
  EXPECT_GT(time("h100", copy), time("h200", copy));
}

// An H200's memory attains 0.89 of 4.8 TB/s; the shortest kernel takes 0.9 us.
constexpr double h200_bandwidth = 0.89 * 4.8e12;

TEST(BuiltinCostModel, AKernelToldByItsBytesFillsTheGpu) {
  const KernelCostModel model = builtin_cost_model(gpu_model("h200"));
  const auto seconds = [&](const KernelQuery& query) {
    return to_seconds(model.estimate(query)->duration);
  };
  EXPECT_NEAR(seconds({.name = "my_kernel", .bytes = 1e9}), 0.9e-6 + 1e9 / h200_bandwidth, 1e-12);
  // 1e8 floats, read and written.
  EXPECT_NEAR(seconds({.name = "gelu", .features = {{"numel", 1e8}}}),
              0.9e-6 + 8e8 / h200_bandwidth, 1e-12);
  // The name of a kernel that was measured does not make a launch of it.
  EXPECT_NEAR(seconds({.name = "reduce_kernel", .bytes = 1e9}), 0.9e-6 + 1e9 / h200_bandwidth,
              1e-12);
  // A grid is believed: one block is one SM.
  EXPECT_GT(seconds({.name = "my_kernel", .grid = {{1, 1, 1}}, .bytes = 1e9}), 0.01);
}

TEST(BuiltinCostModel, ACopyWithinTheDeviceMovesTwiceItsBytes) {
  const Roofline roofline{gpu_model("h200")};
  const auto copy = roofline.estimate({.name = "memcpy_d2d", .bytes = 1e9});
  const auto kernel = roofline.estimate({.name = "my_copy", .bytes = 2e9});
  EXPECT_EQ(copy->duration, kernel->duration);
}

TEST(BuiltinCostModel, FlopAreDoneByTheUnitsThatAreTold) {
  const KernelCostModel model = builtin_cost_model(gpu_model("h200"));
  const auto seconds = [&](Arithmetic arithmetic) {
    return to_seconds(
        model.estimate({.name = "my_kernel", .flops = 1e12, .arithmetic = arithmetic})->duration);
  };
  EXPECT_NEAR(seconds(Arithmetic::none), 0.9e-6 + 1e12 / 66.9e12, 1e-12);
  EXPECT_NEAR(seconds(Arithmetic::fp32), seconds(Arithmetic::none), 1e-12);
  // The share of the peak that matrix products attain.
  EXPECT_NEAR(seconds(Arithmetic::half), 0.9e-6 + 1e12 / (0.85 * 989.4e12), 1e-12);
  EXPECT_NEAR(seconds(Arithmetic::fp8), 0.9e-6 + 1e12 / (0.85 * 1978.9e12), 1e-12);
}

// A launch may be of a program's own kernel that bears the name of a library's operation.
TEST(BuiltinCostModel, ALaunchIsNoLibraryOperation) {
  const KernelCostModel model = builtin_cost_model(gpu_model("h200"));
  const KernelQuery mine{.name = "gemm", .grid = {{132, 1, 1}}, .block = {256}, .bytes = 1e9};
  KernelQuery other = mine;
  other.name = "my_kernel";
  EXPECT_EQ(model.estimate(mine)->duration, model.estimate(other)->duration);
}

/// What the model for `gpu` says of a query that it should refuse.
std::string refusal(const KernelQuery& query, const char* gpu = "h200") {
  static const std::map<std::string, KernelCostModel, std::less<>> models{
      {"h200", builtin_cost_model(gpu_model("h200"))},
      {"a100", builtin_cost_model(gpu_model("a100"))}};
  try {
    return "answered: " +
           std::to_string(models.find(gpu)->second.estimate(query)->duration.count());
  } catch (const CostError& error) {
    return error.what();
  }
}

// Elements take as long as the lines that they lie in, and the dimensions that they have.
TEST(CostModel, StridedCopiesTakeTheirLinesAndDimensions) {
  const KernelCostModel model = builtin_cost_model(gpu_model("h200"));
  const auto us = [&](const std::string& type, double dims, double lines) {
    const std::string lambda =
        "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::"
        "{lambda()#3}::operator()() const::{lambda()#7}::operator()() "
        "const::{lambda(" +
        type + ")#1}";
    const std::string loop = "at::native::gpu_kernel_impl_nocast<" + lambda +
                             ">(at::TensorIteratorBase&, " + lambda + " const&)::{lambda(int)#1}";
    KernelQuery query{
        .name = "void at::native::elementwise_kernel<128, 2, " + loop + ">(int, " + loop + ")",
        .grid = {{131072, 1, 1}},
        .block = {128, 1, 1},
        .features = {{"numel", 33554432}, {"dims", dims}}};
    if (lines > 0) query.features["lines"] = lines;
    return 1e6 * to_seconds(model.estimate(query)->duration);
  };
  // The sweeps: 7 ps for an element that is transposed, 3 for one that is not.
  EXPECT_NEAR(us("float", 2, 528) / 33.554432, 7.0, 0.5);
  EXPECT_NEAR(us("float", 2, 0) / 33.554432, 2.9, 0.3);
  EXPECT_NEAR(us("float", 4, 0) / 33.554432, 3.3, 0.3);
}

// cuDNN has other kernels for scores to which a mask is added, or of which some are dropped.
TEST(CostModel, MasksAndDropoutCost) {
  const KernelCostModel model = builtin_cost_model(gpu_model("h200"));
  KernelQuery query{.name = "sdpa_fwd",
                    .features = {{"b", 24}, {"h", 10}, {"s_q", 320}, {"d", 64}},
                    .attributes = {{"type", "bf16"}, {"causal", "0"}}};
  const auto us = [&] { return 1e6 * to_seconds(model.estimate(query)->duration); };
  const double plain = us();
  query.attributes["dropout"] = "1";
  EXPECT_GT(us(), 1.6 * plain);
  query.attributes.erase("dropout");
  query.attributes["mask"] = "1";
  EXPECT_GT(us(), 1.3 * plain);
}

// FlashAttention 3 is taken to be as fast as cuDNN's kernels, which were measured; over keys in
// pages it was measured itself (bench/accuracy/h200_paged_attention.jsonl), 7.7 % off in the mean.
TEST(CostModel, FlashAttentionForHopperIsPricedByItsWork) {
  const GpuModel h200 = gpu_model("h200");
  const KernelCostModel model = builtin_cost_model(h200);
  const auto us = [&](const KernelQuery& query) {
    return 1e6 * to_seconds(model.estimate(query)->duration);
  };
  const std::map<std::string, double> prompt{{"b", 2},       {"h", 32},  {"h_kv", 8}, {"s_q", 4096},
                                             {"s_kv", 4096}, {"d", 128}, {"d_v", 128}};
  const auto flash = [](const std::map<std::string, double>& features, const char* causal,
                        const char* pages = "false", const char* rows = "128") {
    KernelQuery query{.name = std::string{"void cutlass::device_kernel<flash::FlashAttnFwdSm90<"
                                          "flash::CollectiveMainloopFwdSm90<2, a, "
                                          "cute::tuple<cute::C<"} +
                              rows + ">, cute::C<128>, cute::C<128> >, 128, " +
                              "cutlass::bfloat16_t, float, c, " + causal +
                              ", false, false, true, " + pages +
                              ", false, false, true, true, true, false>, d, e> >(f)"};
    query.grid = {132, 1, 1};
    query.block = {384, 1, 1};
    for (const auto& [name, value] : features) query.features[name] = value;
    query.features["splits"] = 1;
    return query;
  };
  KernelQuery library{.name = "sdpa_fwd", .attributes = {{"type", "bf16"}, {"causal", "1"}}};
  for (const auto& [name, value] : prompt) library.features[name] = value;
  EXPECT_NEAR(us(flash(prompt, "true")) / us(library), 1.0, 0.1);
  // One token of each of 64 sequences reads all of their keys and values.
  auto tokens = prompt;
  tokens["b"] = 64;
  tokens["s_q"] = 1;
  const double bytes = 64 * 8.0 * 4096 * 2 * 128 * 2;
  const double least = 1e6 * bytes / h200.memory_bandwidth.bytes_per_second();
  EXPECT_GT(us(flash(tokens, "false")), least);
  EXPECT_LT(us(flash(tokens, "false")), 2 * least);

  const auto of = [&](double requests, double queries, double keys) {
    auto shape = prompt;
    shape["b"] = requests;
    shape["s_q"] = queries;
    shape["s_kv"] = keys;
    return shape;
  };
  EXPECT_NEAR(us(flash(of(8, 1024, 1024), "true", "true")) / 166.7, 1.0, 0.15);
  EXPECT_NEAR(us(flash(of(2, 8192, 8192), "true", "true")) / 1673.1, 1.0, 0.15);
  EXPECT_NEAR(us(flash(of(256, 1, 32), "true", "true", "64")) / 56.3, 1.0, 0.15);
  EXPECT_NEAR(us(flash(of(256, 1, 256), "true", "true", "64")) / 90.0, 1.0, 0.15);
}

TEST(Refusals, KeysThatAnOperationDoesNotHave) {
  EXPECT_EQ(refusal({.name = "gemm", .features = {{"M", 64}, {"N", 64}, {"K", 64}}}),
            "kernel 'gemm': feature 'K': expected one of m, n, k, batch, lda, ldb, ldc, a_align, "
            "b_align, c_align, got 64");
  KernelQuery query = gemm(64, 64, 64);
  query.attributes["type"] = "bf16";
  EXPECT_EQ(refusal(query),
            "kernel 'gemm': attribute 'type': expected one of a_type, b_type, c_type, compute, "
            "transa, transb, epilogue, got bf16");
  query = convolution("conv_fwd", "nhwc", 8, 512, 14, 3);
  query.attributes["plan"] = "best";
  EXPECT_EQ(refusal(query), "kernel 'conv_fwd': attribute 'plan': expected one of tried, got best");
  query = gemm(64, 64, 64);
  query.attributes["a_type"] = "bfloat16";
  EXPECT_EQ(refusal(query),
            "kernel 'gemm': attribute 'a_type': expected one of bf16, fp16, fp32, fp64, fp8_e4m3, "
            "fp8_e5m2, fp4_e2m1, int8, int32, complex64, complex128, other, got bfloat16");
  EXPECT_EQ(refusal({.name = "gelu", .features = {{"Numel", 1e6}}, .attributes = {}}),
            "kernel 'gelu': expected one of the operations gemm, conv_fwd, conv_bwd_data, "
            "conv_bwd_filter, sdpa_fwd, sdpa_bwd, pytorch_sdpa_fwd, pytorch_sdpa_bwd, "
            "batch_norm_fwd_train, batch_norm_bwd, "
            "batch_norm_fwd_infer, rnn_fwd, rnn_bwd_data, rnn_bwd_weights, potrf, potri, potrs, "
            "getrf, getri, getrs, sytrf, sytrs, geqrf, orgqr, ormqr, trsm, syevd, syevj, geev, "
            "gesvd, gesvdj, gesvda, fft, spmv, spmm, sddmm, memcpy_h2d_pinned, "
            "memcpy_h2d_pageable, memcpy_d2h_pinned, memcpy_d2h_pageable, memcpy_d2d, memcpy_p2p, "
            "memset, or a kernel that tells its grid, bytes, flops, numel, or rows and cols; got "
            "the features Numel");
  EXPECT_EQ(
      refusal({.name = "k", .grid = {{1, 1, 1}}, .features = {{"Numel", 5}}}),
      "kernel 'k': feature 'Numel': expected one of numel, lines, rows, cols, dims, "
      "table, run, m, n, k, batch, arrays, b, h, h_kv, "
      "s_q, s_kv, d, d_v, causal, bias, splits, warp_instructions, warp_cycles, "
      "longest_cycles, warm_cycles, stack_waits, uneven_ends, uneven_work, alu, fma, "
      "double, special, "
      "l1_passes, "
      "l2_bytes, tensor_half, tensor_tf32, tensor_8_bits, tensor_fp64, mma_sync, "
      "atomics, atomic_sectors, "
      "hot_atomics, local_bytes, partial_sectors, partial_lines, random_bytes, guessed, roles, "
      "registers, shared, "
      "local, got 5");
}

TEST(Refusals, NamesThatNobodyKnowsWithAKnownOperationsShape) {
  const std::string text = refusal({.name = "GEMM", .features = {{"m", 64}, {"n", 8}, {"k", 8}}});
  EXPECT_TRUE(text.starts_with("kernel 'GEMM': expected one of the operations gemm, ")) << text;
  EXPECT_TRUE(text.ends_with("got the features k, m, n")) << text;
  EXPECT_EQ(refusal({}), "kernel '': field 'name': expected a kernel's name, got none");
  // Who tells the work is free to describe the rest.
  EXPECT_TRUE(refusal({.name = "trmm", .bytes = 1e6, .features = {{"m", 64}}}).starts_with("answ"));
}

TEST(Refusals, SizesThatAreMissing) {
  EXPECT_EQ(refusal({.name = "gemm"}), "kernel 'gemm': feature 'm': expected a size, got none");
  EXPECT_EQ(refusal({.name = "gemm", .features = {{"m", 64}, {"n", 64}}}),
            "kernel 'gemm': feature 'k': expected a size, got none");
  EXPECT_EQ(refusal({.name = "sdpa_fwd"}),
            "kernel 'sdpa_fwd': feature 'b': expected a size, got none");
  EXPECT_EQ(refusal({.name = "memcpy_d2d"}),
            "kernel 'memcpy_d2d': field 'bytes': expected a size > 0, got 0");
  EXPECT_EQ(refusal({.name = "k", .bytes = 1.0, .arithmetic = Arithmetic::half}),
            "kernel 'k': field 'flops': expected how many the arithmetic does, got 0");
}

TEST(Refusals, SizesThatCannotBe) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(refusal(gemm(nan, 64, 64)),
            "kernel 'gemm': feature 'm': expected a number >= 0, got nan");
  EXPECT_EQ(refusal(gemm(64, infinite, 64)),
            "kernel 'gemm': feature 'n': expected a number >= 0, got inf");
  EXPECT_EQ(refusal(gemm(64, 64, -1)),
            "kernel 'gemm': feature 'k': expected a number >= 0, got -1");
  EXPECT_EQ(refusal(gemm(0, 64, 64)), "kernel 'gemm': feature 'm': expected a size > 0, got 0");
  // BLAS scales C where there is nothing to multiply.
  EXPECT_TRUE(refusal(gemm(64, 64, 0)).starts_with("answered"));
  EXPECT_EQ(refusal({.name = "k", .bytes = -1}),
            "kernel 'k': field 'bytes': expected a number >= 0, got -1");
  EXPECT_EQ(refusal({.name = "k", .flops = nan}),
            "kernel 'k': field 'flops': expected a number >= 0, got nan");
  EXPECT_EQ(refusal({.name = "k", .grid = {{4, 0, 1}}}),
            "kernel 'k': field 'grid': expected at least one block, got 0");
  EXPECT_EQ(refusal({.name = "trmm", .bytes = 1, .features = {{"m", nan}}}),
            "kernel 'trmm': feature 'm': expected a number >= 0, got nan");
}

TEST(Refusals, TypesThatTheGpuDoesNotComputeWith) {
  KernelQuery fp8 = gemm(4096, 4096, 4096);
  fp8.attributes["a_type"] = "fp8_e4m3";
  EXPECT_TRUE(refusal(fp8).starts_with("answered"));
  EXPECT_EQ(refusal(fp8, "a100"),
            "kernel 'gemm': attribute 'a_type': expected a type that the NVIDIA A100-SXM4-80GB "
            "computes with, got fp8");
  EXPECT_EQ(refusal({.name = "k", .flops = 1e12, .arithmetic = Arithmetic::fp8}, "a100"),
            "kernel 'k': field 'arithmetic': expected a type that the NVIDIA A100-SXM4-80GB "
            "computes with, got fp8");
  // A GPU without bf16, as those before Ampere are.
  GpuModel older = gpu_model("a100");
  older.half = {};
  EXPECT_THROW((void)Roofline{older}.estimate(gemm(64, 64, 64)), CostError);
  // tf32 is a permission.
  KernelQuery tf32 = gemm(4096, 4096, 4096);
  for (const char* key : {"a_type", "b_type", "c_type"}) tf32.attributes[key] = "fp32";
  tf32.attributes["compute"] = "tf32";
  older.tf32 = {};
  EXPECT_GT(Roofline{older}.estimate(tf32)->duration,
            Roofline{gpu_model("a100")}.estimate(tf32)->duration);
}

TEST(KernelLimits, FollowFromOperationLaunchAndWork) {
  const KernelCostModel model = builtin_cost_model(gpu_model("h200"));
  const auto of = [&](const KernelQuery& query) { return *model.estimate(query); };
  EXPECT_EQ(of(gemm(4096, 4096, 4096)).limit, KernelLimit::arithmetic);
  EXPECT_EQ(of(gemm(4096, 4096, 4096)).demand, 1.0);
  EXPECT_EQ(of({.name = "memcpy_h2d_pinned", .bytes = 1e6}).limit, KernelLimit::copy_engine);
  EXPECT_EQ(of({.name = "memcpy_h2d_pinned", .bytes = 1e6}).memory_share, 0.0);
  EXPECT_EQ(of({.name = "memset", .bytes = 1e6}).limit, KernelLimit::memory);
  const CostEstimate streams = of({.name = "my_kernel", .bytes = 1e9});
  EXPECT_EQ(streams.limit, KernelLimit::memory);
  EXPECT_EQ(streams.demand, 1.0);
  EXPECT_NEAR(*streams.memory_share, 0.89, 0.005);
  // 66 blocks of 1024 threads: a quarter of what 132 SMs hold; and one thread, of whatever grid.
  EXPECT_EQ(of({.name = "k", .grid = {{66, 1, 1}}, .block = {1024}}).demand, 0.25);
  EXPECT_EQ(of({.name = "k", .grid = {{1, 1, 1}}}).demand, 1.0 / (16 * 132));
  // Of told work, what takes longer.
  const KernelQuery products{
      .name = "k", .bytes = 1e9, .flops = 1e13, .arithmetic = Arithmetic::half};
  EXPECT_EQ(of(products).limit, KernelLimit::arithmetic);
  KernelQuery few = products;
  few.flops = 1e9;
  EXPECT_EQ(of(few).limit, KernelLimit::memory);
}

TEST(KernelLimits, WhatAModelSaysItselfStays) {
  const CostEstimate own{.duration = 10us, .demand = 0.5};
  const CostEstimate filled = with_limits(own, gemm(64, 64, 64), gpu_model("h200"));
  EXPECT_EQ(filled.demand, 0.5);
  EXPECT_EQ(filled.limit, KernelLimit::arithmetic);
  EXPECT_FALSE((MeasuredTable{{{gemm(64, 64, 64), 3us}}}.estimate(gemm(64, 64, 64))->limit));
}

/// A launch of which only its machine code is known.
KernelQuery walked(const char* name, std::map<std::string, double, std::less<>> code) {
  code.emplace("warp_instructions", 1e6);
  code.emplace("warp_cycles", 1000);
  code.emplace("registers", 32);
  return {.name = name, .grid = {{10'000}}, .block = {256}, .features = std::move(code)};
}

TEST(CodeRoofline, NoUnitDoesMoreThanItsPeak) {
  // Also where the name is one that was measured.
  for (const char* const name : {"my_kernel(float*)", "reduce_kernel"}) {
    for (const std::string& key : gpu_model_keys()) {
      const GpuModel gpu = gpu_model(key);
      const KernelCostModel model = builtin_cost_model(gpu);
      const auto seconds = [&](const char* unit, double amount) {
        return to_seconds(model.estimate(walked(name, {{unit, amount}}))->duration);
      };
      const double sms = gpu.sm_count * gpu.clock_hz;
      EXPECT_GE(seconds("tensor_half", 1e15), 1e15 / gpu.half.per_second()) << key;
      EXPECT_GE(seconds("tensor_tf32", 1e15), 1e15 / gpu.tf32.per_second()) << key;
      EXPECT_GE(seconds("fma", 1e10), 1e10 * 32 / (128 * sms)) << key;
      EXPECT_GE(seconds("alu", 1e10), 1e10 * 32 / (64 * sms)) << key;
      EXPECT_GE(seconds("special", 1e10), 1e10 * 32 / (16 * sms)) << key;
      EXPECT_GE(seconds("double", 1e10), 1e10 * 32 / (64 * sms)) << key;
      EXPECT_GE(seconds("l1_passes", 1e10), 1e10 / sms) << key;
      EXPECT_GE(seconds("warp_instructions", 1e11), 1e11 / (4 * sms)) << key;
    }
  }
}

TEST(CodeRoofline, SaysThatItGoesByTheCodeOrByTheGrid) {
  const KernelCostModel model = builtin_cost_model(gpu_model("h200"));
  const auto by_code = model.estimate(walked("my_kernel(float*)", {{"fma", 1e6}}));
  EXPECT_EQ(by_code->source, CostSource::code);
  EXPECT_GT(model.estimate(walked("my_kernel(float*)", {{"guessed", 1.0}}))->stddev,
            by_code->stddev);
  KernelQuery launch{.name = "my_kernel(float*)", .grid = {{100}}, .block = {256}};
  EXPECT_EQ(model.estimate(launch)->source, CostSource::grid);
  launch.bytes = 1e6;
  EXPECT_EQ(model.estimate(launch)->source, CostSource::roofline);
}

TEST(CodeRoofline, FewWarpsTakeAsLongAsOneOfThem) {
  const Roofline model{gpu_model("h200")};
  KernelQuery query = walked("my_kernel(float*)", {});
  query.features["warp_cycles"] = 1.98e6;  // a millisecond
  const auto us = [&](std::uint32_t blocks) {
    query.grid = {{blocks}};
    return to_seconds(model.estimate(query)->duration) * 1e6;
  };
  EXPECT_NEAR(us(1), 1000, 10);
  EXPECT_NEAR(us(132 * 8), us(132), 1);  // 8 blocks of 8 warps are on an SM at a time
  EXPECT_NEAR(us(132 * 16), 2000, 10);
}

// Of an SM's only block the warps are in the block's time already; those of several hide each
// other, and so do roles.
TEST(CodeRoofline, OneBlockTakesItsOwnTime) {
  const Roofline model{gpu_model("h200")};
  KernelQuery query = walked("my_kernel(float*)", {{"fma", 132 * 1.98e9 * 1e-3 * 4}});  // 1 ms
  query.features["warp_cycles"] = 1.98e6;                                               // 1 ms
  query.grid = {{132}};
  const auto us = [&] { return to_seconds(model.estimate(query)->duration) * 1e6; };
  EXPECT_NEAR(us(), 1000, 10);
  query.features["roles"] = 1;
  EXPECT_GT(us(), 1200);
  query.features.erase("roles");
  query.features["warp_cycles"] = 1.98e6 / 2;
  query.grid = {{264}};
  query.features["registers"] = 128;  // two blocks of 256 threads fit on an SM
  // What waits is half of what computes, and each is felt: (1 + 0.5^5)^(1/5) = 1.0062, and
  // (1 + 0.5^2.5)^(1/2.5) = 1.0673 where all wait together, beside the floor of 0.9 us.
  EXPECT_NEAR(us(), 1006.2 + 0.9, 0.1);
  query.features["random_bytes"] = 1;
  EXPECT_NEAR(us(), 1067.3 + 0.9, 0.1);
}

TEST(CodeRoofline, TheBlockThatHasMostToDoGoesOnAfterTheOthers) {
  const Roofline model{gpu_model("h200")};
  KernelQuery query = walked("my_kernel(float*)", {{"longest_cycles", 1.98e6}});  // a millisecond
  EXPECT_NEAR(to_seconds(model.estimate(query)->duration) * 1e6, 1000, 10);
}

// Blocks that do nothing took an H100, whose SMs are as fast as this one's, 158.7 us
// (bench/accuracy/h100_triton_blocks.jsonl: 262,144 of 4 warps), and 259.5 us with 32 warps.
TEST(CodeRoofline, BlocksStartOneAfterTheOther) {
  const Roofline model{gpu_model("h200")};
  KernelQuery query{.name = "my_kernel(float*)",
                    .grid = {{262'144}},
                    .block = {128},
                    .features = {{"warp_instructions", 1e6}, {"warp_cycles", 10}}};
  EXPECT_NEAR(to_seconds(model.estimate(query)->duration) * 1e6, 158.7, 2);
  query.block = {1024};
  EXPECT_NEAR(to_seconds(model.estimate(query)->duration) * 1e6, 259.5, 3);
}

// Products of many matrices and vectors in fp32 took an H100 147.7 and 90.4 us (4,096 rows of six
// weights, and of 2,048 numbers, with 6 x 2,048; bench/accuracy): no tiles, which would take 560
// and 1,210 us.
TEST(BuiltinCostModel, ManyProductsWithVectorsAreReadOnce) {
  const auto us = [](const auto& model, double m, double k, const char* transposed) {
    const KernelQuery query{
        .name = "gemm",
        .features = {{"m", m}, {"n", 1}, {"k", k}, {"batch", 4096}},
        .attributes = {{"a_type", "fp32"}, {"transa", transposed}, {"compute", "fp32"}}};
    return to_seconds(model.estimate(query)->duration) * 1e6;
  };
  const KernelCostModel model = builtin_cost_model(gpu_model("h100"));
  EXPECT_NEAR(us(model, 2048, 6, "N"), 147.7, 0.35 * 147.7);
  EXPECT_NEAR(us(model, 6, 2048, "T"), 90.4, 0.35 * 90.4);
  EXPECT_NEAR(us(model, 4096, 6, "N"), 2 * us(model, 2048, 6, "N"), 0.25 * us(model, 4096, 6, "N"));
  // Where no neighbour tells, other sizes go by their bytes.
  const Roofline roofline{gpu_model("h100")};
  EXPECT_NEAR(us(roofline, 4096, 6, "N"), 2 * us(roofline, 2048, 6, "N"), 2);
}

// Sixteen experts' weights by a vector each, as Mixtral's tokens have them one at a time: 905 and
// 463 us on an H200 (bench/accuracy/h200_answers.jsonl), where tiles said twice as long.
TEST(BuiltinCostModel, ExpertsOfOneTokenEachAreReadOnce) {
  const KernelCostModel model = builtin_cost_model(gpu_model("h200"));
  const auto us = [&](double m, double k) {
    const KernelQuery query{
        .name = "gemm",
        .features = {{"m", m}, {"n", 1}, {"k", k}, {"batch", 16}},
        .attributes = {{"a_type", "bf16"}, {"transa", "T"}, {"compute", "fp32"}}};
    return to_seconds(model.estimate(query)->duration) * 1e6;
  };
  EXPECT_NEAR(us(28672, 4096), 905, 0.07 * 905);
  EXPECT_NEAR(us(4096, 14336), 463, 0.06 * 463);
}

// 131,072 blocks of 512 threads that sum 16 rows of 8 each take as long as the start of 1.5 +
// 0.0083 x 512 = 5.75 blocks, of 1.19 cycles at 1.98 GHz, though their 75 MB take 18 us. On top
// come the floor and a round trip.
TEST(Roofline, BlocksOfSumsTakeTheirTime) {
  const Roofline model{gpu_model("h200")};
  KernelQuery query{
      .name =
          "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
          "at::native::MeanOps<float, float, float, float>, unsigned int, float, 4, 4> >()",
      .bytes = 131072.0 * 16 * 9 * 4,
      .features = {{"rows", 131072.0 * 16}, {"cols", 8}, {"numel", 131072.0 * 16 * 8}}};
  query.grid = {131072};
  query.block = {32, 16};
  EXPECT_NEAR(to_seconds(model.estimate(query)->duration) * 1e6, 131072 * 3.46e-3 + 1.4, 5);
}

// 20 MB from memory take 20e6 / (0.89 * 4.8e12) s, from the cache 20e6 / (1.9 * 4.8e12) s, and any
// kernel 0.9 us.
TEST(CodeRoofline, WhatTheCacheHoldsDoesNotComeFromMemory) {
  const Roofline model{gpu_model("h200")};
  KernelQuery query = walked("my_kernel(float*)", {{"warp_instructions", 1}, {"warp_cycles", 1}});
  query.grid = {{1000}};
  const auto seconds = [&](double bytes, double cold) {
    query.bytes = bytes;
    query.operands = {.read = bytes, .written = 0, .cold = cold};
    return to_seconds(model.estimate(query)->duration);
  };
  const double launch = 0.9e-6, from_memory = 20e6 / (0.89 * 4.8e12);
  EXPECT_NEAR(seconds(20e6, 20e6) - launch, from_memory, 2e-9);
  EXPECT_NEAR(seconds(20e6, 10e6) - launch, 0.5 * from_memory, 2e-9);
  EXPECT_NEAR(seconds(20e6, 0) - launch, 20e6 / (1.9 * 4.8e12), 2e-9);
}

TEST(CodeRoofline, WhatDataTellTakesThePlaceOfWhatParametersTell) {
  const KernelCostModel model = builtin_cost_model(gpu_model("h200"));
  KernelQuery query = walked("my_kernel(float*)", {{"fma", 1e9}, {"guessed", 0.5}});
  query.bytes = 1e9;
  query.by_data = {{"fma", 2e9}, {"guessed", 0}, {"bytes", 5e9}};
  KernelQuery told = walked("my_kernel(float*)", {{"fma", 2e9}});
  told.bytes = 5e9;
  EXPECT_EQ(model.estimate(query)->duration, model.estimate(told)->duration);
  EXPECT_EQ(model.estimate(query)->stddev, model.estimate(told)->stddev);
  // What was measured was measured of such a launch, whatever lay there.
  KernelQuery key = query;
  key.by_data.clear();
  EXPECT_EQ((MeasuredTable{{{key, 3us}}}.estimate(query)->duration), 3us);
}

TEST(CodeRoofline, StacksThatDoNotFitL1GoToL2) {
  const Roofline model{gpu_model("h200")};
  KernelQuery query = walked("my_kernel(float*)", {{"local_bytes", 1e11}});
  query.grid = {{132}};
  const auto us = [&](double stack, double shared) {
    query.features["local"] = stack;
    query.features["shared"] = shared;
    return to_seconds(model.estimate(query)->duration) * 1e6;
  };
  // 256 threads of one block on an SM, which has 256 KiB for both: stacks of 128 KiB fit beside 100
  // KiB of shared memory, not beside the next part, of 132.
  const double kib = 1024;
  EXPECT_EQ(us(kib / 2, 1), us(1, 1));
  EXPECT_EQ(us(kib / 2, 99 * kib), us(1, 1));
  EXPECT_GT(us(kib / 2, 100 * kib), 1e11 / (64 * 132 * 1.98e9) * 1e6);
  EXPECT_GT(us(1.1 * kib, 1), 1e11 / (64 * 132 * 1.98e9) * 1e6);
  // The L2 cache of 50 MB keeps the 17 MB of all SMs, and sends 0.7 of its peak; of 38 MB it keeps
  // nothing, and memory gives 0.89 of its.
  EXPECT_NEAR(us(kib / 2, 100 * kib), 1e11 / (0.7 * 64 * 132 * 1.98e9) * 1e6, 10);
  EXPECT_NEAR(us(1.1 * kib, 1), 1e11 / (0.89 * 4.8e12) * 1e6, 10);
  // What is waited for is waited for longer then.
  query.features["local_bytes"] = 1;
  query.features["stack_waits"] = 1.98e6;  // a millisecond
  EXPECT_LT(us(kib / 2, 1), 10);
  EXPECT_NEAR(us(1.1 * kib, 1), 1000, 10);
}

// Each line of a request, and each sector there, takes its part of a cycle.
TEST(CodeRoofline, PartsOfSectorsCostByTheirLines) {
  const Roofline model{gpu_model("h200")};
  const auto cycles = [&](double sectors, std::optional<double> lines) {
    KernelQuery query = walked("my_kernel(float*)", {{"partial_sectors", sectors}});
    if (lines) query.features["partial_lines"] = *lines;
    return to_seconds(model.estimate(query)->duration) * 1.98e9;
  };
  EXPECT_NEAR(cycles(4e9, 1e9), 1e9 / 36.4 + 4e9 / 209, 1e5);
  EXPECT_NEAR(cycles(4e9, 4e9), 4e9 / 36.4 + 4e9 / 209, 1e5);
  EXPECT_EQ(cycles(4e9, std::nullopt), cycles(4e9, 4e9));  // of a record that tells no lines
}

TEST(CodeRoofline, CountersInOneSectorWaitForOneAnother) {
  const KernelCostModel model = builtin_cost_model(gpu_model("h200"));
  const auto seconds = [&](double hot) {
    return to_seconds(
        model.estimate(walked("my_kernel(float*)", {{"hot_atomics", hot}}))->duration);
  };
  EXPECT_NEAR(seconds(1e6), 1e6 * 1.54 / 1.98e9, 2e-5);
}

TEST(KernelCostModel, TheFirstLinkThatKnowsAnswers) {
  const KernelCostModel model =
      first_of(MeasuredTable{{{gemm(64, 64, 64), 3us}}}, Roofline{gpu_model("h200")});
  EXPECT_EQ(model.estimate(gemm(64, 64, 64))->source, CostSource::measured);
  EXPECT_EQ(model.estimate(gemm(64, 64, 72))->source, CostSource::roofline);
}

TEST(KernelCostModel, ScalingMultipliesEveryDuration) {
  const KernelCostModel doubled = scale(MeasuredTable{{{gemm(64, 64, 64), 3us}}}, 2.0);
  EXPECT_EQ(doubled.estimate(gemm(64, 64, 64))->duration, Duration{6us});
  EXPECT_FALSE(doubled.estimate(gemm(64, 64, 65)));
}

}  // namespace
}  // namespace phantora
