#include "simulation/report.hpp"

#include <phantora/simulation/memory_ledger.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace phantora {

std::string_view to_string(PathKind kind) noexcept {
  switch (kind) {
    case PathKind::kernel:
      return "kernel";
    case PathKind::communication:
      return "communication";
    case PathKind::host:
      return "host";
    case PathKind::launch:
      return "launch";
    case PathKind::queueing:
      break;
  }
  return "queueing";
}

Duration Report::step() const {
  if (steps.empty()) return makespan;
  std::vector<Duration> lengths;
  for (std::size_t i = 1; i < steps.size(); ++i) lengths.push_back(steps[i] - steps[i - 1]);
  if (lengths.empty()) return steps.front() - start;
  std::sort(lengths.begin(), lengths.end());
  return lengths[lengths.size() / 2];
}

Bytes Report::peak_memory() const noexcept {
  Bytes peak{};
  for (const RankReport& rank : ranks) peak = std::max(peak, rank.peak_memory);
  return peak;
}

bool Report::fits() const noexcept {
  return std::all_of(ranks.begin(), ranks.end(),
                     [](const RankReport& rank) { return rank.fits(); });
}

KernelTime Report::kernels() const {
  KernelTime sum;
  for (const RankReport& rank : ranks) {
    sum.total += rank.kernels.total;
    sum.deviation += rank.kernels.deviation;  // the ranks' prices are off together
    sum.kernels += rank.kernels.kernels;
    for (std::size_t i = 0; i < sum.by_source.size(); ++i)
      sum.by_source[i] += rank.kernels.by_source[i];
  }
  return sum;
}

Duration Report::mean(Duration RankReport::*of) const {
  Duration sum{};
  for (const RankReport& rank : ranks) sum += rank.*of;
  return ranks.empty() ? sum : sum / static_cast<Duration::rep>(ranks.size());
}

namespace detail {
namespace {

using Intervals = std::vector<Interval>;

/// Sorted, and without overlaps.
Intervals merged(Intervals intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.start < b.start; });
  Intervals result;
  for (const Interval& it : intervals) {
    if (it.end <= it.start) continue;
    if (!result.empty() && it.start <= result.back().end) {
      result.back().end = std::max(result.back().end, it.end);
    } else {
      result.push_back(it);
    }
  }
  return result;
}

Duration length(const Intervals& merged) {
  return std::accumulate(
      merged.begin(), merged.end(), Duration{},
      [](Duration sum, const Interval& it) { return sum + (it.end - it.start); });
}

/// How long either is.
Duration length_of_both(const Intervals& a, const Intervals& b) {
  Intervals both = a;
  both.insert(both.end(), b.begin(), b.end());
  return length(merged(std::move(both)));
}

/// When communications began to move data, by rank and operation: a collective when all its ranks
/// were there, an exchange when the first of its messages had both sides.
std::vector<std::vector<Time>> moving_since(const JobRecord& job) {
  std::vector<std::vector<Time>> since(job.gpus.size());
  const auto reached = [&](Party it) { return job.times[it.rank][it.operation].start; };
  for (Rank rank = 0; rank < since.size(); ++rank)
    since[rank].assign(job.times[rank].size(), never);
  for (Rank rank = 0; rank < since.size(); ++rank) {
    const auto operations = job.workload->operations(rank);
    for (std::uint32_t i = 0; i < operations.size(); ++i) {
      const Party party{rank, i};
      if (std::holds_alternative<Workload::Exchange>(operations[i])) {
        const auto parties = job.meetings->parties(party);  // it, and the other sides
        for (std::size_t other = 1; other < parties.size(); ++other)
          since[rank][i] =
              std::min(since[rank][i], std::max(reached(party), reached(parties[other])));
      } else if (std::holds_alternative<Workload::Collective>(operations[i]) &&
                 since[rank][i] == never) {
        const auto parties = job.meetings->parties(party);
        Time last = reached(party);
        for (const Party& it : parties) last = std::max(last, reached(it));
        for (const Party& it : parties) since[it.rank][it.operation] = last;
      }
    }
  }
  return since;
}

RankReport rank_report(const JobRecord& job, Rank rank, std::span<const Time> moving_since,
                       Time end, const GpuModel& model) {
  RankReport report{.end = job.ends[rank], .use = job.use[rank], .memory = model.memory};
  const auto operations = job.workload->operations(rank);
  Intervals computing, moving, waiting;
  MemoryLedger memory{model.context_memory};
  std::vector<Bytes> blocks;
  std::vector<std::uint64_t> launches(job.workload->kernels().size());
  for (std::uint32_t i = 0; i < operations.size(); ++i) {
    const Workload::Operation& operation = operations[i];
    const Interval time = job.times[rank][i];
    if (const auto* launch = std::get_if<Workload::Launch>(&operation)) {
      computing.push_back(time);
      const CostEstimate& price = *job.prices[job.kinds[rank]][launch->kernel];
      report.kernels.total += time.end - time.start;
      report.kernels.by_source[static_cast<std::size_t>(price.source)] += time.end - time.start;
      ++report.kernels.kernels;
      ++launches[launch->kernel];
    } else if (std::holds_alternative<Workload::Collective>(operation) ||
               std::holds_alternative<Workload::Exchange>(operation)) {
      const Time since = std::min(moving_since[i], time.end);
      waiting.push_back({time.start, since});
      moving.push_back({since, time.end});
    } else if (const auto* allocate = std::get_if<Workload::Allocate>(&operation)) {
      memory.allocate(allocate->size);
      blocks.push_back(allocate->size);
    } else if (const auto* free = std::get_if<Workload::Free>(&operation)) {
      memory.free(blocks[free->block]);
    }
  }
  double variance = 0;
  for (std::size_t kernel = 0; kernel < launches.size(); ++kernel) {
    if (launches[kernel] == 0) continue;
    const Duration off = job.prices[job.kinds[rank]][kernel]->stddev;
    variance += std::pow(static_cast<double>(launches[kernel]) * to_seconds(off), 2);
  }
  report.kernels.deviation = duration_from_seconds(std::sqrt(variance));
  report.peak_memory = memory.peak();
  computing = merged(std::move(computing));
  moving = merged(std::move(moving));
  report.computing = length(computing);
  report.communicating = length(moving);
  moving.insert(moving.end(), computing.begin(), computing.end());
  moving = merged(std::move(moving));
  const Duration busy = length(moving);
  report.exposed = busy - report.computing;
  const Duration occupied = length_of_both(moving, waiting);
  report.waiting = occupied - busy;
  report.idle = end - job.start - occupied;
  return report;
}

}  // namespace

Report report_of(const JobRecord& job, const std::vector<GpuModel>& models,
                 const DeviceTiming& timing, const LinkOf& link_of) {
  Report report;
  report.start = job.start;
  report.gpus = job.gpus;
  Time end = job.start;
  for (const Time it : job.ends) end = std::max(end, it);
  report.makespan = end - job.start;
  const auto since = moving_since(job);
  for (Rank rank = 0; rank < job.gpus.size(); ++rank) {
    report.ranks.push_back(rank_report(job, rank, since[rank], end, models[job.kinds[rank]]));
    const auto operations = job.workload->operations(rank);
    std::size_t step = 0;
    for (std::size_t i = 0; i < operations.size(); ++i) {
      if (!std::holds_alternative<Workload::StepEnd>(operations[i])) continue;
      if (step == report.steps.size()) report.steps.push_back(job.start);
      report.steps[step] = std::max(report.steps[step], job.times[rank][i].end);
      ++step;
    }
  }
  find_critical_path(job, timing, link_of, report);
  return report;
}

}  // namespace detail
}  // namespace phantora
