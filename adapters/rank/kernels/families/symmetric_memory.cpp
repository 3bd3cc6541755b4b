#include "rank/kernels/kernel_effect.hpp"

#include <array>

/// PyTorch's kernels on memory that ranks map from each other
/// (torch/csrc/distributed/c10d/symm_mem): barriers and signals, and all-reduces that read the
/// peers' buffers. A peer's data are not in this process, so that sums are never known.
namespace phantora::rank {
namespace {

/// Each signal is a word that one rank sets and another clears: afterwards all are as they were,
/// and those of peers are not ours. `words`: how many of them a launch touches for each of `peers`
/// ranks.
std::unique_ptr<Meaning> signals(double words, std::optional<std::size_t> peers) {
  return meaning([words, peers](const Arguments& arguments) -> std::optional<Effect> {
    const auto ranks = peers ? arguments.get<std::int32_t>(*peers) : 1;
    if (ranks < 1) return std::nullopt;
    Effect effect;
    effect.operands.push_back(
        {arguments.pointer(0), static_cast<std::size_t>(ranks) * sizeof(void*), true, false});
    effect.bytes = words * sizeof(std::uint32_t) * ranks;
    effect.priced_by_code = peers.has_value();
    effect.one_sided = !peers;
    return effect;
  });
}

/// An all-reduce: tables of the ranks' buffers and signals, and tensors of this rank alone.
struct AllReduce {
  std::string_view kernel;
  std::optional<std::size_t> output, input;  ///< parameters of this rank's own tensors
  std::size_t numel;                         ///< parameter: elements; the ranks' number is the last
  bool one_shot;  ///< each rank reads all of everybody's, instead of a share
};
constexpr std::array all_reduces{
    AllReduce{"one_shot_all_reduce_kernel", 1, 2, 4, true},
    AllReduce{"two_shot_all_reduce_kernel", 1, std::nullopt, 3, false},
    AllReduce{"two_shot_all_reduce_kernel_inplace", std::nullopt, std::nullopt, 2, false},
};

std::unique_ptr<Meaning> all_reduce(const AllReduce& kind, ElementType type) {
  return meaning([kind, type](const Arguments& arguments) -> std::optional<Effect> {
    const auto ranks = arguments.get<std::uint64_t>(arguments.sizes.size() - 1);
    const std::size_t bytes = arguments.get<std::uint64_t>(kind.numel) * size_of(type);
    Effect effect;
    effect.operands.push_back({arguments.pointer(0), ranks * sizeof(void*), true, false});
    // The shares come to as much as one tensor, read and written.
    double moved = kind.one_shot ? static_cast<double>(ranks) : 2;
    bool into_buffers = !kind.one_shot;
    if (kind.input) {
      if (arguments.pointer(*kind.input) != nullptr) {
        into_buffers = true;  // copied into this rank's buffer first
        moved += 2;
      }
    }
    if (kind.output) {
      effect.operands.push_back({arguments.pointer(*kind.output), bytes, false, true, type});
      moved += kind.one_shot ? 1 : 2;  // from the registers, or from this rank's buffer
    }
    effect.follows_pointers = into_buffers;
    effect.priced_by_code = true;
    effect.bytes = moved * static_cast<double>(bytes);
    return effect;
  });
}

}  // namespace

std::unique_ptr<Meaning> read_symmetric_memory(const Signature& signature, const KernelResources&) {
  const std::string_view kernel = unqualified(signature.kernel.name);
  const auto& parameters = signature.parameters;
  if (parameters.back() == "unsigned long" && parameters.front() == "unsigned int**") {
    // (signal pads, channel, rank, ranks, timeout), (signal pads, other rank, channel, ...)
    if (kernel == "barrier_kernel" && parameters.size() == 5) return signals(2, 3);
    const bool one = kernel == "put_signal_kernel" || kernel == "wait_signal_kernel";
    if (one && parameters.size() == 6) return signals(1, std::nullopt);
  }
  const auto type = element_type_named(signature.kernel.arguments.front());
  if (!type) return nullptr;
  for (const AllReduce& kind : all_reduces) {
    // (buffers[, output[, input]], offset, elements, signal pads, rank, ranks)
    if (kernel == kind.kernel && parameters.size() == kind.numel + 4)
      return all_reduce(kind, *type);
  }
  return nullptr;
}

}  // namespace phantora::rank
