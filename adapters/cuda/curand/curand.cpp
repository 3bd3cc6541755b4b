// cuRAND's host API. Numbers for the device are not generated: they take their time and are
// unknown. Numbers for the host are needed there, and come from a generator of ours: of the
// distribution that was asked for, not cuRAND's sequence, which is said once. Likewise Sobol's
// direction vectors for generators on the device (directions.hpp). The few types of its
// documented ABI are declared here: the header would be one more wheel to fetch.
#include "cuda/curand/directions.hpp"
#include "cuda/library/entry.hpp"
#include "cuda/library/operation.hpp"
#include "cuda/library/version.hpp"
#include "rank/memory/device_memory.hpp"

#include <cmath>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include <driver_types.h>
#include <library_types.h>

using namespace phantora;
using library::Api;

namespace {

enum Status : int {  // curandStatus_t
  success = 0,
  not_initialized = 101,
  allocation_failed = 102,
  type_error = 103,
  out_of_range = 104,
  length_not_multiple = 105,
  initialization_failed = 203,
  internal_error = 999
};

constexpr int first_pseudo = 100, first_quasi = 200, last_quasi = 204;  // curandRngType_t
constexpr int first_quasi_order = 200;                                  // curandOrdering_t

struct Generator {
  int type = 0;
  bool host = false;
  unsigned dimensions = 1;
  cudaStream_t stream = nullptr;
  std::mt19937_64 random{};
  unsigned long long seed = 0;

  [[nodiscard]] bool quasi() const { return type >= first_quasi; }
};
/// The address of one is the program's curandGenerator_t.
Generator* generator_of(void* handle) { return static_cast<Generator*>(handle); }

constexpr library::Failures<Status> failures{initialization_failed, allocation_failed,
                                             internal_error};

bool known_type(int type) {
  switch (type) {
    case 100:  // CURAND_RNG_PSEUDO_DEFAULT
    case 101:  // XORWOW
    case 121:  // MRG32K3A
    case 141:  // MTGP32
    case 142:  // MT19937
    case 161:  // PHILOX4_32_10
      return true;
    default:
      return type >= first_quasi && type <= last_quasi;
  }
}

Status create(void** handle, int type, bool host) {
  return library::guarded(failures, Api::library_setup, [&] {
    if (!handle) return out_of_range;
    if (!known_type(type)) return type_error;
    auto made = std::make_unique<Generator>();
    made->type = type;
    made->host = host;
    if (host) {
      rank::warn_once("curandCreateGeneratorHost",
                      "cuRAND's host generators give numbers of the distribution that is asked "
                      "for, but not cuRAND's sequence");
    }
    *handle = made.release();
    return success;
  });
}

/// Numbers from one kernel: what it writes, and some 20 operations for each, as Philox and XORWOW
/// take (a roofline of bytes for all but tiny requests).
template <class Number, class Make>
Status generate(void* handle, Number* output, std::size_t count, bool pairs, Make&& make) {
  return library::guarded(failures, Api::launch, [&] {
    if (!handle) return not_initialized;
    Generator& generator = *generator_of(handle);
    if (!output && count != 0) return out_of_range;
    // Box-Muller makes two at a time of pseudo-random numbers (curandGenerateNormal).
    if (pairs && !generator.quasi() && count % 2 != 0) return length_not_multiple;
    if (generator.quasi() && count % generator.dimensions != 0) return length_not_multiple;
    if (count == 0) return success;
    if (generator.host) {
      for (std::size_t i = 0; i < count; ++i) output[i] = make(generator.random);
      return success;
    }
    KernelQuery query;
    query.name = "curand";
    query.bytes = static_cast<double>(count * sizeof(Number));
    query.flops = 20 * static_cast<double>(count);
    query.attributes = {{"type", sizeof(Number) == 8 ? "fp64" : "fp32"}};
    library::submit(driver::stream_of(generator.stream), query, {{output, count * sizeof(Number)}});
    return success;
  });
}

constexpr int directions_32 = 101, scrambled_directions_32 = 102;  // curandDirectionVectorSet_t
constexpr int directions_64 = 103, scrambled_directions_64 = 104;

/// Tables that live as long as the process, made at the first question. That takes 0.1 s, which a
/// program does not pay: cuRAND has them in its file. (Kinds of calls that are shorter than this
/// one would charge their own CPU time.)
template <class Word>
Status tell_directions(Word** vectors, int set, int plain_set, int scrambled_set) {
  const rank::ApiCall call{Api::function_attributes};
  if (!vectors || (set != plain_set && set != scrambled_set)) return out_of_range;
  rank::warn_once(
      "curandGetDirectionVectors",
      "cuRAND's direction vectors are its own up to dimension 37, unless scrambled; the "
      "others are of the same kind, but give other numbers");
  static std::vector<Word> plain, scrambled;
  static std::once_flag plain_made, scrambled_made;
  const bool wants_scrambled = set == scrambled_set;
  std::vector<Word>& table = wants_scrambled ? scrambled : plain;
  std::call_once(wants_scrambled ? scrambled_made : plain_made,
                 [&] { table = curand::direction_vectors<Word>(wants_scrambled); });
  *vectors = table.data();
  return success;
}

template <class Word>
Status tell_scramble_constants(Word** constants) {
  const rank::ApiCall call{Api::function_attributes};
  if (!constants) return out_of_range;
  static std::vector<Word> table = curand::scramble_constants<Word>();
  *constants = table.data();
  return success;
}

/// cuRAND's uniform numbers lie in (0, 1].
template <class Real>
Real uniform(std::mt19937_64& random) {
  return Real{1} - std::generate_canonical<Real, 64>(random);
}

}  // namespace

PHANTORA_EXPORT Status curandCreateGenerator(void** generator, int type) {
  return create(generator, type, false);
}

PHANTORA_EXPORT Status curandCreateGeneratorHost(void** generator, int type) {
  return create(generator, type, true);
}

PHANTORA_EXPORT Status curandDestroyGenerator(void* generator) {
  if (!generator) return not_initialized;
  delete generator_of(generator);
  return success;
}

constexpr phantora::library::Version version_of_curand{10, 4, 0};  // curand.h

PHANTORA_EXPORT Status curandGetVersion(int* version) {
  return version_of_curand.tell(version, success, out_of_range);
}

PHANTORA_EXPORT Status curandGetProperty(libraryPropertyType part, int* value) {
  return version_of_curand.tell(part, value, success, out_of_range);
}

PHANTORA_EXPORT Status curandSetStream(void* generator, cudaStream_t stream) {
  if (!generator) return not_initialized;
  generator_of(generator)->stream = stream;
  return success;
}

PHANTORA_EXPORT Status curandSetPseudoRandomGeneratorSeed(void* generator,
                                                          unsigned long long seed) {
  if (!generator) return not_initialized;
  if (generator_of(generator)->quasi()) return type_error;
  generator_of(generator)->seed = seed;
  generator_of(generator)->random.seed(seed);
  return success;
}

PHANTORA_EXPORT Status curandSetGeneratorOffset(void* generator, unsigned long long offset) {
  if (!generator) return not_initialized;
  Generator& known = *generator_of(generator);
  if (known.type == 141 || known.type == 142) return type_error;  // Mersenne Twisters have none
  known.random.seed(known.seed + offset);
  return success;
}

PHANTORA_EXPORT Status curandSetGeneratorOrdering(void* generator, int order) {
  if (!generator) return not_initialized;
  const bool quasi = order >= first_quasi_order;
  if (order < first_pseudo || order > 201) return out_of_range;
  return quasi == generator_of(generator)->quasi() ? success : out_of_range;
}

PHANTORA_EXPORT Status curandSetQuasiRandomGeneratorDimensions(void* generator,
                                                               unsigned dimensions) {
  if (!generator) return not_initialized;
  if (dimensions < 1 || dimensions > 20000) return out_of_range;
  if (!generator_of(generator)->quasi()) return type_error;
  generator_of(generator)->dimensions = dimensions;
  return success;
}

PHANTORA_EXPORT Status curandGenerateSeeds(void* generator) {
  return generator ? success : not_initialized;
}

PHANTORA_EXPORT Status curandGenerate(void* generator, std::uint32_t* output, std::size_t count) {
  return generate(generator, output, count, false,
                  [](auto& random) { return static_cast<std::uint32_t>(random() >> 32); });
}

PHANTORA_EXPORT Status curandGenerateLongLong(void* generator, unsigned long long* output,
                                              std::size_t count) {
  if (!generator) return not_initialized;
  const int type = generator_of(generator)->type;
  if (type != 203 && type != 204) return type_error;  // 64-bit Sobol sequences alone have them
  return generate(generator, output, count, false,
                  [](auto& random) { return static_cast<unsigned long long>(random()); });
}

PHANTORA_EXPORT Status curandGenerateUniform(void* generator, float* output, std::size_t count) {
  return generate(generator, output, count, false, uniform<float>);
}

PHANTORA_EXPORT Status curandGenerateUniformDouble(void* generator, double* output,
                                                   std::size_t count) {
  return generate(generator, output, count, false, uniform<double>);
}

PHANTORA_EXPORT Status curandGenerateNormal(void* generator, float* output, std::size_t count,
                                            float mean, float deviation) {
  return generate(generator, output, count, true, [&](auto& random) {
    return std::normal_distribution<float>{mean, deviation}(random);
  });
}

PHANTORA_EXPORT Status curandGenerateNormalDouble(void* generator, double* output,
                                                  std::size_t count, double mean,
                                                  double deviation) {
  return generate(generator, output, count, true, [&](auto& random) {
    return std::normal_distribution<double>{mean, deviation}(random);
  });
}

PHANTORA_EXPORT Status curandGenerateLogNormal(void* generator, float* output, std::size_t count,
                                               float mean, float deviation) {
  return generate(generator, output, count, true, [&](auto& random) {
    return std::exp(std::normal_distribution<float>{mean, deviation}(random));
  });
}

PHANTORA_EXPORT Status curandGenerateLogNormalDouble(void* generator, double* output,
                                                     std::size_t count, double mean,
                                                     double deviation) {
  return generate(generator, output, count, true, [&](auto& random) {
    return std::exp(std::normal_distribution<double>{mean, deviation}(random));
  });
}

PHANTORA_EXPORT Status curandGeneratePoisson(void* generator, std::uint32_t* output,
                                             std::size_t count, double lambda) {
  if (!(lambda > 0)) return out_of_range;
  return generate(generator, output, count, false, [&](auto& random) {
    return static_cast<std::uint32_t>(std::poisson_distribution<int>{lambda}(random));
  });
}

// As in curand.h, a table of arrays of 32 or 64 numbers; here of the numbers.
PHANTORA_EXPORT Status curandGetDirectionVectors32(std::uint32_t** vectors, int set) {
  return tell_directions(vectors, set, directions_32, scrambled_directions_32);
}

PHANTORA_EXPORT Status curandGetDirectionVectors64(unsigned long long** vectors, int set) {
  return tell_directions(vectors, set, directions_64, scrambled_directions_64);
}

PHANTORA_EXPORT Status curandGetScrambleConstants32(std::uint32_t** constants) {
  return tell_scramble_constants(constants);
}

PHANTORA_EXPORT Status curandGetScrambleConstants64(unsigned long long** constants) {
  return tell_scramble_constants(constants);
}
