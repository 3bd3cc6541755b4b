#pragma once

/// What a kernel waits for memory, one time after the other, on the GPUs that were measured.
namespace phantora::detail {

/// A dependent access to memory, as full reductions by one block show: 65536 floats take 7.3 us,
/// 16384 take 3.2 us and 1024 take 1.8 us.
constexpr double round_trip_seconds = 0.5e-6;
/// What the L2 cache answers saves 0.29 us of that (operand_cache.cpp). With all operands there, a
/// thread of multi_tensor_apply_kernel takes 0.19 to 0.25 us for 4 elements of up to 3 lists, one
/// of batch_norm_collect_statistics_kernel 0.24 us for each element.
constexpr double l2_trip_seconds = 0.21e-6;

}  // namespace phantora::detail
