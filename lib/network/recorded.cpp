#include "network/recorded.hpp"

#include <algorithm>

namespace phantora::network {

void Recorded::rewind(Slot slot, Ps at) {
  if (flow(slot)) return;
  const Progress& progress = flows_.progress(slot);
  if (!records_.moves.keeps(progress.last) || progress.since <= at) return;
  Rewound& added = add_flow(slot, solver_.bottleneck(slot));
  records_.look_back(progress, at, [&](const Past& past) { added.future.push_back(past); });
  take_past(added);
  schedule_next(added);
}

Rewound& Recorded::add_flow(Slot slot, std::uint32_t last) {
  if (rewound_count_ == rewound_.size()) rewound_.emplace_back();
  Rewound& flow = rewound_[rewound_count_++];
  rewound_of_[slot] = static_cast<std::uint32_t>(rewound_count_);
  flow.slot = slot;
  flow.detached = flow.diverged = false;
  flow.counted = 0;
  flow.last = last;
  flow.future.clear();
  return flow;
}

void Recorded::take_past(const Rewound& flow) {
  const std::uint32_t bottleneck = past_bottleneck(flow);
  if (bottleneck != MaxMin::none) {
    solver_.restore(flow.slot, bottleneck);
  } else if (solver_.present(flow.slot)) {
    solver_.withdraw(flow.slot);
  }
}

void Recorded::follow(std::uint32_t link, Ps at) {
  if (link >= MaxMin::own_cap || group(link)) return;
  const Group& now = motion_.group(link);
  if (!records_.shifts.keeps(now.last) || now.since <= at) return;
  Followed& added = add_group(link, solver_.key(link));
  records_.look_back(now, at, [&](const PastShift& change) {
    added.future.push_back(change);
    added.least = std::min(added.least, records_.shifts[change.record].key().level);
  });
  solver_.restore_key(link, past_key(added));
  schedule_next(added);
}

Followed& Recorded::add_group(std::uint32_t link, FillingKey last) {
  if (followed_count_ == followed_.size()) followed_.emplace_back();
  Followed& group = followed_[followed_count_++];
  followed_of_[link] = static_cast<std::uint32_t>(followed_count_);
  group.link = link;
  group.detached = group.diverged = false;
  group.end = motion_.group(link);
  group.last = last;
  group.least = last.level;
  group.future.clear();
  return group;
}

void Recorded::finish() {
  for (std::size_t i = 0; i < rewound_count_; ++i) {
    rewound_of_[rewound_[i].slot] = 0;
    // The flow may not have come back to the group that it was in.
    if (rewound_[i].last < MaxMin::own_cap) found_.push_back(rewound_[i].last);
  }
  rewound_count_ = 0;
  for (std::size_t i = 0; i < followed_count_; ++i) found_.push_back(followed_[i].link);
  drop_groups();
  for (const std::uint32_t link : found_) motion_.forget_first(link);
  found_.clear();
}

/// The recorded service of a group at an instant not before the present one.
Service Recorded::past_service(const Followed& group, Ps at) const {
  const auto next = std::partition_point(group.future.begin(), group.future.end(),
                                         [&](const PastShift& change) { return change.at >= at; });
  return next == group.future.begin() ? group.end.service_at(at)
                                      : records_.service_before(*(next - 1), at);
}

Service Recorded::past_service(std::uint32_t link, Ps at) const {
  if (const Followed* known = group(link)) return past_service(*known, at);
  Service service = motion_.group(link).service_at(at);
  records_.look_back(motion_.group(link), at, [&](const PastShift& change) {
    service = records_.service_before(change, at);
  });
  return service;
}

Work Recorded::past_left(const Rewound& flow, Ps at) const {
  const Progress& end = flows_.progress(flow.slot);
  const Ps last = flow.future.empty() ? at : flow.future.front().at;
  Service left = end.mark - (flow.last < MaxMin::own_cap ? past_service(flow.last, last) : 0);
  for (std::size_t i = 0; i < flow.future.size(); ++i) {
    const Ps until = flow.future[i].at;
    const Ps from = i + 1 < flow.future.size() ? flow.future[i + 1].at : at;
    const std::uint32_t bottleneck = records_.moves[flow.future[i].record].bottleneck;
    if (bottleneck < MaxMin::own_cap) {
      left += past_service(bottleneck, until) - past_service(bottleneck, from);
    } else if (bottleneck == MaxMin::own_cap) {
      left += served(motion_.cap_pace(flow.slot), until - from);
    }
  }
  return static_cast<Work>(left);
}

void Recorded::detach(Rewound& flow) {
  flow.detached = true;
  flow.counted = least_rate(flow);
  take_back(flow);
}

void Recorded::take_back(const Rewound& flow) {
  if (flow.future.empty()) return;
  const Past next = flow.future.back();
  const std::uint32_t bottleneck = records_.moves[next.record].bottleneck;
  Progress& progress = flows_.progress(flow.slot);
  progress.mark = static_cast<Service>(past_left(flow, next.at));
  progress.since = next.at - records_.moves.age(next.record);
  progress.record(records_.moves.previous(next.record));
  progress.become(bottleneck == MaxMin::none ? State::not_started : State::running);
  motion_.drop_cap_end(flow.slot);
  if (bottleneck == MaxMin::own_cap) {
    progress.mark += served(motion_.cap_pace(flow.slot), next.at - progress.since);
    motion_.find_cap_end(flow.slot);
  } else if (bottleneck != MaxMin::none) {
    progress.mark += past_service(bottleneck, next.at);
    motion_.stale(bottleneck);
  }
}

/// From here on a group has its own service in the replay, and all its flows have their own marks.
void Recorded::detach(Followed& group) {
  take_back(group);
  solver_.for_each_in_group(group.link, [&](Slot slot) { part(slot, group.link); });
  group.detached = true;
  motion_.stale(group.link);
}

void Recorded::take_back(const Followed& group) {
  if (group.future.empty()) return;
  const PastShift& next = group.future.back();
  Group& now = motion_.group(group.link);
  now.pace = pace_of(records_.shifts[next.record].key());
  now.since = next.at - records_.shifts.age(next.record);
  now.service = records_.service_before(next, now.since);
  now.last = records_.shifts.previous(next.record);
}

/// The least recorded level of a link, from the present instant on.
double Recorded::least_level(std::uint32_t link) const {
  if (const Followed* known = group(link)) return known->least;
  // The group is not in the replay as yet; flows that follow their records will join it.
  double least = solver_.key_before(link).level;
  records_.look_back(motion_.group(link), now_, [&](const PastShift& change) {
    least = std::min(least, records_.shifts[change.record].key().level);
  });
  return least;
}

double Recorded::least_rate(Slot slot, std::uint32_t bottleneck) const {
  if (bottleneck == MaxMin::none) return 0;
  if (bottleneck == MaxMin::own_cap) return solver_.cap(slot);
  return solver_.rate_at(slot, bottleneck, {least_level(bottleneck), bottleneck});
}

double Recorded::least_rate(const Rewound& flow) const {
  double rate = least_rate(flow.slot, flow.last);
  for (const Past& past : flow.future)
    rate = std::min(rate, least_rate(flow.slot, records_.moves[past.record].bottleneck));
  return rate;
}

}  // namespace phantora::network
