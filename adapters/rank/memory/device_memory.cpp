#include "rank/memory/device_memory.hpp"

#include "rank/memory/extents.hpp"
#include "rank/memory/host_reach.hpp"
#include "rank/memory/kept_node.hpp"
#include "rank/memory/sparse_bytes.hpp"
#include "rank/memory/unknown_reads.hpp"
#include "rank/runtime/api_call.hpp"

#include <phantora/error.hpp>
#include <phantora/simulation/host_cost.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <sys/mman.h>

namespace phantora::rank {

namespace {

constexpr std::uint64_t first_window = DeviceMemory::first_window;
constexpr std::uint64_t window_bytes = DeviceMemory::window_bytes;

// What the driver hands out (measured on H200 by cudaMemGetInfo around cudaMalloc; PyTorch's
// allocator is built on the same figures): blocks of 2 MiB, and smaller requests share one.
constexpr std::uint64_t block_bytes = std::uint64_t{2} << 20;
constexpr std::uint64_t small_limit = std::uint64_t{1} << 20;
constexpr std::uint64_t alignment = 512;

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

Bytes amount(std::uint64_t bytes) { return Bytes{static_cast<std::int64_t>(bytes)}; }

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

int device_of(const void* address) {
  return static_cast<int>((address_of(address) - first_window) / window_bytes);
}

/// Where the last of `extents` that begins at or before `address` ends.
std::uint64_t end_of(const std::map<std::uint64_t, std::uint64_t>& extents, std::uint64_t address) {
  const auto next = extents.upper_bound(address);
  return next == extents.begin() ? 0 : std::prev(next)->first + std::prev(next)->second;
}

/// Sizes come from kernels' parameters, which may be misread: no range ends beyond its window.
std::size_t within_window(const void* address, std::size_t bytes) {
  return std::min<std::uint64_t>(
      bytes, window_bytes - (address_of(address) - first_window) % window_bytes);
}

}  // namespace

/// One GPU's addresses and bytes.
struct DeviceMemory::Window {
  explicit Window(int index)
      : base{first_window + static_cast<std::uint64_t>(index) * window_bytes} {
    void* const wanted = reinterpret_cast<void*>(base);
    // Never accessible: a program that touches device memory from the host faults, as it would.
    void* const got =
        mmap(wanted, window_bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got != wanted) {
      throw Error{"expected the address range of simulated GPU " + std::to_string(index) +
                  " (1 TiB at " + std::to_string(base) + ") to be free: errno " +
                  std::to_string(errno)};
    }
    blocks.give(base, window_bytes / 2);
    reservations.give(base + window_bytes / 2, window_bytes / 2);
  }
  ~Window() { munmap(reinterpret_cast<void*>(base), window_bytes); }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  std::uint64_t base;
  FreeExtents blocks;        // multiples of 2 MiB
  FreeExtents small;         // inside blocks that small requests share
  FreeExtents reservations;  // address ranges without memory of their own
  using Live = std::map<std::uint64_t, std::uint64_t>;
  Live live;                                        // base -> size asked for
  KeptNode<Live> freed;                             // of `live`
  std::map<std::uint64_t, std::uint64_t> reserved;  // base -> size
  std::map<std::uint64_t, std::uint64_t> granted;   // base of a mapping with access -> size
  std::map<std::uint64_t, int> peers;               // base of a reserved range -> whose memory
  std::map<std::uint64_t, std::uint64_t>
      of_others;  // base -> size: reserved ranges that show another process's
  SparseBytes bytes;
};

DeviceMemory::DeviceMemory(Ledger ledger, WriterLog& writers)
    : ledger_{ledger}, writers_{writers} {}
DeviceMemory::~DeviceMemory() = default;

DeviceMemory::Window& DeviceMemory::make_window(int device) {
  PHANTORA_EXPECTS(device >= 0 && device < max_devices, "at most 16 devices per host");
  auto& slot = windows_[static_cast<std::size_t>(device)];
  if (!slot) slot = std::make_unique<Window>(device);
  return *slot;
}
inline DeviceMemory::Window& DeviceMemory::window_of(int device) {
  const auto index = static_cast<std::size_t>(device);
  return index < windows_.size() && windows_[index] ? *windows_[index] : make_window(device);
}
inline DeviceMemory::Window& DeviceMemory::window_of(const void* address) {
  return window_of(device_of(address));
}

/// Where the data at `address` are, and how many of `bytes` lie together from there on.
DeviceMemory::Place DeviceMemory::place_of(const void* address, std::size_t bytes) {
  auto* const given = static_cast<std::byte*>(const_cast<void*>(address));
  const std::uint64_t first = address_of(address);
  const std::scoped_lock lock{shown_mutex_};
  auto next = shown_.upper_bound(first);
  if (next != shown_.begin()) {
    const auto& [start, range] = *std::prev(next);
    if (first < start + range.bytes) {
      return {range.home + (first - start), std::min(bytes, start + range.bytes - first)};
    }
  }
  if (next != shown_.end()) bytes = std::min(bytes, next->first - first);
  return {given, bytes};
}

/// Calls `body(place, offset, bytes)` for each part of a range of which some is kept elsewhere.
/// False, without a call, where it is not: always, but for programs that map memory twice.
template <class Body>
bool DeviceMemory::elsewhere(const void* address, std::size_t bytes, Body&& body) {
  if (!any_shown_.load(std::memory_order_acquire) || !covers(address)) return false;
  const Place whole = place_of(address, bytes);
  if (whole.at == address && whole.bytes == bytes) return false;
  for (std::size_t offset = 0; offset < bytes;) {
    const Place part = place_of(static_cast<const std::byte*>(address) + offset, bytes - offset);
    body(part.at, offset, part.bytes);
    offset += part.bytes;
  }
  return true;
}

/// Of all windows, in whole pages.
std::size_t DeviceMemory::known_bytes() {
  const std::lock_guard lock{lock_};
  std::size_t bytes = 0;
  for (const auto& window : windows_) {
    if (window) bytes += window->bytes.stored_bytes();
  }
  return bytes;
}

void* DeviceMemory::allocate(int device, std::size_t bytes) {
  if (bytes == 0) return nullptr;
  const std::lock_guard lock{lock_};
  Window& window = window_of(device);
  std::uint64_t base = 0;
  if (bytes < small_limit) {
    const std::uint64_t size = round_up(bytes, alignment);
    auto found = window.small.take(size);
    if (!found) {
      if (!ledger_.reserve(device, block_bytes)) return nullptr;
      const auto block = window.blocks.take(block_bytes);
      if (!block) {
        ledger_.release(device, block_bytes);
        return nullptr;
      }
      costs_more(mapping_cost(amount(block_bytes)));
      window.small.give(*block, block_bytes);
      found = window.small.take(size);
    }
    base = *found;
  } else {
    if (bytes > window_bytes / 2) return nullptr;
    const std::uint64_t size = round_up(bytes, block_bytes);
    if (!ledger_.reserve(device, size)) return nullptr;
    const auto found = window.blocks.take(size);
    if (!found) {
      ledger_.release(device, size);
      return nullptr;
    }
    costs_more(mapping_cost(amount(size)));
    base = *found;
  }
  window.freed.put(window.live, base, bytes);
  return reinterpret_cast<void*>(base);
}

bool DeviceMemory::show_others(void* base) {
  if (!covers(base)) return false;
  const std::lock_guard lock{lock_};
  Window& window = window_of(base);
  for (const auto* extents : {&window.live, &window.reserved}) {
    const auto found = extents->find(address_of(base));
    if (found == extents->end()) continue;
    window.bytes.forget(found->first, found->second);
    if (extents == &window.reserved) {
      window.of_others.insert(*found);
      any_of_others_.store(true, std::memory_order_release);
    }
    return true;
  }
  return false;
}

/// With lock_ held.
void DeviceMemory::overwritten(const void* address, std::size_t bytes) {
  forget_notes(address_of(address), bytes);
  forget_what_others_write(address, bytes);
}

/// With lock_ held.
void DeviceMemory::forget_notes(std::uint64_t address, std::uint64_t bytes) {
  shares_.forget(address, bytes);
  deferred_.forget(address, bytes);
}

void DeviceMemory::forget_what_others_write(const void* address, std::size_t bytes) {
  if (!any_of_others_.load(std::memory_order_acquire)) return;
  Window& window = window_of(address);
  const std::uint64_t first = address_of(address), last = first + bytes;
  auto next = window.of_others.upper_bound(first);
  if (next != window.of_others.begin()) --next;
  for (; next != window.of_others.end() && next->first < last; ++next) {
    const std::uint64_t from = std::max(first, next->first);
    const std::uint64_t to = std::min(last, next->first + next->second);
    if (from < to) window.bytes.forget(from, to - from);
  }
}

bool DeviceMemory::deallocate(void* address) {
  if (!covers(address)) return false;
  const std::lock_guard lock{lock_};
  const int device = device_of(address);
  Window& window = window_of(device);
  const auto found = window.live.find(address_of(address));
  if (found == window.live.end()) return false;
  const auto [base, bytes] = *found;
  window.freed.remove(window.live, found);
  window.bytes.forget(base, bytes);
  forget_notes(base, bytes);
  writers_.note(address, bytes, {});  // who gets it next reads what nobody wrote
  if (bytes >= small_limit) {
    const std::uint64_t size = round_up(bytes, block_bytes);
    window.blocks.give(base, size);
    ledger_.release(device, size);
    costs_more(unmapping_cost(amount(size)));
    return true;
  }
  const auto [free_base, free_size] = window.small.give(base, round_up(bytes, alignment));
  // Blocks that are free as a whole go back to the driver.
  const std::uint64_t free_end = free_base + free_size;
  const std::uint64_t first = round_up(free_base, block_bytes);
  const std::uint64_t last = free_end / block_bytes * block_bytes;
  if (first < last) {
    window.small.take_exactly(free_base);
    if (free_base < first) window.small.give(free_base, first - free_base);
    if (last < free_end) window.small.give(last, free_end - last);
    window.blocks.give(first, last - first);
    ledger_.release(device, last - first);
    costs_more(unmapping_cost(amount(last - first)));
  }
  return true;
}

void* DeviceMemory::reserve_addresses(int device, std::size_t bytes, std::size_t multiple) {
  const std::lock_guard lock{lock_};
  Window& window = window_of(device);
  const std::uint64_t size = round_up(bytes, block_bytes);
  const auto base = size == 0
                        ? std::nullopt
                        : window.reservations.take(size, std::max<std::uint64_t>(multiple, 1));
  if (!base) return nullptr;
  window.reserved.emplace(*base, size);
  return reinterpret_cast<void*>(*base);
}

bool DeviceMemory::release_addresses(void* address) {
  if (!covers(address)) return false;
  const std::lock_guard lock{lock_};
  Window& window = window_of(address);
  const auto found = window.reserved.find(address_of(address));
  if (found == window.reserved.end()) return false;
  window.bytes.forget(found->first, found->second);
  forget_notes(found->first, found->second);
  window.reservations.give(found->first, found->second);
  window.peers.erase(found->first);
  window.of_others.erase(found->first);
  window.granted.erase(window.granted.lower_bound(found->first),
                       window.granted.lower_bound(found->first + found->second));
  window.reserved.erase(found);
  return true;
}

void DeviceMemory::show_peer(void* address, int device) {
  const std::lock_guard lock{lock_};
  window_of(address).peers[address_of(address)] = device;
  any_peer_ = true;
}

void DeviceMemory::grant_access(void* address, std::size_t bytes) {
  const std::lock_guard lock{lock_};
  window_of(address).granted[address_of(address)] = bytes;
}

void DeviceMemory::revoke_access(void* address) {
  const std::lock_guard lock{lock_};
  window_of(address).granted.erase(address_of(address));
}

bool DeviceMemory::reachable(const void* address, std::size_t bytes) {
  if (!covers(address)) return false;
  const std::lock_guard lock{lock_};
  const Window& window = window_of(address);
  // Allocations never touch; mappings beside each other are as one.
  std::uint64_t at = address_of(address);
  const std::uint64_t end = at + bytes;
  if (const std::uint64_t last = end_of(window.live, at); last > at) return end <= last;
  while (at < end) {
    const std::uint64_t last = end_of(window.granted, at);
    if (last <= at) return false;
    at = last;
  }
  return true;
}

void DeviceMemory::show(void* address, void* home, std::size_t bytes) {
  const std::scoped_lock lock{shown_mutex_};
  shown_[address_of(address)] = {bytes, static_cast<std::byte*>(home)};
  any_shown_.store(true, std::memory_order_release);
}

void DeviceMemory::show_nothing(void* address) {
  const std::scoped_lock lock{shown_mutex_};
  shown_.erase(address_of(address));
  any_shown_.store(!shown_.empty(), std::memory_order_release);
}

std::optional<Allocation> DeviceMemory::allocation_of(const void* address) {
  if (!covers(address)) return std::nullopt;
  const std::lock_guard lock{lock_};
  const int device = device_of(address);
  const auto& window = windows_[static_cast<std::size_t>(device)];
  if (!window) return std::nullopt;
  const std::uint64_t at = address_of(address);
  for (const auto* extents : {&window->live, &window->reserved}) {
    auto found = extents->upper_bound(at);
    if (found == extents->begin()) continue;
    --found;
    if (at - found->first < found->second) {
      const auto peer = window->peers.find(found->first);
      const int owner = peer == window->peers.end() ? device : peer->second;
      const bool reserved = extents == &window->reserved;
      return Allocation{owner, reinterpret_cast<std::byte*>(found->first), found->second, reserved,
                        !reserved || at < end_of(window->granted, at)};
    }
  }
  return std::nullopt;
}

std::optional<int> DeviceMemory::owner_of(const void* address) {
  if (!covers(address)) return std::nullopt;
  const int device = device_of(address);
  // Only reserved ranges, which lie in a window's upper half, show other devices' memory.
  if ((address_of(address) - first_window) % window_bytes < window_bytes / 2) return device;
  const auto range = allocation_of(address);
  return range ? range->device : device;
}

// The device reaches host memory too (page-locked, managed). It is what it is: always known, and
// work that was not executed leaves it alone.

bool DeviceMemory::read(void* host_destination, const void* device_source, std::size_t bytes) {
  if (!covers(device_source)) {
    std::memcpy(host_destination, device_source, bytes);
    return true;
  }
  bool all_known = true;
  if (elsewhere(device_source, bytes, [&](std::byte* at, std::size_t offset, std::size_t part) {
        all_known &= read(static_cast<std::byte*>(host_destination) + offset, at, part);
      })) {
    return all_known;
  }
  {
    const std::lock_guard lock{lock_};
    if (window_of(device_source)
            .bytes.read(address_of(device_source), static_cast<std::byte*>(host_destination),
                        bytes)) {
      return true;
    }
  }
  if (const auto part = deferred(device_source, bytes)) {
    rank::read(*part, {static_cast<std::byte*>(host_destination), bytes});
    return true;
  }
  const auto* unknown = static_cast<const std::byte*>(device_source);
  if (bytes <= small_bytes || fills_unknown()) {
    std::vector<std::uint8_t> mask(bytes);
    auto* const destination = static_cast<std::byte*>(host_destination);
    read_with_mask(destination, mask.data(), device_source, bytes);
    unknown += std::find(mask.begin(), mask.end(), 0) - mask.begin();
    fill_unknown(destination, device_source, mask);
  }
  tell_unknown_read(unknown, bytes);
  return false;
}

bool DeviceMemory::read_with_mask(std::byte* host_destination, std::uint8_t* mask,
                                  const void* device_source, std::size_t bytes) {
  if (!covers(device_source)) {
    std::memcpy(host_destination, device_source, bytes);
    std::memset(mask, 1, bytes);
    return true;
  }
  bool some = false;
  if (elsewhere(device_source, bytes, [&](std::byte* at, std::size_t offset, std::size_t part) {
        some |= read_with_mask(host_destination + offset, mask + offset, at, part);
      })) {
    return some;
  }
  std::optional<DeferredPart> part;
  {
    const std::lock_guard lock{lock_};
    part = deferred_part(address_of(device_source), bytes);
    if (!part)
      return window_of(device_source)
          .bytes.read_with_mask(address_of(device_source), host_destination, mask, bytes);
  }
  rank::read(*part, {host_destination, bytes});
  std::memset(mask, 1, bytes);
  return true;
}

bool DeviceMemory::known(const void* device_address, std::size_t bytes) {
  if (!covers(device_address)) return true;
  bytes = within_window(device_address, bytes);
  bool every = true;
  if (elsewhere(device_address, bytes,
                [&](std::byte* at, std::size_t, std::size_t part) { every &= known(at, part); })) {
    return every;
  }
  const std::lock_guard lock{lock_};
  const std::uint64_t address = address_of(device_address);
  return window_of(device_address).bytes.known(address, bytes) ||
         deferred_.holding(address, bytes).what != nullptr;
}

bool DeviceMemory::may_know(const void* device_address, std::size_t bytes) {
  if (!covers(device_address)) return true;
  bytes = within_window(device_address, bytes);
  bool any = false;
  if (elsewhere(device_address, bytes,
                [&](std::byte* at, std::size_t, std::size_t part) { any |= may_know(at, part); })) {
    return any;
  }
  const std::lock_guard lock{lock_};
  const std::uint64_t address = address_of(device_address);
  return window_of(device_address).bytes.may_know(address, bytes) ||
         deferred_.holding(address, bytes).what != nullptr;
}

void DeviceMemory::write(void* device_destination, const void* host_source, std::size_t bytes) {
  if (!covers(device_destination)) {
    std::memmove(device_destination, host_source, bytes);
    return;
  }
  if (elsewhere(device_destination, bytes,
                [&](std::byte* at, std::size_t offset, std::size_t part) {
                  write(at, static_cast<const std::byte*>(host_source) + offset, part);
                })) {
    return;
  }
  const std::lock_guard lock{lock_};
  window_of(device_destination)
      .bytes.write(address_of(device_destination), static_cast<const std::byte*>(host_source),
                   bytes);
  overwritten(device_destination, bytes);
}

void DeviceMemory::write_known(void* device_destination, const std::byte* source,
                               std::span<const std::uint8_t> mask, std::size_t bytes,
                               const Writer& writer) {
  if (mask.empty()) return write(device_destination, source, bytes);
  auto* const destination = static_cast<std::byte*>(device_destination);
  for (std::size_t first = 0; first < bytes;) {
    std::size_t last = first + 1;
    while (last < bytes && mask[last] == mask[first]) ++last;
    if (mask[first] != 0) {
      write(destination + first, source + first, last - first);
    } else {
      forget(destination + first, last - first, writer);
    }
    first = last;
  }
}

void DeviceMemory::write_from_host(void* device_destination, const void* host_source,
                                   std::size_t bytes) {
  constexpr std::size_t period = sizeof(RepeatedBytes::Word);
  const auto* const source = static_cast<const std::byte*>(host_source);
  if (bytes <= small_bytes) return write(device_destination, source, bytes);
  if (std::memcmp(source, source + period, bytes - period) == 0) {
    return fill(device_destination, {source, period}, bytes);
  }
  if (known_bytes() + bytes <= kept_bytes) return write(device_destination, source, bytes);
  forget(device_destination, bytes);
}

void DeviceMemory::fill(void* device_destination, std::span<const std::byte> element,
                        std::size_t bytes) {
  if (!covers(device_destination)) {
    auto* const to = static_cast<std::byte*>(device_destination);
    for (std::size_t i = 0; i < bytes; ++i) to[i] = element[i % element.size()];
    return;
  }
  bytes = within_window(device_destination, bytes);
  if (elsewhere(device_destination, bytes, [&](std::byte* at, std::size_t, std::size_t part) {
        fill(at, element, part);  // parts begin at multiples of 2 MiB
      })) {
    return;
  }
  const std::lock_guard lock{lock_};
  window_of(device_destination).bytes.fill(address_of(device_destination), element, bytes);
  overwritten(device_destination, bytes);
}

void DeviceMemory::fill(void* device_destination, int value, std::size_t bytes) {
  const auto element = static_cast<std::byte>(value);
  fill(device_destination, {&element, 1}, bytes);
}

void DeviceMemory::copy(void* destination, const void* source, std::size_t bytes) {
  if (!covers(source)) return write(destination, source, bytes);
  if (!covers(destination)) {
    read(destination, source, bytes);
    return;
  }
  if (elsewhere(source, bytes, [&](std::byte* at, std::size_t offset, std::size_t part) {
        copy(static_cast<std::byte*>(destination) + offset, at, part);
      })) {
    return;
  }
  if (elsewhere(destination, bytes, [&](std::byte* at, std::size_t offset, std::size_t part) {
        copy(at, static_cast<const std::byte*>(source) + offset, part);
      })) {
    return;
  }
  const std::lock_guard lock{lock_};
  const SparseBytes& from = window_of(source).bytes;
  window_of(destination).bytes.copy(address_of(destination), from, address_of(source), bytes);
  const double* const noted = shares_.of(address_of(source), bytes);
  const std::optional<double> share = noted != nullptr ? std::optional{*noted} : std::nullopt;
  auto part = deferred_part(address_of(source), bytes);
  overwritten(destination, bytes);
  if (share) shares_.note(address_of(destination), bytes, *share);
  if (part && !any_of_others_.load(std::memory_order_acquire))
    deferred_.note(address_of(destination), bytes, *std::move(part));
  if (bytes <= small_bytes) writers_.note_copy(destination, source, bytes);
}

void DeviceMemory::forget(void* device_address, std::size_t bytes, const Writer& writer) {
  if (!covers(device_address)) {
    if (reached_by_device(device_address)) tell_host_write(writer);
    return;
  }
  bytes = within_window(device_address, bytes);
  if (elsewhere(device_address, bytes,
                [&](std::byte* at, std::size_t, std::size_t part) { forget(at, part, writer); })) {
    return;
  }
  {
    const std::lock_guard lock{lock_};
    window_of(device_address).bytes.forget(address_of(device_address), bytes);
    forget_notes(address_of(device_address), bytes);
  }
  // What is large is read a little at a time at most, unless its writer is of interest itself.
  if (writer.name != nullptr && (bytes <= small_bytes || writer.unread)) {
    writers_.note(device_address, bytes, writer);
  }
}

void DeviceMemory::note_share_set(const void* flags, std::size_t bytes, double share) {
  if (!covers(flags)) return;
  const std::lock_guard lock{lock_};
  shares_.note(address_of(flags), bytes, share);
}

std::optional<double> DeviceMemory::share_set(const void* flags, std::size_t bytes) {
  const std::lock_guard lock{lock_};
  const double* const share = shares_.of(address_of(flags), bytes);
  return share != nullptr ? std::optional{*share} : std::nullopt;
}

void DeviceMemory::defer(const void* address, std::size_t bytes,
                         std::shared_ptr<const Deferred> values) {
  // Of memory with several addresses or processes nobody sees all writes.
  if (!covers(address) || any_shown_.load(std::memory_order_acquire) ||
      any_of_others_.load(std::memory_order_acquire))
    return;
  const std::lock_guard lock{lock_};
  deferred_.note(address_of(address), bytes, {std::move(values), 0});
}

std::optional<DeferredPart> DeviceMemory::deferred(const void* address, std::size_t bytes) {
  if (!covers(address)) return std::nullopt;
  const std::lock_guard lock{lock_};
  return deferred_part(address_of(address), bytes);
}

/// With lock_ held.
std::optional<DeferredPart> DeviceMemory::deferred_part(std::uint64_t address,
                                                        std::size_t bytes) const {
  const auto [what, offset] = deferred_.holding(address, bytes);
  if (what == nullptr) return std::nullopt;
  return DeferredPart{what->values, what->offset + offset};
}

}  // namespace phantora::rank
