#include <phantora/kernels/l2_cache.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

namespace phantora {
namespace {

/// Shares of the cache's size: what was touched before so much else was is there, or gone.
constexpr double all_there = 0.53, nothing_there = 0.8;

/// How many bytes had been touched when something was.
using Stamp = double;

/// Bytes that were touched one after the other, [begin, end), each a byte later than the one
/// before.
struct Stretch {
  std::uint64_t begin = 0, end = 0;
  Stamp first = 0;  ///< of the byte at which it begins

  [[nodiscard]] Stamp at(std::uint64_t address) const {
    return first + static_cast<double>(address - begin);
  }
  /// What is left of it from `address` on.
  [[nodiscard]] Stretch from(std::uint64_t address) const { return {address, end, at(address)}; }
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
      : holds_anything_{size.count() > 0},
        there_{all_there * static_cast<double>(size.count())},
        rest_{1.0 / missing_span(size)},
        gone_{there_ + missing_span(size)} {}

  double touch(std::uint64_t address, std::uint64_t bytes) {
    if (bytes == 0 || !holds_anything_) return static_cast<double>(bytes);
    const std::uint64_t end = address + bytes;
    const auto first = place_of(address);
    // Mostly an operand of a launch before.
    if (first != stretches_.end() && first->begin == address && first->end == end) {
      const double missing = static_cast<double>(bytes) * missing_since(first->first);
      first->first = touched_;
      touched_ += static_cast<double>(bytes);
      return missing;
    }
    return touch_several(first, address, end);
  }

 private:
  using Stretches = std::vector<Stretch>;
  using Place = Stretches::iterator;

  /// missing_share(), for each of many stretches.
  [[nodiscard]] double missing_since(Stamp stamp) const noexcept {
    return std::clamp((touched_ - stamp - there_) * rest_, 0.0, 1.0);
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

  /// A range that overlaps other stretches, from `first` on, or none. A byte of an old stretch and
  /// the touch that comes to it are each as much later as it lies behind, so that all bytes of an
  /// old stretch are of one age.
  [[gnu::noinline]] double touch_several(Place first, std::uint64_t begin, std::uint64_t end) {
    double missing = 0;
    std::uint64_t known_to = begin;
    auto last = first;
    for (; last != stretches_.end() && last->begin < end; ++last) {
      const std::uint64_t from = std::max(begin, last->begin), to = std::min(end, last->end);
      const Stamp at_begin = last->at(from) - static_cast<double>(from - begin);
      missing += static_cast<double>(from - known_to) +
                 static_cast<double>(to - from) * missing_since(at_begin);
      known_to = to;
    }
    missing += static_cast<double>(end - known_to);
    replace(first, last, {begin, end, touched_});
    touched_ += static_cast<double>(end - begin);
    return missing;
  }

  /// `stretch` comes in the place of what lies in it of [first, last).
  void replace(Place first, Place last, const Stretch& stretch) {
    std::array<Stretch, 3> pieces{};
    std::size_t count = 0;
    const bool any = first != last;
    const Stretch before = any ? *first : Stretch{}, after = any ? *std::prev(last) : Stretch{};
    if (any && before.begin < stretch.begin)
      pieces[count++] = {before.begin, stretch.begin, before.first};
    pieces[count++] = stretch;
    if (any && stretch.end < after.end) pieces[count++] = after.from(stretch.end);
    const auto there = last - first, wanted = static_cast<std::ptrdiff_t>(count);
    auto* const common = pieces.begin() + std::min(there, wanted);
    const auto next = std::copy(pieces.begin(), common, first);
    if (there > wanted) {
      stretches_.erase(next, last);
    } else {
      stretches_.insert(next, common, pieces.begin() + count);
    }
    if (stretches_.size() > limit_) forget_what_is_gone();
  }

  /// It is as if never touched. Not at once, so that who touches the same again and again finds
  /// its stretches in place; but the fewer there are, the sooner one is found or added.
  void forget_what_is_gone() {
    const auto is_gone = [&](const Stretch& s) { return s.at(s.end) <= touched_ - gone_; };
    std::erase_if(stretches_, is_gone);
    limit_ = std::max(least_limit, 4 * stretches_.size());
  }

  static constexpr std::size_t least_limit = 64;
  static constexpr unsigned seen_bits = 9;

  bool holds_anything_;
  double there_;  ///< after so many bytes all is there
  double rest_;   ///< for each byte more this share is missing
  double gone_;   ///< after so many nothing is there
  Stamp touched_ = 0;
  Stretches stretches_{};  ///< by address, none over another
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
