#pragma once

#include <phantora/units.hpp>

namespace phantora {

/// How a GPU's streams behave in time. Defaults are measured on an H200: the gap and the latency
/// are medians in a trace of two GPT-2 steps (lib/kernels/README.md); what kernels and collectives
/// cost one another beyond the SMs that a collective holds is fitted on overlapped kernels and
/// collectives of 2 and 4 GPUs (bench/accuracy/README.md).
struct DeviceTiming {
  /// From the end of a launch call to the start of the kernel on an idle stream.
  Duration launch_latency{1'500'000};
  /// Between two kernels of a stream whose second was queued in time.
  Duration kernel_gap{1'400'000};
  /// From the end of what a kernel of a CUDA graph follows there to its start: 0.82 us less than in
  /// a stream, as chains of 400 kernels of 10 us on an H200 (bench/accuracy/h200_graphs.jsonl).
  Duration graph_gap{580'000};
  /// What kernels of tensor cores lose to a collective beside its SMs: their blocks come in
  /// clusters and in whole waves, for which the SMs that are left do not work out.
  double broken_waves = 1.2;
  /// A collective slows by this much more where kernels draw all of the memory's bandwidth.
  double memory_contention = 1.0;
  /// The clock follows the power of about this long: the first 150 ms of products at full power are
  /// 0.71 of what they lose for good slower (bench/accuracy/h200_power.jsonl).
  Duration power_window{50'000'000'000};
  /// Kernels of tensor cores take (power / limit)^this times as long where power exceeds the limit;
  /// fitted on products that alone or among copies take 1.01 to 1.49 times what the limit allows.
  double power_exponent = 0.44;
  /// Copies to and from the device at once slow each other by this: 5.76 and 5.26 ms where each
  /// alone takes 4.85 (bench/accuracy/h200_user_kernels.jsonl, "h2d, d2h").
  double both_ways = 1.14;
  /// Share of the memory's bandwidth that a copy and what runs beside it attain together: 4.4 of
  /// 4.8 TB/s ("d2d, d2d" and "kernel, d2d" there).
  double attained_memory = 0.92;
};

}  // namespace phantora
