#include "simulation/device.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace phantora::detail {
namespace {

bool is_copy(const StreamQueue& running) {
  return running.kernel->limit == PricedKernel::Limit::copy_engine;
}

}  // namespace

StreamQueue& Device::add_stream(StreamId id, ProcessIndex process, int priority) {
  processes_.insert(process);
  StreamQueue& stream = *streams_.emplace_back(std::make_unique<StreamQueue>());
  stream.slot = static_cast<std::uint32_t>(streams_.size() - 1);
  stream.id = id;
  stream.process = process;
  stream.priority = priority;
  stream.device = this;
  return stream;
}

void Device::drop_stream(StreamQueue& stream) {
  stream.dropped = true;
  ++dropped_;
  forget_dropped();
}

void Device::forget_dropped() {
  if (dropped_ == 0) return;
  const std::size_t forgotten = std::erase_if(streams_, [](const auto& stream) {
    return stream->dropped && stream->ops.empty() && stream->state == StreamQueue::State::idle;
  });
  if (forgotten == 0) return;
  dropped_ -= forgotten;
  // Those that come at the same instant go on in the order in which they were added.
  next_events_ = {};
  for (std::uint32_t slot = 0; slot < streams_.size(); ++slot) {
    streams_[slot]->slot = slot;
    next_events_.set(slot, next_of(*streams_[slot]));
  }
}

void Device::append(StreamQueue& stream, StreamOp op) {
  // Only where time did not travel with what woke a thread can work be issued in the simulated
  // past.
  if (op.issued < processed_to_) {
    op.issued = processed_to_;
    ++late_operations_;
  }
  stream.ops.push_back(op);
  if (stream.ops.size() == 1) reschedule(stream);
}

Time Device::head_start(const StreamQueue& stream) const {
  const StreamOp& op = stream.ops.front();
  switch (op.kind) {
    case StreamOp::Kind::kernel:
    case StreamOp::Kind::collective: {
      const Duration gap = stream.in_graph       ? timing_.graph_gap
                           : stream.after_kernel ? timing_.kernel_gap
                                                 : Duration{};
      return std::max(stream.end + gap, op.issued + timing_.launch_latency);
    }
    case StreamOp::Kind::marker:
    case StreamOp::Kind::wait:
    case StreamOp::Kind::host_function:
    case StreamOp::Kind::graph:
      break;
  }
  return std::max(stream.end, op.issued);
}

Time Device::next_of(const StreamQueue& stream) const {
  if (stream.state == StreamQueue::State::running) return stream.completion;
  if (stream.state == StreamQueue::State::idle && !stream.ops.empty()) return head_start(stream);
  return never;
}

void Device::reschedule(const StreamQueue& stream) {
  next_events_.set(stream.slot, next_of(stream));
  events_.rescheduled(*this);
}

void Device::process(Time now) {
  processed_to_ = std::max(processed_to_, now);
  forget_dropped();
  // Operations without duration can follow one another at one instant, and a marker can free
  // another stream of this device: repeat until nothing more happens at `now`.
  while (next_event() <= now) {
    for (std::uint32_t slot = 0; (slot = next_events_.first_due(slot, now)) != NextEvents::none;
         ++slot) {
      StreamQueue& stream = *streams_[slot];
      while (next_of(stream) <= now) {
        if (stream.state == StreamQueue::State::running) {
          complete_kernel(stream, now);
        } else {
          start_head(stream, now);
        }
      }
      next_events_.set(slot, next_of(stream));
    }
  }
  update_rates(now);
}

void Device::start_head(StreamQueue& stream, Time now) {
  const StreamOp op = stream.ops.front();
  const Time at = head_start(stream);
  switch (op.kind) {
    case StreamOp::Kind::kernel: {
      stream.kernel = &events_.kernel(op.argument);
      stream.state = StreamQueue::State::running;
      stream.start = stream.segment_start = at;
      follow_power(now);
      stream.remaining = static_cast<double>(stream.kernel->duration.count());
      if (stream.kernel->limit == PricedKernel::Limit::arithmetic)
        stream.remaining *= power_stretch();
      stream.rate = 0;
      stream.completion = never;  // update_rates() sets it
      const auto place = std::lower_bound(
          active_.begin(), active_.end(), &stream,
          [](const StreamQueue* a, const StreamQueue* b) { return a->id < b->id; });
      active_.insert(place, &stream);
      count(is_copy(stream) ? running_copies_ : running_kernels_, +1, now);
      return;
    }
    case StreamOp::Kind::marker:
      stream.ops.pop_front();
      stream.end = std::max(stream.end, at);
      events_.marker_completed(MarkerId{op.argument}, at);
      return;
    case StreamOp::Kind::wait:
      if (const auto done = events_.marker_awaited(MarkerId{op.argument}, stream)) {
        stream.ops.pop_front();
        if (*done > stream.end) {
          stream.end = *done;
          stream.after_kernel = false;
        }
      } else {
        stream.state = StreamQueue::State::waiting;
      }
      return;
    case StreamOp::Kind::collective:
      stream.start = at;
      stream.sms = events_.collective_sms(op.argument);
      if (has_sms_for(stream)) {
        dispatch_collective(stream, at);
      } else {
        stream.state = StreamQueue::State::awaiting_sms;
        ++awaiting_sms_;
      }
      return;
    case StreamOp::Kind::graph:
      stream.ops.pop_front();
      stream.in_graph = op.argument != 0;
      return;
    case StreamOp::Kind::host_function:
      stream.ops.pop_front();
      stream.state = StreamQueue::State::in_host_function;
      events_.host_function_reached(op.argument, stream, at);
      return;
  }
}

void Device::complete_kernel(StreamQueue& stream, Time now) {
  const PricedKernel& kernel = *stream.kernel;
  const bool copy = is_copy(stream);
  use_.by_source[static_cast<std::size_t>(kernel.source)] += now - stream.start;
  ++use_.kernels;
  events_.span({.gpu = index_,
                .process = stream.process,
                .stream = stream.id,
                .kind = copy ? Span::Kind::copy : Span::Kind::compute,
                .source = kernel.source,
                .name = kernel.name,
                .identity = kernel.identity,
                .tag = stream.ops.front().tag,
                .start = stream.start,
                .end = now,
                .stddev = kernel.stddev});
  std::erase(active_, &stream);
  count(copy ? running_copies_ : running_kernels_, -1, now);
  stream.ops.pop_front();
  stream.state = StreamQueue::State::idle;
  stream.end = now;
  stream.after_kernel = true;
  stream.kernel = nullptr;
  stream.completion = never;
  dispatch_waiting(now);
}

bool Device::has_sms_for(const StreamQueue& collective) const {
  double taken = held_sms_;
  for (const StreamQueue* stream : active_) {
    if (!is_copy(*stream) && stream->start <= collective.start)
      taken += stream->kernel->demand * sm_count_;
  }
  return collective.sms == 0 || taken == 0 || taken + collective.sms <= sm_count_;
}

void Device::dispatch_collective(StreamQueue& stream, Time at) {
  const std::uint64_t part = stream.ops.front().argument;
  stream.ops.pop_front();
  stream.state = StreamQueue::State::in_collective;
  held_sms_ += stream.sms;
  count(pending_collectives_, +1, at);
  events_.collective_reached(part, stream, at);
}

void Device::dispatch_waiting(Time now) {
  if (awaiting_sms_ == 0) return;
  for (const auto& stream : streams_) {
    if (stream->state != StreamQueue::State::awaiting_sms || !has_sms_for(*stream)) continue;
    --awaiting_sms_;
    dispatch_collective(*stream, now);
  }
}

double Device::copy_slowdown(const StreamQueue& copy) const {
  using Way = PricedKernel::Way;
  if (copy.kernel->way == Way::none) return 1.0;
  bool both_ways = false;
  for (const StreamQueue* other : active_) {
    if (other->kernel->way == Way::none) continue;
    if (other->kernel->way != copy.kernel->way) {
      both_ways = true;
    } else if (other->start < copy.start || (other->start == copy.start && other->id < copy.id)) {
      return std::numeric_limits<double>::infinity();
    }
  }
  return both_ways ? timing_.both_ways : 1.0;
}

double Device::share_sms() {
  double left = std::max(1, sm_count_ - held_sms_) / static_cast<double>(sm_count_);
  double memory = 0.0;
  std::optional<int> shared;  // up to this priority
  while (true) {
    std::optional<int> priority;
    for (const StreamQueue* stream : active_) {
      if (shared && stream->priority <= *shared) continue;
      priority = std::min(priority.value_or(stream->priority), stream->priority);
    }
    if (!priority) return memory;
    double demand = 0, drawn = 0;
    for (const StreamQueue* stream : active_) {
      if (stream->priority != *priority || is_copy(*stream)) continue;
      demand += stream->kernel->demand;
      drawn += stream->kernel->memory_share;
    }
    // What is left by rounding is nothing: the least demand is a sixteenth of an SM.
    constexpr double nothing = 1e-6;
    const double crowding =
        left < nothing ? std::numeric_limits<double>::infinity() : std::max(1.0, demand / left);
    for (StreamQueue* stream : active_) {
      if (stream->priority == *priority) stream->crowding = crowding;
    }
    memory += drawn / crowding;
    left = std::max(0.0, left - demand);
    shared = priority;
  }
}

double Device::memory_crowding(double kernels) const {
  double copies = 0.0;
  for (const StreamQueue* stream : active_) {
    if (is_copy(*stream)) copies += stream->kernel->memory_share;
  }
  // Kernels alone share by their SMs.
  if (copies == 0.0) return 1.0;
  return std::max(1.0, (copies + kernels) / timing_.attained_memory);
}

void Device::update_rates(Time now) {
  const double drawn = share_sms();
  const double memory_crowding = running_copies_ > 0 ? this->memory_crowding(drawn) : 1.0;
  for (StreamQueue* stream : active_) {
    const double crowding = stream->crowding;
    double slowdown = 1.0;
    switch (stream->kernel->limit) {
      case PricedKernel::Limit::arithmetic:
        slowdown = crowding * (held_sms_ > 0 && crowding > 1.0 ? timing_.broken_waves : 1.0);
        break;
      case PricedKernel::Limit::memory:
        slowdown = crowding * memory_crowding;
        break;
      case PricedKernel::Limit::copy_engine:
        slowdown = stream->kernel->way == PricedKernel::Way::none ? memory_crowding
                                                                  : copy_slowdown(*stream);
        break;
    }
    const double rate = 1.0 / slowdown;
    if (rate == stream->rate) continue;
    stream->remaining -= stream->rate * static_cast<double>((now - stream->segment_start).count());
    stream->segment_start = std::max(now, stream->segment_start);
    stream->rate = rate;
    const double rest = std::ceil(std::max(0.0, stream->remaining) / rate);
    stream->completion =
        rate > 0.0 ? stream->segment_start + Duration{static_cast<Duration::rep>(rest)} : never;
    next_events_.set(stream->slot, stream->completion);
  }
  events_.rescheduled(*this);
  follow_power(now);
  double memory = 0.0;
  power_drawn_ = 0.0;
  for (const StreamQueue* stream : active_) {
    memory += stream->kernel->memory_share * stream->rate;
    power_drawn_ += stream->kernel->power_share * stream->rate;
  }
  const double before =
      std::exchange(collective_slowdown_, 1.0 + timing_.memory_contention * std::min(1.0, memory));
  if (collective_slowdown_ != before) events_.slowdown_changed(*this);
}

void Device::follow_power(Time now) {
  if (now <= power_followed_to_) return;
  const auto passed = static_cast<double>((now - power_followed_to_).count());
  const double kept = std::exp(-passed / static_cast<double>(timing_.power_window.count()));
  power_averaged_ = power_drawn_ + (power_averaged_ - power_drawn_) * kept;
  power_followed_to_ = now;
}

double Device::power_stretch() const {
  return power_averaged_ > 1.0 ? std::pow(power_averaged_, timing_.power_exponent) : 1.0;
}

void Device::count(int& counter, int change, Time now) {
  const Duration passed = now - counted_to_;
  if (passed > Duration{}) {
    const bool kernels = running_kernels_ > 0;
    const bool communicating = pending_collectives_ > 0;
    if (kernels || communicating || running_copies_ > 0) use_.busy += passed;
    if (communicating) use_.communication += passed;
    if (communicating && !kernels) use_.exposed += passed;
    counted_to_ = now;
  }
  counter += change;
}

void Device::wake(StreamQueue& stream, Time at) {
  stream.ops.pop_front();
  stream.state = StreamQueue::State::idle;
  if (at > stream.end) {
    stream.end = at;
    stream.after_kernel = false;
  }
  reschedule(stream);
}

void Device::collective_finished(StreamQueue& stream, const Span& done) {
  held_sms_ -= stream.sms;
  count(pending_collectives_, -1, done.end);
  Span span = done;
  span.gpu = index_;
  span.process = stream.process;
  span.stream = stream.id;
  span.kind = Span::Kind::communication;
  span.source = CostSource::fitted;
  events_.span(span);
  stream.state = StreamQueue::State::idle;
  stream.end = done.end;
  stream.after_kernel = true;
  next_events_.set(stream.slot, next_of(stream));
  dispatch_waiting(done.end);
  update_rates(done.end);
}

void Device::host_function_finished(StreamQueue& stream, Time at) {
  stream.state = StreamQueue::State::idle;
  if (at > stream.end) {
    stream.end = at;
    stream.after_kernel = false;
  }
  reschedule(stream);
}

}  // namespace phantora::detail
