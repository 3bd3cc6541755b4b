#pragma once

#include <phantora/simulation/workload.hpp>

#include <cstdint>

namespace phantora {

/// The workload with `factor` times as many data-parallel replicas: copies of its ranks that follow
/// one another, so that rank r of copy c is rank c * rank_count() + r.
///
/// What ranks of one replica do with each other they do in each copy. A group with ranks of several
/// replicas is data-parallel: the copies' ranks join it, and its collectives keep their sizes, as
/// Communicator::plan() counts them. That is how the gradients of DistributedDataParallel and the
/// gathered parameters and scattered gradients of sharded data parallelism (FSDP, ZeRO) behave, but
/// for padding.
///
/// What is not told, and stays as it was: kernels and memory of shards, which with more replicas
/// are smaller (but see below); messages between replicas, which stay within their copy; a batch,
/// which grows with them.
///
/// @param replica  ranks of one replica, as many as follow one another: 1 without model
/// parallelism,
///   else the product of its dimensions, where data parallelism is the outermost.
/// @throws ArgumentError if it does not divide the number of ranks, or the factor is 0 or more than
///   workloads have ranks.
Workload widen(const Workload& workload, std::uint32_t factor, Rank replica = 1);

/// The same, with sizes that follow the number of replicas, as a second workload tells: the same
/// job of fewer. Kernels and collectives of each stream are compared in their order. A size that is
/// equal in both stays; one that is less with more replicas, as of a shard, goes on falling with
/// the inverse of their number; one that is greater, as of what is gathered of each, goes on
/// growing with it. All of these are exact for a + b / n and a + b n. So does the most memory that
/// a rank holds of what has a label.
///
/// Memory without a label, which a record has, is taken to be segments of PyTorch's allocator as
/// they stood at the peak. One that both workloads have stays. Others that hold one tensor each, of
/// 10 MiB or more, fall as that does, in whole 2 MiB; those of 20 and of 2 MiB, which smaller
/// tensors share, fall in number. That is exact where the allocator has gone over from the one to
/// the other before, or does not on the way; what shards find free of other segments is told only
/// where `workload` has it already, and else the result is too much (by a tenth, of FSDP2 with 2
/// and 4 replicas, whose shards of 16 MiB become 8 MiB).
///
/// @param narrower  of whole replicas, fewer than `workload`.
/// @throws ArgumentError as above; also if the two do not do the same in the same order, naming
///   rank, stream and kernel.
Workload widen(const Workload& workload, std::uint32_t factor, Rank replica,
               const Workload& narrower);

}  // namespace phantora
