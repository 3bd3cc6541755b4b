#pragma once

#include <cstdint>

/// Names of what is not known. A value that came from memory is a sum of an unknown part, which a
/// name stands for, and a known one. Names are a polynomial's value at a random point, modulo a
/// prime: sums and products of unknown values have the same name whichever way they were computed,
/// and different ones hardly ever do.
namespace phantora::rank::code {

using Name = std::uint32_t;
inline constexpr Name prime = 0x7fffffff;
/// Of what is known: there is no unknown part.
inline constexpr Name no_name = 0;

inline Name plus(Name x, Name y) { return (x + y) % prime; }
inline Name times(Name x, std::int64_t factor) {
  const std::int64_t rest = static_cast<std::int64_t>(x) * (factor % prime) % prime;
  return static_cast<Name>(rest < 0 ? rest + prime : rest);
}
/// Bits that hang on all bits of a word (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number
/// Generators", 2014).
inline std::uint64_t mixed(std::uint64_t word) {
  word += 0x9e3779b97f4a7c15ULL;
  word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9ULL;
  word = (word ^ word >> 27) * 0x94d049bb133111ebULL;
  return word ^ word >> 31;
}
/// A name for what nothing but the word tells.
inline Name name_by(std::uint64_t word) { return static_cast<Name>(mixed(word) % (prime - 1)) + 1; }

}  // namespace phantora::rank::code
