#include "cuda/driver/pool.hpp"

#include "cuda/driver/graph_work.hpp"
#include "rank/memory/data_queue.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/runtime/capture.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace phantora::driver {
namespace {

struct Owned {
  Pool* pool;
  std::size_t bytes;
};

struct Pools {
  std::mutex mutex{};
  std::deque<Pool> all{};  ///< destroyed ones stay, so that a stale handle never dangles
  std::map<int, Pool*> defaults{}, current{};
  std::unordered_map<void*, Owned> owned{};
};

Pools& pools() {
  static auto* const instance = new Pools;
  return *instance;
}

Pool& locked_default(Pools& p, int device) {
  Pool*& pool = p.defaults[device];
  if (!pool) {
    pool = &p.all.emplace_back();
    pool->device = device;
  }
  return *pool;
}

}  // namespace

Pool& default_pool(int device) {
  const std::scoped_lock lock{pools().mutex};
  return locked_default(pools(), device);
}

Pool& current_pool(int device) {
  const std::scoped_lock lock{pools().mutex};
  Pool* const set = pools().current[device];
  return set ? *set : locked_default(pools(), device);
}

void set_current_pool(int device, Pool& pool) {
  const std::scoped_lock lock{pools().mutex};
  pools().current[device] = &pool;
}

Pool& create_pool(int device) {
  const std::scoped_lock lock{pools().mutex};
  Pool& pool = pools().all.emplace_back();
  pool.device = device;
  return pool;
}

void destroy_pool(Pool& pool) {
  const std::scoped_lock lock{pools().mutex};
  std::erase_if(pools().current, [&](const auto& entry) { return entry.second == &pool; });
}

void* allocate(Pool& pool, std::size_t bytes) {
  void* const address = rank::allocate(pool.device, bytes);
  if (!address) return nullptr;
  const std::scoped_lock lock{pools().mutex};
  pools().owned[address] = {&pool, bytes};
  pool.used += bytes;
  pool.used_high = std::max(pool.used_high, pool.used);
  pool.reserved_high = std::max(pool.reserved_high, pool.used);
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
  auto of_graph = graph_memory_at(address);
  if (rank::capturing(stream)) {
    // A graph frees what graphs have allocated.
    if (of_graph) rank::capture(stream, std::make_shared<FreeWork>(of_graph));
    return of_graph != nullptr;
  }
  if (of_graph) {
    rank::data::enqueue(stream, [address] { free_graph_memory(address); });
    return true;
  }
  {
    const std::scoped_lock lock{pools().mutex};
    const auto found = pools().owned.find(address);
    if (found != pools().owned.end()) {
      found->second.pool->used -= found->second.bytes;
      pools().owned.erase(found);
    } else if (!rank::allocation_of(address)) {
      return false;  // cudaMalloc's memory may be freed in stream order too
    }
  }
  rank::data::enqueue(stream, [address] { rank::deallocate(address); });
  return true;
}

Pool snapshot(const Pool& pool) {
  const std::scoped_lock lock{pools().mutex};
  return pool;
}

void update(Pool& pool, void (*change)(Pool&, std::uint64_t), std::uint64_t value) {
  const std::scoped_lock lock{pools().mutex};
  change(pool, value);
}

}  // namespace phantora::driver
