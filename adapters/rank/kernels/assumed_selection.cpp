#include "rank/kernels/assumed_selection.hpp"

#include "rank/runtime/process.hpp"
#include "rank/small_data.hpp"

namespace phantora::rank {

AssumedSelection::AssumedSelection(const void* flags) {
  const channel::Settings* const told = settings();
  const bool chosen = small_data().choices.any.load(std::memory_order_relaxed) ||
                      small_data().writers.is_chosen(flags);
  share_ = chosen ? 0.0 : told != nullptr ? told->selected : 1.0;
}

std::size_t AssumedSelection::of(std::size_t count) const {
  return static_cast<std::size_t>(static_cast<double>(count) * share_);
}

}  // namespace phantora::rank
