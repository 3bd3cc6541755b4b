#include <phantora/simulation/host_profile.hpp>

#include <array>

namespace phantora {

std::span<const HostProfile> host_presets() {
  static const std::array<HostProfile, 2> presets{{
      // A lent machine of the kind on which the built-in data was measured: 16 cores of a virtual
      // machine with one H200 (driver 580.159.04), the means of two runs three minutes apart
      // (bench/accuracy/h200_host.jsonl). Its allocations, memory and calls are within 6 % of those
      // of a machine of 2026-11-22, on which what API calls cost in training steps was within 15 %
      // of host_cost.hpp (cudaStreamIsCapturing: 1.8 times).
      {.name = "h200",
       .processor = "Intel(R) Xeon(R) Processor",
       .sockets = 1,
       .cores = 16,
       .threads = 16,
       .measured = "by phantora host on 2026-11-30, twice, on a machine with an H200",
       .interpreter_ns = 16'930,
       .allocation_ns = 28'095,
       .memory_ns = 76'620,
       .calls_ns = 289'750},
      // The machine where this is built.
      {.name = "epyc_vm",
       .processor = "AMD EPYC",
       .sockets = 1,
       .cores = 2,
       .threads = 2,
       .measured = "by phantora host on 2026-11-30, on a virtual machine without a GPU",
       .interpreter_ns = 9'100,
       .allocation_ns = 14'590,
       .memory_ns = 84'620,
       .calls_ns = {}},
  }};
  return presets;
}

}  // namespace phantora
