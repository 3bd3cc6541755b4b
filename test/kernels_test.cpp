#include <phantora/error.hpp>
#include <phantora/kernels/builtin_cost_model.hpp>
#include <phantora/kernels/fitted_model.hpp>
#include <phantora/kernels/kernels.hpp>

#include <array>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace phantora {
namespace {

using namespace std::chrono_literals;

ElementType type_of(const std::string& text) {
  for (const ElementType type : {ElementType::bf16, ElementType::fp16, ElementType::fp32,
                                 ElementType::fp64, ElementType::fp8_e4m3, ElementType::fp8_e5m2})
    if (text == to_string(type)) return type;
  ADD_FAILURE() << text;
  return {};
}

/// How many of the measured queries that `mine` picks are what `made` makes of their sizes.
template <class Mine, class Made>
void expect_measured(const std::string& what, double share, Mine mine, Made made) {
  int all = 0, equal = 0;
  std::string missed;
  for (const Measurement& measured : builtin_measurements()) {
    if (!mine(measured.query)) continue;
    ++all;
    if (made(measured.query) == measured.query) {
      ++equal;
    } else {
      missed = measured.query.name;
    }
  }
  EXPECT_GT(all, 0) << what;
  EXPECT_GE(equal, share * all) << what << ": " << equal << " of " << all << ", not " << missed;
}

std::int64_t size(const KernelQuery& query, const std::string& feature) {
  return static_cast<std::int64_t>(query.features.at(feature));
}
bool half(const KernelQuery& query) { return query.name.find("BFloat16") != query.name.npos; }
ElementType element(const KernelQuery& query) {
  return half(query) ? ElementType::bf16 : ElementType::fp32;
}
/// Of the sweeps: what was measured by the interception's keys says how many elements there are,
/// too.
auto named(const std::string& part) {
  return [part](const KernelQuery& query) {
    return query.name.find(part) != query.name.npos && query.features.contains("rows") &&
           !query.features.contains("numel");
  };
}

AttentionShape attention_shape(const KernelQuery& query) {
  return {.batch = size(query, "b"),
          .heads = size(query, "h"),
          .key_heads = size(query, "h_kv"),
          .queries = size(query, "s_q"),
          .keys = size(query, "s_kv"),
          .depth = size(query, "d"),
          .causal = query.attributes.at("causal") == "1",
          .type = type_of(query.attributes.at("type"))};
}

TEST(Kernels, AreTheVeryQueriesThatWereMeasured) {
  expect_measured(
      "gemm", 0.97,
      [](const KernelQuery& query) {
        return query.name == "gemm" && query.attributes.at("epilogue") == "none" &&
               query.attributes.at("a_type") != "int8" &&
               query.attributes.at("a_type") == query.attributes.at("b_type");
      },
      [](const KernelQuery& query) {
        return gemm(size(query, "n"), size(query, "m"), size(query, "k"),
                    {.type = type_of(query.attributes.at("a_type")),
                     .output_type = type_of(query.attributes.at("c_type")),
                     .batch = size(query, "batch"),
                     .a_transposed = query.attributes.at("transb") == "T",
                     .b_transposed = query.attributes.at("transa") == "T",
                     .tf32 = query.attributes.at("compute") == "tf32"});
      });
  for (const std::string name : {"sdpa_fwd", "sdpa_bwd"}) {
    expect_measured(
        name, 1.0,
        [&](const KernelQuery& query) {
          return query.name == name && !query.attributes.contains("mask") &&
                 !query.attributes.contains("dropout");
        },
        [&](const KernelQuery& query) {
          const AttentionShape shape = attention_shape(query);
          return name == "sdpa_fwd" ? attention_forward(shape) : attention_backward(shape);
        });
  }
  // Those that the keys were split for have other names.
  const std::array<std::string, 4> flash{"flash_bwd_dot_do_o_kernel", "flash_bwd_dq_dk_dv_loop",
                                         "flash_bwd_convert_dq_kernel", "flash_fwd_kernel"};
  for (std::size_t i = 0; i < flash.size(); ++i) {
    expect_measured(
        flash[i], 1.0,
        [&](const KernelQuery& query) { return query.name.find(flash[i]) != query.name.npos; },
        [&](const KernelQuery& query) {
          const AttentionShape shape = attention_shape(query);
          return i < 3 ? flash_attention_backward(shape)[i] : flash_attention_forward(shape);
        });
  }
  const auto rows = [](const KernelQuery& query) { return size(query, "rows"); };
  const auto cols = [](const KernelQuery& query) { return size(query, "cols"); };
  const auto rms = [](const KernelQuery& query) {
    return query.name.find(", true>(") != query.name.npos;
  };
  expect_measured(
      "norm forward", 1.0, named("vectorized_layer_norm_kernel"), [&](const KernelQuery& query) {
        return rms(query) ? rms_norm_forward(rows(query), cols(query), element(query))
                          : layer_norm_forward(rows(query), cols(query), element(query));
      });
  expect_measured(
      "norm backward", 1.0, named("layer_norm_grad_input_kernel_vectorized"),
      [&](const KernelQuery& query) {
        return rms(query) ? rms_norm_backward_input(rows(query), cols(query), element(query))
                          : layer_norm_backward_input(rows(query), cols(query), element(query));
      });
  expect_measured("norm weights", 0.75, named("GammaBetaBackward"), [&](const KernelQuery& query) {
    return rms(query) ? rms_norm_backward_weight(rows(query), cols(query), element(query))
                      : layer_norm_backward_weight(rows(query), cols(query), element(query));
  });
  const auto softmax = [&](bool forward) {
    return [&, forward](const KernelQuery& query) {
      return forward ? softmax_forward(rows(query), cols(query), element(query))
                     : softmax_backward(rows(query), cols(query), element(query));
    };
  };
  const auto plain = [](const std::string& part) {
    return [part](const KernelQuery& query) {
      return named(part)(query) && query.name.find(", false, false>") != query.name.npos;
    };
  };
  expect_measured("softmax forward", 1.0, plain("softmax_warp_forward"), softmax(true));
  expect_measured("softmax backward", 1.0, plain("softmax_warp_backward"), softmax(false));
  expect_measured(
      "elementwise", 0.95,
      [](const KernelQuery& query) {
        // The sweeps leave out bytes that follow from the elements.
        return query.features.contains("numel") && query.bytes == 0 &&
               query.name.find("vectorized_elementwise_kernel<") != query.name.npos &&
               (query.name.find("CUDAFunctor_add<c10::BFloat16>") != query.name.npos ||
                query.name.find("CUDAFunctor_add<float>") != query.name.npos);
      },
      [](const KernelQuery& query) {
        return elementwise(size(query, "numel"), 2, element(query));
      });
  expect_measured(
      "embedding", 0.5,
      [](const KernelQuery& query) {
        return query.name.find("vectorized_gather_kernel<16, long>") != query.name.npos;
      },
      [](const KernelQuery& query) {
        const double row = query.bytes / query.grid->x;
        return embedding(query.grid->x, static_cast<std::int64_t>((row - 8) / 2 / 2));
      });
}

TEST(Kernels, ArePricedFromMeasurementsOfTheirKind) {
  const KernelCostModel h200 = builtin_cost_model(gpu_model("h200"));
  const std::map<std::string, KernelQuery> queries{
      {"gemm", gemm(8192, 8192, 8192)},
      {"linear", linear_backward_weight(4096, 4096, 11008)},
      {"fp8", gemm(8192, 8192, 8192, ElementType::fp8_e4m3)},
      {"attention", attention_forward({.batch = 2, .heads = 32, .queries = 4096, .depth = 128})},
      {"attention back", attention_backward({.batch = 2, .heads = 32, .queries = 4096})},
      {"layer norm", layer_norm_forward(8192, 5120)},
      {"rms norm", rms_norm_forward(8192, 8192)},
      {"rms back", rms_norm_backward_input(8192, 8192)},
      {"rms weight", rms_norm_backward_weight(8192, 8192)},
      {"softmax", softmax_forward(8192, 512)},
      {"wide softmax", softmax_forward(8192, 50257)},
      {"softmax back", softmax_backward(8192, 50257, ElementType::fp32)},
      {"add", elementwise(100'000'000, 2)},
      {"gelu", elementwise(100'000'000)},
      {"swiglu", elementwise(100'000'000, 3)},
      {"embedding", embedding(8192, 8192)},
      {"adam", adam(20'000'000)},
      {"copy", copy(1_GB)}};
  for (const auto& [name, query] : queries) {
    const auto estimate = h200.estimate(query);
    ASSERT_TRUE(estimate) << name;
    EXPECT_TRUE(estimate->source == CostSource::fitted || estimate->source == CostSource::measured)
        << name << ": " << to_string(estimate->source);
    EXPECT_GT(estimate->stddev, Duration{}) << name;
  }
  // What moves bytes does so at 50 to 100 % of 4.8 TB/s.
  const auto share = [&](const std::string& name, double bytes) {
    return bytes / 4.8e12 / to_seconds(h200.estimate(queries.at(name))->duration);
  };
  for (const auto& [name, bytes] : std::map<std::string, double>{{"add", 6e8},
                                                                 {"gelu", 4e8},
                                                                 {"swiglu", 8e8},
                                                                 {"copy", 2e9},
                                                                 {"adam", 28 * 20e6},
                                                                 {"rms norm", 2.68e8}}) {
    EXPECT_GT(share(name, bytes), 0.5) << name;
    EXPECT_LT(share(name, bytes), 1.0) << name;
  }
}

TEST(Kernels, FlashAttentionAnswersFromWhatWasMeasured) {
  const KernelCostModel h200 = builtin_cost_model(gpu_model("h200"));
  const AttentionShape shape{.batch = 8, .heads = 64, .queries = 1024, .depth = 128};
  EXPECT_EQ(h200.estimate(flash_attention_forward(shape))->source, CostSource::measured);
  for (const KernelQuery& kernel : flash_attention_backward(shape))
    EXPECT_EQ(h200.estimate(kernel)->source, CostSource::measured) << kernel.name;
}

TEST(Kernels, FlashAttentionAddsUpTheGradientsOfSharedKeys) {
  AttentionShape shape{.batch = 8, .heads = 16, .key_heads = 8, .queries = 512, .depth = 128};
  const auto kernels = flash_attention_backward(shape);
  ASSERT_EQ(kernels.size(), 5U);
  EXPECT_EQ(kernels[3], kernels[4]);
  // 8 x 512 x 8 x 128 results, of which a block has 512: 20 us in the H200's sweep.
  EXPECT_EQ(kernels[3].grid->count(), 8192);
  const KernelCostModel h200 = builtin_cost_model(gpu_model("h200"));
  EXPECT_NEAR(to_seconds(h200.estimate(kernels[3])->duration), 20e-6, 3e-6);
  shape.key_heads = 16;
  EXPECT_EQ(flash_attention_backward(shape).size(), 3U);
  shape.key_heads = 0;
  EXPECT_EQ(flash_attention_backward(shape).size(), 3U);
}

TEST(Kernels, PyTorchChoosesAttentionByTheGpu) {
  const AttentionShape shape{
      .batch = 2, .heads = 32, .key_heads = 8, .queries = 4096, .depth = 128};
  const auto answer = [](const char* gpu, const KernelQuery& query) {
    return *builtin_cost_model(gpu_model(gpu)).estimate(query);
  };
  for (const char* gpu : {"h100", "h200", "b200"}) {
    EXPECT_EQ(answer(gpu, pytorch_attention_forward(shape)).duration,
              answer(gpu, attention_forward(shape)).duration);
    EXPECT_EQ(answer(gpu, pytorch_attention_backward(shape)).duration,
              answer(gpu, attention_backward(shape)).duration);
  }
  for (const char* gpu : {"a100", "l40s"}) {
    EXPECT_EQ(answer(gpu, pytorch_attention_forward(shape)).duration,
              answer(gpu, flash_attention_forward(shape)).duration);
    // The kernels of a backward pass, and the gaps between them.
    Duration sum = 4 * launch_gap;
    for (const KernelQuery& kernel : flash_attention_backward(shape))
      sum += answer(gpu, kernel).duration;
    const CostEstimate back = answer(gpu, pytorch_attention_backward(shape));
    EXPECT_EQ(back.duration, sum);
    EXPECT_EQ(back.limit, KernelLimit::arithmetic);
    EXPECT_GT(*back.memory_share, 0.0);
    EXPECT_LT(*back.memory_share, 0.5);
  }
  // What FlashAttention 2 does not take.
  AttentionShape wide = shape;
  wide.depth = 512;
  EXPECT_EQ(answer("a100", pytorch_attention_forward(wide)).duration,
            answer("a100", attention_forward(wide)).duration);
  EXPECT_THROW((void)flash_attention_forward(wide), ArgumentError);
  wide = shape;
  wide.type = ElementType::fp32;
  EXPECT_THROW((void)flash_attention_backward(wide), ArgumentError);
}

TEST(Kernels, OfOlderInstructionsGoWithTheirRate) {
  const GpuModel h200 = gpu_model("h200"), a100 = gpu_model("a100");
  const auto moved = [&](const KernelQuery& query, const GpuModel& target) {
    const auto here = FittedModel{h200, {{query, 10ms}}, h200}.estimate(query);
    const auto there = FittedModel{h200, {{query, 10ms}}, target}.estimate(query);
    return to_seconds(there->duration) / to_seconds(here->duration);
  };
  const KernelQuery flash = flash_attention_forward(
      {.batch = 8, .heads = 64, .queries = 4096, .depth = 128, .causal = false});
  // Of a step of a tile: 128 x 128 x 128 products twice, at 622 against 312 TFLOP/s, and what is
  // taken as 80 more of depth on an H200, with SMs and clock.
  const double clocks = 132 * 1.98 / (108 * 1.41);
  const double products = 128 / 0.629, others = 80;
  const double pace = (products * 989.4 * 0.629 / 312 + others * clocks) / (products + others);
  EXPECT_NEAR(moved(flash, a100), pace, 0.01);
  EXPECT_NEAR(moved(flash, gpu_model("h100")), 1.0, 0.01);
  // cuDNN's go with the peak, since it has others there: 989.4 against 312.
  const KernelQuery library =
      attention_forward({.batch = 8, .heads = 64, .queries = 4096, .depth = 128, .causal = false});
  EXPECT_NEAR(moved(library, a100), 989.4 / 312, 0.03);
  // Unaligned operands have cuBLAS turn to kernels of mma.sync.
  const KernelQuery unaligned = gemm(8190, 8190, 8190);
  EXPECT_LT(moved(unaligned, a100), 2.2);
  EXPECT_GT(moved(unaligned, a100), clocks);
}

TEST(Kernels, ManyParametersTakeTheMemorysTime) {
  const KernelCostModel h200 = builtin_cost_model(gpu_model("h200"));
  const auto seconds = [&](std::int64_t parameters) {
    return to_seconds(h200.estimate(adam(parameters))->duration);
  };
  EXPECT_NEAR(seconds(1'000'000'000), 28e9 / 4.8e12, 0.15 * 28e9 / 4.8e12);
  EXPECT_NEAR(seconds(22'000'000) / seconds(20'000'000), 1.1, 0.2);
}

TEST(Kernels, OfOnesOwn) {
  EXPECT_EQ(custom({.name = "mine", .bytes = 5, .flops = 6, .arithmetic = Arithmetic::half}),
            (KernelQuery{.name = "mine", .bytes = 5, .flops = 6, .arithmetic = Arithmetic::half}));
  EXPECT_THROW((void)custom({.name = "mine"}), ArgumentError);
  EXPECT_THROW((void)custom({.name = "gemm", .bytes = 5}), ArgumentError);
  const Kernel block = known_time(35us, "block", KernelLimit::arithmetic);
  EXPECT_EQ(block.known->duration, 35us);
  EXPECT_EQ(block.known->limit, KernelLimit::arithmetic);
  EXPECT_THROW((void)known_time(-1us), ArgumentError);
}

TEST(Kernels, SizesArePositive) {
  EXPECT_THROW((void)gemm(0, 1, 1), ArgumentError);
  EXPECT_THROW((void)gemm(1, 1, -1), ArgumentError);
  EXPECT_THROW((void)attention_forward({.heads = 0}), ArgumentError);
  EXPECT_THROW((void)rms_norm_forward(1, 0), ArgumentError);
  EXPECT_THROW((void)elementwise(1, 0), ArgumentError);
  EXPECT_THROW((void)adam(0), ArgumentError);
  EXPECT_THROW((void)copy(0_B), ArgumentError);
}

}  // namespace
}  // namespace phantora
