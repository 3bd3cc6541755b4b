#include "cuda/cudnn/operations.hpp"

#include <gtest/gtest.h>

namespace phantora::cudnn {
namespace {

Tensor dense(cudnnDataType_t type, std::vector<std::int64_t> dims, bool channels_last = false) {
  Tensor tensor{type, dims, std::vector<std::int64_t>(dims.size())};
  std::int64_t next = channels_last ? dims[1] : 1;
  if (channels_last) tensor.strides[1] = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    if (channels_last && i == 1) continue;
    tensor.strides[i] = next;
    next *= dims[i];
  }
  return tensor;
}

/// ResNet-50's first convolution on n images.
Convolution first_layer(Pass pass, std::int64_t n) {
  return {pass,
          dense(CUDNN_DATA_BFLOAT16, {n, 3, 224, 224}),
          dense(CUDNN_DATA_BFLOAT16, {64, 3, 7, 7}),
          dense(CUDNN_DATA_BFLOAT16, {n, 64, 112, 112}),
          {3, 3},
          {2, 2},
          {1, 1},
          "fp32"};
}

TEST(CudnnOperations, DescribeAConvolution) {
  const KernelQuery query = describe(first_layer(Pass::backward_filter, 64));
  EXPECT_EQ(query.name, "conv_bwd_filter");
  EXPECT_EQ(query.features.at("h"), 224);
  EXPECT_EQ(query.features.at("r"), 7);
  EXPECT_EQ(query.features.at("stride_w"), 2);
  EXPECT_EQ(query.features.at("groups"), 1);
  EXPECT_EQ(query.attributes.at("type"), "bf16");
  EXPECT_EQ(query.attributes.at("layout"), "nchw");
  // Each of 64 * 64 * 112^2 outputs is a sum of 3 * 7 * 7 products.
  EXPECT_DOUBLE_EQ(query.flops, 2.0 * 64 * 64 * 112 * 112 * 3 * 49);
  EXPECT_DOUBLE_EQ(query.bytes, 2.0 * (64 * 3 * 224 * 224 + 64 * 3 * 49 + 64.0 * 64 * 112 * 112));
}

TEST(CudnnOperations, CountGroupsByTheFiltersDepth) {
  Convolution c = first_layer(Pass::forward, 2);
  c.image = dense(CUDNN_DATA_BFLOAT16, {2, 32, 8, 8}, true);
  c.filter = dense(CUDNN_DATA_BFLOAT16, {64, 4, 3, 3}, true);
  const KernelQuery query = describe(c);
  EXPECT_EQ(query.features.at("groups"), 8);
  EXPECT_EQ(query.attributes.at("layout"), "nhwc");
}

/// Of 8 channels over `depth` planes of 16 x 16, of 2 images, by a filter of `taps` planes of 3
/// x 3.
Convolution clip(Pass pass, std::int64_t depth, std::int64_t taps) {
  return {pass,
          dense(CUDNN_DATA_BFLOAT16, {2, 8, depth, 16, 16}),
          dense(CUDNN_DATA_BFLOAT16, {8, 8, taps, 3, 3}),
          dense(CUDNN_DATA_BFLOAT16, {2, 8, depth - taps + 1, 14, 14}),
          {0, 0, 0},
          {1, 1, 1},
          {1, 1, 1},
          "fp32"};
}

TEST(CudnnOperations, TellTheThirdDimension) {
  for (const Pass pass : {Pass::forward, Pass::backward_data, Pass::backward_filter}) {
    const KernelQuery query = describe(clip(pass, 5, 3));
    EXPECT_EQ(query.features.at("n"), 2);
    EXPECT_EQ(query.features.at("d"), 5);
    EXPECT_EQ(query.features.at("h"), 16);
    EXPECT_EQ(query.features.at("t"), 3);
    EXPECT_EQ(query.features.at("r"), 3);
    EXPECT_EQ(query.features.at("pad_d"), 0);
    EXPECT_EQ(query.features.at("stride_d"), 1);
    EXPECT_EQ(query.features.at("dilation_d"), 1);
  }
  // One of two has none.
  EXPECT_FALSE(describe(first_layer(Pass::forward, 2)).features.contains("t"));
}

TEST(CudnnOperations, TellPlanesThatAFilterOfOneElementSeesAsOnePlane) {
  Convolution c = clip(Pass::forward, 5, 1);
  c.filter = dense(CUDNN_DATA_BFLOAT16, {8, 8, 1, 1, 1});
  c.output = c.image;
  const KernelQuery query = describe(c);
  EXPECT_EQ(query.features.at("n"), 2);
  EXPECT_EQ(query.features.at("h"), 5 * 16);
  EXPECT_FALSE(query.features.contains("d"));
  // With a stride some planes are left out.
  c.output = dense(CUDNN_DATA_BFLOAT16, {2, 8, 3, 16, 16});
  c.stride = {2, 1, 1};
  EXPECT_EQ(describe(c).features.at("n"), 2);
  EXPECT_EQ(describe(c).features.at("d"), 5);
  EXPECT_EQ(describe(c).features.at("stride_d"), 2);
}

TEST(CudnnOperations, WorkspaceIsTheMeasuredOne) {
  // workspaces.inc: forward, bf16, n 64.
  EXPECT_EQ(workspace_bytes(first_layer(Pass::forward, 64)), 154190864u);
}

TEST(CudnnOperations, WorkspaceIsFittedWhereItWasNotMeasured) {
  // Channels-last copies with 3 channels padded to 8: image, output and filter, 2 bytes each. The
  // measured neighbour above has 16 bytes more.
  EXPECT_EQ(workspace_bytes(first_layer(Pass::forward, 65)),
            2u * (65 * 8 * 224 * 224 + 65 * 64 * 112 * 112 + 64 * 8 * 49));
  // One measured convolution per pass, held against the fit of its neighbour: within 5 %.
  for (const Pass pass : {Pass::forward, Pass::backward_data, Pass::backward_filter}) {
    const double measured = static_cast<double>(workspace_bytes(first_layer(pass, 64))) / 64;
    const double fitted = static_cast<double>(workspace_bytes(first_layer(pass, 63))) / 63;
    EXPECT_NEAR(fitted / measured, 1.0, 0.05);
  }
}

Convolution plain(Pass pass, cudnnDataType_t type, std::vector<std::int64_t> image,
                  std::int64_t filters, std::int64_t taps, bool channels_last = false) {
  const std::vector<std::int64_t> padding(2, taps / 2), one(2, 1);
  std::vector<std::int64_t> output = image;
  output[1] = filters;
  return {pass,
          dense(type, image, channels_last),
          dense(type, {filters, image[1], taps, taps}, channels_last),
          dense(type, output, channels_last),
          padding,
          one,
          one,
          "tf32"};
}

TEST(CudnnOperations, TheWidestEngineTransformsPlanes) {
  // A plane of 7 x 7 becomes one of 16 x 9 complex numbers, 1,152 bytes; twice those of the image
  // and the filter, and the filter itself.
  EXPECT_EQ(widest_workspace_bytes(plain(Pass::forward, CUDNN_DATA_FLOAT, {64, 960, 7, 7}, 128, 1)),
            2u * 1152 * (64 * 960 + 960 * 128) + 4 * 960 * 128);
  // 32 x 17 complex numbers, 4,352 bytes; the filter's gradient has more planes than both others.
  EXPECT_EQ(widest_workspace_bytes(
                plain(Pass::backward_filter, CUDNN_DATA_FLOAT, {16, 768, 32, 32}, 768, 1)),
            std::size_t{2} * 4352 * 768 * 768 + 4 * 16 * 768 * 32 * 32);
  // Tiles of 32 x 32, once each where a padded plane fits into one, twice where not.
  EXPECT_EQ(widest_workspace_bytes(
                plain(Pass::backward_data, CUDNN_DATA_FLOAT, {16, 512, 28, 28}, 512, 3)),
            4352u * (512 * 512 + 2 * 16 * 512));
  EXPECT_EQ(widest_workspace_bytes(
                plain(Pass::backward_data, CUDNN_DATA_FLOAT, {64, 256, 56, 56}, 256, 3)),
            4352u * (256 * 256 + 2 * 2 * 64 * 256));
}

TEST(CudnnOperations, TheWidestEngineCopiesHalves) {
  // No Fourier transforms in 16 bits: image, output and filter in the other layout.
  Convolution c = plain(Pass::forward, CUDNN_DATA_HALF, {8, 64, 14, 14}, 128, 3, true);
  EXPECT_EQ(widest_workspace_bytes(c), 2u * (8 * 64 * 14 * 14 + 8 * 128 * 14 * 14 + 128 * 64 * 9));
  // Nobody needs less than what the heuristics' first choice asks for.
  c = first_layer(Pass::forward, 64);
  EXPECT_GE(widest_workspace_bytes(c), workspace_bytes(c));
}

TEST(CudnnOperations, ConvolutionsSayThatTheyWereTried) {
  Convolution c = first_layer(Pass::forward, 2);
  EXPECT_FALSE(describe(c).attributes.contains("plan"));
  c.tried = true;
  EXPECT_EQ(describe(c).attributes.at("plan"), "tried");
}

TEST(CudnnOperations, CausalAttentionDoesHalfTheWork) {
  Attention attention;
  attention.q = dense(CUDNN_DATA_BFLOAT16, {8, 12, 1024, 64});
  attention.k = attention.v = dense(CUDNN_DATA_BFLOAT16, {8, 4, 2048, 64});
  const KernelQuery full = describe(attention);
  EXPECT_EQ(full.name, "sdpa_fwd");
  EXPECT_EQ(full.features.at("h_kv"), 4);
  EXPECT_EQ(full.attributes.at("causal"), "0");
  // Two products of 2 * s_q * s_kv * 64 per head.
  EXPECT_DOUBLE_EQ(full.flops, 2 * 2.0 * 8 * 12 * 1024 * 2048 * 64);
  attention.causal = true;
  EXPECT_DOUBLE_EQ(describe(attention).flops, full.flops / 2);
  EXPECT_EQ(workspace_bytes(attention), 0u);
  attention.backward = true;
  // Five products; fp32 sums of dQ and one number per row.
  EXPECT_DOUBLE_EQ(describe(attention).flops, full.flops * 2.5 / 2);
  EXPECT_EQ(workspace_bytes(attention), 8u * 12 * 1024 * (64 + 1) * 4);
}

}  // namespace
}  // namespace phantora::cudnn
