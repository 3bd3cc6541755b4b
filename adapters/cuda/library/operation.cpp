#include "cuda/library/operation.hpp"

#include "rank/memory/data_queue.hpp"
#include "rank/memory/device_memory.hpp"

#include <cstring>
#include <utility>
#include <vector>

namespace phantora::library {

void launch(rank::Stream& stream, KernelQuery query, std::span<const Output> outputs,
            std::span<const Input> inputs) {
  std::vector<rank::Touched> touched;
  touched.reserve(inputs.size() + outputs.size());
  for (const Input& input : inputs) touched.push_back({input.address, input.bytes, true, false});
  for (const Output& output : outputs)
    touched.push_back({output.address, output.bytes, false, true});
  query.operands = rank::touch_operands(stream.device, touched);
  rank::launch(stream, query);
}

void submit(rank::Stream& stream, KernelQuery query, std::initializer_list<Output> outputs,
            std::initializer_list<Input> inputs) {
  launch(stream, std::move(query), outputs, inputs);
  for (const Output& output : outputs) forget_later(stream, output);
}

void forget_later(rank::Stream& stream, Output output) {
  if (!output.address || !output.bytes) return;
  rank::data::enqueue(stream, [=] {
    rank::forget(const_cast<void*>(output.address), output.bytes, {.name = "a library operation"});
  });
}

void forget_listed_later(rank::Stream& stream, void* const* list, std::int64_t count,
                         std::size_t bytes) {
  rank::data::enqueue(stream, [=] {
    std::vector<void*> matrices(static_cast<std::size_t>(count));
    const std::size_t size = matrices.size() * sizeof(void*);
    if (!rank::is_device_address(list)) {
      std::memcpy(matrices.data(), list, size);
    } else if (rank::known(list, size)) {
      rank::read(matrices.data(), list, size);
    } else {
      return;
    }
    for (void* matrix : matrices) rank::forget(matrix, bytes, {.name = "a library operation"});
  });
}

}  // namespace phantora::library
