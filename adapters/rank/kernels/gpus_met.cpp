#include "rank/kernels/gpus_met.hpp"

#include "rank/memory/device_memory.hpp"
#include "rank/runtime/mutex.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <mutex>

namespace phantora::rank {
namespace {

/// Of a table of pointers, one for each GPU that reaches the memory of the others: NVSwitch of an
/// NVL72 joins most.
constexpr std::size_t most_gpus = 72;

/// The addresses that are known to lie at `address`, one after the other.
std::vector<std::uint64_t> known_table(std::uint64_t address, std::size_t bytes) {
  std::vector<std::uint64_t> table(std::min(bytes / sizeof(void*), most_gpus));
  std::vector<std::uint8_t> known(table.size() * sizeof(void*));
  if (table.empty() || !read_known(std::as_writable_bytes(std::span{table}), known, address))
    return {};
  const auto unknown = std::ranges::find(known, 0);
  table.resize(static_cast<std::size_t>(unknown - known.begin()) / sizeof(void*));
  return table;
}

/// What lay there when that was known last: the allocator of a framework puts a table beside
/// buffers that other processes get to see, whereupon nothing of these is known any more. Programs
/// make such tables once.
std::vector<std::uint64_t> table_at(std::uint64_t address, std::size_t bytes) {
  static auto& mutex = *new Mutex;
  static auto& seen = *new std::map<std::uint64_t, std::vector<std::uint64_t>>;
  std::vector<std::uint64_t> table = known_table(address, bytes);
  const std::lock_guard lock{mutex};
  if (table.empty()) {
    const auto before = seen.find(address);
    return before == seen.end() ? table : before->second;
  }
  return seen[address] = std::move(table);
}

}  // namespace

std::vector<int> gpus_met(std::span<const std::byte> constants, const ReadConstants* looked_at,
                          int device) {
  std::vector<int> devices{device};
  const auto note = [&](std::uint64_t address) {
    const auto owner = owner_of(reinterpret_cast<const void*>(address));
    if (owner && std::ranges::find(devices, *owner) == devices.end()) devices.push_back(*owner);
    return owner.has_value();
  };
  for (std::size_t at = 0; at + sizeof(void*) <= constants.size(); at += sizeof(void*)) {
    if (looked_at != nullptr && !looked_at->has(at)) continue;
    const std::uint64_t address = pointer_at(constants, at);
    if (!note(address)) continue;
    const auto allocation = allocation_of(reinterpret_cast<const void*>(address));
    if (!allocation || allocation->device != device) continue;
    const std::uint64_t end = reinterpret_cast<std::uint64_t>(allocation->base) + allocation->size;
    for (const std::uint64_t entry : table_at(address, end - address))
      if (!note(entry)) break;
  }
  return devices;
}

}  // namespace phantora::rank
