#include <phantora/kernels/l2_cache.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace phantora {
namespace {

constexpr std::uint64_t block_bytes = std::uint64_t{4} << 20U;
constexpr std::uint64_t blocks_of_region = 256;

/// Shares of the cache's size: what was touched before it took in so much is there, or gone.
constexpr double all_there = 0.53, nothing_there = 0.8;

/// How many bytes the cache had taken in when something was last touched.
using Stamp = double;
constexpr Stamp never = -std::numeric_limits<Stamp>::infinity();

/// What was last touched together, from `begin` of its block to the next one.
struct Stretch {
  std::uint64_t begin = 0;
  Stamp stamp = never;
};

/// 4 MiB, so that a launch with large operands looks at few: its stretches, the first from 0 on.
using Block = std::vector<Stretch>;
using Region = std::array<Block, blocks_of_region>;

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
  explicit Impl(Bytes of)
      : size{of},
        there{all_there * static_cast<double>(of.count())},
        rest{1.0 / missing_span(of)} {}

  /// missing_share(), for each of many stretches.
  [[nodiscard]] double missing_since(Stamp stamp) const noexcept {
    return std::clamp((taken_in - stamp - there) * rest, 0.0, 1.0);
  }

  double touch(Block& block, std::uint64_t begin, std::uint64_t end) {
    if (block.empty()) block.emplace_back();
    // Most of a large operand.
    if (block.size() == 1 && end - begin == block_bytes) {
      Stamp& stamp = block.front().stamp;
      const double missing = static_cast<double>(block_bytes) * missing_since(stamp);
      taken_in += missing;
      stamp = taken_in;
      return missing;
    }
    const auto end_of = [&](auto stretch) {
      return std::next(stretch) == block.end() ? block_bytes : std::next(stretch)->begin;
    };
    auto first = block.begin();
    while (end_of(first) <= begin) ++first;
    double missing = 0;
    auto last = first;
    for (;; ++last) {
      const std::uint64_t from = std::max(begin, last->begin), to = std::min(end, end_of(last));
      missing += static_cast<double>(to - from) * missing_since(last->stamp);
      if (end_of(last) >= end) break;
    }
    taken_in += missing;
    // They become one, and what is left of the outer two.
    const bool left_before = first->begin < begin, left_after = end < end_of(last);
    const Stretch after{end, last->stamp};
    if (left_before) ++first;
    auto next = std::next(last);
    if (left_before && first == next) {
      first = block.insert(first, Stretch{});
      next = std::next(first);
    }
    *first = {begin, taken_in};
    next = block.erase(std::next(first), next);
    if (left_after) block.insert(next, after);
    return missing;
  }

  double touch(std::uint64_t address, std::uint64_t bytes) {
    if (size.count() <= 0) return static_cast<double>(bytes);
    double missing = 0;
    // What streams through the cache several times over leaves its end there.
    const auto most = 4 * static_cast<std::uint64_t>(size.count()) + block_bytes;
    if (bytes > most) {
      const std::uint64_t passed = bytes - most;
      missing += static_cast<double>(passed);
      taken_in += missing;
      address += passed;
      bytes = most;
    }
    for (const std::uint64_t end = address + bytes; address < end;) {
      const std::uint64_t number = address / block_bytes, first = number * block_bytes;
      const std::uint64_t next = std::min(end, first + block_bytes);
      missing += touch(block(number), address - first, next - first);
      address = next;
    }
    return missing;
  }

  Block& block(std::uint64_t number) {
    const std::uint64_t key = number / blocks_of_region;
    if (latest == nullptr || key != latest_key) {
      std::unique_ptr<Region>& region = regions[key];
      if (!region) region = std::make_unique<Region>();
      latest = region.get();
      latest_key = key;
    }
    return (*latest)[number % blocks_of_region];
  }

  Bytes size;
  double there;  ///< after so many bytes all is there
  double rest;   ///< for each byte more this share is missing
  Stamp taken_in = 0;
  std::unordered_map<std::uint64_t, std::unique_ptr<Region>> regions{};
  Region* latest = nullptr;  ///< was looked at last, as number latest_key
  std::uint64_t latest_key = 0;
};

L2Cache::L2Cache(Bytes size) : impl_{std::make_unique<Impl>(size)} {}
L2Cache::L2Cache(L2Cache&&) noexcept = default;
L2Cache& L2Cache::operator=(L2Cache&&) noexcept = default;
L2Cache::~L2Cache() = default;

double L2Cache::touch(std::uint64_t address, std::uint64_t bytes) {
  return impl_->touch(address, bytes);
}

}  // namespace phantora
