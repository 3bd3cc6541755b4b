#include <phantora/simulation/host_profile.hpp>

#include <array>

namespace phantora {

std::span<const HostProfile> host_presets() {
  static const std::array<HostProfile, 2> presets{{
      // A lent machine of the kind on which the built-in data was measured: 16 cores of a virtual
      // machine with one H200 (driver 580.159.04). The means of two runs, of which the
      // interpreter-like work took 17.6 and 12.2 us (bench/accuracy/h200_host.jsonl). What API
      // calls cost in training steps there was within 15 % of host_cost.hpp, which is of other
      // days (cudaStreamIsCapturing: 1.8 times).
      {.name = "h200",
       .processor = "Intel(R) Xeon(R) Processor",
       .sockets = 1,
       .cores = 16,
       .threads = 16,
       .measured = "by phantora host on 2026-11-22, twice, on a machine with an H200",
       .interpreter_ns = 14'898,
       .allocation_ns = 28'075,
       .memory_ns = 72'430,
       .calls_ns = 288'321},
      // The machine where this is built, with some 20 busy neighbours: its memory is disturbed.
      {.name = "epyc_vm",
       .processor = "AMD EPYC",
       .sockets = 1,
       .cores = 2,
       .threads = 2,
       .measured = "by phantora host on 2026-11-22, on a busy virtual machine without a GPU",
       .interpreter_ns = 11'158,
       .allocation_ns = 19'835,
       .memory_ns = 147'962,
       .calls_ns = {}},
  }};
  return presets;
}

}  // namespace phantora
