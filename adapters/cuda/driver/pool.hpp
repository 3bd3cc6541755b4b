#pragma once

#include "rank/runtime/timeline.hpp"

#include <cstddef>
#include <cstdint>
#include <map>

namespace phantora::driver {

/// A memory pool of stream-ordered allocation. Its address is the program's cudaMemPool_t and
/// CUmemoryPool.
///
/// @note Approximation: what is freed goes back to the GPU at once as far as the pool then holds
/// more than its release threshold, not at the next synchronisation.
struct Pool {
  int device = 0;
  int reuse_follow_event_dependencies = 1, reuse_allow_opportunistic = 1,
      reuse_allow_internal_dependencies = 1;
  std::uint64_t release_threshold = 0;
  std::uint64_t used = 0, used_high = 0, reserved_high = 0;
  std::uint64_t kept = 0;  ///< freed, but still the pool's
  std::uint64_t most = 0;  ///< it may use so much (cudaMemPoolProps::maxSize); 0: any amount
  std::map<int, unsigned> access{};  ///< flags of other GPUs, as CUmemAccess_flags has them

  [[nodiscard]] std::uint64_t reserved() const { return used + kept; }
};

/// The pool that `device` was made with.
Pool& default_pool(int device);
/// The pool that allocations on `device` take from.
Pool& current_pool(int device);
void set_current_pool(int device, Pool& pool);
Pool& create_pool(int device, std::uint64_t most);
/// Gives memory that is not used back to the GPU until the pool holds `bytes` at most.
void trim(Pool& pool, std::uint64_t bytes);
void destroy_pool(Pool& pool);

/// Memory from `pool`; nullptr if the GPU has not enough left.
void* allocate(Pool& pool, std::size_t bytes);
/// The same in the order of `stream`: of a captured one, from when the graph is launched.
void* allocate_in_order(Pool& pool, std::size_t bytes, rank::Stream& stream);
/// Frees in the order of `stream`. False if `address` is no live allocation.
bool free_in_order(void* address, rank::Stream& stream);

/// Read and set an attribute of a pool by its number, which CUmemPool_attribute and cudaMemPoolAttr
/// give alike: an int of the three `reuse` ones, a std::uint64_t of the others. False if there is
/// none such, or if it does not take that value.
bool read_attribute(const Pool& pool, unsigned attribute, void* value);
bool set_attribute(Pool& pool, unsigned attribute, const void* value);

/// Flags of what `device` may do with the pool's memory, as CUmemAccess_flags and
/// cudaMemAccessFlags have them alike. Others than the pool's own GPU may nothing until they are
/// let; false if its own is not to read and write. Who may is told, not enforced.
unsigned access_of(const Pool& pool, int device);
bool set_access(Pool& pool, int device, unsigned flags);

}  // namespace phantora::driver
