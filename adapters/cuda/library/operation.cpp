#include "cuda/library/operation.hpp"

#include "rank/memory/data_queue.hpp"
#include "rank/memory/device_memory.hpp"

namespace phantora::library {

void submit(rank::Stream& stream, const KernelQuery& query, std::initializer_list<Output> outputs) {
  rank::launch(stream, query);
  for (const Output& output : outputs) forget_later(stream, output);
}

void forget_later(rank::Stream& stream, Output output) {
  if (!output.address || !output.bytes) return;
  rank::data::enqueue(stream, [=] {
    rank::forget(const_cast<void*>(output.address), output.bytes, {.name = "a library operation"});
  });
}

}  // namespace phantora::library
