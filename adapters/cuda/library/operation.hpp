#pragma once

#include "rank/runtime/timeline.hpp"

#include <phantora/kernels/kernel_cost_model.hpp>

#include <cstddef>
#include <initializer_list>

namespace phantora::library {

/// Device memory that an operation writes.
struct Output {
  const void* address = nullptr;
  std::size_t bytes = 0;
};

/// Appends an operation that is not executed: it takes its time, and its outputs become unknown.
void submit(rank::Stream& stream, const KernelQuery& query, std::initializer_list<Output> outputs);

/// Makes `output` unknown when the stream gets there.
void forget_later(rank::Stream& stream, Output output);

}  // namespace phantora::library
