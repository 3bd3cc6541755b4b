#include "simulation/known_plans.hpp"

#include <algorithm>
#include <utility>

namespace phantora::detail {
namespace {

// Buckets of gradients, layers' parameters and activations: the sizes that a step has. What is
// forgotten is planned again.
constexpr std::size_t most_kinds = 32;

bool same(const GroupedCollective& a, const GroupedCollective& b) {
  return a.op == b.op && a.total == b.total && a.root == b.root;
}

/// Whether a rank sends or receives one message and nothing else.
bool has_one_message(const RankMessages& rank) {
  const auto& [sent, received, sent_to_others, received_from_others] = rank;
  if (sent.size() + received.size() != 1) return false;
  return (sent.empty() ? received : sent).begin()->second.messages == 1;
}

/// The entry that satisfies a predicate, which moves to the front; null if none does.
template <class Entry, class Predicate>
const Entry* find(std::vector<Entry>& latest, Predicate predicate) {
  const auto found = std::find_if(latest.begin(), latest.end(), predicate);
  if (found == latest.end()) return nullptr;
  std::rotate(latest.begin(), found, found + 1);
  return &latest.front();
}

template <class Entry>
void add(std::vector<Entry>& latest, Entry entry) {
  if (latest.size() == most_kinds) latest.pop_back();
  latest.insert(latest.begin(), std::move(entry));
}

}  // namespace

std::shared_ptr<const KnownPlan> KnownPlans::of(std::span<const GroupedCollective> group) {
  const Group* const latest = find(groups_, [&](const Group& one) {
    return std::equal(one.group.begin(), one.group.end(), group.begin(), group.end(), same);
  });
  if (latest) return latest->known;
  auto planned = known(communicator_.plan(group));
  add(groups_, {{group.begin(), group.end()}, planned});
  return planned;
}

std::shared_ptr<const KnownPlan> KnownPlans::of(const SendRecv& message, const RankMessages& sender,
                                                const RankMessages& receiver) {
  // Of others, the plan depends on all that their ranks send and receive beside.
  const bool is_alone = has_one_message(sender) && has_one_message(receiver);
  const Message* const latest = is_alone ? find(messages_,
                                                [&](const Message& one) {
                                                  return one.message.src_rank == message.src_rank &&
                                                         one.message.dst_rank == message.dst_rank &&
                                                         one.message.size == message.size;
                                                })
                                         : nullptr;
  if (latest) return latest->known;
  auto planned = known(communicator_.plan(message, sender, receiver));
  if (is_alone) add(messages_, {message, planned});
  return planned;
}

std::shared_ptr<const KnownPlan> KnownPlans::known(CollectivePlan plan) const {
  KnownPlan known{.plan = std::move(plan)};
  for (const FlowSpec& flow : known.plan.flows) {
    double alone = flow.rate_cap.bytes_per_second();
    for (const LinkUse& use : flow.links) {
      alone = std::min(
          alone, network_.capacities()[use.link.value].bytes_per_second() / use.bytes_per_byte);
    }
    known.alone.emplace_back(alone);
  }
  return std::make_shared<const KnownPlan>(std::move(known));
}

}  // namespace phantora::detail
