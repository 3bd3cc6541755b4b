#include "rank/kernels/assumed_selection.hpp"

#include "rank/runtime/process.hpp"

namespace phantora::rank {

std::size_t assumed_selected(std::size_t count) {
  const channel::Settings* const told = settings();
  const double share = told != nullptr ? told->selected : 1.0;
  return static_cast<std::size_t>(static_cast<double>(count) * share);
}

bool assumed_to_select(std::size_t index) {
  return assumed_selected(index + 1) > assumed_selected(index);
}

}  // namespace phantora::rank
