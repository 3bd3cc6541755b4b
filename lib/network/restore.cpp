// How MaxMin is put into a state that it had before: for callers that go back in time.
#include "network/max_min.hpp"

namespace phantora {

void MaxMin::withdraw(Slot slot) { leave_links(slot, Then::leave); }

void MaxMin::restore(Slot slot, std::uint32_t bottleneck) {
  if (bottleneck < own_cap && links_[bottleneck].eased) count_exactly(bottleneck);
  if (!flows_.at(slot).present) join_links(slot, Then::leave);
  if (bottlenecks_[slot] != bottleneck) assign(slot, bottleneck, none, Then::leave);
  guessed_ = restored_ = true;
}

void MaxMin::guess(Slot slot, std::uint32_t bottleneck) {
  note_move(slot);
  restore(slot, bottleneck);
}

void MaxMin::restore_key(std::uint32_t link, FillingKey key) {
  if (keys_[link] != key) shift(link, key, Then::leave);
  guessed_ = restored_ = true;
}

void MaxMin::guess_key(std::uint32_t link, FillingKey key) {
  note_shift(link);
  restore_key(link, key);
}

void MaxMin::restore_cap(Slot slot, double cap) {
  const std::uint32_t bottleneck = bottlenecks_[slot];
  const bool was_present = flows_.at(slot).present;
  if (was_present) withdraw(slot);
  flows_.own_terms(slot).cap = cap;
  if (was_present) restore(slot, bottleneck);
}

void MaxMin::reconsider(std::uint32_t link) {
  enter(link);
  touch(link, Effect::lowers);
}

}  // namespace phantora
