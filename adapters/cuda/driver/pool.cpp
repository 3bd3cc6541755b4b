#include "cuda/driver/pool.hpp"

#include "cuda/driver/driver_state.hpp"
#include "cuda/driver/graph_work.hpp"
#include "rank/memory/data_queue.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/runtime/capture.hpp"
#include "rank/runtime/process.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include <cuda.h>

namespace phantora::driver {
namespace {

Pools& pools() { return driver_state().pools; }

/// Under the lock.
Pool& make_pool(int device) {
  Pool& pool = pools().all.emplace_back();
  pool.device = device;
  return pool;
}

// A pool takes memory from the GPU in pieces: an H200's holds 128 MiB for 100 that are used
// (test/native/h200/pools.txt).
constexpr std::uint64_t piece = std::uint64_t{32} << 20;
std::uint64_t pieces_for(std::uint64_t bytes) { return (bytes + piece - 1) / piece * piece; }

/// Under the lock, as the next one.
void give_back(Pool& pool, std::uint64_t bytes) {
  if (bytes == 0) return;
  rank::release_memory(pool.device, bytes);
  pool.kept -= bytes;
}

/// Lets the pool hold `bytes`, or as much more as what is used takes of whole pieces; what the GPU
/// has not left it goes without. Under the lock.
void hold(Pool& pool, std::uint64_t bytes) {
  const std::uint64_t kept = std::max(bytes, pieces_for(pool.used)) - pool.used;
  if (kept < pool.kept) {
    give_back(pool, pool.kept - kept);
  } else if (kept > pool.kept && rank::reserve_memory(pool.device, kept - pool.kept)) {
    pool.kept = kept;
  }
}

/// Keeps so much of what was freed as the release threshold allows.
void keep(Pool& pool, std::size_t freed) {
  const std::scoped_lock lock{pools().mutex};
  hold(pool, std::min(pool.reserved() + freed, pool.release_threshold));
}

}  // namespace

Pool& default_pool(int device) {
  std::atomic<Pool*>& pool = pools().defaults.at(static_cast<std::size_t>(device));
  if (Pool* const made = pool) return *made;
  const std::scoped_lock lock{pools().mutex};
  if (!pool) pool = &make_pool(device);
  return *pool;
}

Pool& current_pool(int device) {
  Pool* const set = pools().current.at(static_cast<std::size_t>(device));
  return set ? *set : default_pool(device);
}

void set_current_pool(int device, Pool& pool) {
  pools().current.at(static_cast<std::size_t>(device)) = &pool;
}

Pool& create_pool(int device, std::uint64_t most) {
  const std::scoped_lock lock{pools().mutex};
  Pool& pool = make_pool(device);
  pool.most = most;
  return pool;
}

void trim(Pool& pool, std::uint64_t bytes) {
  const std::scoped_lock lock{pools().mutex};
  hold(pool, std::min(pool.reserved(), bytes));
}

void destroy_pool(Pool& pool) {
  const std::scoped_lock lock{pools().mutex};
  for (std::atomic<Pool*>& current : pools().current) {
    Pool* set = &pool;
    current.compare_exchange_strong(set, nullptr);
  }
  give_back(pool, pool.kept);
}

void* allocate(Pool& pool, std::size_t bytes) {
  Pools& all = pools();
  const std::scoped_lock lock{all.mutex};
  if (pool.most != 0 && (bytes > pool.most || pool.used > pool.most - bytes)) return nullptr;
  // What the pool kept serves first.
  give_back(pool, std::min<std::uint64_t>(pool.kept, bytes));
  void* address = rank::allocate(pool.device, bytes);
  if (!address) {
    give_back(pool, pool.kept);
    address = rank::allocate(pool.device, bytes);
  }
  if (!address) return nullptr;
  all.freed.put(all.owned, address, {&pool, bytes});
  pool.used += bytes;
  hold(pool, pool.reserved());
  pool.used_high = std::max(pool.used_high, pool.used);
  pool.reserved_high = std::max(pool.reserved_high, pool.reserved());
  return address;
}

void* allocate_in_order(Pool& pool, std::size_t bytes, rank::Stream& stream) {
  if (!rank::capturing(stream)) {
    rank::refuse_if_unsafe();
    return allocate(pool, bytes);
  }
  auto memory = reserve_graph_memory(pool.device, bytes);
  if (!memory) return nullptr;
  void* const address = address_of(*memory);
  rank::capture(stream, std::make_shared<AllocationWork>(std::move(memory)));
  return address;
}

bool free_in_order(void* address, rank::Stream& stream) {
  if (rank::capturing(stream)) {
    // A graph frees what graphs have allocated.
    const auto of_graph = graph_memory_at(address);
    if (of_graph) rank::capture(stream, std::make_shared<FreeWork>(of_graph));
    return of_graph != nullptr;
  }
  Pool* owner = nullptr;
  std::size_t bytes = 0;
  {
    Pools& all = pools();
    const std::scoped_lock lock{all.mutex};
    const auto found = all.owned.find(address);
    if (found != all.owned.end()) {
      owner = found->second.pool;
      bytes = found->second.bytes;
      owner->used -= bytes;
      all.freed.remove(all.owned, found);
    }
  }
  if (!owner) {
    if (graph_memory_at(address)) {
      rank::data::enqueue(stream, [address] { free_graph_memory(address); });
      return true;
    }
    // cudaMalloc's memory may be freed in stream order too.
    if (!rank::allocation_of(address)) return false;
  }
  rank::data::enqueue(stream, [address, owner, bytes] {
    rank::deallocate(address);
    if (owner) keep(*owner, bytes);
  });
  return true;
}

bool read_attribute(const Pool& pool, unsigned attribute, void* value) {
  const std::scoped_lock lock{pools().mutex};
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      *static_cast<int*>(value) = pool.reuse_follow_event_dependencies;
      return true;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      *static_cast<int*>(value) = pool.reuse_allow_opportunistic;
      return true;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      *static_cast<int*>(value) = pool.reuse_allow_internal_dependencies;
      return true;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      *static_cast<std::uint64_t*>(value) = pool.release_threshold;
      return true;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      *static_cast<std::uint64_t*>(value) = pool.reserved();
      return true;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      *static_cast<std::uint64_t*>(value) = pool.reserved_high;
      return true;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      *static_cast<std::uint64_t*>(value) = pool.used;
      return true;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      *static_cast<std::uint64_t*>(value) = pool.used_high;
      return true;
    default:
      return false;
  }
}

bool set_attribute(Pool& pool, unsigned attribute, const void* value) {
  const std::scoped_lock lock{pools().mutex};
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      pool.reuse_follow_event_dependencies = *static_cast<const int*>(value);
      return true;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      pool.reuse_allow_opportunistic = *static_cast<const int*>(value);
      return true;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      pool.reuse_allow_internal_dependencies = *static_cast<const int*>(value);
      return true;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      pool.release_threshold = *static_cast<const std::uint64_t*>(value);
      return true;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:  // only a reset to 0, which means the present value
      if (*static_cast<const std::uint64_t*>(value) != 0) return false;
      pool.reserved_high = pool.reserved();
      return true;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      if (*static_cast<const std::uint64_t*>(value) != 0) return false;
      pool.used_high = pool.used;
      return true;
    default:
      return false;
  }
}

unsigned access_of(const Pool& pool, int device) {
  if (device == pool.device) return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const std::scoped_lock lock{pools().mutex};
  const auto given = pool.access.find(device);
  return given != pool.access.end() ? given->second : unsigned{CU_MEM_ACCESS_FLAGS_PROT_NONE};
}

bool set_access(Pool& pool, int device, unsigned flags) {
  if (device == pool.device) return flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const std::scoped_lock lock{pools().mutex};
  pool.access[device] = flags;
  return true;
}

}  // namespace phantora::driver
