// Prints how well the H200's kernels are predicted when they are held out of the fit.
//
// Usage: kernel_cv [--detailed] [--judges|--h100-judges JUDGES.tsv] [STEP.tsv...], where a step is
// a file of kernel data whose feature `count` says how often each kernel runs, e.g.
// test/data/gpt2_b8_step.tsv, and judges are kernels that were held out for good
// (lib/kernels/data/make_table.py writes them).
#include "cross_validation.hpp"

#include <phantora/kernels/builtin_cost_model.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <string_view>
#include <vector>

namespace {

using namespace phantora;
using namespace phantora::accuracy;

void print(const char* title, const std::vector<Prediction>& predictions,
           std::string Prediction::*key = &Prediction::family) {
  std::printf("\n%s\n%-50s %6s %7s %7s %7s %7s\n", title, "family", "count", "mean %", "median",
              "p90", "total");
  const auto row = [](const std::string& family, const Error& e) {
    std::printf("%-50.50s %6zu %7.1f %7.1f %7.1f %7.3f\n", family.c_str(), e.count, 100 * e.mean,
                100 * e.median, 100 * e.p90, e.total);
  };
  for (const auto& [family, error] : errors_by(key, predictions)) row(family, error);
  row("all", error_of(predictions));
  const Coverage coverage = coverage_of(predictions);
  std::printf("%.1f %% within one standard deviation, %.1f %% within two; median bar %.1f %%\n",
              100 * coverage.one, 100 * coverage.two, 100 * coverage.median_bar);
}

/// Predicts each kernel of a step, in the format of the kernel data with the feature "count".
void replay(const std::filesystem::path& path, const KernelCostModel& model, bool each) {
  struct Share {
    double measured = 0, predicted = 0;
  };
  std::map<std::string, Share> shares;
  std::map<std::string_view, double> sources;
  for (Measurement& row : read_measurements(path)) {
    const double count = row.query.features.extract("count").mapped();
    const auto estimate = model.estimate(row.query);
    const double measured = count * to_seconds(row.duration);
    const double predicted = count * to_seconds(estimate->duration);
    for (const std::string& family : {family_of(row.query), std::string{"whole step"}}) {
      shares[family].measured += measured;
      shares[family].predicted += predicted;
    }
    sources[to_string(estimate->source)] += predicted;
    if (each) {
      std::printf("%8.1f %8.1f %6.3f %5.0f %s %.130s\n", 1e6 * measured, 1e6 * predicted,
                  predicted / measured, count, to_string(estimate->source).data(),
                  row.query.name.c_str());
    }
  }
  std::printf("\n%s, us\n%-34s %10s %10s %7s\n", path.filename().c_str(), "family", "measured",
              "predicted", "ratio");
  for (const auto& [family, s] : shares) {
    std::printf("%-34s %10.1f %10.1f %7.3f\n", family.c_str(), 1e6 * s.measured, 1e6 * s.predicted,
                s.predicted / s.measured);
  }
  for (const auto& [source, seconds] : sources) {
    std::printf("%s: %.1f us\n", std::string{source}.c_str(), 1e6 * seconds);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const GpuModel gpu = gpu_model("h200");
  const GpuModel h100 = gpu_model("h100");
  const std::vector<Measurement>& rows = builtin_measurements();
  const std::vector<Measurement>& h100_rows = builtin_measurements("h100");
  const auto bound = predict(rows, Roofline{gpu});
  const auto held_out = cross_validate(rows, gpu, Holdout::random);
  print("Fitted, every fifth kernel held out at random", held_out);
  print("Fitted, whole neighbourhoods held out", cross_validate(rows, gpu, Holdout::neighbourhood));
  print("Roofline alone", bound);
  print("An H100: fitted, every fifth kernel held out at random",
        cross_validate(h100_rows, h100, Holdout::random));
  print("An H100 by the H200's kernels", predict(h100_rows, by_another(gpu, rows, h100)));
  print("The H200 by an H100's kernels", predict(rows, by_another(h100, h100_rows, gpu)));
  const std::span<char*> arguments{argv + 1, static_cast<std::size_t>(argc - 1)};
  bool detailed = false;
  const GpuModel* judged = nullptr;
  for (const std::string_view argument : arguments) {
    if (argument == "--judges") {
      judged = &gpu;
    } else if (argument == "--h100-judges") {
      judged = &h100;
    } else if (judged != nullptr) {
      print(
          "Judges, which were never fitted",
          predict(read_measurements(std::filesystem::path{argument}), builtin_cost_model(*judged)));
      judged = nullptr;
    } else if (argument == "--detailed") {
      detailed = true;
      print("Fitted, at random, by group", held_out, &Prediction::group);
      print("Roofline alone, by group", bound, &Prediction::group);
    } else {
      replay(argument, builtin_cost_model(gpu), detailed);
    }
  }

  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const KernelCostModel model = builtin_cost_model(gpu);
  const auto loaded = Clock::now();
  const FittedModel fitted{gpu, rows, gpu};
  const auto begin = Clock::now();
  double sum = 0;
  for (const Measurement& row : rows) sum += to_seconds(fitted.estimate(row.query)->duration);
  const auto end = Clock::now();
  const auto us = [](auto span) { return std::chrono::duration<double, std::micro>(span).count(); };
  std::printf("\nLoaded in %.0f ms; %.1f us per fitted estimate (sum %.3f s)\n",
              us(loaded - start) / 1e3, us(end - begin) / static_cast<double>(rows.size()), sum);
  return EXIT_SUCCESS;
} catch (const std::exception& error) {
  std::fprintf(stderr, "kernel_cv: %s\n", error.what());
  return EXIT_FAILURE;
}
