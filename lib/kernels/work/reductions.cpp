#include "kernels/work/launch.hpp"

#include <algorithm>
#include <cmath>

namespace phantora::detail {

namespace {

/// Sets the round trips to memory that a reduction makes one after the other.
void set_trips(KernelWork& work, const Launch& launch) {
  const KernelQuery& query = launch.query;
  const auto& arguments = launch.signature.arguments;
  const double elements = launch.numel > 0.0 ? launch.numel : work.bytes / launch.size;
  const double elements_per_thread = elements / launch.threads;
  // reduce_kernel<threads, outputs per thread, ...> keeps 4 loads in flight, of one vector each:
  // 4 elements of a row, as many as outputs where several columns are added at once, and one where
  // the inputs of a result lie in several dimensions. The threads of a block share a row, or with
  // several outputs per thread, block.y rows.
  const double outputs = arguments.size() > 1 ? std::max(1.0, leading_integer(arguments[1])) : 1.0;
  const double vector = outputs > 1.0 ? outputs : scattered_inputs(query) ? 1.0 : 4.0;
  work.round_trips = std::ceil(elements_per_thread / (4.0 * vector));
  if (query.grid->y == 1) return;
  // Then the last of the grid.y blocks that share a result adds their partial sums, which are in
  // the L2 cache: a column sum with 128 / 4 of them takes 17 us, where its loads take 3.
  const double adders =
      outputs > 1.0 ? query.block.y : static_cast<double>(query.block.x) * query.block.y;
  const double loads = std::ceil(query.grid->y / adders);
  work.partial_trips = 0.7 * (3.0 + loads);
  work.round_trips += work.partial_trips;
  // A block has room for more columns than are left: its other threads add what was never written.
  const double results = feature(query, "rows", 0.0), room = query.block.x * outputs;
  if (outputs > 1.0 && std::fmod(results, room) > 0.0) work.unwritten_loads = loads;
}

}  // namespace

bool scattered_inputs(const KernelQuery& query) { return feature(query, "dims", 1.0) > 1.0; }

void reduce(KernelWork& work, const Launch& launch) {
  if (!launch.is_reduction() || !launch.query.grid) return;
  set_trips(work, launch);
  // What blocks find out of their place and exchange takes as long as the start of several: the
  // least that one of 233 launches of 2,000 blocks and more takes of the whole H200 is 3.3, 2.05
  // and 1.53 ns for 512, 256 and 128 threads.
  constexpr double starts_of_block = 1.5, starts_of_thread = 0.0083;
  work.starts = starts_of_block * launch.blocks + starts_of_thread * launch.threads;
  // The place of each element is found by divisions: elementwise_kernel, which does that for two
  // operands at once, takes 3 ps for each.
  constexpr double scattered_ps = 1.5;
  if (!scattered_inputs(launch.query) || launch.numel <= 0.0) return;
  work.arithmetic = Arithmetic::fp32;
  work.flops = flops_per_ps * scattered_ps * launch.numel;
}

}  // namespace phantora::detail
