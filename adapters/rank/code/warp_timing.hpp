#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

/// When a warp's instructions issue, and what they wait for: results, copies, products, pipes.
namespace phantora::rank::code {

// Cycles until the result of what takes as long as it takes. Others are in the stall counts that
// the compiler wrote. Shared memory: Luo et al., "Dissecting the NVIDIA Hopper Architecture through
// Microbenchmarking" (2024). Device memory under load: half a microsecond, as full reductions by
// one block show (round_trip_seconds of lib/kernels/roofline.cpp).
inline constexpr double shared_latency = 29;
inline constexpr double memory_latency = 900;
/// Of what the L2 cache answers: 0.21 us, where memory takes 0.5 (lib/kernels/README.md, "Loads one
/// after the other").
inline constexpr double l2_latency = 0.42 * memory_latency;
/// Of what another GPU answers over NVLink: 1.04 us. An all-reduce of vLLM's reads 283 GB/s with 36
/// blocks of 512 threads that have 16 bytes on the way each, one of PyTorch's 189 GB/s with 24
/// (bench/accuracy/h200_peer_memory.jsonl).
inline constexpr double peer_latency = 1.04 / 0.5 * memory_latency;
/// Until this GPU sees in its L2 cache what another has told, which is on the way half as long.
inline constexpr double told_latency = 0.5 * peer_latency + l2_latency;
inline constexpr double special_latency = 20;
inline constexpr double matrix_latency = 33;
inline constexpr double barrier_cycles = 25;
inline constexpr double schedulers = 4;  ///< of an SM
/// What an SM gets from the L2 cache in a cycle (l2_bytes of lib/kernels/code_roofline.cpp).
inline constexpr double l2_bytes_per_cycle = 64;
/// What an SM's tensor cores read of its shared memory in a cycle.
inline constexpr double shared_bytes_per_cycle = 128;

/// Who gives an instruction's result.
enum class Giver : std::uint8_t {
  unit,    ///< of the SM: after the latency that is told
  memory,  ///< beyond L1
  stack    ///< the thread's own memory, which L1 keeps if there is room
};

/// What an instruction asks of the SM.
struct Asked {
  static constexpr std::size_t pipes = 6;
  static constexpr unsigned no_scoreboard = 7;

  /// How long each pipe of a scheduler's part of the SM is busy, cycles, for all warps that go side
  /// by side.
  std::array<double, pipes> busy{};
  Giver giver = Giver::unit;
  double latency = 0;   ///< of a unit or the stack, cycles; 0: what takes as long is in `stall`
  double received = 0;  ///< cycles in which the L2 cache sends what the block asks for
  bool copies = false;  ///< to shared memory, which is waited for by groups
  bool ends_copies = false;                                ///< is of a group of copies the last
  unsigned writes = no_scoreboard, reads = no_scoreboard;  ///< scoreboards told when that is done
  double stall = 1;  ///< cycles until the warp's next instruction, at least
};

/// A warp's clock under one assumption of what answers its loads.
class Timing {
 public:
  struct Answers {
    double memory = memory_latency;  ///< cycles of what goes beyond L1
    double stack = 0;                ///< cycles that stacks take longer than from L1
  };
  explicit Timing(Answers answers) : answers_(answers) {}

  /// Cycles since the warp began.
  [[nodiscard]] double clock() const { return clock_; }
  void pause(double cycles) { clock_ += cycles; }
  /// Until the first load of something comes.
  void pause_for_memory() { clock_ += answers_.memory; }

  /// For what these scoreboards, a bit for each, say to be on its way.
  void wait(unsigned scoreboards);
  /// All groups of copies `but` the last ones are there.
  void wait_for_copies(std::size_t but);
  /// All groups of the warp group's products `but` the last ones are done.
  void wait_for_products(std::size_t but);

  void issue(const Asked& asked);
  /// The tensor cores multiply for the warp group, after what they do already.
  void multiply(double cycles, bool ends_group);

  /// As much later in everything: loops that go on as they did.
  void skip(double cycles);

 private:
  Answers answers_;
  double clock_ = 0;
  std::array<double, 6> scoreboards_{};
  std::array<double, Asked::pipes> pipes_free_{};  ///< from when on each takes something new
  double port_free_ = 0;     ///< from when on the L2 cache sends the block something new
  double copies_ready_ = 0;  ///< all that were begun
  double products_end_ = 0;  ///< all that were begun
  std::vector<double> groups_of_copies_{}, groups_of_products_{};  ///< when each is done, in order
};

}  // namespace phantora::rank::code
