// The device memory of this process, which is a part of its Rank object.

#include "rank/memory/device_memory.hpp"
#include "rank/small_data.hpp"

namespace phantora::rank {

DeviceMemory& device_memory() noexcept { return small_data().memory; }

bool is_device_address(const void* address) noexcept { return DeviceMemory::covers(address); }
void* allocate(int device, std::size_t bytes) { return device_memory().allocate(device, bytes); }
bool deallocate(void* address) { return device_memory().deallocate(address); }
std::optional<Allocation> allocation_of(const void* address) {
  return device_memory().allocation_of(address);
}
std::optional<int> owner_of(const void* address) { return device_memory().owner_of(address); }
void* reserve_addresses(int device, std::size_t bytes, std::size_t multiple) {
  return device_memory().reserve_addresses(device, bytes, multiple);
}
void grant_access(void* address, std::size_t bytes) {
  device_memory().grant_access(address, bytes);
}
void revoke_access(void* address) { device_memory().revoke_access(address); }
bool reachable(const void* address, std::size_t bytes) {
  return device_memory().reachable(address, bytes);
}
void show_peer(void* address, int device) { return device_memory().show_peer(address, device); }
bool shows_peers() noexcept { return device_memory().shows_peers(); }
bool release_addresses(void* address) { return device_memory().release_addresses(address); }
bool show_others(void* base) { return device_memory().show_others(base); }
bool read(void* host_destination, const void* device_source, std::size_t bytes) {
  return device_memory().read(host_destination, device_source, bytes);
}
bool read_with_mask(std::byte* host_destination, std::uint8_t* mask, const void* device_source,
                    std::size_t bytes) {
  return device_memory().read_with_mask(host_destination, mask, device_source, bytes);
}
bool known(const void* device_address, std::size_t bytes) {
  return device_memory().known(device_address, bytes);
}
bool may_know(const void* device_address, std::size_t bytes) {
  return device_memory().may_know(device_address, bytes);
}
void write(void* device_destination, const void* host_source, std::size_t bytes) {
  return device_memory().write(device_destination, host_source, bytes);
}
void write_known(void* device_destination, const std::byte* source,
                 std::span<const std::uint8_t> mask, std::size_t bytes, const Writer& writer) {
  return device_memory().write_known(device_destination, source, mask, bytes, writer);
}
void write_from_host(void* device_destination, const void* host_source, std::size_t bytes) {
  return device_memory().write_from_host(device_destination, host_source, bytes);
}
void fill(void* device_destination, std::span<const std::byte> element, std::size_t bytes) {
  return device_memory().fill(device_destination, element, bytes);
}
void fill(void* device_destination, int value, std::size_t bytes) {
  return device_memory().fill(device_destination, value, bytes);
}
void copy(void* destination, const void* source, std::size_t bytes) {
  return device_memory().copy(destination, source, bytes);
}
void forget(void* device_address, std::size_t bytes, const Writer& writer) {
  return device_memory().forget(device_address, bytes, writer);
}
void note_share_set(const void* flags, std::size_t bytes, double share) {
  return device_memory().note_share_set(flags, bytes, share);
}
std::optional<double> share_set(const void* flags, std::size_t bytes) {
  return device_memory().share_set(flags, bytes);
}
void defer(const void* address, std::size_t bytes, std::shared_ptr<const Deferred> values) {
  return device_memory().defer(address, bytes, std::move(values));
}
std::optional<DeferredPart> deferred(const void* address, std::size_t bytes) {
  return device_memory().deferred(address, bytes);
}
void show(void* address, void* home, std::size_t bytes) {
  device_memory().show(address, home, bytes);
}
void show_nothing(void* address) { device_memory().show_nothing(address); }

}  // namespace phantora::rank
