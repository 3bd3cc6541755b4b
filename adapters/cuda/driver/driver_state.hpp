#pragma once

#include "channel/wire.hpp"
#include "cuda/driver/array.hpp"
#include "cuda/driver/contexts.hpp"
#include "cuda/driver/graph_work.hpp"
#include "cuda/driver/host_memory.hpp"
#include "cuda/driver/objects.hpp"
#include "cuda/driver/pool.hpp"
#include "cuda/driver/virtual_memory.hpp"
#include "rank/memory/kept_node.hpp"
#include "rank/runtime/mutex.hpp"
#include "rank/runtime/spin_lock.hpp"
#include "rank/runtime/timeline.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <cuda.h>

/// What a process's driver keeps of what the program made: the runtime and the driver API share it.
namespace phantora::driver {

struct Arrays {
  rank::Mutex mutex{};
  std::unordered_map<const void*, std::unique_ptr<Array>> single{};
  std::unordered_map<const void*, std::unique_ptr<MipmappedArray>> mipmapped{};
  std::atomic<unsigned long long> last_texture{0};
};

struct GraphMemories {
  rank::Mutex mutex{};
  std::map<const void*, std::weak_ptr<GraphMemory>> reserved{};
  std::map<const void*, std::shared_ptr<GraphMemory>> held{};  ///< live on without their graph
  std::map<int, GraphMemoryUse> use{};
};

struct Pools {
  struct Owned {
    Pool* pool = nullptr;
    std::size_t bytes = 0;
  };
  rank::SpinLock mutex{};  ///< as DeviceMemory's: an allocation takes well under a microsecond
  std::deque<Pool> all{};  ///< destroyed ones stay, so that a stale handle never dangles
  /// By device; made on first use.
  std::array<std::atomic<Pool*>, channel::max_gpus_per_host> defaults{};
  /// By device, as the program chose; nullptr: the default.
  std::array<std::atomic<Pool*>, channel::max_gpus_per_host> current{};
  using AllOwned = std::unordered_map<void*, Owned>;
  AllOwned owned{};
  rank::KeptNode<AllOwned> freed{};  ///< of `owned`
};

/// Streams that the program made and has not destroyed.
struct LiveStreams {
  rank::Mutex mutex{};
  std::unordered_set<const void*> handles{};
};

/// host_memory.hpp says what the functions mean. Thread-safe.
class HostMemories {
 public:
  void* allocate(std::size_t bytes, HostMemoryKind kind, unsigned flags, int device);
  bool free(void* address) { return forget(address, false); }
  bool add(void* address, std::size_t bytes, unsigned flags, int device);
  bool remove(void* address) { return forget(address, true); }
  bool advise(const void* address, const std::function<void(Advice&)>& change);
  [[nodiscard]] std::optional<HostMemory> find(const void* address) const;

 private:
  using Map = std::map<const std::byte*, HostMemory>;
  [[nodiscard]] Map::const_iterator holding(const void* address) const;
  bool forget(void* address, bool registered);

  mutable rank::Mutex mutex_{};
  Map known_{};  ///< by start address
};

/// stream_attributes.hpp says what the functions mean. Thread-safe.
class StreamAttributes {
 public:
  bool set(const rank::Stream& stream, CUlaunchAttributeID id, const CUlaunchAttributeValue& value);
  bool get(const rank::Stream& stream, CUlaunchAttributeID id, CUlaunchAttributeValue& value) const;
  void copy(const rank::Stream& destination, const rank::Stream& source);

 private:
  using Values = std::map<CUlaunchAttributeID, CUlaunchAttributeValue>;
  mutable rank::Mutex mutex_{};
  std::map<std::uint64_t, Values> by_stream_{};  ///< by id, which no other stream ever gets
};

/// Memory of other processes of the host (ipc.hpp).
struct OpenedMemories {
  struct Mapping {
    void* address = nullptr;
    int openings = 0;
  };
  rank::Mutex mutex{};
  std::map<std::pair<std::int32_t, std::uint64_t>, Mapping> all{};  ///< by process and base there
};

/// In the driver's words: the runtime's calls translate (cudart/texture_words.hpp).
struct Texture {
  CUDA_RESOURCE_DESC resource{};
  CUDA_TEXTURE_DESC texture{};
  std::optional<CUDA_RESOURCE_VIEW_DESC> view{};
};

struct DriverState {
  DriverState();

  Arrays arrays;
  Contexts contexts;
  GraphMemories graph_memories;
  HostMemories host_memories;
  LiveStreams live_streams;
  OpenedMemories opened_memories;
  Pools pools;
  StreamAttributes stream_attributes;
  Objects<CUsurfObject, CUDA_RESOURCE_DESC> surfaces;
  Objects<CUtexObject, Texture> textures;
  VirtualMemory virtual_memory;
};

/// This process's: never destroyed, since programs call from their own destructors.
DriverState& driver_state() noexcept;

}  // namespace phantora::driver
