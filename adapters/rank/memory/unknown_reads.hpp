#pragma once

#include "rank/memory/last_writer.hpp"
#include "rank/runtime/mutex.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>

/// What the host gets when it reads device memory of unknown content, and what the user is told.
namespace phantora::rank {

/// Replaces the unknown bytes of what was read from `device_source`, which are zeros, as
/// `phantora run --unknown` asks: 0 leaves them; 1 puts the number one; normal puts a standard
/// normal number that depends on the element's address alone, and leaves integers. Elements are of
/// the type that the last writer of the range's first unknown byte left; where that is not known,
/// they stay zeros.
void fill_unknown(std::byte* destination, const void* device_source,
                  std::span<const std::uint8_t> mask);
/// Whether it does anything.
bool fills_unknown();

/// Which places of a program have been told of. A few are enough; looking for one costs a
/// microsecond or so, and a loop that prints a loss reads for ever. Thread-safe.
class ToldPlaces {
 public:
  static constexpr std::size_t most = 5;
  static constexpr int most_looked_for = 64;

  /// Whether to look for one more.
  bool look() noexcept;
  enum class Tell : std::uint8_t { no, yes, last };
  /// Whether to tell of this one.
  Tell tell(const std::string& place);

  /// A look that the interpreter is to have: one at a time. False if there is one.
  bool begin() noexcept { return !looking_.exchange(true, std::memory_order_acquire); }
  void end() noexcept { looking_.store(false, std::memory_order_release); }

 private:
  std::atomic<int> looked_for_{0};
  std::atomic<bool> looking_{false};
  Mutex mutex_{};
  std::set<std::string> told_{};
};

/// Counts the read, and says on stderr where the program read what ("train.py:33"): the first
/// places only, and by rank 0 only, since ranks are alike.
/// @param unknown  the first unknown byte of the range; of a result that a library gives to the
///                 host, where that is
void tell_unknown_read(const void* unknown, std::size_t bytes);

/// What a kernel finds in values that are not computed, and which is then assumed.
enum class Assumption : std::uint8_t { test, selection };
/// The same of such a kernel.
void tell_assumed(Assumption assumption);

/// Says, once for each kind, what a kernel that is not executed would have had the driver do:
/// fail its assertions, print, launch further kernels.
/// @param functions  of the driver's own that its code calls
void tell_skipped_calls(const char* kernel, std::span<const std::string> functions);

/// Counts that `writer`, which was not executed, writes memory of the host, and says so once: the
/// program then reads there what it put there itself.
void tell_host_write(const Writer& writer);

}  // namespace phantora::rank
