// How the GPUs of a host are joined, as the run's cluster has it.
#include "cuda/nvml/entry.hpp"

#include <string>
#include <vector>

using namespace phantora;
using namespace phantora::nvml;

namespace {

enum Level : int {  // nvmlGpuTopologyLevel_t
  internal = 0,     ///< the same GPU
  single = 10,      ///< behind one PCIe switch
  node = 40         ///< behind different ones of one CPU
};

enum P2PStatus : int { p2p_ok = 0, p2p_not_supported = 5 };  // nvmlGpuP2PStatus_t
enum P2PCapability : int {
  reads,
  writes,
  over_nvlink,
  atomics,
  over_pcie
};                                                            // nvmlGpuP2PCapsIndex_t
enum RemoteType : int { remote_gpu = 0, remote_switch = 2 };  // nvmlIntNvLinkDeviceType_t
enum LinkCapability : int {                                   // nvmlNvLinkCapability_t
  p2p_supported,
  system_memory,
  p2p_atomics,
  system_atomics,
  sli_bridge,
  valid,
  link_capabilities
};

/// Where a GPU's NVLinks lead, in the order of their numbers: another GPU's physical index, or the
/// NVSwitch.
constexpr int to_switch = -1;
std::vector<int> links_of(const nlohmann::json& gpu) {
  std::vector<int> links;
  for (const auto& [where, count] : gpu["nvlinks"].items())
    links.insert(links.end(), count.get<std::size_t>(),
                 where == "nvswitch" ? to_switch : std::stoi(where));
  return links;
}

bool joined_by_nvlink(int one, int other) {
  for (const int where : links_of(look(one).gpu))
    if (where == to_switch || where == other) return true;
  return false;
}

Level level_of(int one, int other) {
  if (one == other) return internal;
  return look(one).gpu["pcie_switch"] == look(other).gpu["pcie_switch"] ? single : node;
}

/// Runs `body` with two GPUs' physical indices.
template <class Body>
Status pair_entry(Device one, Device other, Body&& body) noexcept {
  return device_entry(one, [&](int first) {
    return device_entry(other, [&](int second) { return body(first, second); });
  });
}

/// Runs `body` with where one of the GPU's NVLinks leads.
template <class Body>
Status link_entry(Device device, unsigned link, Body&& body) noexcept {
  return device_entry(device, [&](int index) {
    constexpr unsigned most_links = 18;  // NVML_NVLINK_MAX_LINKS
    if (link >= most_links) return invalid_argument;
    const std::vector<int> links = links_of(look(index).gpu);
    return link < links.size() ? body(links[link]) : not_supported;
  });
}

}  // namespace

PHANTORA_EXPORT Status nvmlDeviceGetTopologyCommonAncestor(Device one, Device other, int* level) {
  return pair_entry(one, other, [&](int first, int second) {
    if (!level) return invalid_argument;
    *level = level_of(first, second);
    return success;
  });
}

/// Those whose nearest common ancestor is of that level.
PHANTORA_EXPORT Status nvmlDeviceGetTopologyNearestGpus(Device device, int level, unsigned* count,
                                                        Device* list) {
  return device_entry(device, [&](int index) {
    if (!count) return invalid_argument;
    std::vector<Device> found;
    for (int other = 0; other < rank::physical_device_count(); ++other)
      if (other != index && level_of(index, other) == level) found.push_back(device_of(other));
    for (unsigned i = 0; list && i < *count && i < found.size(); ++i) list[i] = found[i];
    *count = static_cast<unsigned>(found.size());
    return success;
  });
}

PHANTORA_EXPORT Status nvmlDeviceGetP2PStatus(Device one, Device other, int capability,
                                              int* status) {
  return pair_entry(one, other, [&](int first, int second) {
    if (!status || capability < reads || capability > over_pcie) return invalid_argument;
    const bool by_nvlink = capability == over_nvlink || capability == atomics;
    *status = first == second || !by_nvlink || joined_by_nvlink(first, second) ? p2p_ok
                                                                               : p2p_not_supported;
    return success;
  });
}

PHANTORA_EXPORT Status nvmlDeviceGetNvLinkState(Device device, unsigned link, int* active) {
  return link_entry(device, link, [&](int) {
    *active = 1;
    return success;
  });
}

PHANTORA_EXPORT Status nvmlDeviceGetNvLinkVersion(Device device, unsigned link, unsigned* version) {
  return link_entry(device, link, [&](int) {
    const int major = rank::gpu().capability_major;
    *version = major >= 10 ? 7 : major == 9 ? 6 : 4;  // NVML_NVLINK_VERSION_5_0, 4_0, 3_0
    return success;
  });
}

/// To the CPU no NVLink leads on the hosts that are simulated, and nobody joins GPUs by SLI.
PHANTORA_EXPORT Status nvmlDeviceGetNvLinkCapability(Device device, unsigned link, int capability,
                                                     unsigned* result) {
  return link_entry(device, link, [&](int) {
    if (!result || capability < 0 || capability >= link_capabilities) return invalid_argument;
    *result = capability == p2p_supported || capability == p2p_atomics || capability == valid;
    return success;
  });
}

PHANTORA_EXPORT Status nvmlDeviceGetNvLinkRemoteDeviceType(Device device, unsigned link,
                                                           int* type) {
  return link_entry(device, link, [&](int where) {
    *type = where == to_switch ? remote_switch : remote_gpu;
    return success;
  });
}

PHANTORA_EXPORT Status nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, unsigned link,
                                                           PciInfo* info) {
  return link_entry(device, link, [&](int where) {
    // The host's NVSwitches are one, at an address of no GPU.
    constexpr driver::PciAddress nvswitch{.domain = 0, .bus = 0x05, .device = 0};
    *info = pci_info(where == to_switch ? nvswitch : driver::physical_pci_address(where));
    return success;
  });
}
PHANTORA_EXPORT Status nvmlDeviceGetNvLinkRemotePciInfo(Device device, unsigned link,
                                                        PciInfo* info) {
  return nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, info);
}
