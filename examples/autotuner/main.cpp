// Which way to divide a 70B transformer over 128 GPUs is the fastest of those that fit?
#include <phantora/format.hpp>
#include <phantora/phantora.hpp>

#include <algorithm>
#include <vector>

using namespace phantora;

int main(int argc, char** argv) {
  const Simulation simulation{parse_cluster(argc > 1 ? argv[1] : "h200:16x8")};
  const int gpus = static_cast<int>(simulation.cluster().gpus.size());
  const TransformerShape model{.layers = 80, .hidden = 8192, .heads = 64, .mlp = 28672};
  constexpr int batch = 64;

  struct Candidate {
    Parallelism way;
    Report report{};
  };
  std::vector<Candidate> candidates;
  for (const int tensor : {1, 2, 4, 8})
    for (const int pipeline : {1, 2, 4, 8})
      if (const int data = gpus / (tensor * pipeline); data > 0 && batch % data == 0)
        candidates.push_back({{tensor, pipeline, data, batch}});

  std::vector<Workload> steps;
  for (const Candidate& it : candidates) steps.push_back(training_steps(model, it.way));
  const std::vector<Report> reports = simulation.run_all(steps);
  for (std::size_t i = 0; i < candidates.size(); ++i) candidates[i].report = reports[i];
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) {
                     return std::pair{!a.report.fits(), a.report.step()} <
                            std::pair{!b.report.fits(), b.report.step()};
                   });

  const double peak = gpu_model(simulation.cluster().gpu_model).half.per_second() * gpus;
  fmt::print("tensor pipeline data       step  MFU %  exposed  waiting    memory\n");
  for (const auto& [way, report] : candidates) {
    const double step = to_seconds(report.step());
    const auto share = [&](Duration part) { return 100 * to_seconds(part) / step; };
    fmt::print("{:6} {:8} {:4} {:8.3f} s {:6.1f} {:6.1f} % {:6.1f} % {:>9}{}\n", way.tensor,
               way.pipeline, way.data, step, 100 * flops_per_sequence(model) * batch / peak / step,
               share(report.exposed()), share(report.waiting()),
               fmt::format("{:.1GiB}", report.peak_memory()),
               report.fits() ? "" : ", does not fit");
  }
}
