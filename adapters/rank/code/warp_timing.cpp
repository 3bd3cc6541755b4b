#include "rank/code/warp_timing.hpp"

#include <algorithm>
#include <iterator>

namespace phantora::rank::code {

namespace {

/// When all groups but the last ones are done; what is waited for is forgotten.
double end_of(std::vector<double>& groups, std::size_t but, double otherwise) {
  if (groups.size() <= but) return otherwise;
  const auto end = groups.end() - static_cast<std::ptrdiff_t>(but);
  const double done = *std::prev(end);
  groups.erase(groups.begin(), end);
  return std::max(done, otherwise);
}

}  // namespace

void Timing::wait(unsigned scoreboards) {
  for (std::size_t s = 0; s < scoreboards_.size(); ++s)
    if ((scoreboards >> s & 1) != 0) clock_ = std::max(clock_, scoreboards_[s]);
}

void Timing::wait_for_copies(std::size_t but) { clock_ = end_of(groups_of_copies_, but, clock_); }

void Timing::wait_for_products(std::size_t but) {
  clock_ = end_of(groups_of_products_, but, clock_);
}

void Timing::issue(const Asked& asked) {
  double later = 0;  // than the first of it the last comes out of its pipe
  for (std::size_t pipe = 0; pipe < asked.busy.size(); ++pipe) {
    if (asked.busy[pipe] <= 0) continue;
    clock_ = std::max(clock_, pipes_free_[pipe]);
    pipes_free_[pipe] = clock_ + asked.busy[pipe];
    later = std::max(later, asked.busy[pipe] - 1);
  }
  double ready = clock_ + asked.latency + later;
  if (asked.giver == Giver::stack) ready += answers_.stack;
  if (asked.giver == Giver::memory) {
    port_free_ = std::max(clock_, port_free_) + asked.received;
    ready = port_free_ + answers_.memory + later;
  }
  if (asked.copies) copies_ready_ = std::max(copies_ready_, ready);
  if (asked.ends_copies) {
    groups_of_copies_.push_back(copies_ready_);
    ready = std::max(ready, copies_ready_);
  }
  if (asked.writes < scoreboards_.size()) scoreboards_[asked.writes] = ready;
  // Operands are read long before the result is there.
  if (asked.reads < scoreboards_.size())
    scoreboards_[asked.reads] = std::max(scoreboards_[asked.reads], clock_ + special_latency);
  clock_ += asked.stall;
}

void Timing::multiply(double cycles, bool ends_group) {
  products_end_ = std::max(products_end_, clock_) + cycles;
  if (ends_group) groups_of_products_.push_back(products_end_);
}

void Timing::skip(double cycles) {
  clock_ += cycles;
  for (double& ready : scoreboards_) ready += cycles;
  for (double& free : pipes_free_) free += cycles;
  port_free_ += cycles;
  copies_ready_ += cycles;
  products_end_ += cycles;
  for (double& done : groups_of_copies_) done += cycles;
  for (double& done : groups_of_products_) done += cycles;
}

}  // namespace phantora::rank::code
