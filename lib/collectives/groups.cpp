#include "collectives/communicator_impl.hpp"

#include <iterator>
#include <tuple>

namespace phantora {

std::vector<Communicator::Impl::Batch> Communicator::Impl::batches(
    std::span<const GroupedCollective> group) const {
  std::vector<GroupedCollective> sorted;
  std::copy_if(group.begin(), group.end(), std::back_inserter(sorted),
               [](const GroupedCollective& call) { return call.total > Bytes{0}; });
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return std::tie(a.op, a.root, a.total) < std::tie(b.op, b.root, b.total);
  });
  std::vector<Batch> batches;
  for (const GroupedCollective& call : sorted) {
    // As NCCL: of one kind, and less than four times the smallest.
    const bool joins = !batches.empty() && batches.back().all.op == call.op &&
                       batches.back().all.root == call.root &&
                       call.total < 4 * batches.back().parts.front();
    if (!joins) {
      batches.push_back({.all = call, .parts = {call.total}, .plan = {}, .grows = {}});
    } else {
      batches.back().all.total += call.total;
      batches.back().parts.push_back(call.total);
    }
  }
  for (Batch& batch : batches) {
    if (is_tuned(batch.all.op)) {
      TunedPlan tuned = tuned_plan(batch.all.op, batch.all.total, batch.all.root);
      batch.plan = std::move(tuned.plan);
      batch.grows = microseconds(tuned.grows_us);
    } else {
      batch.plan = plan(batch.all.op, batch.all.total, batch.all.root);
    }
  }
  return batches;
}

/// By how much the operations of a kernel take longer because they follow one another on a channel:
/// that of the channel where this is most.
/// @param channels  becomes the number of channels of all operations together, if that is greater.
Duration Communicator::Impl::in_turn(std::span<const Batch> batches, int& channels) const {
  std::vector<NcclTuning::Task> tasks;
  std::vector<double> alone_us;
  for (const Batch& batch : batches) {
    if (batch.plan.algorithm == Algorithm::point_to_point) continue;
    const int most = tuning_->most_channels(batch.plan.algorithm, batch.plan.protocol,
                                            batch.all.total.count(), max_channels_);
    for (const Bytes part : batch.parts) {
      tasks.push_back(
          {tuned(batch.all.op), batch.plan.algorithm, batch.plan.protocol, part.count(), most});
      alone_us.push_back(
          std::max(0.0, to_seconds(batch.plan.latency - batch.grows) * 1e6 -
                            kernel_us[static_cast<std::size_t>(batch.plan.protocol)]));
    }
  }
  const std::vector<NcclTuning::Channels> dealt = deal(tasks);
  struct Turns {
    double sum = 0, most = 0;
  };
  std::map<int, Turns> turns_on;  // each channel
  double longest = 0;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    for (int c = dealt[i].first; c < dealt[i].first + dealt[i].count; ++c) {
      Turns& turns = turns_on[c];
      turns.sum += alone_us[i];
      turns.most = std::max(turns.most, alone_us[i]);
      longest = std::max(longest, turns.sum - turns.most);
    }
  }
  channels = std::max(channels, static_cast<int>(turns_on.size()));
  return microseconds(longest);
}

/// A group runs in one kernel: the plans of all batches, at once over the same channels.
CollectivePlan Communicator::Impl::plan(std::span<const GroupedCollective> group) const {
  for (const GroupedCollective& call : group) expect_valid(call.total, call.root);
  std::vector<Batch> batches = this->batches(group);
  if (batches.empty()) return {};
  if (batches.size() == 1 && batches.front().parts.size() == 1)
    return std::move(batches.front().plan);
  const auto largest =
      std::max_element(batches.begin(), batches.end(),
                       [](const Batch& a, const Batch& b) { return a.all.total < b.all.total; });
  CollectivePlan all{.algorithm = largest->plan.algorithm,
                     .protocol = largest->plan.protocol,
                     .channels = largest->plan.channels,
                     .latency = largest->plan.latency - largest->grows};
  Duration more{}, grow{};
  if (tuning_ && size() > 1) more = in_turn(batches, all.channels);
  double seconds = 0;  // that all batches take one after the other; without a cap the links decide
  const auto alone = [](const FlowSpec& flow) {
    return static_cast<double>(flow.size.count()) / flow.rate_cap.bytes_per_second();
  };
  for (const Batch& batch : batches) {
    all.latency = std::min(all.latency, batch.plan.latency - batch.grows);
    grow += batch.grows;
    for (const FlowSpec& flow : batch.plan.flows) seconds += alone(flow);
  }
  for (Batch& batch : batches) {
    for (FlowSpec& flow : batch.plan.flows) {
      if (batches.size() > 1 && flow.rate_cap < unlimited)
        flow.rate_cap = Bandwidth{static_cast<double>(flow.size.count()) / seconds};
      flow.latency += batch.plan.latency - batch.grows - all.latency + more;
      all.flows.push_back(std::move(flow));
    }
  }
  all.latency += grow;
  return all;
}

}  // namespace phantora
