#include <phantora/kernels/l2_cache.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

namespace phantora {
namespace {

/// What is touched is taken in block by block: a part in one block is as old as the rest of it.
constexpr std::uint64_t block_bytes = std::uint64_t{4} << 20U;
constexpr std::uint64_t block_of(std::uint64_t address) { return address & ~(block_bytes - 1); }

/// Shares of the cache's size: what was touched before it took in so much is there, or gone.
constexpr double all_there = 0.53, nothing_there = 0.8;

/// How many bytes the cache had taken in when something was last touched.
using Stamp = double;

/// Bytes that were touched one after the other, [begin, end), and all of which the cache took in,
/// or none. So a large operand is one of them, not as many as it has blocks.
struct Stretch {
  std::uint64_t begin = 0, end = 0;
  Stamp first = 0;  ///< of the block in which it begins
  Stamp last = 0;   ///< of the block in which it ends, and of all if none was taken in

  /// Of the bytes at `address`, which lie in it: each block is as much younger than the one before
  /// as is taken in with it.
  [[nodiscard]] Stamp at(std::uint64_t address) const {
    return std::min(last, first + static_cast<double>(block_of(address) - block_of(begin)));
  }
};

/// Bytes between the last after which all is there and the first after which nothing is.
double missing_span(Bytes size) {
  return std::max(1.0, (nothing_there - all_there) * static_cast<double>(size.count()));
}

}  // namespace

double L2Cache::missing_share(double since, Bytes size) noexcept {
  if (size.count() <= 0) return 1.0;
  const double age = since / static_cast<double>(size.count());
  return std::clamp((age - all_there) / (nothing_there - all_there), 0.0, 1.0);
}

struct L2Cache::Impl {
  explicit Impl(Bytes size)
      : most_{size.count() > 0 ? 4 * static_cast<std::uint64_t>(size.count()) + block_bytes : 0},
        there_{all_there * static_cast<double>(size.count())},
        rest_{1.0 / missing_span(size)},
        // A byte more, so that no rounding makes missing_since() less than 1.
        gone_{there_ + missing_span(size) + 1.0} {}

  double touch(std::uint64_t address, std::uint64_t bytes) {
    return bytes - 1 < most_ ? touch_range(address, address + bytes)
                             : touch_unusual(address, bytes);
  }

 private:
  using Stretches = std::vector<Stretch>;
  using Place = Stretches::iterator;

  /// missing_share(), for each of many stretches.
  [[nodiscard]] double missing_since(Stamp stamp) const noexcept {
    return std::clamp((taken_in_ - stamp - there_) * rest_, 0.0, 1.0);
  }

  /// The first that ends behind `address`. By arithmetic, since no branch here could be predicted:
  /// among a thousand that takes a third of the time.
  Place first_behind(std::uint64_t address) {
    std::size_t place = 0;
    for (std::size_t left = stretches_.size(); left > 0;) {
      const std::size_t half = left / 2;
      const auto before = static_cast<std::size_t>(stretches_[place + half].end <= address);
      place += before * (left - half);
      left = half;
    }
    return stretches_.begin() + static_cast<std::ptrdiff_t>(place);
  }

  /// The same, mostly where it was when last looked for.
  Place place_of(std::uint64_t address) {
    // Fibonacci hashing: the high bits of a product with 2^64 over the golden ratio.
    std::uint32_t& seen = seen_[address * 0x9e37'79b9'7f4a'7c15 >> (64 - seen_bits)];
    if (seen < stretches_.size() && stretches_[seen].begin == address)
      return stretches_.begin() + seen;
    const auto place = first_behind(address);
    seen = static_cast<std::uint32_t>(place - stretches_.begin());
    return place;
  }

  /// Nothing, or more than `most_`.
  double touch_unusual(std::uint64_t address, std::uint64_t bytes) {
    if (bytes == 0 || most_ == 0) return static_cast<double>(bytes);
    // What streams through the cache several times over leaves its end there.
    const auto passed = static_cast<double>(bytes - most_);
    taken_in_ += passed;
    const std::uint64_t end = address + bytes;
    return passed + touch_range(end - most_, end);
  }

  double touch_range(std::uint64_t begin, std::uint64_t end) {
    const auto first = place_of(begin);
    // Mostly an operand of a launch before.
    if (first != stretches_.end() && first->begin == begin && first->end == end) {
      if (taken_in_ - first->first <= there_) {
        first->first = first->last = taken_in_;
        return 0;
      }
      if (gone(*first, begin)) return take_in(*first);
    }
    return touch_several(first, begin, end);
  }

  /// All of a stretch of which nothing is there.
  double take_in(Stretch& stretch) {
    const std::uint64_t second = block_of(stretch.begin) + block_bytes;
    const std::uint64_t to = std::min(stretch.end, second);
    stretch.first = taken_in_ + static_cast<double>(to - stretch.begin);
    const auto missing = static_cast<double>(stretch.end - stretch.begin);
    taken_in_ += missing;
    stretch.last = taken_in_;
    return missing;
  }

  /// A range that overlaps other stretches, from `first` on, or none.
  [[gnu::noinline]] double touch_several(Place first, std::uint64_t begin, std::uint64_t end) {
    Stamp oldest = taken_in_;
    bool nothing = true;
    std::uint64_t known_to = begin;  // without a gap
    auto last = first;
    for (; last != stretches_.end() && last->begin < end; ++last) {
      const std::uint64_t from = std::max(begin, last->begin);
      if (from == known_to) known_to = last->end;
      oldest = std::min(oldest, last->at(from));
      nothing = nothing && gone(*last, begin);
    }
    const bool all = known_to >= end && taken_in_ - oldest <= there_;
    if (!all && !nothing) return touch_blocks(first, last, begin, end);
    Stretch whole{begin, end, taken_in_, taken_in_};
    const double missing = all ? 0.0 : take_in(whole);
    pieces_.assign(1, whole);
    replace(first, last, begin, end);
    return missing;
  }

  /// Whether nothing of `stretch` is there any more when a touch from `begin` on gets to it that
  /// found nothing so far, and so took in all before.
  [[nodiscard]] bool gone(const Stretch& stretch, std::uint64_t begin) const {
    const Stamp behind = taken_in_ - gone_;
    if (stretch.last <= behind) return true;
    const auto before = static_cast<std::int64_t>(block_of(stretch.begin) - begin);
    return stretch.first <= behind + static_cast<double>(before);
  }

  /// A touch that finds a part.
  double touch_blocks(Place first, Place last, std::uint64_t begin, std::uint64_t end) {
    enum class Found { all, nothing, part } before = Found::part;
    pieces_.clear();
    double all_missing = 0;
    auto stretch = first;
    for (std::uint64_t at = begin; at < end;) {
      const std::uint64_t piece = at, piece_end = std::min(end, block_of(at) + block_bytes);
      double missing = 0;
      while (at < piece_end) {
        if (stretch == last || stretch->begin >= piece_end) {
          missing += static_cast<double>(piece_end - at);
          break;
        }
        if (at < stretch->begin) {
          missing += static_cast<double>(stretch->begin - at);
          at = stretch->begin;
        }
        const std::uint64_t to = std::min(stretch->end, piece_end);
        missing += static_cast<double>(to - at) * missing_since(stretch->at(at));
        at = to;
        if (to == stretch->end) ++stretch;
      }
      at = piece_end;
      taken_in_ += missing;
      all_missing += missing;
      const Found found = missing <= 0.0                                      ? Found::all
                          : missing >= static_cast<double>(piece_end - piece) ? Found::nothing
                                                                              : Found::part;
      if (found == before && found != Found::part) {
        pieces_.back().end = piece_end;
        pieces_.back().last = taken_in_;
      } else {
        pieces_.push_back({piece, piece_end, taken_in_, taken_in_});
      }
      before = found;
    }
    replace(first, last, begin, end);
    return all_missing;
  }

  /// The pieces come in the place of what lies in [begin, end) of [first, last).
  void replace(Place first, Place last, std::uint64_t begin, std::uint64_t end) {
    if (first != last) {
      Stretch before = *first, after = *std::prev(last);
      if (before.begin < begin) {
        before.end = begin;
        pieces_.insert(pieces_.begin(), before);
      }
      if (end < after.end) {
        after.first = after.at(end);
        after.begin = end;
        pieces_.push_back(after);
      }
    }
    const auto there = last - first, wanted = static_cast<std::ptrdiff_t>(pieces_.size());
    const auto common = pieces_.begin() + std::min(there, wanted);
    const auto next = std::copy(pieces_.begin(), common, first);
    if (there > wanted) {
      stretches_.erase(next, last);
    } else {
      stretches_.insert(next, common, pieces_.end());
    }
    if (stretches_.size() > limit_) forget_what_is_gone();
  }

  /// It is as if never touched. Not at once, so that who touches the same again and again finds
  /// its stretches in place; but the fewer there are, the sooner one is found or added.
  void forget_what_is_gone() {
    const auto is_gone = [&](const Stretch& s) { return s.last <= taken_in_ - gone_; };
    std::erase_if(stretches_, is_gone);
    limit_ = std::max(least_limit, 4 * stretches_.size());
  }

  static constexpr std::size_t least_limit = 64;
  static constexpr unsigned seen_bits = 9;

  std::uint64_t most_;  ///< bytes of which a touch leaves something
  double there_;        ///< after so many bytes all is there
  double rest_;         ///< for each byte more this share is missing
  double gone_;         ///< after so many nothing is there
  Stamp taken_in_ = 0;
  Stretches stretches_{};  ///< by address, none over another
  Stretches pieces_{};     ///< of one touch
  std::size_t limit_ = least_limit;
  std::array<std::uint32_t, 1U << seen_bits> seen_{};  ///< by address: where it was found last
};

L2Cache::L2Cache(Bytes size) : impl_{std::make_unique<Impl>(size)} {}
L2Cache::L2Cache(L2Cache&&) noexcept = default;
L2Cache& L2Cache::operator=(L2Cache&&) noexcept = default;
L2Cache::~L2Cache() = default;

double L2Cache::touch(std::uint64_t address, std::uint64_t bytes) {
  return impl_->touch(address, bytes);
}

}  // namespace phantora
