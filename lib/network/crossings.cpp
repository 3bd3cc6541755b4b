#include "network/crossings.hpp"

#include "network/room.hpp"

namespace phantora::filling {

/// Adds links in their places; both lists are in order.
void Crossings::insert(std::span<const Crossing> missing) {
  std::size_t from = crossings_.size(), to = from + missing.size();
  make_room(crossings_, missing.size());
  crossings_.resize(to);
  for (std::size_t i = missing.size(); i-- > 0;) {
    while (from > 0 && crossings_[from - 1].link > missing[i].link)
      crossings_[--to] = crossings_[--from];
    crossings_[--to] = missing[i];
  }
}

void Crossings::drop_empty() {
  std::erase_if(crossings_, [](const Crossing& crossing) { return crossing.flows == 0; });
  give_back_room(crossings_);
}

}  // namespace phantora::filling
