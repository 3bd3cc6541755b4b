#include <phantora/fitted_model.hpp>
#include <phantora/kernel_work.hpp>
#include <phantora/roofline.hpp>

#include <Eigen/Dense>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace phantora {

namespace {

constexpr int dimensions = static_cast<int>(KernelWork::dimensions);
/// Neighbours that enter an estimate; 20 to 64 give the same held-out errors to 0.2 %.
constexpr std::size_t neighbour_count = 24;
/// Variance of the log-inefficiency within a group, and of repeated measurements (the 17 GEMMs
/// that both sweeps measured differ by 5 % in the median). Held-out errors barely depend on either.
constexpr double signal_variance = 0.1;
constexpr double noise_variance = 0.003;
/// Variance of a group's mean: wide, so that the data alone determine it.
constexpr double mean_variance = 1.0;
/// Squared distance between kernels of different families of a group.
constexpr float family_distance = 1.5F;

struct Group {
  Eigen::Matrix<float, dimensions, Eigen::Dynamic> coordinates;
  Eigen::ArrayX<std::size_t> families;
  Eigen::VectorXf inefficiency;  // log(measured / roofline)
};

/// Exponential covariance: inefficiencies jump where the library changes its kernel, so no
/// smoother one fits.
double covariance(double squared_distance) {
  return signal_variance * std::exp(-std::sqrt(squared_distance));
}

/// What a query says if nothing is read off the launch's parameters.
KernelQuery without_size(KernelQuery query) {
  query.features.clear();
  query.bytes = 0.0;
  return query;
}

/// Indices of the least distances, least first; of equal ones the first.
std::vector<Eigen::Index> nearest_of(const Eigen::ArrayXf& distance) {
  // The bits of a float >= 0 order as the float does: one integer per neighbour sorts by both.
  std::vector<std::uint64_t> keys(static_cast<std::size_t>(distance.size()));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const float d = distance(static_cast<Eigen::Index>(i));
    keys[i] = std::uint64_t{std::bit_cast<std::uint32_t>(d)} << 32U | i;
  }
  const std::size_t count = std::min(neighbour_count, keys.size());
  const auto end = keys.begin() + static_cast<std::ptrdiff_t>(count);
  std::nth_element(keys.begin(), end - 1, keys.end());
  std::sort(keys.begin(), end);
  std::vector<Eigen::Index> nearest;
  for (auto key = keys.begin(); key != end; ++key) {
    nearest.push_back(static_cast<Eigen::Index>(*key & 0xffffffffU));
  }
  return nearest;
}

}  // namespace

struct FittedModel::Body {
  Roofline measured;
  Roofline target;
  std::unordered_map<std::string, Group> groups;
};

FittedModel::FittedModel(const GpuModel& measured_on, const std::vector<Measurement>& data,
                         const GpuModel& target) {
  auto body = std::make_shared<Body>(Body{Roofline{measured_on}, Roofline{target}, {}});
  struct Sample {
    KernelWork work;
    float inefficiency;
  };
  std::unordered_map<std::string, std::vector<Sample>> samples;
  const auto learn = [&](KernelWork work, Duration duration) {
    const double expected = body->measured.seconds(work);
    auto& group = samples[work.group];
    group.push_back(
        {std::move(work), static_cast<float>(std::log(to_seconds(duration) / expected))});
  };
  for (const Measurement& row : data) {
    KernelWork work = describe(row.query);
    // A launch of which only the grid will be known is compared with what such grids took, whatever
    // their sizes were.
    KernelWork guessed = describe(without_size(row.query));
    if (guessed.group.ends_with("/grid") && guessed.group != work.group) {
      learn(std::move(guessed), row.duration);
    }
    learn(std::move(work), row.duration);
  }
  for (const auto& [name, rows] : samples) {
    const auto count = static_cast<Eigen::Index>(rows.size());
    Group group{{dimensions, count}, Eigen::ArrayX<std::size_t>(count), Eigen::VectorXf(count)};
    for (Eigen::Index i = 0; i < count; ++i) {
      const auto& [work, inefficiency] = rows[static_cast<std::size_t>(i)];
      group.coordinates.col(i) =
          Eigen::Map<const Eigen::Matrix<float, dimensions, 1>>(work.coordinates.data());
      group.families(i) = std::hash<std::string>{}(work.family);
      group.inefficiency(i) = inefficiency;
    }
    body->groups.emplace(name, std::move(group));
  }
  body_ = std::move(body);
}

std::optional<CostEstimate> FittedModel::estimate(const KernelQuery& query) const {
  KernelWork work = describe(query);
  auto found = body_->groups.find(work.group);
  if (found == body_->groups.end()) {
    // The kernel may have been measured without its size being known.
    work = describe(without_size(query));
    found = body_->groups.find(work.group);
  }
  if (found == body_->groups.end()) return std::nullopt;
  const Group& group = found->second;

  const Eigen::Matrix<float, dimensions, 1> at =
      Eigen::Map<const Eigen::Matrix<float, dimensions, 1>>(work.coordinates.data());
  const std::size_t family = std::hash<std::string>{}(work.family);
  const Eigen::Index total = group.inefficiency.size();
  Eigen::ArrayXf distance = (group.coordinates.colwise() - at).colwise().squaredNorm().transpose();
  for (Eigen::Index i = 0; i < total; ++i) {
    if (group.families(i) != family) distance(i) += family_distance;
  }

  const auto nearest = nearest_of(distance);
  const auto count = static_cast<Eigen::Index>(nearest.size());
  Eigen::MatrixXd among(count, count);
  Eigen::VectorXd toward(count);
  Eigen::VectorXd values(count);
  for (Eigen::Index i = 0; i < count; ++i) {
    const Eigen::Index a = nearest[static_cast<std::size_t>(i)];
    toward(i) = covariance(static_cast<double>(distance(a))) + mean_variance;
    values(i) = static_cast<double>(group.inefficiency(a));
    for (Eigen::Index j = 0; j <= i; ++j) {
      const Eigen::Index b = nearest[static_cast<std::size_t>(j)];
      float apart = (group.coordinates.col(a) - group.coordinates.col(b)).squaredNorm();
      if (group.families(a) != group.families(b)) apart += family_distance;
      among(i, j) = covariance(static_cast<double>(apart)) + mean_variance;
    }
    among(i, i) += noise_variance;
  }
  const Eigen::LLT<Eigen::MatrixXd> factor{among.selfadjointView<Eigen::Lower>()};
  const Eigen::VectorXd weights = factor.solve(toward);
  const double inefficiency = weights.dot(values);
  const double variance = std::max(
      noise_variance, signal_variance + mean_variance + noise_variance - weights.dot(toward));

  const double seconds = body_->target.seconds(work) * std::exp(inefficiency);
  const bool same_gpu = body_->measured.gpu().key == body_->target.gpu().key;
  return CostEstimate{duration_from_seconds(seconds),
                      duration_from_seconds(seconds * std::sqrt(variance)),
                      same_gpu ? CostSource::fitted : CostSource::roofline};
}

}  // namespace phantora
