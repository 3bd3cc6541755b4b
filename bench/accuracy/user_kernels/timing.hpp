#pragma once

// Launches timed by events, and a line of JSON for each.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include <cuda_runtime.h>

inline void must(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}
#define MUST(call) must(call, #call)

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Microseconds of one launch, of `count` back to back: the median of five rounds.
inline double timed(const std::function<void()>& launch, int count) {
  cudaEvent_t start, stop;
  MUST(cudaEventCreate(&start));
  MUST(cudaEventCreate(&stop));
  for (int i = 0; i < 3; ++i) launch();
  MUST(cudaGetLastError());
  MUST(cudaDeviceSynchronize());
  std::vector<double> rounds;
  for (int round = 0; round < 5; ++round) {
    MUST(cudaEventRecord(start));
    for (int i = 0; i < count; ++i) launch();
    MUST(cudaEventRecord(stop));
    MUST(cudaEventSynchronize(stop));
    float ms = 0;
    MUST(cudaEventElapsedTime(&ms, start, stop));
    rounds.push_back(1000.0 * ms / count);
  }
  MUST(cudaEventDestroy(start));
  MUST(cudaEventDestroy(stop));
  return median(rounds);
}

inline void show(const char* kernel, long size, double us, double flops, const char* units,
                 double bytes) {
  std::printf(
      "{\"kernel\": \"%s\", \"size\": %ld, \"us\": %.3f, \"flops\": %.0f, \"units\": \"%s\", "
      "\"bytes\": %.0f}\n",
      kernel, size, us, flops, units, bytes);
  std::fflush(stdout);
}

inline unsigned blocks_of(long n, int threads) {
  return static_cast<unsigned>((n + threads - 1) / threads);
}
