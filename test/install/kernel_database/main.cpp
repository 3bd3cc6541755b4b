#include <phantora/kernels/kernel_database.hpp>
#include <phantora/phantora.hpp>

#include <cassert>
#include <cstdio>
#include <vector>

int main() {
  using namespace phantora;
  const char* const path = "kernel_database_consumer.db";
  std::remove(path);
  {
    KernelDatabase made{path, KernelDatabase::Access::write};
    made.add({.gpu = "NVIDIA H200"},
             std::vector{MeasuredKernel{gemm(64, 64, 64), {{Duration{5'000'000}, 2}}}});
  }
  const KernelDatabase mine{path};
  const Simulation simulation{parse_cluster("h200:1x1"), {.costs = [&](const GpuModel& gpu) {
                                return first_of(mine.model(gpu), builtin_cost_model(gpu));
                              }}};
  const Report report = simulation.run(Workload{}.launch(0, gemm(64, 64, 64)));
  assert(report.kernels().by_source[static_cast<std::size_t>(CostSource::database)].count() ==
         5'000'000);
  std::remove(path);
}
