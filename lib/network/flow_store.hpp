#pragma once

#include <phantora/network/network_view.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

namespace phantora {

/// What MaxMin knows of flows: over which links they go, and on what terms.
class FlowStore {
 public:
  using Slot = std::uint32_t;

  /// Where a flow stands on a link: which place it has in the link's list of flows.
  struct Use {
    std::uint32_t link;
    std::uint32_t position;
  };
  /// A use of a link that is not eased: what a new rate needs to know, in one place.
  struct ExactUse {
    std::uint32_t use;
    std::uint32_t link;
    double amount;
  };
  /// What makes a flow other than the usual one of one share, no cap, a byte per byte.
  struct Terms {
    double shares = 1;
    double cap = std::numeric_limits<double>::infinity();
    double amount = 1;      ///< bytes per byte on every link, unless `amounts`
    double cap_before = 0;  ///< at the last settle(), if the cap is another since
    std::unique_ptr<double[]> amounts{};
    // Of a long flow that is present:
    std::vector<ExactUse> exact{};  ///< uses of links that are not eased
    std::vector<float>
        allowances{};           ///< of each use: the rate counted on an eased link, or infinite
    float least_allowance = 0;  ///< a lower bound of them
    [[nodiscard]] bool capped() const noexcept {
      return cap != std::numeric_limits<double>::infinity();
    }
    [[nodiscard]] double amount_on(std::uint32_t i) const noexcept {
      return amounts ? amounts[i] : amount;
    }
  };
  struct Flow {
    std::uint32_t count : 30 = 0;  ///< how many links the flow uses
    std::uint32_t present : 1 = 0;
    std::uint32_t changed : 1 = 0;
    std::uint32_t terms = 0;  ///< index in terms_; 0 for a usual flow
  };
  /// A flow is kept in consecutive words: a Flow, then a Use for each of its links.
  union Word {
    Flow flow{};
    Use use;
  };
  static_assert(sizeof(Word) == 8);
  /// A flow on a link, and which of the flow's uses is of that link. Of a flow with more than 256
  /// uses: in which 256th of them that use lies.
  struct Entry {
    std::uint32_t flow : 24;
    std::uint32_t use : 8;
  };
  static_assert(sizeof(Entry) == 4);

  /// Keeps a flow. Slots of erased flows are used again. Links are in order, each once.
  Slot create(std::span<const LinkUse> uses, double shares, double cap);
  void erase(Slot slot);
  /// Gives a flow other links.
  void redirect(Slot slot, std::span<const LinkUse> uses);

  [[nodiscard]] std::size_t slots() const noexcept { return first_words_.size(); }
  [[nodiscard]] Flow& at(Slot slot) noexcept { return words_[first_words_[slot]].flow; }
  [[nodiscard]] const Flow& at(Slot slot) const noexcept { return words_[first_words_[slot]].flow; }
  [[nodiscard]] Word* uses_of(Slot slot) noexcept { return &words_[first_words_[slot]] + 1; }
  [[nodiscard]] const Word* uses_of(Slot slot) const noexcept {
    return &words_[first_words_[slot]] + 1;
  }
  void prefetch(Slot slot) const noexcept { __builtin_prefetch(&at(slot)); }
  void prefetch_terms(Slot slot) const noexcept { __builtin_prefetch(&terms(slot)); }
  [[nodiscard]] std::vector<LinkUse> uses(Slot slot) const;
  [[nodiscard]] bool uses_link(Slot slot, std::uint32_t link) const noexcept {
    const Word* uses = uses_of(slot);
    const Word* end = uses + at(slot).count;
    const Word* found =
        std::partition_point(uses, end, [&](const Word& word) { return word.use.link < link; });
    return found != end && found->use.link == link;
  }
  /// Calls visit(link) for each link of the flow.
  template <class Visit>
  void for_each_link(Slot slot, Visit visit) const {
    const Word* uses = uses_of(slot);
    const Word* const end = uses + at(slot).count;
    for (; uses != end; ++uses) visit(uses->use.link);
  }
  /// Calls visit(link, bytes per byte) for each link of the flow.
  template <class Visit>
  void for_each_use(Slot slot, Visit visit) const {
    const Word* uses = uses_of(slot);
    const Terms& flow_terms = terms(slot);
    const std::uint32_t count = at(slot).count;
    for (std::uint32_t i = 0; i < count; ++i) visit(uses[i].use.link, flow_terms.amount_on(i));
  }

  [[nodiscard]] const Terms& terms(Slot slot) const noexcept { return terms_[at(slot).terms]; }
  [[nodiscard]] Terms& terms_of(const Flow& flow) noexcept { return terms_[flow.terms]; }
  /// Terms that may be changed; from then on the flow is not usual.
  Terms& own_terms(Slot slot);
  /// A flow is long, and counted by its allowances on eased links, if it uses as many links and
  /// does not have the usual terms.
  [[nodiscard]] static bool is_long(const Flow& flow) noexcept {
    return flow.terms != 0 && flow.count >= long_flow;
  }

  [[nodiscard]] Entry entry_of(Slot slot, std::uint32_t use) const noexcept {
    const std::uint64_t count = at(slot).count;
    const std::uint64_t place = count > many_uses ? use * many_uses / count : use;
    return {slot & 0xFFFFFF, static_cast<std::uint32_t>(place) & 0xFF};
  }
  /// Which of a flow's uses is of this link.
  [[nodiscard]] std::uint32_t use_on(std::uint32_t link, Entry entry) const noexcept {
    const std::uint64_t count = at(entry.flow).count, place = entry.use;
    if (count <= many_uses) return entry.use;
    const auto first_in = [&](std::uint64_t part) {
      return (part * count + many_uses - 1) / many_uses;
    };
    const Word* uses = uses_of(entry.flow);
    return static_cast<std::uint32_t>(
        std::partition_point(uses + first_in(place), uses + first_in(place + 1),
                             [&](const Word& word) { return word.use.link < link; }) -
        uses);
  }

 private:
  static constexpr std::uint64_t many_uses = 256;
  static constexpr std::uint32_t long_flow = 32;

  void clear_terms(Slot slot);
  [[nodiscard]] std::uint32_t take_words(std::uint32_t count);
  void give_words_back(std::uint32_t first);

  std::vector<Word> words_ = std::vector<Word>(1);  ///< the first stands for erased flows
  std::vector<std::uint32_t> first_words_;          ///< of each flow
  /// Where words are free: those of erased flows, by their number of links.
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> free_words_;
  std::vector<Slot> free_;
  std::vector<Terms> terms_ = std::vector<Terms>(1);  ///< the first is that of all usual flows
  std::vector<std::uint32_t> free_terms_;
};

}  // namespace phantora
