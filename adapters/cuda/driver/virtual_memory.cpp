#include "cuda/driver/virtual_memory.hpp"

#include <algorithm>
#include <utility>

namespace phantora::driver {
namespace {

void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

}  // namespace

std::optional<VirtualMemory::Handle> VirtualMemory::create(int device, std::size_t size,
                                                           CUmemAllocationHandleType shareable) {
  if (!ledger_.reserve(device, size)) return std::nullopt;
  const auto give_back = [ledger = ledger_](const Physical* block) {
    ledger.release(block->device, block->size);
    delete block;
  };
  return handle_of({new Physical{{device, size, true, shareable}}, give_back});
}

VirtualMemory::Handle VirtualMemory::import(int device, std::size_t size) {
  return handle_of(
      std::make_shared<Physical>(Physical{{.device = device, .size = size, .own = false}}));
}

VirtualMemory::Handle VirtualMemory::handle_of(PhysicalPointer block) {
  const std::scoped_lock lock{mutex_};
  const Handle handle = next_handle_++;
  handles_[handle] = {std::move(block)};
  return handle;
}

bool VirtualMemory::release(Handle handle) {
  const std::scoped_lock lock{mutex_};
  const auto held = handles_.find(handle);
  if (held == handles_.end()) return false;
  if (--held->second.references == 0) handles_.erase(held);
  return true;
}

std::optional<VirtualMemory::Block> VirtualMemory::find(Handle handle) const {
  const std::scoped_lock lock{mutex_};
  const auto held = handles_.find(handle);
  if (held == handles_.end()) return std::nullopt;
  return *held->second.block;
}

std::optional<VirtualMemory::Handle> VirtualMemory::retain(CUdeviceptr address) {
  const std::scoped_lock lock{mutex_};
  const auto mapping = holding(address);
  if (mapping == mappings_.end()) return std::nullopt;
  for (auto& [known, held] : handles_) {
    if (held.block != mapping->second.block) continue;
    ++held.references;
    return known;
  }
  const Handle handle = next_handle_++;
  handles_[handle] = {mapping->second.block};
  return handle;
}

bool VirtualMemory::map(CUdeviceptr address, std::size_t size, Handle handle) {
  const std::scoped_lock lock{mutex_};
  const auto held = handles_.find(handle);
  if (held == handles_.end() || size > held->second.block->size) return false;
  const auto range = memory_.allocation_of(pointer(address));
  if (!range || !range->reserved ||
      pointer(address + size) > static_cast<void*>(range->base + range->size)) {
    return false;
  }
  const auto next = mappings_.lower_bound(address);
  if (holding(address) != mappings_.end() ||
      (next != mappings_.end() && next->first < address + size)) {
    return false;
  }
  Physical& shown = *held->second.block;
  mappings_[address] = {size, held->second.block};
  if (!shown.own && shown.device >= 0) memory_.show_peer(pointer(address), shown.device);
  if (shown.home == 0) {
    shown.home = address;
  } else {
    memory_.show(pointer(address), pointer(shown.home), size);
  }
  return true;
}

bool VirtualMemory::unmap(CUdeviceptr address, std::size_t size) {
  const std::scoped_lock lock{mutex_};
  const auto first = mappings_.lower_bound(address);
  const auto last = mappings_.lower_bound(address + size);
  std::size_t covered = 0;
  for (auto m = first; m != last; ++m) covered += m->second.size;
  if (covered != size) return false;  // only whole mappings
  for (auto m = first; m != last; m = mappings_.erase(m)) leave(m->first, m->second);
  return true;
}

/// The mapping at `address` is no more; its block's data go on at another one, if there is one.
/// Under the lock.
void VirtualMemory::leave(CUdeviceptr address, const Mapping& mapping) {
  Physical& block = *mapping.block;
  void* const left = pointer(address);
  memory_.revoke_access(left);
  if (block.home != address) {
    memory_.show_nothing(left);
    return;
  }
  block.home = 0;
  for (const auto& [other, shown] : mappings_) {
    if (shown.block != mapping.block || other == address) continue;
    if (block.home == 0) {
      memory_.show_nothing(pointer(other));
      memory_.copy(pointer(other), left, std::min(shown.size, mapping.size));
      block.home = other;
    } else {
      memory_.show(pointer(other), pointer(block.home), shown.size);
    }
  }
  memory_.forget(left, mapping.size);
}

bool VirtualMemory::grant(CUdeviceptr address, std::size_t size) {
  const std::scoped_lock lock{mutex_};
  if (!mapped(address, size)) return false;
  for (auto m = holding(address); m != mappings_.end() && m->first < address + size; ++m) {
    memory_.grant_access(pointer(m->first), m->second.size);
  }
  return true;
}

bool VirtualMemory::free_addresses(CUdeviceptr address) {
  const auto range = memory_.allocation_of(pointer(address));
  if (!range) return false;
  const std::scoped_lock lock{mutex_};
  const auto next = mappings_.lower_bound(address);
  if (next != mappings_.end() && next->first < address + range->size) return false;
  return memory_.release_addresses(pointer(address));
}

std::optional<bool> VirtualMemory::reachable(CUdeviceptr address) const {
  const std::scoped_lock lock{mutex_};
  if (!mapped(address, 1)) return std::nullopt;
  return memory_.reachable(pointer(address), 1);
}

/// The mapping that `address` lies in, or the end. Under the lock.
VirtualMemory::Mappings::const_iterator VirtualMemory::holding(CUdeviceptr address) const {
  auto next = mappings_.upper_bound(address);
  if (next == mappings_.begin()) return mappings_.end();
  --next;
  return address < next->first + next->second.size ? next : mappings_.end();
}

/// Whether mappings cover the whole range. Under the lock.
bool VirtualMemory::mapped(CUdeviceptr address, std::size_t size) const {
  CUdeviceptr covered = address;
  for (auto m = holding(address); m != mappings_.end() && m->first <= covered; ++m) {
    covered = m->first + m->second.size;
    if (covered >= address + size) return true;
  }
  return false;
}

}  // namespace phantora::driver
