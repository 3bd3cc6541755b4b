#pragma once

#include <cstddef>

/// How many elements pass a mask that is not computed: nonzero(), x[mask], masked_select(). All
/// that follows has so many rows. `phantora run --selected` says which share, all of them by
/// default: most masks keep nearly everything (padding, ignored labels, boxes that are too small),
/// and zeros, as unknown flags else read, let all that follows vanish. The report counts the
/// selections (assumed_selections).
namespace phantora::rank {

/// Of so many flags.
std::size_t assumed_selected(std::size_t count);
/// Whether flag `index` of them selects; those that do are spread evenly.
bool assumed_to_select(std::size_t index);

}  // namespace phantora::rank
