#include "device.hpp"

#include <algorithm>
#include <cmath>

namespace phantora::detail {

StreamQueue& Device::add_stream(StreamId id, ProcessIndex process) {
  processes_.insert(process);
  StreamQueue& stream = streams_.emplace_back();
  stream.id = id;
  stream.process = process;
  stream.device = this;
  return stream;
}

void Device::append(StreamQueue& stream, StreamOp op) {
  // Only an answer that was forced lets a thread issue work in the simulated past.
  op.issued = std::max(op.issued, processed_to_);
  stream.ops.push_back(op);
}

Time Device::head_start(const StreamQueue& stream) const {
  const StreamOp& op = stream.ops.front();
  switch (op.kind) {
    case StreamOp::Kind::kernel:
    case StreamOp::Kind::collective: {
      const Time free = stream.after_kernel ? stream.end + timing_.kernel_gap : stream.end;
      return std::max(free, op.issued + timing_.launch_latency);
    }
    case StreamOp::Kind::marker:
    case StreamOp::Kind::wait:
    case StreamOp::Kind::host_function:
      break;
  }
  return std::max(stream.end, op.issued);
}

Time Device::next_of(const StreamQueue& stream) const {
  if (stream.state == StreamQueue::State::running) return stream.completion;
  if (stream.state == StreamQueue::State::idle && !stream.ops.empty()) return head_start(stream);
  return never;
}

Time Device::next_event() const {
  Time next = never;
  for (const StreamQueue& stream : streams_) next = std::min(next, next_of(stream));
  return next;
}

void Device::process(Time now) {
  processed_to_ = std::max(processed_to_, now);
  // Operations without duration can follow one another at one instant, and a marker can free
  // another stream of this device: repeat until nothing more happens at `now`.
  for (bool again = true; again;) {
    again = false;
    for (StreamQueue& stream : streams_) {
      while (next_of(stream) <= now) {
        again = true;
        if (stream.state == StreamQueue::State::running) {
          complete_kernel(stream, now);
        } else {
          start_head(stream, now);
        }
      }
    }
  }
  update_rates(now);
}

void Device::start_head(StreamQueue& stream, Time now) {
  const StreamOp op = stream.ops.front();
  const Time at = head_start(stream);
  switch (op.kind) {
    case StreamOp::Kind::kernel: {
      stream.kernel = &events_.kernel(static_cast<QueryIndex>(op.argument));
      stream.state = StreamQueue::State::running;
      stream.start = stream.segment_start = at;
      stream.remaining = static_cast<double>(stream.kernel->duration.count());
      stream.rate = 0;
      stream.completion = never;  // update_rates() sets it
      const auto place = std::lower_bound(
          active_.begin(), active_.end(), &stream,
          [](const StreamQueue* a, const StreamQueue* b) { return a->id < b->id; });
      active_.insert(place, &stream);
      count(stream.kernel->limit == PricedKernel::Limit::copy_engine ? running_copies_
                                                                     : running_kernels_,
            +1, now);
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
      stream.ops.pop_front();
      stream.state = StreamQueue::State::in_collective;
      count(pending_collectives_, +1, now);
      events_.collective_reached(op.argument, stream, at);
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
  const bool copy = kernel.limit == PricedKernel::Limit::copy_engine;
  use_.by_source[static_cast<std::size_t>(kernel.source)] += now - stream.start;
  ++use_.kernels;
  events_.span({.gpu = index_,
                .process = stream.process,
                .stream = stream.id,
                .kind = copy ? Span::Kind::copy : Span::Kind::compute,
                .source = kernel.source,
                .name = kernel.name,
                .identity = kernel.identity,
                .start = stream.start,
                .end = now});
  std::erase(active_, &stream);
  count(copy ? running_copies_ : running_kernels_, -1, now);
  stream.ops.pop_front();
  stream.state = StreamQueue::State::idle;
  stream.end = now;
  stream.after_kernel = true;
  stream.kernel = nullptr;
  stream.completion = never;
}

void Device::update_rates(Time now) {
  double demand = 0;
  for (const StreamQueue* stream : active_) {
    if (stream->kernel->limit != PricedKernel::Limit::copy_engine) demand += stream->kernel->demand;
  }
  const double crowding = std::max(1.0, demand);
  for (StreamQueue* stream : active_) {
    double slowdown = 1.0;
    switch (stream->kernel->limit) {
      case PricedKernel::Limit::arithmetic:
        slowdown = crowding * (moving_collectives_ > 0 ? timing_.compute_slowdown : 1.0);
        break;
      case PricedKernel::Limit::memory:
        slowdown = crowding * (moving_collectives_ > 0 ? timing_.memory_slowdown : 1.0);
        break;
      case PricedKernel::Limit::copy_engine:
        break;
    }
    const double rate = 1.0 / slowdown;
    if (rate == stream->rate) continue;
    stream->remaining -= stream->rate * static_cast<double>((now - stream->segment_start).count());
    stream->segment_start = std::max(now, stream->segment_start);
    stream->rate = rate;
    const double left = std::ceil(std::max(0.0, stream->remaining) / rate);
    stream->completion = stream->segment_start + Duration{static_cast<Duration::rep>(left)};
  }
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
}

void Device::collective_started(Time at) {
  ++moving_collectives_;
  update_rates(at);
}

void Device::collective_finished(StreamQueue& stream, std::string_view name, std::uint64_t identity,
                                 Time reached, Time at, bool moved_data) {
  if (moved_data) --moving_collectives_;
  count(pending_collectives_, -1, at);
  events_.span({.gpu = index_,
                .process = stream.process,
                .stream = stream.id,
                .kind = Span::Kind::communication,
                .source = CostSource::fitted,
                .name = name,
                .identity = identity,
                .start = reached,
                .end = at});
  stream.state = StreamQueue::State::idle;
  stream.end = at;
  stream.after_kernel = true;
  update_rates(at);
}

void Device::host_function_finished(StreamQueue& stream, Time at) {
  stream.state = StreamQueue::State::idle;
  if (at > stream.end) {
    stream.end = at;
    stream.after_kernel = false;
  }
}

double Device::collective_slowdown() const {
  double slowdown = 1.0;
  for (const StreamQueue* stream : active_) {
    switch (stream->kernel->limit) {
      case PricedKernel::Limit::arithmetic:
        slowdown = std::max(slowdown, timing_.collective_slowdown_by_compute);
        break;
      case PricedKernel::Limit::memory:
        slowdown = std::max(slowdown, timing_.collective_slowdown_by_memory);
        break;
      case PricedKernel::Limit::copy_engine:
        break;
    }
  }
  return slowdown;
}

}  // namespace phantora::detail
