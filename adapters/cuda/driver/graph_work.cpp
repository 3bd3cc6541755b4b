#include "cuda/driver/graph_work.hpp"

#include "cuda/driver/driver_state.hpp"
#include "rank/kernels/kernel_name.hpp"
#include "rank/memory/data_queue.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/runtime/process.hpp"
#include "rank/runtime/refusal.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>

namespace phantora::driver {

// --- Kernels ---

KernelWork::KernelWork(Function& launched, const rank::LaunchShape& with, void** arguments)
    : function{launched}, shape{with} {
  const auto& sizes = rank::resources(function).parameter_sizes;
  constexpr std::size_t alignment = alignof(std::max_align_t);
  const auto room = [](std::size_t size) { return (size + alignment - 1) / alignment * alignment; };
  std::size_t total = 0;
  for (const std::uint32_t size : sizes) total += room(size);
  bytes_.resize(total);
  std::byte* next = bytes_.data();
  for (std::size_t p = 0; p < sizes.size(); ++p) {
    if (sizes[p] > 0) std::memcpy(next, arguments[p], sizes[p]);
    pointers_.push_back(next);
    next += room(sizes[p]);
  }
}

void KernelWork::issue(rank::Stream& stream) const {
  rank::launch_kernel(function, shape, arguments(), stream);
}

std::string KernelWork::label() const { return rank::demangled(function.mangled); }

// --- Copies ---

void CopyWork::issue(rank::Stream& stream) const { copy(copied, false, stream); }

std::string CopyWork::label() const {
  return "memcpy of " + std::to_string(bytes_of(copied)) + " bytes";
}

void FillWork::issue(rank::Stream& stream) const {
  fill(filled.destination, filled.pitch, filled.value, filled.unit, filled.width, filled.rows,
       stream);
}

std::string FillWork::label() const {
  return "memset of " + std::to_string(filled.width * filled.rows) + " bytes";
}

// --- Memory ---

struct GraphMemory {
  GraphMemory(int on, void* at, std::size_t size) : device{on}, address{at}, bytes{size} {}
  ~GraphMemory();
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;

  const int device;
  void* const address;
  const std::size_t bytes;
};

namespace {

GraphMemories& memories() { return driver_state().graph_memories; }

void hold(const std::shared_ptr<GraphMemory>& memory) {
  GraphMemories& all = memories();
  const std::scoped_lock lock{all.mutex};
  // What an earlier launch has left is given back first: the same memory again.
  if (!all.held.emplace(memory->address, memory).second) return;
  if (!rank::reserve_memory(memory->device, memory->bytes)) {
    all.held.erase(memory->address);
    throw rank::Refusal{rank::Refusal::out_of_memory};
  }
  GraphMemoryUse& use = all.use[memory->device];
  use.now += memory->bytes;
  use.high = std::max(use.high, use.now);
}

}  // namespace

GraphMemory::~GraphMemory() {
  GraphMemories& all = memories();
  const std::scoped_lock lock{all.mutex};
  all.reserved.erase(address);
  rank::release_addresses(address);
}

std::shared_ptr<GraphMemory> reserve_graph_memory(int device, std::size_t bytes) {
  constexpr std::size_t granularity = std::size_t{2} << 20;  // of the driver's blocks
  bytes = (bytes + granularity - 1) / granularity * granularity;
  void* const address = rank::reserve_addresses(device, bytes);
  if (address == nullptr) return nullptr;
  rank::grant_access(address, bytes);
  auto made = std::make_shared<GraphMemory>(device, address, bytes);
  GraphMemories& all = memories();
  const std::scoped_lock lock{all.mutex};
  all.reserved[address] = made;
  return made;
}

std::shared_ptr<GraphMemory> graph_memory_at(const void* address) {
  GraphMemories& all = memories();
  const std::scoped_lock lock{all.mutex};
  const auto found = all.reserved.find(address);
  return found == all.reserved.end() ? nullptr : found->second.lock();
}

void* address_of(const GraphMemory& memory) noexcept { return memory.address; }
std::size_t size_of(const GraphMemory& memory) noexcept { return memory.bytes; }
int device_of(const GraphMemory& memory) noexcept { return memory.device; }

bool free_graph_memory(void* address) {
  GraphMemories& all = memories();
  std::shared_ptr<GraphMemory> freed;  // outlives the lock, which its end takes
  const std::scoped_lock lock{all.mutex};
  const auto found = all.held.find(address);
  if (found == all.held.end()) return false;
  freed = std::move(found->second);
  all.held.erase(found);
  all.use[freed->device].now -= freed->bytes;
  rank::release_memory(freed->device, freed->bytes);
  return true;
}

GraphMemoryUse graph_memory_use(int device) {
  GraphMemories& all = memories();
  const std::scoped_lock lock{all.mutex};
  return all.use[device];
}

void reset_graph_memory_high(int device) {
  GraphMemories& all = memories();
  const std::scoped_lock lock{all.mutex};
  all.use[device].high = all.use[device].now;
}

void AllocationWork::issue(rank::Stream& stream) const {
  hold(memory);
  rank::data::enqueue(stream, [address = memory->address, bytes = memory->bytes] {
    rank::forget(address, bytes, {.name = "an allocation of a graph"});
  });
}
std::string AllocationWork::label() const {
  return "allocation of " + std::to_string(memory->bytes) + " bytes";
}

void FreeWork::issue(rank::Stream& stream) const {
  rank::data::enqueue(stream, [address = memory->address] { free_graph_memory(address); });
}
std::string FreeWork::label() const {
  return "free of " + std::to_string(memory->bytes) + " bytes";
}

}  // namespace phantora::driver
