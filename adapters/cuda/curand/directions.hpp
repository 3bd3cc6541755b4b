#pragma once

#include <cstdint>
#include <span>
#include <vector>

/// Direction vectors of Sobol's sequences, as cuRAND hands them out for its generators on the
/// device: of 20,000 dimensions, one after the other.
namespace phantora::curand {

inline constexpr std::size_t sobol_dimensions = 20'000;

/// Primitive polynomials over GF(2) without their first and last coefficients, which are 1, by
/// degree and size: those of the dimensions from the second on.
struct Polynomial {
  unsigned degree = 0;
  std::uint32_t coefficients = 0;
};
std::vector<Polynomial> primitive_polynomials(std::size_t count);

/// @tparam Word  32 or 64 bits, and as many vectors for each dimension.
/// @param scrambled  each dimension's by a matrix of its own, which keeps what makes them Sobol's.
template <class Word>
std::vector<Word> direction_vectors(bool scrambled);

/// What a scrambled sequence's numbers are added to, bit by bit; one for each dimension.
template <class Word>
std::vector<Word> scramble_constants();

}  // namespace phantora::curand
