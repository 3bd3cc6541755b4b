#include "run/rest.hpp"

namespace phantora::run {

bool Rest::all_have_run(FirstSeen& first, const std::vector<AwakeThread>& awake) {
  bool all = true;
  for (const AwakeThread& thread : awake) {
    const auto before = first.try_emplace(thread.id, thread.cpu).first->second;
    all = all && thread.cpu - before >= has_had_a_core;
  }
  return all;
}

void Rest::looked(Found found, Instant when, const std::vector<AwakeThread>& awake) {
  quiet_ = found == Found::sleep ? quiet_ + 1 : 0;

  bool calm = false;
  if (found == Found::activity || found == Found::naps) {
    calm_.reset();
  } else {
    if (!calm_) calm_ = Calm{.since = when};
    calm = all_have_run(calm_->first, awake) && when - calm_->since > long_enough;
  }

  ++naps_.looks;
  if (found == Found::activity && ++naps_.awake > awake_at_most) naps_ = {};
  const bool naps =
      all_have_run(naps_.first, awake) && found != Found::activity && naps_.looks >= looks_napping;

  rests_ = quiet_ >= looks_asleep || calm || naps;
}

void Rest::moved() {
  quiet_ = 0;
  if (calm_) calm_->first.clear();  // whoever that woke has to run too
  naps_ = {};
  rests_ = false;
}

}  // namespace phantora::run
