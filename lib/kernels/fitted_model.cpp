#include "kernels/code_roofline.hpp"

#include <phantora/kernels/fitted_model.hpp>
#include <phantora/kernels/kernel_check.hpp>
#include <phantora/kernels/kernel_limits.hpp>
#include <phantora/kernels/kernel_work.hpp>
#include <phantora/kernels/roofline.hpp>

#include <Eigen/Dense>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

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
/// Of products, what neighbours tell nothing of: the roofline has their tiles, and what is left is
/// the library's choice among them. Of 0.003 to 0.15, 0.03 to 0.06 leave the least held-out errors
/// of those in bf16 (6.9 % in the mean instead of 7.3, 15.9 instead of 16.9 at p90).
constexpr double choice_variance = 0.06;
/// Variance of a group's mean: wide, so that the data alone determine it.
constexpr double mean_variance = 1.0;
/// How the neighbours' deviations from each other's predictions count, beside one deviation that is
/// a half of what the covariance says. Of every fifth kernel held out, 73 % then lie within one
/// standard deviation and 93 % within two; any share from 0.3 to 1 changes that by less than 2 %.
constexpr double prior_deviation = 0.5;
/// Standard deviation of a normal distribution over its mean absolute deviation.
const double stddev_of_mean_deviation = std::sqrt(std::numbers::pi / 2.0);
/// Standard deviations of what another GPU takes, over what Roofline::on() makes of an H200's time:
/// of one half of 17,085 kernels that an H100 ran as well, 68 % of those of the tensor cores
/// deviate by up to 5 % and 95 % by up to 15 %; of the others, 11 % and 24 %. The other half: the
/// same.
constexpr double transfer_of_arithmetic = 0.06;
constexpr double transfer_of_memory = 0.11;
/// Over how much longer distances the kernels that memory limits resemble each other: of 1 to 7
/// times, 2 to 4 leave the least held-out errors, on four folds of five of the H200's kernels (11.1
/// % in the mean of 5,995, 12.7 % with the libraries' covariance). The fifth judged.
constexpr double smooth_length = 3.0;
constexpr int outlier_rounds = 2;
constexpr double outlier_factor = 2.5;
/// Squared distance between kernels of different families of a group.
constexpr float family_distance = 1.5F;

/// A row per measured kernel.
struct Group {
  Eigen::Array<float, Eigen::Dynamic, dimensions> coordinates;
  Eigen::ArrayXf inefficiency;  // log(measured / roofline)
  Eigen::ArrayXf deviation;     // variance beyond a measurement's, of what another GPU measured
  Eigen::ArrayXf family;        // as a number, which compares faster than its name
  bool smooth = false;          // no library chooses among kernels
  double noise = noise_variance;
  std::unordered_map<std::string, float> families;

  /// Squared distances of all rows from a point.
  [[nodiscard]] Eigen::ArrayXf distances(const Point& at, float own_family) const {
    Eigen::ArrayXf sum = (family != own_family).cast<float>() * family_distance;
    for (int d = 0; d < dimensions; ++d) sum += (coordinates.col(d) - at(d)).square();
    return sum;
  }
};

/// How alike two inefficiencies are, at this squared distance. A kernel of its own changes smoothly
/// with its sizes: Matern's covariance of order 3/2, over longer distances. A call of a library
/// changes its kernel, where inefficiencies jump: an exponential one.
double covariance(double squared_distance, bool smooth) {
  if (!smooth) return signal_variance * std::exp(-std::sqrt(squared_distance));
  const double x = std::sqrt(3.0 * squared_distance) / smooth_length;
  return signal_variance * (1.0 + x) * std::exp(-x);
}

Point point_of(const KernelWork& work) { return Eigen::Map<const Point>(work.coordinates.data()); }

/// Whether a group's kernels change smoothly along their coordinates. Where only the grid is known
/// these do not tell the sizes, and what is beyond them must not be told from how they go.
bool smooth_in(const std::string& group, const KernelWork& work) {
  return work.limit == KernelLimit::memory && !group.ends_with("/grid");
}

/// Sorted data would make the search for the nearest rows find ever nearer ones. The same order
/// with every standard library.
template <class T>
void shuffle(std::vector<T>& rows) {
  std::mt19937 random;
  for (std::size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[random() % i]);
}

double noise_in(const std::string& group) {
  return group == "gemm/half" || group == "gemm/tf32" ? choice_variance : noise_variance;
}

/// Of what another GPU takes for this.
double transfer_deviation(const KernelWork& work) {
  return work.limit == KernelLimit::arithmetic ? transfer_of_arithmetic : transfer_of_memory;
}

/// What a query says if nothing is read off the launch's parameters.
KernelQuery without_size(KernelQuery query) {
  query.features.clear();
  query.bytes = 0.0;
  return query;
}

/// What is expected of a launch before any measurement is looked at.
double expected_seconds(const Roofline& roofline, const KernelQuery& query,
                        const KernelWork& work) {
  return detail::tells_code(query) ? to_seconds(roofline.estimate(query)->duration)
                                   : roofline.seconds(work);
}

/// The same of a launch that was measured again and again, which found what it had left there of
/// operands that fit the L2 cache. Of other kernels than those told by their code that is expected
/// anyway.
double expected_when_measured(const Roofline& roofline, const KernelQuery& query,
                              const KernelWork& work) {
  const bool fits = query.bytes < static_cast<double>(roofline.gpu().l2.count());
  if (!detail::tells_code(query) || !fits) return expected_seconds(roofline, query, work);
  KernelQuery warm = query;
  warm.operands = {.read = query.bytes / 2.0, .written = query.bytes / 2.0, .cold = 0.0};
  return expected_seconds(roofline, warm, work);
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
                         const GpuModel& target, const Elsewhere& elsewhere) {
  auto body = std::make_shared<Body>(Body{Roofline{measured_on}, Roofline{target}, {}});
  struct Sample {
    KernelWork work;
    float inefficiency;
    float deviation;
  };
  std::unordered_map<std::string, std::vector<Sample>> samples;
  const auto learn = [&](KernelWork work, double over_expected, double deviation) {
    auto& group = samples[work.group];
    group.push_back({std::move(work), static_cast<float>(std::log(over_expected)),
                     static_cast<float>(deviation)});
  };
  // A launch of which only the grid will be known is compared with what such grids took, whatever
  // their sizes were, where none of its kernel was measured by the grid: those are of programs as
  // they are, whose sizes go with such grids.
  std::vector<std::pair<KernelWork, double>> guessed;
  std::set<std::pair<std::string, std::string>> by_grid;  // groups and families
  for (const Measurement& row : data) {
    KernelWork work = describe(row.query);
    const double seconds = to_seconds(row.duration);
    const double expected = expected_when_measured(body->measured, row.query, work);
    if (work.group.ends_with("/grid")) {
      by_grid.emplace(work.group, work.family);
    } else if (KernelWork guess = describe(without_size(row.query));
               guess.group.ends_with("/grid")) {
      guessed.emplace_back(std::move(guess), seconds);
    }
    learn(std::move(work), seconds / expected, 0.0);
  }
  for (auto& [guess, seconds] : guessed) {
    if (by_grid.contains({guess.group, guess.family})) continue;
    const double expected = body->measured.seconds(guess);
    learn(std::move(guess), seconds / expected, 0.0);
  }
  if (!elsewhere.data.empty()) {
    const Roofline there{elsewhere.gpu};
    for (const Measurement& row : elsewhere.data) {
      KernelWork work = describe(row.query);
      const double seconds = to_seconds(row.duration);
      // What the code tells is expected of each GPU by itself.
      const double over_expected =
          detail::tells_code(row.query)
              ? seconds / expected_when_measured(there, row.query, work)
              : there.on(body->measured, work, seconds) / body->measured.seconds(work);
      const double deviation = transfer_deviation(work);
      learn(std::move(work), over_expected, deviation * deviation);
    }
  }
  for (auto& [name, rows] : samples) {
    shuffle(rows);
    const auto count = static_cast<Eigen::Index>(rows.size());
    Group group{{count, dimensions},
                Eigen::ArrayXf(count),
                Eigen::ArrayXf(count),
                Eigen::ArrayXf(count),
                smooth_in(name, rows.front().work),
                noise_in(name),
                {}};
    for (Eigen::Index i = 0; i < count; ++i) {
      const auto& [work, inefficiency, deviation] = rows[static_cast<std::size_t>(i)];
      group.coordinates.row(i) = point_of(work);
      group.inefficiency(i) = inefficiency;
      group.deviation(i) = deviation;
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
  std::optional<KernelWork> told;
  auto found = body_->groups.find(work.group);
  const bool coded = detail::tells_code(query);
  if (coded && found == body_->groups.end()) return std::nullopt;
  // Of a variant whose like were measured with their sizes, grids tell less than the roofline.
  const bool of_measured = body_->groups.contains(work.group.substr(0, work.group.find('/')));
  if (found == body_->groups.end() && query.grid && !of_measured) {
    // The kernel may have been measured without its size being known.
    if (work.exact) told = std::move(work);
    work = describe(without_size(query));
    found = body_->groups.find(work.group);
  }
  if (found == body_->groups.end()) return std::nullopt;
  const Group& group = found->second;
  // What another GPU is asked for is mostly what was measured, and chosen alike.
  const bool same_gpu = body_->measured.gpu().key == body_->target.gpu().key;
  const double noise = same_gpu ? group.noise : noise_variance;

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
    toward(i) = covariance(static_cast<double>(distance(a)), group.smooth) + mean_variance;
    values(i) = static_cast<double>(group.inefficiency(a));
    for (Eigen::Index j = 0; j <= i; ++j) {
      const Eigen::Index b = nearest[static_cast<std::size_t>(j)];
      float apart = (group.coordinates.row(a) - group.coordinates.row(b)).square().sum();
      if (group.family(a) != group.family(b)) apart += family_distance;
      among(i, j) = covariance(static_cast<double>(apart), group.smooth) + mean_variance;
    }
    among(i, i) += noise + static_cast<double>(group.deviation(a));
  }
  // Where a library turns to another kernel, some neighbours lie far from what the others tell:
  // they count as noisy as that. Sundararajan and Keerthi's closed form of leaving one out (Neural
  // Computation 13, 2001) tells by how much each deviates from the others' prediction.
  Eigen::LLT<Eigen::MatrixXd> factor{among.selfadjointView<Eigen::Lower>()};
  for (int round = 0; round < outlier_rounds && !group.smooth; ++round) {
    const Eigen::MatrixXd inverse = factor.solve(Eigen::MatrixXd::Identity(count, count));
    const Eigen::VectorXd deviation = (inverse * values).array() / inverse.diagonal().array();
    Eigen::VectorXd sorted = deviation.cwiseAbs();
    std::nth_element(sorted.begin(), sorted.begin() + count / 2, sorted.end());
    const double usual = outlier_factor * (sorted(count / 2) + 0.02);
    bool any = false;
    for (Eigen::Index i = 0; i < count; ++i) {
      // The nearer the kernel in question is, the more likely the other kernel is its own, too.
      const double apart = 1.0 - (toward(i) - mean_variance) / signal_variance;
      const double excess = apart * (std::abs(deviation(i)) - usual);
      if (excess <= 0.0) continue;
      among(i, i) += excess * excess;
      any = true;
    }
    if (!any) break;
    factor.compute(among.selfadjointView<Eigen::Lower>());
  }
  const Eigen::VectorXd weights = factor.solve(toward);
  const double inefficiency = weights.dot(values);
  const double variance =
      std::max(noise, signal_variance + mean_variance + noise - weights.dot(toward));
  // One covariance cannot suit all kernels. How well the neighbours, each predicted from the
  // others, fell out says how rough it is here: Sundararajan and Keerthi's closed form of leaving
  // one out (Neural Computation 13, 2001). Their mean deviation, rather than its square, so that
  // one that lies far out does not decide.
  const Eigen::MatrixXd root =
      factor.matrixL().solve(Eigen::MatrixXd::Identity(count, count));  // its square is the inverse
  const Eigen::VectorXd pull = factor.solve(values);
  double deviations = prior_deviation;
  double shares = 1.0;
  for (Eigen::Index i = 0; i < count; ++i) {
    const double share = (toward(i) - mean_variance) / signal_variance;
    deviations += share * std::abs(pull(i)) / root.col(i).norm();
    shares += share;
  }
  double stddev = std::sqrt(variance) * stddev_of_mean_deviation * deviations / shares;

  const Roofline& roofline = same_gpu || coded ? body_->target : body_->measured;
  double seconds = expected_seconds(roofline, query, work) * std::exp(inefficiency);
  // Grids that were measured may have moved little of what this launch moves: a sort of 64 million
  // keys has more blocks, and each as much to do, as none of a few thousand has.
  if (told) seconds = std::max(seconds, roofline.seconds(*told));
  if (!same_gpu) {
    if (!coded) seconds = roofline.on(body_->target, work, seconds);
    stddev = std::hypot(stddev, transfer_deviation(work));
  }
  return with_limits({duration_from_seconds(seconds), duration_from_seconds(seconds * stddev),
                      same_gpu ? CostSource::fitted : CostSource::roofline},
                     query, body_->target.gpu());
}

}  // namespace phantora
