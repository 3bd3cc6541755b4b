#pragma once

#include "rank/code/block_schedule.hpp"
#include "rank/code/code_links.hpp"
#include "rank/code/launch_memory.hpp"

#include <phantora/kernels/kernel_cost_model.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

/// What the warps of a launch do, from the kernel's machine code.
namespace phantora::rank {

/// Which words of 4 bytes of constant bank 0 walks of a kernel's code have looked at. What a walk
/// comes to hangs on these alone: structures that are parameters also hold what nobody set, as
/// PyTorch's dividers of dimensions that a tensor does not have.
class ReadConstants {
 public:
  void note(std::size_t at, std::size_t size) {
    const std::size_t end = (at + size + 3) / 4;
    if (words_.size() < end) words_.resize(end);
    for (std::size_t word = at / 4; word < end; ++word) words_[word] = 1;
  }
  [[nodiscard]] bool has(std::size_t at) const {
    return at / 4 < words_.size() && words_[at / 4] != 0;
  }
  /// @return whether `other` has any that were not there.
  bool add(const ReadConstants& other) {
    bool grew = false;
    for (std::size_t word = 0; word < other.words_.size(); ++word) {
      if (other.words_[word] == 0 || has(4 * word)) continue;
      note(4 * word, 4);
      grew = true;
    }
    return grew;
  }

 private:
  std::vector<std::uint8_t> words_{};
};

inline const CodeLinks no_links{};

/// A launch, as the code sees it.
struct CodeLaunch {
  std::span<const std::byte> code;  ///< of sm_70 and later: instructions of 16 bytes
  KernelQuery::Dim3 grid{}, block{};
  /// Constant bank 0: the launch's shape and its parameters, as they lie there.
  std::span<const std::byte> constants;
  const CodeLinks& links = no_links;
  int architecture = 90;
  std::size_t parameters_at = 0;       ///< where they begin there
  int sms = 0;                         ///< that have an L1 cache each; 0: as if none had
  int at_a_time = 0;                   ///< blocks that an SM holds; 0: nobody knows
  double l2_bytes = 0;                 ///< of the L2 cache
  ReadConstants* looked_at = nullptr;  ///< gets what of the constants is looked at
  /// Bytes from an address to the end of the tensor that lies there; 0: nobody knows, or too many
  /// for a cache.
  std::uint64_t (*reach)(std::uint64_t address) = nullptr;
  ReadConstants* tables = nullptr;  ///< gets which pointers that was asked of
  /// Of the writes that TensorEnds noted, those before the launch.
  std::uint64_t writes_before = 0;
  /// Gets asked what is known of the memory that a walk reads; nullptr: nothing is.
  LaunchMemory* known = nullptr;
  /// Whether another GPU's memory shows at an address; nullptr: nowhere. Asked of kernels alone
  /// that wait for other GPUs.
  bool (*is_of_peer)(std::uint64_t address) = nullptr;
};

/// The pointer that lies there in the constants.
inline std::uint64_t pointer_at(std::span<const std::byte> constants, std::size_t at) {
  std::uint64_t address = 0;
  std::memcpy(&address, constants.data() + at, sizeof address);
  return address;
}

/// What the walk of a launch's warps came to: sums over all of its warps, by unit.
struct CodeWork {
  double instructions = 0;  ///< of warps
  double alu = 0;           ///< warp instructions of the integer and logic units
  double fma = 0;           ///< of the FP32 units, which multiply integers at half of their rate
  double fp64 = 0;
  double special = 0;     ///< of the units for transcendental functions and conversions
  double l1_passes = 0;   ///< through L1 and shared memory, of 128 bytes each
  double sectors = 0;     ///< of 32 bytes, to and from the L2 cache
  double half_flops = 0;  ///< of tensor cores, by operand type
  double tf32_flops = 0;
  double eight_flops = 0;     ///< fp8 and int8
  double fp64_flops = 0;      ///< of tensor cores
  double mma_sync = 0;        ///< share of the tensor cores' that warps ask for, not groups of them
  double atomics = 0;         ///< on device memory: of threads that meet in few sectors
  double atomic_sectors = 0;  ///< requests of warps for sectors, where these are many
  double hot_atomics = 0;     ///< requests of warps for the sector that has most
  double local_bytes = 0;     ///< of threads, to and from their stacks
  double lone_sectors = 0;    ///< of `sectors`: read at unknown places, without the one beside
  double partial_sectors = 0;  ///< of `sectors`: written, and not whole
  double partial_lines = 0;    ///< requests' lines that such sectors are in
  double read_bytes = 0;       ///< device memory that is read, however often
  double written_bytes = 0;
  double random_bytes = 0;  ///< more than that which device memory moves for random accesses
  /// Of a block that has the SM for itself: until the last of its warps ends, in the mean, and the
  /// longest of the warps that were looked at.
  double warp_cycles = 0, longest_cycles = 0;
  double warm_cycles = 0;   ///< in the mean where the L2 cache has all that is read
  Unevenness unevenness{};  ///< of products' blocks that are not alike; else not known
  double stack_waits = 0;   ///< how many more in the mean where the L2 cache has the stacks
  double guessed = 0;       ///< share of the instructions in loops whose trips only data tell
  bool roles = false;       ///< warps do other things than each other: they share registers out
  bool by_data = false;     ///< a way or an address came from memory and was not known
  bool knew = false;        ///< something that was read was known
  /// Where it reads and writes, as far as that is told: of a table that is accessed here and there
  /// as many bytes from its beginning as are accessed. By the parameters alone: not told by a walk
  /// with what is known of memory.
  std::vector<AddressRange> read{}, written{};
};

/// Executes the integer part of the code for a sample of the launch's warps. Where what comes from
/// memory is not known, threads whose way depends on it go either way, and loops that end by it are
/// taken to run some times. Loops that count are counted through, not gone through.
/// nullopt where the code is none, or a warp's way too long.
std::optional<CodeWork> walk(const CodeLaunch& launch);

}  // namespace phantora::rank
