#include <phantora/fitted_model.hpp>
#include <phantora/kernel_check.hpp>
#include <phantora/kernel_limits.hpp>
#include <phantora/kernel_work.hpp>
#include <phantora/roofline.hpp>

#include <Eigen/Dense>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>

namespace phantora {

namespace {

constexpr int dimensions = static_cast<int>(KernelWork::dimensions);
using Point = Eigen::Array<float, 1, dimensions>;
/// Neighbours that enter an estimate; 20 to 64 give the same held-out errors to 0.2 %.
constexpr Eigen::Index neighbour_count = 24;
/// Variance of the log-inefficiency within a group, and of repeated measurements (the 17 GEMMs
/// that both sweeps measured differ by 5 % in the median). Held-out errors barely depend on either.
constexpr double signal_variance = 0.1;
constexpr double noise_variance = 0.003;
/// Variance of a group's mean: wide, so that the data alone determine it.
constexpr double mean_variance = 1.0;
/// Squared distance between kernels of different families of a group.
constexpr float family_distance = 1.5F;

/// A row per measured kernel.
struct Group {
  Eigen::Array<float, Eigen::Dynamic, dimensions> coordinates;
  Eigen::ArrayXf inefficiency;  // log(measured / roofline)
  Eigen::ArrayXf family;        // as a number, which compares faster than its name
  std::unordered_map<std::string, float> families;

  /// Squared distances of all rows from a point.
  [[nodiscard]] Eigen::ArrayXf distances(const Point& at, float own_family) const {
    Eigen::ArrayXf sum = (family != own_family).cast<float>() * family_distance;
    for (int d = 0; d < dimensions; ++d) sum += (coordinates.col(d) - at(d)).square();
    return sum;
  }
};

/// Exponential covariance: inefficiencies jump where the library changes its kernel, so no
/// smoother one fits.
double covariance(double squared_distance) {
  return signal_variance * std::exp(-std::sqrt(squared_distance));
}

Point point_of(const KernelWork& work) { return Eigen::Map<const Point>(work.coordinates.data()); }

/// Sorted data would make the search for the nearest rows find ever nearer ones. The same order
/// with every standard library.
template <class T>
void shuffle(std::vector<T>& rows) {
  std::mt19937 random;
  for (std::size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[random() % i]);
}

/// What a query says if nothing is read off the launch's parameters.
KernelQuery without_size(KernelQuery query) {
  query.features.clear();
  query.bytes = 0.0;
  return query;
}

/// Indices of the least distances, least first; of equal ones the first.
std::vector<Eigen::Index> nearest_of(const Eigen::ArrayXf& distance) {
  using Neighbour = std::pair<float, Eigen::Index>;
  std::vector<Neighbour> nearest;  // a heap, farthest first
  nearest.reserve(neighbour_count);
  const Eigen::Index first = std::min(distance.size(), neighbour_count);
  for (Eigen::Index i = 0; i < first; ++i) nearest.emplace_back(distance(i), i);
  std::make_heap(nearest.begin(), nearest.end());
  for (Eigen::Index i = first; i < distance.size(); ++i) {
    if (distance(i) >= nearest.front().first) continue;
    std::pop_heap(nearest.begin(), nearest.end());
    nearest.back() = {distance(i), i};
    std::push_heap(nearest.begin(), nearest.end());
  }
  std::sort_heap(nearest.begin(), nearest.end());
  std::vector<Eigen::Index> indices;
  for (const Neighbour& neighbour : nearest) indices.push_back(neighbour.second);
  return indices;
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
  for (auto& [name, rows] : samples) {
    shuffle(rows);
    const auto count = static_cast<Eigen::Index>(rows.size());
    Group group{{count, dimensions}, Eigen::ArrayXf(count), Eigen::ArrayXf(count), {}};
    for (Eigen::Index i = 0; i < count; ++i) {
      const auto& [work, inefficiency] = rows[static_cast<std::size_t>(i)];
      group.coordinates.row(i) = point_of(work);
      group.inefficiency(i) = inefficiency;
      const auto number = static_cast<float>(group.families.size());
      group.family(i) = group.families.try_emplace(work.family, number).first->second;
    }
    body->groups.emplace(name, std::move(group));
  }
  body_ = std::move(body);
}

std::optional<CostEstimate> FittedModel::estimate(const KernelQuery& query) const {
  check(query, body_->target.gpu());
  KernelWork work = describe(query);
  auto found = body_->groups.find(work.group);
  if (found == body_->groups.end() && query.grid) {
    // The kernel may have been measured without its size being known.
    work = describe(without_size(query));
    found = body_->groups.find(work.group);
  }
  if (found == body_->groups.end()) return std::nullopt;
  const Group& group = found->second;

  const auto known_family = group.families.find(work.family);
  const Eigen::ArrayXf distance = group.distances(
      point_of(work), known_family == group.families.end() ? -1.0F : known_family->second);
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
      float apart = (group.coordinates.row(a) - group.coordinates.row(b)).square().sum();
      if (group.family(a) != group.family(b)) apart += family_distance;
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
  return with_limits(
      {duration_from_seconds(seconds), duration_from_seconds(seconds * std::sqrt(variance)),
       same_gpu ? CostSource::fitted : CostSource::roofline},
      query, body_->target.gpu());
}

}  // namespace phantora
