#include "simulation/step_role.hpp"

#include <phantora/simulation/step_observer.hpp>

#include <algorithm>
#include <utility>

namespace phantora {

StepObserver::StepObserver(std::string marker) : marker_{std::move(marker)} {}

StepObserver::Known StepObserver::know(const Span& span) {
  const auto [found, added] = known_.try_emplace(span.identity);
  if (added) {
    auto total = kernels_.find(span.name);
    if (total == kernels_.end())
      total = kernels_.emplace(std::string{span.name}, KernelTotal{}).first;
    const bool guess = marker_.empty() || marker_ == "optimizer";
    found->second = {.total = &total->second,
                     .role = guess ? detail::step_role(span.kind, span.name)
                                   : detail::step_role(span.kind, span.name, marker_)};
  }
  return found->second;
}

void StepObserver::on_span(const Span& span) {
  makespan_ = std::max(makespan_, span.end);
  if (span.kind == Span::Kind::communication) {
    communication_[span.gpu].push_back({span.start, span.end});
    return;
  }
  const Known known = know(span);
  const Duration length = span.end - span.start;
  Stream& stream = streams_[span.gpu][span.stream];
  stream.work.push_back(
      {.identity = span.identity, .start = span.start, .end = span.end, .role = known.role});
  stream.process = span.process;
  stream.busy += length;
  stream.ends += known.role == StepRole::ends_step ? 1 : 0;
  ++known.total->count;
  known.total->total += length;
  known.total->source = span.source;
  known.total->deviation += span.stddev;
  if (span.source == CostSource::grid) known.total->by_grid += length;
}

void StepObserver::on_range(const NamedRange& range) {
  if (!marker_.empty() && range.name.find(marker_) != range.name.npos) {
    marks_[range.process].push_back(range.end);
  }
}

Steps StepObserver::steps(GpuIndex gpu) const {
  const auto streams = streams_.find(gpu);
  if (streams == streams_.end()) return {};
  const auto chosen = std::max_element(
      streams->second.begin(), streams->second.end(), [](const auto& a, const auto& b) {
        return std::pair{a.second.ends, a.second.busy} < std::pair{b.second.ends, b.second.busy};
      });
  const auto marks = marks_.find(chosen->second.process);
  if (marks != marks_.end()) {
    std::vector<Time> bounds = marks->second;
    std::sort(bounds.begin(), bounds.end());
    return cut_steps(chosen->second.work, bounds);
  }
  return find_steps(chosen->second.work, marker_.empty() ? StepEnds::guessed : StepEnds::given);
}

Duration StepObserver::covered(std::vector<Stretch> stretches, std::span<const Stretch> windows) {
  std::sort(stretches.begin(), stretches.end(),
            [](const Stretch& a, const Stretch& b) { return a.start < b.start; });
  Duration sum{};
  auto window = windows.begin();
  Time counted{};  // up to where
  for (const Stretch& stretch : stretches) {
    while (window != windows.end() && window->end <= stretch.start) ++window;
    for (auto in = window; in != windows.end() && in->start < stretch.end; ++in) {
      const Time from = std::max({stretch.start, in->start, counted});
      const Time to = std::min(stretch.end, in->end);
      if (from < to) sum += to - from;
    }
    counted = std::max(counted, stretch.end);
  }
  return sum;
}

StepParts StepObserver::parts(GpuIndex gpu, const Steps& steps) const {
  std::vector<Stretch> windows;
  Duration whole{};
  for (std::size_t i = 0; i < steps.count(); ++i) {
    if (!steps.typical[i]) continue;
    windows.push_back({steps.bounds[i], steps.bounds[i + 1]});
    whole += windows.back().end - windows.back().start;
  }
  if (windows.empty()) return {};
  std::vector<Stretch> work;
  if (const auto streams = streams_.find(gpu); streams != streams_.end()) {
    for (const auto& [_, stream] : streams->second)
      for (const WorkItem& item : stream.work) work.push_back({item.start, item.end});
  }
  std::vector<Stretch> anything = work;
  if (const auto found = communication_.find(gpu); found != communication_.end())
    anything.insert(anything.end(), found->second.begin(), found->second.end());
  const Duration computing = covered(std::move(work), windows);
  const Duration busy = covered(std::move(anything), windows);
  const auto steps_of = static_cast<std::int64_t>(windows.size());
  return {.computing = computing / steps_of,
          .exposed = (busy - computing) / steps_of,
          .idle = (whole - busy) / steps_of};
}

std::optional<Duration> StepObserver::step(std::span<const GpuIndex> gpus) const {
  std::vector<Duration> lengths;
  for (const GpuIndex gpu : gpus)
    if (const Steps of_gpu = steps(gpu); of_gpu.count() > 0) lengths.push_back(of_gpu.median());
  if (lengths.empty()) return std::nullopt;
  std::sort(lengths.begin(), lengths.end());
  return lengths[lengths.size() / 2];
}

}  // namespace phantora
