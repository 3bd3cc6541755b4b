#pragma once

#include "rank/code/module_code.hpp"
#include "rank/kernels/assumed_choice.hpp"
#include "rank/kernels/families/grouped_product.hpp"
#include "rank/memory/cached_operands.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/memory/host_reach.hpp"
#include "rank/memory/last_writer.hpp"
#include "rank/memory/tensor_ends.hpp"
#include "rank/memory/transfers.hpp"
#include "rank/memory/unknown_reads.hpp"
#include "rank/runtime/process.hpp"

#include <atomic>
#include <cstddef>

namespace phantora::rank {

/// What a process knows of its GPUs' memory and of the kernels that change it: a part of its Rank
/// object.
struct SmallData {
  WriterLog writers;
  TensorEnds tensor_ends;
  DeviceMemory memory{{reserve_memory, release_memory}, writers};
  HostReach host_reach;
  ToldPlaces told_places;
  AssumedChoices choices;
  ModuleCode code;
  TransferQueries transfers;
  CachedOperands cached;
  /// Indices of the embedding's gradient that is being computed: the kernels of one gradient are
  /// launched one after the other, and only some are told.
  std::atomic<std::size_t> gradient_indices{0};
  LastGroupedProduct grouped;
};

/// This process's.
SmallData& small_data() noexcept;

}  // namespace phantora::rank
