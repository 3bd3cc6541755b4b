#include "cuda/driver/function.hpp"

#include "cuda/driver/device_attributes.hpp"
#include "cuda/driver/graph_work.hpp"
#include "rank/runtime/capture.hpp"
#include "rank/runtime/process.hpp"

#include <phantora/kernels/occupancy.hpp>

#include <algorithm>
#include <array>
#include <climits>
#include <memory>

#include <cuda.h>

namespace phantora::driver {
namespace {

int limit(CUdevice_attribute attribute) {
  return driver::attribute(attribute, rank::current_device()).value_or(0);
}

/// Clusters of 8 blocks are portable, of 16 what an H100 has at most (CUDA C++ Programming Guide,
/// Thread Block Clusters).
bool possible(const KernelQuery::Dim3& cluster, const KernelQuery::Dim3& grid,
              const Function& function) {
  if (cluster.x == 0) return true;
  const unsigned most = function.non_portable_clusters.load() != 0 ? 16 : 8;
  return cluster.y > 0 && cluster.z > 0 && cluster.count() <= most && grid.x % cluster.x == 0 &&
         grid.y % cluster.y == 0 && grid.z % cluster.z == 0;
}

}  // namespace

int max_dynamic_shared(const Function& function) {
  const int chosen = function.chosen_dynamic_shared.load();
  if (chosen >= 0) return chosen;
  return std::max(0, 48 * 1024 - static_cast<int>(rank::resources(function).static_shared));
}

bool set_attribute(Function& function, CUfunction_attribute attribute, int value) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: {
      const int most = limit(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) -
                       static_cast<int>(rank::resources(function).static_shared);
      if (value < 0 || value > most) return false;
      function.chosen_dynamic_shared = value;
      return true;
    }
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      function.non_portable_clusters = value != 0 ? 1 : 0;
      return true;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      return value >= CU_CLUSTER_SCHEDULING_POLICY_DEFAULT &&
             value <= CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING;
    // Hints, which change no result.
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return value >= CU_SHAREDMEM_CARVEOUT_DEFAULT && value <= CU_SHAREDMEM_CARVEOUT_MAX_SHARED;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      return value >= 0;
    default:
      return false;
  }
}

LaunchStatus check(const Function& function, const rank::LaunchShape& shape,
                   const KernelQuery::Dim3& cluster) {
  const auto& [grid, block, shared] = shape;
  // The same limits for every compute capability since 3.0 (CUDA C++ Programming Guide).
  const bool in_range = grid.x >= 1 && grid.x <= INT_MAX && grid.y >= 1 && grid.y <= 65535 &&
                        grid.z >= 1 && grid.z <= 65535 && block.x >= 1 && block.x <= 1024 &&
                        block.y >= 1 && block.y <= 1024 && block.z >= 1 && block.z <= 64 &&
                        block.count() <= 1024;
  if (!in_range) return LaunchStatus::bad_configuration;
  if (shared > 0 && shared > static_cast<std::size_t>(max_dynamic_shared(function))) {
    return LaunchStatus::too_much_shared;
  }
  const rank::KernelResources& kernel = rank::resources(function);
  if (block.count() > kernel.max_threads) return LaunchStatus::out_of_resources;
  if (!possible(cluster.x ? cluster : kernel.cluster, grid, function)) {
    return LaunchStatus::bad_cluster;
  }
  return LaunchStatus::launched;
}

LaunchStatus launch(Function& function, const rank::LaunchShape& shape, void** arguments,
                    rank::Stream& stream, const KernelQuery::Dim3& cluster) {
  if (stream.device != rank::current_device()) return LaunchStatus::wrong_device;
  const LaunchStatus status = check(function, shape, cluster);
  if (status != LaunchStatus::launched) return status;
  if (rank::capturing(stream)) {
    rank::capture(stream, std::make_shared<KernelWork>(function, shape, arguments));
  } else {
    rank::launch_kernel(function, shape, arguments, stream);
  }
  return LaunchStatus::launched;
}

int blocks_per_sm(const Function& function, int threads, std::size_t dynamic_shared) {
  const rank::KernelResources& kernel = rank::resources(function);
  if (threads < 1 || threads > kernel.max_threads) return 0;
  return phantora::blocks_per_sm(rank::gpu(),
                                 {.threads = threads,
                                  .registers = kernel.registers,
                                  .shared_bytes = kernel.static_shared + dynamic_shared});
}

int clusters_at_once(const Function& function, int threads, std::size_t dynamic_shared,
                     unsigned cluster) {
  const auto size = static_cast<int>(std::max(cluster, 1U));
  const int blocks = blocks_per_sm(function, threads, dynamic_shared);
  const GpuModel& gpu = rank::gpu();
  const bool is_measured = gpu.capability_major == 9 && gpu.sm_count == 132;
  if (!is_measured) return blocks * gpu.sm_count / size;
  // A cluster is on one of the groups of SMs that Hopper has (GPCs). An H100 with one block on each
  // SM has room for 132, 66, 30, 15 and 7 clusters of 1, 2, 4, 8 and 16 (2026-11-27): as seven
  // groups of 16 or 18 SMs and one of 10 have. With more blocks it has up to 3 % more than follows.
  constexpr std::array<int, 8> groups{18, 18, 18, 18, 18, 16, 16, 10};
  int clusters = 0;
  for (const int sms : groups) clusters += sms / size;
  return blocks * clusters;
}

std::optional<std::size_t> dynamic_shared_room(const Function& function, int blocks, int threads) {
  if (blocks < 1 || blocks_per_sm(function, threads, 0) < blocks) return std::nullopt;
  const auto all =
      static_cast<std::size_t>(limit(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR));
  const std::size_t used = rank::resources(function).static_shared;
  // An H200 counts in what the driver keeps of each block (test/native/h200/occupancy.txt). None
  // has more than a kernel can opt in to (cuda_occupancy.h, cudaOccAvailableDynamicSMemPerBlock).
  const auto most =
      static_cast<std::size_t>(limit(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  const std::size_t each = std::min(all / static_cast<std::size_t>(blocks) / 128 * 128, most);
  return each > used ? each - used : 0;
}

}  // namespace phantora::driver
