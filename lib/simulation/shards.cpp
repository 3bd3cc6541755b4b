#include "simulation/shards.hpp"

#include "simulation/shard_memory.hpp"

#include <phantora/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace phantora::detail {
namespace {

/// Kernels of one name, or collectives of one kind, that follow one another on a stream: what a
/// loop over tensors launches, which may take more launches for larger ones. Where it takes as many
/// they are compared one by one, else their sums.
struct Run {
  std::string name{};
  std::vector<std::size_t> operations{};  ///< in the rank's list
};
using Streams = std::map<StreamNumber, std::vector<Run>>;

std::string name_of(const WorkloadDocument& job, const Workload::Launch& it) {
  return job.kernels[it.kernel].query.name;
}
std::string name_of(const WorkloadDocument& job, const Workload::Collective& it) {
  std::string name;
  for (const GroupedCollective& one : job.calls[it.call].operations)
    name.append(name.empty() ? "" : " and ").append(to_string(one.op));
  return name;
}

Streams runs_of(const WorkloadDocument& job, std::size_t rank) {
  Streams streams;
  const auto& operations = job.ranks[rank];
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const auto add = [&](const auto& it) {
      std::string name = name_of(job, it);
      std::vector<Run>& runs = streams[it.stream];
      if (runs.empty() || runs.back().name != name) runs.push_back({.name = std::move(name)});
      runs.back().operations.push_back(i);
    };
    if (const auto* launch = std::get_if<Workload::Launch>(&operations[i])) add(*launch);
    if (const auto* collective = std::get_if<Workload::Collective>(&operations[i]))
      add(*collective);
  }
  return streams;
}

/// Whole numbers stay such, and positive ones too.
void scale(double& number, double by) {
  const bool whole = number == std::floor(number);
  number *= by;
  if (whole) number = std::max(1.0, std::round(number));
}
void scale(std::uint32_t& number, double by) {
  constexpr double most = std::numeric_limits<std::uint32_t>::max();
  number = static_cast<std::uint32_t>(std::clamp(std::ceil(number * by), 1.0, most));
}

/// Calls each(what, number) for the sizes of an operation.
template <class Query, class Each>
void each_size(Query& query, Each each) {
  each("bytes", query.bytes);
  each("flops", query.flops);
  each("operands.read", query.operands.read);
  each("operands.written", query.operands.written);
  each("operands.cold", query.operands.cold);
  if (query.grid) {
    each("grid.x", query.grid->x);
    each("grid.y", query.grid->y);
    each("grid.z", query.grid->z);
  }
  for (auto& [name, value] : query.features) each(name, value);
  for (auto& [name, value] : query.by_data) each("by_data." + name, value);
}
using Sizes = std::map<std::string, double, std::less<>>;

Sizes sizes_of(const WorkloadDocument& job, std::size_t rank, const Run& run) {
  Sizes sums;
  for (const std::size_t place : run.operations) {
    const Workload::Operation& operation = job.ranks[rank][place];
    if (const auto* launch = std::get_if<Workload::Launch>(&operation)) {
      each_size(job.kernels[launch->kernel].query,
                [&](std::string_view what, double value) { sums[std::string{what}] += value; });
    } else {
      const auto& call = job.calls[std::get<Workload::Collective>(operation).call];
      for (const GroupedCollective& one : call.operations)
        sums["total"] += static_cast<double>(one.total.count());
    }
  }
  return sums;
}

class Scaling {
 public:
  Scaling(WorkloadDocument& job, const WorkloadDocument& narrower, Trend trend)
      : job_{job}, narrower_{narrower}, trend_{trend} {
    for (std::uint32_t i = 0; i < job.kernels.size(); ++i) kernels_[key_of(job.kernels[i])] = i;
  }

  void rank(std::size_t rank) {
    const std::size_t peer = rank % narrower_.ranks.size();
    const Streams mine = runs_of(job_, rank), theirs = runs_of(narrower_, peer);
    for (const auto& [stream, runs] : mine) {
      const auto other = theirs.find(stream);
      const std::size_t count = other == theirs.end() ? 0 : other->second.size();
      for (std::size_t i = 0; i < std::max(count, runs.size()); ++i) {
        const std::string& name = i < runs.size() ? runs[i].name : nothing;
        const std::string& name_there = i < count ? other->second[i].name : nothing;
        PHANTORA_EXPECTS(name == name_there,
                         "two numbers of replicas do the same in the same order: rank " +
                             std::to_string(rank) + " has " + name + " on stream " +
                             std::to_string(stream) + ", where of fewer rank " +
                             std::to_string(peer) + " has " + name_there);
        const Run& there = other->second[i];
        if (runs[i].operations.size() != there.operations.size()) {
          run(rank, runs[i], sizes_of(narrower_, peer, there));
          continue;
        }
        for (std::size_t j = 0; j < there.operations.size(); ++j)
          run(rank, {.operations = {runs[i].operations[j]}},
              sizes_of(narrower_, peer, {.operations = {there.operations[j]}}));
      }
    }
    memory(rank, peer);
  }

 private:
  void run(std::size_t rank, const Run& run, const Sizes& of_few) {
    std::map<std::string, double, std::less<>> factors;
    for (const auto& [what, many] : sizes_of(job_, rank, run)) {
      const auto few = of_few.find(what);
      if (few == of_few.end() || few->second == many || many == 0) continue;
      factors[what] = std::max(0.0, trend_.at_wanted(few->second, many) / many);
    }
    if (factors.empty()) return;
    for (const std::size_t place : run.operations) {
      Workload::Operation& operation = job_.ranks[rank][place];
      if (auto* launch = std::get_if<Workload::Launch>(&operation)) {
        launch->kernel = scaled(launch->kernel, factors);
      } else {
        auto& call = std::get<Workload::Collective>(operation).call;
        call = scaled_call(call, factors.at("total"));
      }
    }
  }
  std::uint32_t scaled(std::uint32_t number, const Sizes& factors) {
    Kernel kernel = job_.kernels[number];
    each_size(kernel.query, [&](std::string_view what, auto& value) {
      if (const auto by = factors.find(what); by != factors.end()) scale(value, by->second);
    });
    const auto [known, fresh] =
        kernels_.try_emplace(key_of(kernel), static_cast<std::uint32_t>(job_.kernels.size()));
    if (fresh) job_.kernels.push_back(std::move(kernel));
    return known->second;
  }
  std::uint32_t scaled_call(std::uint32_t number, double by) {
    const auto [known, fresh] =
        calls_.try_emplace({number, by}, static_cast<std::uint32_t>(job_.calls.size()));
    if (fresh) {
      Workload::Call call = job_.calls[number];
      for (GroupedCollective& one : call.operations) one.total = one.total * by;
      job_.calls.push_back(std::move(call));
    }
    return known->second;
  }
  /// All that the rank takes shrinks or grows alike, so that the most that it holds is as it would
  /// be.
  void memory(std::size_t rank, std::size_t peer) {
    const double many = peak_of(job_, rank);
    if (many == 0) return;
    const double by = wanted_peak(job_, rank, narrower_, peer, trend_) / many;
    if (by == 1) return;
    for (Workload::Operation& operation : job_.ranks[rank])
      if (auto* allocate = std::get_if<Workload::Allocate>(&operation))
        allocate->size = allocate->size * by;
  }

  inline static const std::string nothing = "nothing";
  WorkloadDocument& job_;
  const WorkloadDocument& narrower_;
  Trend trend_;
  std::map<std::string, std::uint32_t, std::less<>> kernels_{};
  std::map<std::pair<std::uint32_t, double>, std::uint32_t> calls_{};
};

}  // namespace

void scale_shards(WorkloadDocument& job, const WorkloadDocument& narrower, double factor) {
  const auto few = static_cast<double>(narrower.ranks.size());
  const auto many = static_cast<double>(job.ranks.size());
  Scaling scaling{job, narrower, {few, many, many * factor}};
  for (std::size_t rank = 0; rank < job.ranks.size(); ++rank) scaling.rank(rank);
}

}  // namespace phantora::detail
