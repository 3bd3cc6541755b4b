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

/// What a GPU did between two looks at it.
GpuUse difference(GpuUse after, const GpuUse& before) {
  after.busy -= before.busy;
  after.communication -= before.communication;
  after.exposed -= before.exposed;
  for (std::size_t i = 0; i < after.by_source.size(); ++i)
    after.by_source[i] -= before.by_source[i];
  after.kernels -= before.kernels;
  return after;
}

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
  for (const GpuIndex gpu : job->record.gpus) job->record.use.push_back(session_.use(gpu));
  job->record.times.resize(ranks);
  job->communicators.resize(job->record.workload->groups().size());
  job->queries.resize(job->record.prices.size());
  const std::size_t ready = ready_.size();
  for (Rank rank = 0; rank < ranks; ++rank) {
    const RankThreads& threads = (*job->record.threads)[rank];
    job->record.times[rank].resize(job->record.workload->operations(rank).size());
    RankState& state = job->ranks[rank];
    for (const auto& stretches : threads.stretches)
      state.threads.push_back({.clock = job->record.start, .at = stretches.front().begin});
    state.running = state.threads.size();
    state.issued.resize(threads.after.size());
    state.reached.resize(threads.event_count);
    state.first_event = last_marker_ + 1;
    last_marker_ += threads.event_count;
    processes_.emplace_back(job.get(), rank);
    bounds_.push_back(never);
    add_streams(*job, rank);
    for (std::uint32_t thread = 0; thread < state.threads.size(); ++thread)
      ready_.push_back({job.get(), rank, thread});
  }
  // In the order of the ranks, since the last is taken first.
  std::reverse(ready_.begin() + static_cast<std::ptrdiff_t>(ready), ready_.end());
  ++running_;
  if (ranks == 0) job_ended(*job);
  for (Rank rank = 0; rank < ranks; ++rank)
    if (job->ranks[rank].threads.empty()) end(*job, rank);
  jobs_.push_back(std::move(job));
  return jobs_.size() - 1;
}

std::optional<std::size_t> Execution::next(Time until) {
  while (true) {
    while (!ready_.empty()) {
      const Issuer issuer = ready_.back();
      ready_.pop_back();
      issue(issuer);
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
    for (std::uint32_t i = 0; i < state.reached.size(); ++i)
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

/// In the order of their numbers, by which a GPU takes what comes at one instant.
void Execution::add_streams(Job& job, Rank rank) {
  std::map<StreamNumber, int> priorities;
  for (const Workload::Operation& operation : job.record.workload->operations(rank)) {
    std::visit(
        [&](const auto& it) {
          if constexpr (requires { it.stream; }) {
            int& priority = priorities[it.stream];
            if constexpr (requires { it.priority; }) priority = it.priority;
          }
        },
        operation);
  }
  for (const auto& [number, priority] : priorities) {
    const StreamId id{streams_.size()};
    streams_.push_back({&job, rank, number});
    session_.add_stream(id, job.record.gpus[rank], job.first_process + rank, priority);
    job.ranks[rank].streams.emplace_back(number, id);
  }
}

StreamId Execution::stream(const Job& job, Rank rank, StreamNumber number) {
  const auto& streams = job.ranks[rank].streams;
  return std::lower_bound(streams.begin(), streams.end(), number,
                          [](const auto& known, StreamNumber it) { return known.first < it; })
      ->second;
}

CommunicatorId Execution::communicator(Job& job, std::uint32_t group) {
  if (job.communicators[group]) return *job.communicators[group];
  // Those of the same ranks come in the order of their instances, by which the session tells them
  // apart, whichever is called first. What lies between them was never called.
  const Workload& workload = *job.record.workload;
  const std::vector<Rank>& ranks = workload.groups()[group];
  std::map<std::uint32_t, std::uint32_t> of_ranks;
  for (std::uint32_t i = 0; i < workload.groups().size(); ++i)
    if (workload.groups()[i] == ranks) of_ranks.emplace(workload.instances()[i], i);
  std::vector<GpuIndex> gpus;
  for (const Rank rank : ranks) gpus.push_back(job.record.gpus[rank]);
  std::uint32_t next = 0;
  for (const auto& [instance, number] : of_ranks) {
    for (; next < instance; ++next) session_.drop_communicator(session_.add_communicator(gpus));
    job.communicators[number] = session_.add_communicator(gpus);
    ++next;
  }
  return *job.communicators[group];
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

void Execution::issue(const Issuer& issuer) {
  const auto& [job, rank, thread] = issuer;
  RankState& state = job->ranks[rank];
  HostThread& host = state.threads[thread];
  const RankThreads& plan = (*job->record.threads)[rank];
  const std::vector<Stretch>& stretches = plan.stretches[thread];
  const auto operations = job->record.workload->operations(rank);
  while (true) {
    if (host.at == stretches[host.stretch].end) {
      if (++host.stretch == stretches.size()) break;
      host.at = stretches[host.stretch].begin;
    }
    if (!plan.after.empty()) {
      const std::uint32_t before = plan.after[host.at];
      if (before != RankThreads::none && !state.issued[before]) {
        state.parked.push_back(thread);
        return;
      }
    }
    issue(issuer, host, operations[host.at]);
    if (!plan.after.empty()) {
      state.issued[host.at] = true;
      for (const std::uint32_t parked : std::exchange(state.parked, {}))
        ready_.push_back({job, rank, parked});
    }
    if (host.held || host.blocked) return;
    ++host.at;
  }
  if (--state.running == 0) end(*job, rank);
}

void Execution::issue(const Issuer& issuer, HostThread& host,
                      const Workload::Operation& operation) {
  using W = Workload;
  Job& job = *issuer.job;
  const Rank rank = issuer.rank;
  RankState& state = job.ranks[rank];
  const std::uint32_t number = host.at;
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
  // Threads have clocks of their own; a stream is in order.
  const auto issued = [&](StreamId id) {
    return state.threads.size() > 1 ? std::max(host.clock, session_.last_issued(id)) : host.clock;
  };
  const std::uint32_t event = (*job.record.threads)[rank].events[number];
  Interval& time = job.record.times[rank][number];
  if (const auto* launch = std::get_if<W::Launch>(&operation)) {
    const QueryIndex kernel = query(job, rank, launch->kernel);
    const StreamId id = spanned(launch->stream);
    session_.launch(id, issued(id), kernel);
  } else if (const auto* collective = std::get_if<W::Collective>(&operation)) {
    const W::Call& call = job.record.workload->calls()[collective->call];
    const StreamId id = spanned(collective->stream);
    session_.collective(id, issued(id), communicator(job, call.group),
                        place_in(group_of(call.group)), call.operations);
  } else if (const auto* exchange = std::get_if<W::Exchange>(&operation)) {
    const W::Messages& messages = job.record.workload->messages()[exchange->messages];
    const StreamId id = spanned(exchange->stream);
    session_.send_recv(id, issued(id), communicator(job, messages.group),
                       place_in(group_of(messages.group)), messages.parts);
  } else if (const auto* record = std::get_if<W::Record>(&operation)) {
    const StreamId id = stream(job, rank, record->stream);
    session_.record(id, issued(id), MarkerId{state.first_event + event});
    state.reached[event] = true;
    release_held(job);
  } else if (std::holds_alternative<W::Mark>(operation)) {
    time = {host.clock, host.clock};
    state.marked.emplace(event, host.clock);
    state.reached[event] = true;
    release_held(job);
  } else if (const auto* range = std::get_if<W::Range>(&operation)) {
    // One whose begin is yet to come, by another thread, has no length.
    const auto& marked = job.ranks[range->event.rank].marked;
    const auto begin = marked.find(range->event.number);
    time = {begin == marked.end() ? host.clock : std::min(begin->second, host.clock), host.clock};
    session_.name_range({.process = job.first_process + rank,
                         .thread = issuer.thread,
                         .name = job.record.workload->labels()[range->label],
                         .start = time.start,
                         .end = time.end});
  } else if (const auto* wait = std::get_if<W::Wait>(&operation)) {
    const StreamId id = stream(job, rank, wait->stream);
    session_.wait(id, issued(id), marker(job, wait->event));
  } else if (const auto* graph = std::get_if<W::Graph>(&operation)) {
    const StreamId id = stream(job, rank, graph->stream);
    session_.graph(id, issued(id), graph->inside);
  } else if (const auto* synchronize = std::get_if<W::Synchronize>(&operation)) {
    time = {host.clock, host.clock};
    const Workload::Event awaited = synchronize->event;
    // The session takes one that nobody has recorded for one that has come.
    if (job.ranks[awaited.rank].reached[awaited.number]) {
      this->synchronize(issuer, host, awaited);
      time.end = host.clock;
    } else {
      host.held = awaited;
      job.held.push_back(issuer);
    }
  } else if (const auto* work = std::get_if<W::Host>(&operation)) {
    time = {host.clock, host.clock + work->time};
    host.clock += work->time;
  } else if (const auto* step = std::get_if<W::StepEnd>(&operation)) {
    const StreamId id = stream(job, rank, step->stream);
    state.others.push_back(MarkerId{++last_marker_});
    session_.record(id, issued(id), state.others.back());
  }
}

/// Waits for an event that has been reached.
void Execution::synchronize(const Issuer& issuer, HostThread& host, Workload::Event event) {
  const auto& marked = issuer.job->ranks[event.rank].marked;
  if (const auto mark = marked.find(event.number); mark != marked.end()) {
    host.clock = std::max(host.clock, mark->second);
    return;
  }
  host.blocked = true;
  session_.synchronize(issuer.job->first_process + issuer.rank, issuer.thread, host.clock,
                       marker(*issuer.job, event));
}

void Execution::release_held(Job& job) {
  std::erase_if(job.held, [&](const Issuer& issuer) {
    HostThread& host = job.ranks[issuer.rank].threads[issuer.thread];
    const Workload::Event event = *host.held;
    if (!job.ranks[event.rank].reached[event.number]) return false;
    host.held.reset();
    synchronize(issuer, host, event);
    if (!host.blocked) {
      job.record.times[issuer.rank][host.at].end = host.clock;
      ++host.at;
      ready_.push_back(issuer);
    }
    return true;
  });
}

/// Its host has come to the end: all its streams have to.
void Execution::end(Job& job, Rank rank) {
  RankState& state = job.ranks[rank];
  state.ending = true;
  Time& end = job.record.ends[rank];
  end = job.record.start;
  for (const HostThread& host : state.threads) end = std::max(end, host.clock);
  for (const auto& [_, id] : state.streams) {
    const MarkerId last{++last_marker_};
    state.others.push_back(last);
    session_.record(id, std::max(end, session_.last_issued(id)), last);
    const auto call = static_cast<std::uint32_t>(state.threads.size() + state.awaited++);
    session_.synchronize(job.first_process + rank, call, end, last);
  }
  if (state.awaited == 0 && --job.left == 0) job_ended(job);
}

void Execution::answered(const Answer& answer) {
  const auto [job, rank] = processes_[answer.process - 1];
  RankState& state = job->ranks[rank];
  if (answer.thread >= state.threads.size()) {
    Time& end = job->record.ends[rank];
    end = std::max(end, answer.clock);
    if (--state.awaited == 0 && --job->left == 0) job_ended(*job);
    return;
  }
  HostThread& host = state.threads[answer.thread];
  host.clock = std::max(host.clock, answer.clock);
  host.blocked = false;
  job->record.times[rank][host.at].end = host.clock;
  ++host.at;
  ready_.push_back({job, rank, answer.thread});
}

void Execution::job_ended(Job& job) {
  for (Rank rank = 0; rank < job.ranks.size(); ++rank)
    job.record.use[rank] = difference(session_.use(job.record.gpus[rank]), job.record.use[rank]);
  Time last = job.record.start;
  for (const Time end : job.record.ends) last = std::max(last, end);
  // Instants of what was recorded, which tell how its operations depend on one another.
  for (Rank rank = 0; rank < job.ranks.size(); ++rank) {
    const auto operations = job.record.workload->operations(rank);
    const RankState& state = job.ranks[rank];
    const std::vector<std::uint32_t>& events = (*job.record.threads)[rank].events;
    std::size_t other = 0;
    for (std::size_t i = 0; i < operations.size(); ++i) {
      std::optional<Time> at;
      if (std::holds_alternative<Workload::Record>(operations[i]))
        at = session_.completion(MarkerId{state.first_event + events[i]});
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
  for (const HostThread& host : state.threads)
    if (host.held || host.blocked)
      text += (text.empty() ? "" : "; ") + named(workload, rank, host.at);
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
