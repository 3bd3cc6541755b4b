#pragma once

#include "rank/memory/deferred.hpp"
#include "rank/memory/last_writer.hpp"
#include "rank/memory/noted_ranges.hpp"
#include "rank/runtime/mutex.hpp"
#include "rank/runtime/spin_lock.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>

/// The simulated GPUs' address space: one reserved range per device, backed page by page where
/// small data is written (design section 4, rule 7). Thread-safe.
namespace phantora::rank {

/// Data of up to this many bytes is real: copies, collectives and kernels on it are executed.
/// Batches of position ids must fit, which programs compare on the host to choose a mask: 8
/// sequences of 1024 64-bit ids and one more each are 65600 bytes.
inline constexpr std::size_t small_bytes = 256 * 1024;

struct Allocation {
  int device = 0;
  std::byte* base = nullptr;
  std::size_t size = 0;
  bool reserved = false;  ///< a range of addresses, not an allocation
  bool reachable = true;  ///< false: reserved, and nothing is mapped there that may be reached
};

/// 16 ranks of a run on one small machine then hold 128 MiB more between them. Copies of a few MiB
/// come back from the device, the weights of a model do not.
inline constexpr std::size_t kept_bytes = std::size_t{8} << 20;

/// The ledger of a host's GPUs, which all of its processes share.
struct Ledger {
  /// False where the GPU has not that much left.
  bool (*reserve)(int device, std::size_t bytes) noexcept;
  void (*release)(int device, std::size_t bytes) noexcept;
};

/// The GPUs' memory as one process has it. The addresses are the same in each, so that a process
/// has one; a test may have another of other devices.
class DeviceMemory {
 public:
  static constexpr int max_devices = 16;
  // Windows lie where neither the program, the heap nor shared libraries are placed by Linux on
  // x86-64 with 47 address bits, nor AddressSanitizer its heap. 1 TiB each holds every GPU's memory
  // with room for address ranges that are reserved without memory (the upper half).
  static constexpr std::uint64_t first_window = 0x6800'0000'0000;
  static constexpr std::uint64_t window_bytes = std::uint64_t{1} << 40U;

  /// @param writers  is told what made memory unknown
  DeviceMemory(Ledger ledger, WriterLog& writers);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// cudaMalloc: nullptr when the device's capacity is exceeded. Accounts memory in the granularity
  /// of the real driver (2 MiB; below 1 MiB sub-allocated from shared 2 MiB blocks), addresses
  /// 512-byte aligned.
  void* allocate(int device, std::size_t bytes);
  /// False when `address` is not the start of a live allocation.
  bool deallocate(void* address);

  /// The live allocation, or reserved range, that holds `address`; nullopt for host memory.
  std::optional<Allocation> allocation_of(const void* address);

  /// The device whose memory shows at `address`; nullopt for host memory. Cheap: whether anything
  /// is allocated there is not looked at.
  std::optional<int> owner_of(const void* address);

  /// Address range without memory of its own, for cuMemAddressReserve: a multiple of 2 MiB, at a
  /// multiple of that and of `multiple`, a power of two. Data can be written anywhere in it; the
  /// ledger is charged by whoever maps memory. nullptr when none is left.
  void* reserve_addresses(int device, std::size_t bytes, std::size_t multiple = 1);
  /// The reserved range at `address` shows memory of another device of the host.
  void show_peer(void* address, int device);
  /// Whether any range ever did. Cheap, no lock.
  [[nodiscard]] bool shows_peers() const noexcept { return any_peer_.load(); }
  /// What was mapped at `address` of a reserved range can be reached from now on (cuMemSetAccess);
  /// no more, once it is unmapped.
  void grant_access(void* address, std::size_t bytes);
  void revoke_access(void* address);
  /// Whether all of it is device memory that can be reached: of an allocation, or mapped with
  /// access.
  bool reachable(const void* address, std::size_t bytes);
  /// False when `address` is not the start of a reserved range.
  bool release_addresses(void* address);

  /// Other processes have the allocation or range at `base` too, and what is in it is unknown. What
  /// this process writes into its own allocation later is known again: a framework's allocator
  /// shows all that lies beside the one buffer that others read. What it writes into a range that
  /// shows another's stays unknown. False when nothing begins at `base`.
  bool show_others(void* base);

  /// Whether `address` lies in any device's range: cheap, no lock.
  static bool covers(const void* address) noexcept {
    return reinterpret_cast<std::uintptr_t>(address) - first_window < window_bytes * max_devices;
  }
  /// Whether both lie where the allocations of one device are. Not so for reserved ranges, which
  /// may show another device's memory: owner_of() tells. Cheap, no lock.
  static bool both_allocated_by_one(const void* one, const void* other) noexcept {
    const auto half_of = [](const void* address) {
      return (reinterpret_cast<std::uintptr_t>(address) - first_window) / (window_bytes / 2);
    };
    const std::uint64_t half = half_of(one);
    return half == half_of(other) && half % 2 == 0 && covers(one);
  }

  // The functions below take host memory that a device can reach (page-locked, managed) for device
  // memory too: it is always known, and work that was not executed leaves it as it is.

  /// Copies device memory to the host. Bytes that are unknown (never written, or written by work
  /// that was not executed) come out as zeros, or as `--unknown` says; such reads are counted and
  /// told (unknown_reads.hpp).
  /// @return whether every byte was known.
  bool read(void* host_destination, const void* device_source, std::size_t bytes);
  /// The same without counting; `mask[i]` becomes 1 where byte i is known, else 0.
  /// @return whether any byte was known.
  bool read_with_mask(std::byte* host_destination, std::uint8_t* mask, const void* device_source,
                      std::size_t bytes);
  /// Whether every byte is known; reads nothing and counts nothing.
  bool known(const void* device_address, std::size_t bytes);
  /// A cheap test before reading: false only if no byte is known.
  bool may_know(const void* device_address, std::size_t bytes);
  /// Makes `bytes` at `device_destination` known.
  void write(void* device_destination, const void* host_source, std::size_t bytes);
  /// Makes those bytes known whose `mask` is not 0 (all, if it is empty), and the others unknown.
  void write_known(void* device_destination, const std::byte* source,
                   std::span<const std::uint8_t> mask, std::size_t bytes,
                   const Writer& writer = {});
  /// A copy from the host of any size. Above `small_bytes`, which nothing computes with, bytes are
  /// kept where that costs little: all of them if they repeat an element (zeros, ones), else while
  /// what is known on this process's GPUs fits `kept_bytes`; otherwise they become unknown.
  void write_from_host(void* device_destination, const void* host_source, std::size_t bytes);
  /// Repeats `element` of 1, 2, 4, 8 or 16 bytes, over any length at the same cost.
  void fill(void* device_destination, std::span<const std::byte> element, std::size_t bytes);
  void fill(void* device_destination, int value, std::size_t bytes);
  /// Device to device; known bytes stay known, unknown ones become unknown.
  void copy(void* destination, const void* source, std::size_t bytes);
  /// Work that was not executed wrote here: the bytes become unknown. `writer`: what to tell those
  /// who read them.
  void forget(void* device_address, std::size_t bytes, const Writer& writer = {});
  /// Of the flags, of a byte each, which that made unknown, this share is set.
  void note_share_set(const void* flags, std::size_t bytes, double share);
  /// That share, unless anything was written there since; copies have it too.
  std::optional<double> share_set(const void* flags, std::size_t bytes);
  /// What that made unknown at `address` is known all the same: `values` computes it for whoever
  /// asks.
  void defer(const void* address, std::size_t bytes, std::shared_ptr<const Deferred> values);
  /// nullopt unless all of the bytes were deferred together and nothing was written there since;
  /// copies are too.
  std::optional<DeferredPart> deferred(const void* address, std::size_t bytes);

  // One memory at several addresses (cuMemMap of one allocation into two ranges).

  /// What is read and written at `address` is at `home` instead.
  void show(void* address, void* home, std::size_t bytes);
  /// No more.
  void show_nothing(void* address);

 private:
  struct Window;
  struct Shown {
    std::uint64_t bytes = 0;
    std::byte* home = nullptr;  ///< where its data are
  };
  struct Place {
    std::byte* at = nullptr;
    std::size_t bytes = 0;
  };
  void overwritten(const void* address, std::size_t bytes);
  void forget_notes(std::uint64_t address, std::uint64_t bytes);
  [[nodiscard]] std::optional<DeferredPart> deferred_part(std::uint64_t address,
                                                          std::size_t bytes) const;
  void forget_what_others_write(const void* address, std::size_t bytes);
  Window& window_of(int device);
  Window& window_of(const void* address);
  Window& make_window(int device);
  Place place_of(const void* address, std::size_t bytes);
  template <class Body>
  bool elsewhere(const void* address, std::size_t bytes, Body&& body);
  std::size_t known_bytes();

  const Ledger ledger_;
  WriterLog& writers_;
  // One lock: operations on small data take well under a microsecond, and few threads issue work.
  // Mutex would cost every launch another atomic operation, for who waits.
  SpinLock lock_{};
  NotedRanges<double> shares_;
  NotedRanges<DeferredPart> deferred_;
  std::array<std::unique_ptr<Window>, max_devices> windows_;  ///< made on first use
  std::atomic<bool> any_of_others_{false};
  std::atomic<bool> any_shown_{false}, any_peer_{false};
  Mutex shown_mutex_{};
  std::map<std::uint64_t, Shown> shown_{};
};

/// This process's.
DeviceMemory& device_memory() noexcept;

// What entry points and kernels do with it.

bool is_device_address(const void* address) noexcept;
void* allocate(int device, std::size_t bytes);
bool deallocate(void* address);
std::optional<Allocation> allocation_of(const void* address);
std::optional<int> owner_of(const void* address);
void* reserve_addresses(int device, std::size_t bytes, std::size_t multiple = 1);
void show_peer(void* address, int device);
bool shows_peers() noexcept;
void grant_access(void* address, std::size_t bytes);
void revoke_access(void* address);
bool reachable(const void* address, std::size_t bytes);
bool release_addresses(void* address);
bool show_others(void* base);
bool read(void* host_destination, const void* device_source, std::size_t bytes);
bool read_with_mask(std::byte* host_destination, std::uint8_t* mask, const void* device_source,
                    std::size_t bytes);
bool known(const void* device_address, std::size_t bytes);
bool may_know(const void* device_address, std::size_t bytes);
void write(void* device_destination, const void* host_source, std::size_t bytes);
void write_known(void* device_destination, const std::byte* source,
                 std::span<const std::uint8_t> mask, std::size_t bytes, const Writer& writer = {});
void write_from_host(void* device_destination, const void* host_source, std::size_t bytes);
void fill(void* device_destination, std::span<const std::byte> element, std::size_t bytes);
void fill(void* device_destination, int value, std::size_t bytes);
void copy(void* destination, const void* source, std::size_t bytes);
void forget(void* device_address, std::size_t bytes, const Writer& writer = {});
void note_share_set(const void* flags, std::size_t bytes, double share);
std::optional<double> share_set(const void* flags, std::size_t bytes);
void defer(const void* address, std::size_t bytes, std::shared_ptr<const Deferred> values);
std::optional<DeferredPart> deferred(const void* address, std::size_t bytes);
void show(void* address, void* home, std::size_t bytes);
void show_nothing(void* address);

}  // namespace phantora::rank
