#pragma once

#include "rank/kernels/families/element_type.hpp"
#include "rank/kernels/kernel_name.hpp"

#include <cstddef>
#include <initializer_list>
#include <string_view>
#include <vector>

/// The functor of an elementwise kernel: what its name says, and how its scalars lie in it.
namespace phantora::rank {

/// The name that decides a functor's meaning: its class, or the function that the lambda is in.
struct Functor {
  std::string_view key;
  NameParts arguments;    ///< template arguments of the class or function
  NameParts parameters;   ///< of a lambda
  std::vector<int> path;  ///< of a lambda
  bool is_lambda = false;
};

Functor functor_of(std::string_view text);

/// Scalars that a functor carries, one after the other, each aligned to its size.
class FunctorScalars {
 public:
  explicit FunctorScalars(const std::byte* bytes, std::size_t offset = 0)
      : bytes_{bytes}, offset_{offset} {}
  Value next(ElementType type) {
    offset_ = (offset_ + size_of(type) - 1) / size_of(type) * size_of(type);
    const Value value = load(type, bytes_ + offset_);
    offset_ += size_of(type);
    return value;
  }

 private:
  const std::byte* bytes_;
  std::size_t offset_;
};

constexpr std::size_t host_pointer_bytes = 8;

/// Size of a `__host__ __device__` lambda of nvcc: its captures in order of first use, then a
/// pointer to its host twin, unless it has no captures and no capture default (one byte). Found
/// with nvcc 13 by printing closures.
std::size_t closure_bytes(std::initializer_list<std::size_t> captures);

}  // namespace phantora::rank
