#pragma once

#include <phantora/kernels/fitted_model.hpp>
#include <phantora/kernels/kernel_data.hpp>
#include <phantora/kernels/kernel_work.hpp>
#include <phantora/kernels/roofline.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

/// How well kernels are predicted that the model has not seen.
namespace phantora::accuracy {

/// How the kernels are dealt to the folds, each of which is predicted from the others.
enum class Holdout {
  random,        ///< each kernel on its own: what interpolation between measured shapes costs
  neighbourhood  ///< all kernels of a cell of shape space together: no near neighbour is left
};

struct Prediction {
  std::string family;   ///< for the table: "gemm bf16", "elementwise", ...
  std::string group;    ///< as in KernelWork
  double measured = 0;  ///< seconds
  double predicted = 0;
  double stddev = 0;
};

struct Error {
  std::size_t count = 0;
  double mean = 0, median = 0, p90 = 0;  ///< of |predicted / measured - 1|
  double total = 0;                      ///< sum predicted / sum measured
};

/// Shares of predictions whose measurement lies within one, and two, of their own standard
/// deviations.
struct Coverage {
  double one = 0, two = 0;
  double median_bar = 0;  ///< median of stddev / predicted
};

/// FNV-1a: the folds must be the same with every standard library.
inline std::uint64_t stable_hash(const std::string& text) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 1099511628211ULL;
  }
  return hash;
}

inline std::string family_of(const KernelQuery& query) {
  const std::string group = describe(query).group;
  if (group.ends_with("/code")) return "by code";
  if (group.find("vector product") != std::string::npos) return "vector product";
  if (query.name == "gemm") {
    const auto type = query.attributes.find("a_type");
    const auto compute = query.attributes.find("compute");
    std::string name = type->second == "fp32" ? compute->second : type->second;
    return "gemm " + name + (group.ends_with("unaligned") ? " unaligned" : "");
  }
  if (group.starts_with("conv_depthwise2d")) return "convolution depthwise, PyTorch's";
  if (query.name.starts_with("conv_") && !query.grid) {
    const auto is_one = [&](const char* key) {
      const auto found = query.features.find(key);
      return found == query.features.end() || found->second <= 1.0;
    };
    if (query.features.contains("t"))
      return is_one("groups") ? "convolution of volumes" : "convolution of volumes, grouped";
    return query.attributes.contains("plan")               ? "convolution tried"
           : group.find("/depthwise") != std::string::npos ? "convolution depthwise"
           : !is_one("groups")                             ? "convolution grouped"
           : !is_one("dilation_w")                         ? "convolution dilated"
                                                           : "convolution";
  }
  if (group.starts_with("rnn_")) return "recurrent network";
  if (group.starts_with("batch_norm_")) return "batch norm";
  if (group.starts_with("sdpa_") || group.starts_with("flash_") || group.starts_with("fmha_")) {
    return "attention";
  }
  if (group.ends_with("elementwise_kernel")) return "elementwise";
  if (group.starts_with("by index/")) return "by index";
  if (group.starts_with("grouped product")) return "grouped product";
  if (group.starts_with("fft")) return "transform";
  if (group.starts_with("spm") || group == "sddmm") return "sparse product";
  if (!query.grid && query.attributes.contains("type") && query.features.contains("batch"))
    return "dense algebra";
  if (group.starts_with("memcpy_") || group == "memset") return "copy";
  if (group == "multi_tensor_apply_kernel") return "multi-tensor";
  return "reduction, normalisation, other";
}

/// What a model makes of rows that it was not fitted to.
inline std::vector<Prediction> predict(const std::vector<Measurement>& rows,
                                       const KernelCostModel& model) {
  std::vector<Prediction> predictions;
  for (const Measurement& row : rows) {
    const auto estimate = model.estimate(row.query);
    predictions.push_back({family_of(row.query), describe(row.query).group,
                           to_seconds(row.duration), to_seconds(estimate->duration),
                           to_seconds(estimate->stddev)});
  }
  return predictions;
}

/// What a GPU that nobody measured gets: another's kernels, taken to it.
inline KernelCostModel by_another(const GpuModel& measured, const std::vector<Measurement>& rows,
                                  const GpuModel& target) {
  return first_of(FittedModel{measured, rows, target}, Roofline{target});
}

inline std::vector<Prediction> cross_validate(const std::vector<Measurement>& rows,
                                              const GpuModel& gpu, Holdout holdout) {
  constexpr std::size_t folds = 5;
  std::vector<std::size_t> fold;
  for (const Measurement& row : rows) {
    const KernelWork work = describe(row.query);
    std::string cell = work.group;
    if (holdout == Holdout::random) {
      cell += work.family + std::to_string(row.query.grid.value_or(KernelQuery::Dim3{}).count()) +
              std::to_string(row.duration.count());
      for (const auto& [key, value] : row.query.features) cell += key + std::to_string(value);
    } else {
      // Half a length scale: a factor of e in each of m, n, k of a GEMM.
      for (const float x : work.coordinates) {
        cell += ' ';
        cell += std::to_string(std::lround(x * 2.0F));
      }
    }
    fold.push_back(stable_hash(cell) % folds);
  }
  std::vector<Prediction> predictions;
  const Roofline roofline{gpu};
  for (std::size_t held = 0; held < folds; ++held) {
    std::vector<Measurement> known;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (fold[i] != held) known.push_back(rows[i]);
    }
    std::vector<Measurement> unknown;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (fold[i] == held) unknown.push_back(rows[i]);
    }
    const auto held_out = predict(unknown, first_of(FittedModel{gpu, known, gpu}, roofline));
    predictions.insert(predictions.end(), held_out.begin(), held_out.end());
  }
  return predictions;
}

inline Error error_of(const std::vector<Prediction>& predictions) {
  std::vector<double> errors;
  double measured = 0;
  double predicted = 0;
  for (const Prediction& p : predictions) {
    errors.push_back(std::abs(p.predicted / p.measured - 1.0));
    measured += p.measured;
    predicted += p.predicted;
  }
  std::ranges::sort(errors);
  Error error{.count = errors.size(), .total = predicted / measured};
  for (const double e : errors) error.mean += e / static_cast<double>(errors.size());
  error.median = errors[errors.size() / 2];
  error.p90 = errors[errors.size() * 9 / 10];
  return error;
}

inline Coverage coverage_of(const std::vector<Prediction>& predictions) {
  Coverage coverage;
  std::vector<double> bars;
  for (const Prediction& p : predictions) {
    const double off = std::abs(p.predicted - p.measured) / p.stddev;
    coverage.one += off < 1.0 ? 1.0 : 0.0;
    coverage.two += off < 2.0 ? 1.0 : 0.0;
    bars.push_back(p.stddev / p.predicted);
  }
  coverage.one /= static_cast<double>(predictions.size());
  coverage.two /= static_cast<double>(predictions.size());
  std::ranges::sort(bars);
  coverage.median_bar = bars[bars.size() / 2];
  return coverage;
}

inline std::map<std::string, Error> errors_by(std::string Prediction::*key,
                                              const std::vector<Prediction>& predictions) {
  std::map<std::string, std::vector<Prediction>> families;
  for (const Prediction& p : predictions) families[p.*key].push_back(p);
  std::map<std::string, Error> errors;
  for (const auto& [family, members] : families) errors.emplace(family, error_of(members));
  return errors;
}

}  // namespace phantora::accuracy
