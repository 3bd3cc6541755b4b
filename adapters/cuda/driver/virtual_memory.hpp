#pragma once

#include "rank/memory/device_memory.hpp"
#include "rank/runtime/mutex.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <optional>

#include <cuda.h>

namespace phantora::driver {

/// Memory and addresses apart (cuMemCreate, cuMemAddressReserve, cuMemMap): what PyTorch's
/// expandable segments are made of. A block's memory is taken from the GPU's ledger as long as a
/// handle or a mapping refers to it. Processes of a host show each other their blocks: the
/// addresses exist and copies take their time, the data stay with each process. Thread-safe.
class VirtualMemory {
 public:
  using Handle = CUmemGenericAllocationHandle;
  static constexpr std::size_t granularity = std::size_t{2} << 20;  // of an H200

  /// Physical memory.
  struct Block {
    int device = 0;  ///< -1: not visible to this process
    std::size_t size = 0;
    bool own = true;  ///< false: another process of the host has made it
    CUmemAllocationHandleType shareable = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  };

  VirtualMemory(rank::DeviceMemory& memory, rank::Ledger ledger)
      : memory_{memory}, ledger_{ledger} {}

  /// A handle of a new block of this process; nullopt if the GPU has not that much left.
  std::optional<Handle> create(int device, std::size_t size, CUmemAllocationHandleType shareable);
  /// Of one of another process.
  Handle import(int device, std::size_t size);
  bool release(Handle handle);
  [[nodiscard]] std::optional<Block> find(Handle handle) const;
  /// A handle of what is mapped at `address`, which has to be released once more; nullopt if
  /// nothing is.
  std::optional<Handle> retain(CUdeviceptr address);

  // False where the arguments are not valid.

  bool map(CUdeviceptr address, std::size_t size, Handle handle);
  bool unmap(CUdeviceptr address, std::size_t size);
  /// Every GPU of the host may reach what is mapped there, once one does.
  bool grant(CUdeviceptr address, std::size_t size);
  /// Of reserved addresses, none of which may be mapped.
  bool free_addresses(CUdeviceptr address);

  /// Whether what is mapped at `address` may be reached; nullopt if nothing is mapped there.
  [[nodiscard]] std::optional<bool> reachable(CUdeviceptr address) const;

 private:
  struct Physical : Block {
    /// Where its data are: the first of its mappings. Others show what is there.
    CUdeviceptr home = 0;
  };
  using PhysicalPointer = std::shared_ptr<Physical>;  ///< gives its memory back in the end
  struct Held {
    PhysicalPointer block{};
    int references = 1;  ///< how often it has to be released
  };
  struct Mapping {
    std::size_t size = 0;
    PhysicalPointer block{};
  };
  using Mappings = std::map<CUdeviceptr, Mapping>;

  Handle handle_of(PhysicalPointer block);
  void leave(CUdeviceptr address, const Mapping& mapping);
  [[nodiscard]] Mappings::const_iterator holding(CUdeviceptr address) const;
  [[nodiscard]] bool mapped(CUdeviceptr address, std::size_t size) const;

  rank::DeviceMemory& memory_;
  const rank::Ledger ledger_;
  mutable rank::Mutex mutex_{};
  Handle next_handle_ = 1;
  std::map<Handle, Held> handles_{};
  Mappings mappings_{};
};

}  // namespace phantora::driver
