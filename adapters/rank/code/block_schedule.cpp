#include "rank/code/block_schedule.hpp"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <queue>

namespace phantora::rank {

double row_of(const KernelQuery::Dim3& grid) {
  return grid.x > 1 ? grid.x : grid.y > 1 ? grid.y : grid.z;
}

Unevenness unevenness(const std::vector<BlockTime>& known, const KernelQuery::Dim3& grid, int sms,
                      int at_a_time) {
  const auto row = static_cast<std::uint64_t>(row_of(grid));
  std::map<std::uint64_t, std::vector<double>> by_place;
  for (const BlockTime& one : known)
    by_place[static_cast<std::uint64_t>(one.block) % row].push_back(one.cycles);
  std::vector<const std::vector<double>*> nearest;
  for (std::uint64_t place = 0; place < row; ++place) {
    auto found = by_place.lower_bound(place);
    if (found != by_place.begin()) {
      const auto before = std::prev(found);
      if (found == by_place.end() || place - before->first < found->first - place) found = before;
    }
    nearest.push_back(&found->second);
  }
  struct Slot {
    double free = 0;
    int number = 0;  // the first of each SM come before the second
    auto operator<=>(const Slot&) const = default;
  };
  const int slots = sms * at_a_time;
  std::priority_queue<Slot, std::vector<Slot>, std::greater<>> next;
  for (int slot = 0; slot < slots; ++slot) next.push({0, slot});
  std::vector<double> of_sm(static_cast<std::size_t>(sms));
  double all = 0, last = 0;
  const auto blocks = static_cast<std::uint64_t>(grid.count());
  for (std::uint64_t block = 0; block < blocks; ++block) {
    const std::vector<double>& like = *nearest[block % row];
    const double takes = like[block / row % like.size()];
    Slot slot = next.top();
    next.pop();
    slot.free += takes;
    next.push(slot);
    of_sm[static_cast<std::size_t>(slot.number % sms)] += takes;
    all += takes;
    last = std::max(last, slot.free);
  }
  return {.ends = last * slots / all, .work = *std::ranges::max_element(of_sm) * sms / all};
}

}  // namespace phantora::rank
