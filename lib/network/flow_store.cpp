#include "network/flow_store.hpp"

#include "network/filling_key.hpp"
#include "network/room.hpp"

#include <phantora/error.hpp>

#include <utility>

namespace phantora {

FlowStore::Terms& FlowStore::own_terms(Slot slot) {
  Flow& flow = at(slot);
  if (flow.terms == 0) {
    if (free_terms_.empty()) {
      flow.terms = static_cast<std::uint32_t>(terms_.size());
      terms_.emplace_back();
    } else {
      flow.terms = free_terms_.back();
      free_terms_.pop_back();
    }
  }
  return terms_[flow.terms];
}

void FlowStore::clear_terms(Slot slot) {
  Flow& flow = at(slot);
  if (flow.terms == 0) return;
  terms_[flow.terms] = Terms{};
  free_terms_.push_back(flow.terms);
  flow.terms = 0;
}

/// @return where there is room for a flow of `count` links.
std::uint32_t FlowStore::take_words(std::uint32_t count) {
  if (const auto free = free_words_.find(count);
      free != free_words_.end() && !free->second.empty()) {
    const std::uint32_t first = free->second.back();
    free->second.pop_back();
    return first;
  }
  const std::size_t first = words_.size();
  PHANTORA_EXPECTS(first + count < std::numeric_limits<std::uint32_t>::max(),
                   "fewer than 2^32 links of live flows");
  make_room(words_, 1 + count);
  words_.resize(first + 1 + count);
  return static_cast<std::uint32_t>(first);
}

void FlowStore::give_words_back(std::uint32_t first) {
  if (first != 0) free_words_[words_[first].flow.count].push_back(first);
}

FlowStore::Slot FlowStore::create(std::span<const LinkUse> uses, double shares, double cap) {
  Slot slot;
  if (free_.empty()) {
    slot = static_cast<Slot>(first_words_.size());
    PHANTORA_EXPECTS(slot < FillingKey::cap_link, "fewer than 2^24 live flows");
    make_room(first_words_, 1);
    first_words_.push_back(0);
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  redirect(slot, uses);
  if (shares != 1 || cap != std::numeric_limits<double>::infinity()) {
    Terms& terms = own_terms(slot);
    terms.shares = shares;
    terms.cap = cap;
  }
  return slot;
}

void FlowStore::erase(Slot slot) {
  clear_terms(slot);
  give_words_back(std::exchange(first_words_[slot], 0));
  free_.push_back(slot);
}

void FlowStore::redirect(Slot slot, std::span<const LinkUse> uses) {
  Flow flow = at(slot);
  give_words_back(first_words_[slot]);
  flow.count = static_cast<std::uint32_t>(uses.size()) & ((1U << 30) - 1);
  first_words_[slot] = take_words(flow.count);
  at(slot) = flow;
  for (std::uint32_t i = 0; i < flow.count; ++i) uses_of(slot)[i].use = {uses[i].link.value, 0};
  const double amount = uses.empty() ? 1 : uses.front().bytes_per_byte;
  const bool uniform = std::all_of(uses.begin(), uses.end(),
                                   [&](const LinkUse& u) { return u.bytes_per_byte == amount; });
  if (uniform && amount == 1 && flow.terms == 0) return;
  Terms& terms = own_terms(slot);
  terms.amount = amount;
  terms.amounts.reset();
  if (uniform) return;
  terms.amounts = std::make_unique<double[]>(flow.count);
  for (std::uint32_t i = 0; i < flow.count; ++i) terms.amounts[i] = uses[i].bytes_per_byte;
}

std::vector<LinkUse> FlowStore::uses(Slot slot) const {
  const Flow& flow = at(slot);
  std::vector<LinkUse> uses;
  for (std::uint32_t i = 0; i < flow.count; ++i)
    uses.push_back({LinkId{uses_of(slot)[i].use.link}, terms(slot).amount_on(i)});
  return uses;
}

}  // namespace phantora
