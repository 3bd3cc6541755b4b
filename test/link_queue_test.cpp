#include "network/link_queue.hpp"

#include <cstdint>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace phantora {
namespace {

TEST(LinkQueue, IsInOrderOfLevelsThenOfLinks) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    std::mt19937_64 random{seed};
    const auto below = [&](std::uint64_t n) { return random() % n; };
    const std::uint64_t links = 1 + below(seed % 4 == 0 ? 20'000 : 60);
    LinkQueue queue{links};
    std::vector<double> levels(links, LinkQueue::not_queued);
    std::set<std::pair<double, std::uint32_t>> plain;
    for (int step = 0; step < 2000; ++step) {
      if (below(3) != 0) {
        const auto link = static_cast<std::uint32_t>(below(links));
        plain.erase({levels[link], link});
        // Few distinct levels, so that many are equal; some links move up, others down.
        levels[link] = static_cast<double>(below(30));
        plain.insert({levels[link], link});
        queue.set(link, levels[link]);
      } else if (!plain.empty()) {
        const std::uint32_t first = plain.begin()->second;
        ASSERT_EQ(queue.pop(), first) << "seed " << seed;
        plain.erase(plain.begin());
        levels[first] = LinkQueue::not_queued;
      }
      if (below(100) == 0) {
        const std::uint64_t part = below(3);
        const auto gone = [&](std::uint32_t link) { return link % 3 == part; };
        queue.drop_if(gone);
        std::erase_if(plain, [&](const auto& waiting) { return gone(waiting.second); });
        for (std::uint32_t link = 0; link < links; ++link)
          if (gone(link)) levels[link] = LinkQueue::not_queued;
      }
      ASSERT_EQ(queue.size(), plain.size());
      if (below(500) == 0) {
        queue.clear();
        plain.clear();
        levels.assign(links, LinkQueue::not_queued);
      }
      ASSERT_EQ(queue.empty(), plain.empty()) << "seed " << seed;
      ASSERT_EQ(queue.least(), plain.empty() ? LinkQueue::not_queued : plain.begin()->first);
      const auto asked = static_cast<std::uint32_t>(below(links));
      ASSERT_EQ(queue.level(asked), levels[asked]) << "seed " << seed;
      ASSERT_EQ(queue.queued(asked), levels[asked] != LinkQueue::not_queued) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace phantora
