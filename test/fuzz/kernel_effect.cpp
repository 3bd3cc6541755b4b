#include "rank/kernels/kernel_effect.hpp"

#include "fuzz.hpp"
#include "rank_fakes.hpp"

#include <cmath>
#include <string>
#include <vector>

namespace {

using namespace phantora::rank;

constexpr std::size_t memory_size = 64 * 1024;
/// In place of an address of device memory, which changes from run to run: its offset, and this in
/// the upper half.
constexpr std::uint32_t pointer_mark = 0x44444444;

/// Numbers of 16 bits, two to a word: products of a tensor's lengths do not wrap in real launches.
constexpr std::uint64_t plausible = 0x0000ffff'0000ffff;

std::byte* memory() {
  static auto* const address = static_cast<std::byte*>(allocate(0, memory_size));
  return address;
}

constexpr Reader readers[] = {
    read_elementwise,   read_reduction, read_multi_tensor, read_range,
    read_concatenation, read_indexing,  read_selection,    read_scan,
    read_sort,          read_random,    read_batch_norm,   read_rowwise,
    read_attention,     read_lookup,    read_embedding,    read_pooling,
};

}  // namespace

// A launch: a line with the kernel's demangled name, then its shape, then each parameter behind its
// size. The parameters need not be what the name says.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace phantora;
  fuzz::Input input{data, size};
  const std::string name{input.line()};
  const Signature parts = signature(name);
  const auto dimension = [&] { return std::max<std::uint32_t>(1, input.take<std::uint16_t>()); };
  LaunchShape shape;
  shape.grid = {dimension(), dimension(), dimension()};
  shape.block = {dimension(), dimension(), dimension()};
  KernelResources resources;
  std::vector<std::vector<std::uint64_t>> values;  // aligned as the program's are
  while (!input.empty() && values.size() < 64) {
    const std::size_t bytes = input.take<std::uint16_t>() % 4097;
    auto& value = values.emplace_back((bytes + 7) / 8);
    const std::string_view given = input.take(bytes);
    std::copy(given.begin(), given.end(), reinterpret_cast<char*>(value.data()));
    for (std::uint64_t& word : value)
      word = word >> 32U == pointer_mark
                 ? reinterpret_cast<std::uint64_t>(memory() + (word & 0xffffffffU) % memory_size)
                 : word & plausible;
    resources.parameter_sizes.push_back(static_cast<std::uint32_t>(bytes));
  }
  std::vector<void*> parameters;
  for (auto& value : values) parameters.push_back(value.data());

  fill(memory(), 0, memory_size / 2);  // one half known, the other not
  forget(memory() + memory_size / 2, memory_size / 2);
  for (const Reader read : readers) {
    const auto meaning = read(parts, resources);
    if (!meaning) continue;
    const auto effect = meaning->effect({parameters.data(), resources.parameter_sizes, shape});
    if (!effect) continue;
    fuzz::expect(std::isfinite(effect->bytes) && effect->bytes >= 0, "traffic is finite", name);
    fuzz::expect(std::isfinite(effect->flops) && effect->flops >= 0, "work is finite", name);
    apply(*effect);
  }
  return 0;
}
