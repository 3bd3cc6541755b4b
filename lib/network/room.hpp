#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace phantora {

/// Makes room so that a vector holds `needed` items, see make_room().
template <class T>
[[gnu::noinline]] void grow_room(std::vector<T>& items, std::size_t needed) {
  constexpr std::size_t few = 24 / sizeof(T);  // what the heap gives out at least
  items.reserve(std::max(few, needed + needed / 8));
}

/// Makes room for `more` items, and an eighth of all to spare: a vector left to itself takes up to
/// twice what it needs, and memory per flow is a promise.
template <class T>
void make_room(std::vector<T>& items, std::size_t more) {
  const std::size_t needed = items.size() + more;
  if (needed > items.capacity()) grow_room(items, needed);
}

/// Gives back the room of items that are gone, once it is half of what is left.
template <class T>
void give_back_room(std::vector<T>& items) {
  constexpr std::size_t few = 8;
  if (items.capacity() > items.size() + items.size() / 2 + few) items.shrink_to_fit();
}

}  // namespace phantora
