#pragma once

#include "cuda/driver/context.hpp"
#include "rank/runtime/process.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>

/// What the entry points of NVML share.
namespace phantora::nvml {

#define PHANTORA_EXPORT extern "C" __attribute__((visibility("default")))

enum Status : int {  // nvmlReturn_t
  success = 0,
  uninitialized = 1,
  invalid_argument = 2,
  not_supported = 3,
  not_found = 6,
  insufficient_size = 7,
  driver_not_loaded = 9,
  argument_version_mismatch = 25,
  unknown = 999
};

/// An nvmlDevice_t is one more than the physical index, so that none is null.
using Device = void*;
inline int index_of(Device device) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(device)) - 1;
}
inline Device device_of(int index) { return reinterpret_cast<Device>(std::intptr_t{index} + 1); }

struct PciInfo {  // nvmlPciInfo_t
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
PciInfo pci_info(const driver::PciAddress& address);

/// Runs `body` where a GPU is simulated; no exception leaves.
template <class Body>
Status entry(Body&& body) noexcept {
  try {
    if (!rank::simulated()) return driver_not_loaded;
    return body();
  } catch (...) {
    return unknown;
  }
}

/// The same for a function of one device, whose physical index `body` gets.
template <class Body>
Status device_entry(Device device, Body&& body) noexcept {
  return entry([&] {
    const int index = index_of(device);
    if (index < 0 || index >= rank::physical_device_count()) return invalid_argument;
    return body(index);
  });
}

/// What the run tells whoever looks at it (`phantora smi`) of a GPU of this host, and of the
/// instant.
struct Look {
  double simulated_s = 0;
  nlohmann::json gpu{};
};
/// Of the GPU of that physical index.
Look look(int index);

}  // namespace phantora::nvml
