// What a kernel's price costs: CPU time per estimate of the built-in model.
#include <phantora/kernels/builtin_cost_model.hpp>
#include <phantora/kernels/gpu_model.hpp>
#include <phantora/kernels/kernels.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

namespace {

using namespace phantora;

constexpr std::int64_t kinds = 64;

/// Prices such queries one after another, each another one, so that nothing is asked for twice in a
/// row.
void price(benchmark::State& state, const char* gpu, const std::vector<KernelQuery>& queries) {
  const KernelCostModel costs = builtin_cost_model(gpu_model(gpu));
  std::size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(costs.estimate(queries[next]));
    next = (next + 1) % queries.size();
  }
  const char* const names[] = {"measured", "fitted", "roofline", "unknown", "code", "grid"};
  const auto estimate = costs.estimate(queries.front());
  state.SetLabel(estimate ? names[static_cast<std::size_t>(estimate->source)] : "none");
  const auto estimates = static_cast<double>(state.iterations());
  state.counters["us/estimate"] = benchmark::Counter(
      estimates * 1e-6, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

template <class Make>
std::vector<KernelQuery> several(Make make) {
  std::vector<KernelQuery> queries;
  for (std::int64_t i = 0; i < kinds; ++i) queries.push_back(make(i));
  return queries;
}

/// Every so many-th row of the measurements: exact hits.
std::vector<KernelQuery> known() {
  const std::vector<Measurement>& rows = builtin_measurements();
  const std::size_t stride = rows.size() / static_cast<std::size_t>(kinds);
  return several([&](std::int64_t i) { return rows[static_cast<std::size_t>(i) * stride].query; });
}
// Odd sizes, which nobody has measured.
std::vector<KernelQuery> gemms() {
  return several([](std::int64_t i) { return gemm(1000 + 8 * i, 3000, 2000, ElementType::bf16); });
}
std::vector<KernelQuery> attentions() {
  return several([](std::int64_t i) {
    return attention_forward({.batch = 3, .heads = 12, .queries = 1000 + 8 * i});
  });
}
std::vector<KernelQuery> elementwises() {
  return several([](std::int64_t i) { return elementwise(1'234'567 + i, 2); });
}
std::vector<KernelQuery> customs() {
  return several([](std::int64_t i) {
    return KernelQuery{.name = "my_kernel", .bytes = 1e8 + static_cast<double>(i)};
  });
}

void exact(benchmark::State& state) { price(state, "h200", known()); }
void gemm_bf16(benchmark::State& state, const char* gpu) { price(state, gpu, gemms()); }
void attention(benchmark::State& state, const char* gpu) { price(state, gpu, attentions()); }
void pointwise(benchmark::State& state, const char* gpu) { price(state, gpu, elementwises()); }
void of_ones_own(benchmark::State& state, const char* gpu) { price(state, gpu, customs()); }
BENCHMARK(exact);
BENCHMARK_CAPTURE(gemm_bf16, h200, "h200");
BENCHMARK_CAPTURE(gemm_bf16, l40s, "l40s");
BENCHMARK_CAPTURE(attention, h200, "h200");
BENCHMARK_CAPTURE(attention, l40s, "l40s");
BENCHMARK_CAPTURE(pointwise, h200, "h200");
BENCHMARK_CAPTURE(pointwise, l40s, "l40s");
BENCHMARK_CAPTURE(of_ones_own, h200, "h200");

}  // namespace
