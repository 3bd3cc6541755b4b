#pragma once

#include "rank/memory/cached_operands.hpp"
#include "rank/runtime/timeline.hpp"

#include <phantora/kernels/kernel_cost_model.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace phantora::library {

/// Device memory that an operation writes.
struct Output {
  const void* address = nullptr;
  std::size_t bytes = 0;
};

/// Device memory that an operation reads.
using Input = Output;

/// Appends an operation that is not executed: it takes its time, and its outputs become unknown.
void submit(rank::Stream& stream, KernelQuery query, std::initializer_list<Output> outputs,
            std::initializer_list<Input> inputs = {});
/// The time alone.
void launch(rank::Stream& stream, KernelQuery query, std::span<const Output> outputs,
            std::span<const Input> inputs);

/// Makes `output` unknown when the stream gets there.
void forget_later(rank::Stream& stream, Output output);
/// The same of each of the `count` matrices of so many bytes that a list names, in host memory or
/// on the GPU: where the list itself is unknown there, nothing is done.
void forget_listed_later(rank::Stream& stream, void* const* list, std::int64_t count,
                         std::size_t bytes);

}  // namespace phantora::library
