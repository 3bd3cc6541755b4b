#include "simulation/execution.hpp"

#include "simulation/workload_form.hpp"

#include <phantora/error.hpp>

#include <algorithm>

namespace phantora::detail {
namespace {

/// Answers with prices that were asked for before.
struct Priced {
  std::shared_ptr<const std::vector<CostEstimate>> prices;
  [[nodiscard]] std::optional<CostEstimate> estimate(const KernelQuery& query) const {
    return (*prices)[static_cast<std::size_t>(query.features.at("price"))];
  }
};

}  // namespace

Execution::Execution(const MakeSession& make_session)
    : prices_{std::make_shared<std::vector<CostEstimate>>()},
      session_{make_session(Priced{prices_})},
      spans_{session_.subscribe(*this)} {}

std::size_t Execution::add(JobRecord record) {
  auto job = std::make_unique<Job>();
  const std::size_t ranks = record.gpus.size();
  job->record = std::move(record);
  job->number = jobs_.size();
  job->first_process = static_cast<ProcessIndex>(bounds_.size());
  job->ranks.resize(ranks);
  job->left = ranks;
  job->record.ends.resize(ranks);
  job->record.times.resize(ranks);
  job->communicators.resize(job->record.workload->groups().size());
  job->queries.resize(job->record.prices.size());
  for (Rank rank = 0; rank < ranks; ++rank) {
    const auto operations = job->record.workload->operations(rank);
    job->record.times[rank].resize(operations.size());
    RankState& state = job->ranks[rank];
    state.clock = job->record.start;
    state.first_event = last_marker_ + 1;
    for (const auto& operation : operations)
      last_marker_ += std::holds_alternative<Workload::Record>(operation) ? 1U : 0U;
    processes_.emplace_back(job.get(), rank);
    bounds_.push_back(never);
    ready_.emplace_back(job.get(), rank);
  }
  // In the order of the ranks, since the last is taken first.
  std::reverse(ready_.end() - static_cast<std::ptrdiff_t>(ranks), ready_.end());
  ++running_;
  if (ranks == 0) job_ended(*job);
  jobs_.push_back(std::move(job));
  return jobs_.size() - 1;
}

std::optional<std::size_t> Execution::next(Time until) {
  while (true) {
    while (!ready_.empty()) {
      const auto [job, rank] = ready_.back();
      ready_.pop_back();
      issue(*job, rank);
    }
    // No further than to the first end: what begins then has to find the rest as it was.
    const Time limit = ended_.empty() ? until : std::min(until, ended_.begin()->first);
    bounds_.front() = limit;
    const std::vector<Answer> answers = session_.advance(bounds_);
    for (const Answer& answer : answers) answered(answer);
    if (!ready_.empty() || !answers.empty()) continue;
    if (!ended_.empty() && ended_.begin()->first <= until) {
      const auto [at, job] = *ended_.begin();
      ended_.erase(ended_.begin());
      now_ = at;
      return job;
    }
    if (until == never && running_ > 0) throw Error{standstill()};
    if (until != never) now_ = std::max(now_, until);
    return std::nullopt;
  }
}

void Execution::forget(std::size_t number) {
  Job& job = *jobs_[number];
  for (RankState& state : job.ranks) {
    for (const auto& [_, id] : state.streams) {
      session_.drop_stream(id);
      streams_[id.value] = {};
    }
    for (std::uint32_t i = 0; i < state.recorded; ++i)
      session_.drop(MarkerId{state.first_event + i});
    for (const MarkerId other : state.others) session_.drop(other);
  }
  for (const auto& communicator : job.communicators)
    if (communicator) session_.drop_communicator(*communicator);
  for (auto& process : processes_)
    if (process.first == &job) process.first = nullptr;
  jobs_[number].reset();
}

void Execution::on_span(const Span& span) {
  Stream& stream = streams_[span.stream.value];
  stream.job->record.times[stream.rank][stream.spans[stream.done++]] = {span.start, span.end};
}

StreamId Execution::stream(Job& job, Rank rank, StreamNumber number) {
  auto& streams = job.ranks[rank].streams;
  const auto found = std::find_if(streams.begin(), streams.end(),
                                  [&](const auto& known) { return known.first == number; });
  if (found != streams.end()) return found->second;
  const StreamId id{streams_.size()};
  streams_.push_back({&job, rank, number});
  session_.add_stream(id, job.record.gpus[rank], job.first_process + rank);
  streams.emplace_back(number, id);
  return id;
}

CommunicatorId Execution::communicator(Job& job, std::uint32_t group) {
  std::optional<CommunicatorId>& known = job.communicators[group];
  if (!known) {
    std::vector<GpuIndex> gpus;
    for (const Rank rank : job.record.workload->groups()[group])
      gpus.push_back(job.record.gpus[rank]);
    known = session_.add_communicator(std::move(gpus));
  }
  return *known;
}

QueryIndex Execution::query(Job& job, Rank rank, std::uint32_t number) {
  const std::size_t kind = job.record.kinds[rank];
  const auto& kernels = job.record.workload->kernels();
  job.queries[kind].resize(kernels.size());
  std::optional<QueryIndex>& known = job.queries[kind][number];
  if (!known) {
    const auto [found, fresh] = queries_.try_emplace({kind, key_of(kernels[number])});
    if (fresh) {
      const KernelQuery told{.name = kernels[number].query.name,
                             .features = {{"price", static_cast<double>(prices_->size())}}};
      prices_->push_back(*job.record.prices[kind][number]);
      found->second = session_.add_query(told, job.record.gpus[rank]);
    }
    known = found->second;
  }
  return *known;
}

MarkerId Execution::marker(const Job& job, Workload::Event event) const {
  return MarkerId{job.ranks[event.rank].first_event + event.number};
}

void Execution::issue(Job& job, Rank rank) {
  RankState& state = job.ranks[rank];
  const auto operations = job.record.workload->operations(rank);
  while (state.at < operations.size()) {
    issue(job, rank, operations[state.at]);
    if (state.held || state.awaited > 0) return;
    ++state.at;
  }
  end(job, rank);
}

void Execution::issue(Job& job, Rank rank, const Workload::Operation& operation) {
  using W = Workload;
  RankState& state = job.ranks[rank];
  const auto number = static_cast<std::uint32_t>(state.at);
  const auto group_of = [&](std::uint32_t group) -> const std::vector<Rank>& {
    return job.record.workload->groups()[group];
  };
  const auto place_in = [&](const std::vector<Rank>& group) {
    return static_cast<int>(std::find(group.begin(), group.end(), rank) - group.begin());
  };
  // The stream that a span of this operation will come from.
  const auto spanned = [&](StreamNumber stream_number) {
    const StreamId id = stream(job, rank, stream_number);
    streams_[id.value].spans.push_back(number);
    return id;
  };
  Interval& time = job.record.times[rank][number];
  if (const auto* launch = std::get_if<W::Launch>(&operation)) {
    const QueryIndex kernel = query(job, rank, launch->kernel);
    session_.launch(spanned(launch->stream), state.clock, kernel);
  } else if (const auto* collective = std::get_if<W::Collective>(&operation)) {
    const W::Call& call = job.record.workload->calls()[collective->call];
    session_.collective(spanned(collective->stream), state.clock, communicator(job, call.group),
                        place_in(group_of(call.group)), call.operations);
  } else if (const auto* exchange = std::get_if<W::Exchange>(&operation)) {
    const W::Messages& messages = job.record.workload->messages()[exchange->messages];
    session_.send_recv(spanned(exchange->stream), state.clock, communicator(job, messages.group),
                       place_in(group_of(messages.group)), messages.parts);
  } else if (const auto* record = std::get_if<W::Record>(&operation)) {
    const MarkerId id{state.first_event + state.recorded++};
    session_.record(stream(job, rank, record->stream), state.clock, id);
    release_held(job);
  } else if (const auto* wait = std::get_if<W::Wait>(&operation)) {
    session_.wait(stream(job, rank, wait->stream), state.clock, marker(job, wait->event));
  } else if (const auto* synchronize = std::get_if<W::Synchronize>(&operation)) {
    time.start = state.clock;
    // The session takes one that nobody has recorded for one that has come.
    if (job.ranks[synchronize->event.rank].recorded <= synchronize->event.number) {
      state.held = synchronize->event;
      job.held.push_back(rank);
    } else {
      block(job, rank, marker(job, synchronize->event));
    }
  } else if (const auto* host = std::get_if<W::Host>(&operation)) {
    time = {state.clock, state.clock + host->time};
    state.clock += host->time;
  } else if (const auto* step = std::get_if<W::StepEnd>(&operation)) {
    state.others.push_back(MarkerId{++last_marker_});
    session_.record(stream(job, rank, step->stream), state.clock, state.others.back());
  }
}

void Execution::block(Job& job, Rank rank, MarkerId marker) {
  RankState& state = job.ranks[rank];
  session_.synchronize(job.first_process + rank, static_cast<std::uint32_t>(state.awaited++),
                       state.clock, marker);
}

void Execution::release_held(Job& job) {
  std::erase_if(job.held, [&](Rank rank) {
    RankState& state = job.ranks[rank];
    if (job.ranks[state.held->rank].recorded <= state.held->number) return false;
    const MarkerId awaited = marker(job, *state.held);
    state.held.reset();
    block(job, rank, awaited);
    return true;
  });
}

/// Its host has come to the end: all its streams have to.
void Execution::end(Job& job, Rank rank) {
  RankState& state = job.ranks[rank];
  state.ending = true;
  for (const auto& [_, id] : state.streams) {
    const MarkerId last{++last_marker_};
    state.others.push_back(last);
    session_.record(id, state.clock, last);
    block(job, rank, last);
  }
  if (state.awaited > 0) return;
  job.record.ends[rank] = state.clock;
  if (--job.left == 0) job_ended(job);
}

void Execution::answered(const Answer& answer) {
  const auto [job, rank] = processes_[answer.process - 1];
  RankState& state = job->ranks[rank];
  state.clock = std::max(state.clock, answer.clock);
  if (--state.awaited > 0) return;
  if (state.ending) {
    job->record.ends[rank] = state.clock;
    if (--job->left == 0) job_ended(*job);
    return;
  }
  job->record.times[rank][state.at].end = state.clock;
  ++state.at;
  ready_.emplace_back(job, rank);
}

void Execution::job_ended(Job& job) {
  Time last = job.record.start;
  for (const Time end : job.record.ends) last = std::max(last, end);
  // Instants of what was recorded, which tell how its operations depend on one another.
  for (Rank rank = 0; rank < job.ranks.size(); ++rank) {
    const auto operations = job.record.workload->operations(rank);
    const RankState& state = job.ranks[rank];
    std::uint64_t event = state.first_event;
    std::size_t other = 0;
    for (std::size_t i = 0; i < operations.size(); ++i) {
      std::optional<Time> at;
      if (std::holds_alternative<Workload::Record>(operations[i]))
        at = session_.completion(MarkerId{event++});
      else if (std::holds_alternative<Workload::StepEnd>(operations[i]))
        at = session_.completion(state.others[other++]);
      if (at) job.record.times[rank][i] = {*at, *at};
    }
  }
  --running_;
  ended_.emplace(last, job.number);
}

std::string Execution::stands_at(const Job& job, Rank rank) const {
  const Workload& workload = *job.record.workload;
  const RankState& state = job.ranks[rank];
  const auto operations = workload.operations(rank);
  std::string text;
  if (!state.ending) text = named(workload, rank, state.at);
  for (const auto& [number, id] : state.streams) {
    const Stream& stream = streams_[id.value];
    if (stream.done == stream.spans.size()) continue;
    // It stands at the first wait after what is done, or at what follows.
    std::size_t at = stream.done == 0 ? 0 : stream.spans[stream.done - 1] + std::size_t{1};
    for (; at < stream.spans[stream.done]; ++at) {
      const auto* wait = std::get_if<Workload::Wait>(&operations[at]);
      if (wait != nullptr && wait->stream == number &&
          !session_.completion(marker(job, wait->event)))
        break;
    }
    text += (text.empty() ? "" : "; ") + std::string{"its stream "} + std::to_string(number) +
            " at " + named(workload, rank, at);
  }
  return text;
}

std::string Execution::standstill() const {
  constexpr std::size_t most = 8;
  std::string text = "the workload cannot go on:";
  for (const std::string& line : session_.obstacles())
    if (line.find(": stalled, ") != line.npos) text += "\n  " + line;
  std::size_t lines = 0, unsaid = 0;
  for (const auto& job : jobs_) {
    if (!job || job->left == 0) continue;
    for (Rank rank = 0; rank < job->ranks.size(); ++rank) {
      const RankState& state = job->ranks[rank];
      if (state.ending && state.awaited == 0) continue;
      if (lines == most) {
        ++unsaid;
        continue;
      }
      ++lines;
      text += "\n  " + (jobs_.size() > 1 ? "job " + std::to_string(job->number) + ", " : "") +
              stands_at(*job, rank);
    }
  }
  if (unsaid > 0) text += "\n  and " + std::to_string(unsaid) + " more ranks";
  return text;
}

}  // namespace phantora::detail
