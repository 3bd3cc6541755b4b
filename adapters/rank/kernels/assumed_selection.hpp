#pragma once

#include <cstddef>

/// How many elements pass a mask that is not computed: nonzero(), x[mask], masked_select(). All
/// that follows has so many rows. `phantora run --selected` says which share, all of them by
/// default: most masks keep nearly everything (padding, ignored labels, boxes that are too small),
/// and zeros, as unknown flags else read, let all that follows vanish. The report counts the
/// selections (assumed_selections).
///
/// But each of many experts has a mask of its own, and all tokens for each would take many times
/// what they take: flags of a choice, and all flags once a router's choice was assumed, select
/// nothing.
namespace phantora::rank {

/// What the unknown ones of the flags at an address are taken to do.
class AssumedSelection {
 public:
  explicit AssumedSelection(const void* flags);
  /// How many of so many flags select.
  [[nodiscard]] std::size_t of(std::size_t count) const;
  /// Whether flag `index` does; those that do are spread evenly.
  [[nodiscard]] bool selects(std::size_t index) const { return of(index + 1) > of(index); }

 private:
  double share_;
};

}  // namespace phantora::rank
