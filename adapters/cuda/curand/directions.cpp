// Direction vectors by the recurrence of Bratley and Fox (ACM TOMS algorithm 659). The dimensions'
// polynomials follow one another as in Joe and Kuo's tables, and the first 37 dimensions have their
// initial numbers too (S. Joe and F. Y. Kuo, SIAM J. Sci. Comput. 30, 2008, "new-joe-kuo-6"), so
// that these are cuRAND's own vectors. Initial numbers may be any odd ones: the others' are random
// ones, which makes sequences of the same kind, and 400 KB of tables superfluous.
#include "cuda/curand/directions.hpp"

#include <array>
#include <cstddef>
#include <limits>
#include <random>

namespace phantora::curand {
namespace {

/// Of the dimensions from the second on, as many for each as its polynomial's degree, which is 7 at
/// most.
constexpr std::array<std::uint8_t, 209> initial_numbers = {
    1,  1,  3,  1,  3,  1,   1, 1, 1, 1,  1,  3,  3,   1,  3,  5,  13, 1,  1,  5,  5,
    17, 1,  1,  5,  5,  5,   1, 1, 7, 11, 19, 1,  1,   5,  1,  1,  1,  1,  1,  3,  11,
    1,  3,  5,  5,  31, 1,   3, 3, 9, 7,  49, 1,  1,   1,  15, 21, 21, 1,  3,  1,  13,
    27, 49, 1,  1,  1,  15,  7, 5, 1, 3,  1,  15, 13,  25, 1,  1,  5,  5,  19, 61, 1,
    3,  7,  11, 23, 15, 103, 1, 3, 7, 13, 13, 15, 69,  1,  1,  3,  13, 7,  35, 63, 1,
    3,  5,  9,  1,  25, 53,  1, 3, 1, 13, 9,  35, 107, 1,  3,  1,  5,  27, 61, 31, 1,
    1,  5,  11, 19, 41, 61,  1, 3, 5, 3,  3,  13, 69,  1,  1,  7,  13, 1,  19, 1,  1,
    3,  7,  5,  13, 19, 59,  1, 1, 3, 9,  25, 29, 41,  1,  3,  5,  13, 23, 1,  55, 1,
    3,  7,  3,  13, 59, 17,  1, 3, 1, 3,  5,  53, 69,  1,  1,  5,  5,  23, 33, 13, 1,
    1,  7,  7,  1,  61, 123, 1, 1, 7, 9,  13, 61, 49,  1,  3,  3,  5,  3,  55, 33};

std::uint32_t product(std::uint32_t a, std::uint32_t b, std::uint32_t modulus, unsigned degree) {
  std::uint32_t result = 0;
  for (; b != 0; b >>= 1) {
    if ((b & 1) != 0) result ^= a;
    a <<= 1;
    if ((a >> degree & 1) != 0) a ^= modulus;
  }
  return result;
}

/// x to the power of `exponent`.
std::uint32_t power(std::uint32_t exponent, std::uint32_t modulus, unsigned degree) {
  std::uint32_t result = 1, factor = degree == 1 ? 2 ^ modulus : 2;
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = product(result, factor, modulus, degree);
    factor = product(factor, factor, modulus, degree);
  }
  return result;
}

std::vector<std::uint32_t> prime_factors(std::uint32_t number) {
  std::vector<std::uint32_t> factors;
  for (std::uint32_t divisor = 2; divisor * divisor <= number; ++divisor) {
    if (number % divisor != 0) continue;
    factors.push_back(divisor);
    while (number % divisor == 0) number /= divisor;
  }
  if (number > 1) factors.push_back(number);
  return factors;
}

/// Whether x runs through all of the field but zero before it comes back to 1.
bool is_primitive(std::uint32_t polynomial, unsigned degree,
                  const std::vector<std::uint32_t>& factors) {
  const std::uint32_t order = (std::uint32_t{1} << degree) - 1;
  if (power(order, polynomial, degree) != 1) return false;
  for (const std::uint32_t factor : factors) {
    if (power(order / factor, polynomial, degree) == 1) return false;
  }
  return true;
}

template <class Word>
constexpr unsigned bits = std::numeric_limits<Word>::digits;

/// The vectors of one dimension, from its polynomial and as many initial numbers as that has
/// degrees.
template <class Word>
void make(const Polynomial& polynomial, const std::vector<Word>& initial, Word* vectors) {
  const unsigned degree = polynomial.degree;
  for (unsigned i = 0; i < bits<Word>; ++i) {
    if (i < degree) {
      vectors[i] = initial[i] << (bits<Word> - 1 - i);
      continue;
    }
    Word next = vectors[i - degree] ^ (vectors[i - degree] >> degree);
    for (unsigned k = 1; k < degree; ++k)
      if ((polynomial.coefficients >> (degree - 1 - k) & 1) != 0) next ^= vectors[i - k];
    vectors[i] = next;
  }
}

/// Each bit is replaced by itself and random lower ones, the same for all vectors of a dimension.
template <class Word>
void scramble(Word* vectors, std::mt19937_64& random) {
  std::array<Word, bits<Word>> columns;
  for (unsigned bit = 0; bit < bits<Word>; ++bit) {
    const Word leading = Word{1} << bit;
    columns[bit] = leading | (static_cast<Word>(random()) & (leading - 1));
  }
  for (unsigned i = 0; i < bits<Word>; ++i) {
    Word made = 0;
    for (unsigned bit = 0; bit < bits<Word>; ++bit)
      if ((vectors[i] >> bit & 1) != 0) made ^= columns[bit];
    vectors[i] = made;
  }
}

}  // namespace

std::vector<Polynomial> primitive_polynomials(std::size_t count) {
  std::vector<Polynomial> found;
  for (unsigned degree = 1; found.size() < count; ++degree) {
    const std::uint32_t leading = std::uint32_t{1} << degree;
    const auto factors = prime_factors(leading - 1);
    for (std::uint32_t middle = 0; middle < leading / 2 && found.size() < count; ++middle) {
      if (is_primitive(leading | middle << 1 | 1, degree, factors))
        found.push_back({degree, middle});
    }
  }
  return found;
}

template <class Word>
std::vector<Word> direction_vectors(bool scrambled) {
  std::vector<Word> all(sobol_dimensions * bits<Word>);
  for (unsigned i = 0; i < bits<Word>; ++i) all[i] = Word{1} << (bits<Word> - 1 - i);
  std::mt19937_64 random, scrambling{1};  // NOLINT(cert-msc51-cpp): the same in every run
  std::size_t known = 0;
  Word* vectors = all.data() + bits<Word>;
  for (const Polynomial& polynomial : primitive_polynomials(sobol_dimensions - 1)) {
    std::vector<Word> initial(polynomial.degree);
    for (unsigned i = 0; i < polynomial.degree; ++i) {
      const std::uint64_t below = (std::uint64_t{2} << i) - 1;
      initial[i] = static_cast<Word>(known < initial_numbers.size() ? initial_numbers[known++]
                                                                    : (random() & below) | 1);
    }
    make(polynomial, initial, vectors);
    vectors += bits<Word>;
  }
  if (scrambled) {
    for (std::size_t i = 0; i < all.size(); i += bits<Word>) scramble(all.data() + i, scrambling);
  }
  return all;
}
template std::vector<std::uint32_t> direction_vectors(bool);
template std::vector<unsigned long long> direction_vectors(bool);

template <class Word>
std::vector<Word> scramble_constants() {
  std::mt19937_64 random{2};  // NOLINT(cert-msc51-cpp): the same in every run
  std::vector<Word> constants(sobol_dimensions);
  for (Word& constant : constants) constant = static_cast<Word>(random());
  return constants;
}
template std::vector<std::uint32_t> scramble_constants();
template std::vector<unsigned long long> scramble_constants();

}  // namespace phantora::curand
