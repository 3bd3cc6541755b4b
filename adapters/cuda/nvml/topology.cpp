// How the GPUs of a host are joined, as the run's cluster has it.
#include "cuda/nvml/entry.hpp"
#include "rank/runtime/host_thread.hpp"

#include <cstdint>
#include <optional>
#include <span>
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

/// What the GPU's generation of NVLink is to NVML, and what one link of it carries either way, as
/// `nvidia-smi nvlink --status` tells of a B200, an H100 and an A100.
struct NvLink {
  unsigned version;  ///< NVML_NVLINK_VERSION_5_0 ...
  unsigned megabytes_per_s;
};
NvLink nvlink() {
  const int major = rank::gpu().capability_major;
  return major >= 10 ? NvLink{7, 53'125} : major == 9 ? NvLink{6, 26'562} : NvLink{4, 25'000};
}

/// nvmlFieldValue_t.
struct FieldValue {
  enum Type : int { unsigned_int = 1 };  // nvmlValueType_t
  unsigned field, scope;
  std::int64_t timestamp_us, latency_us;
  Type type;
  Status status;
  std::uint64_t value;
};

/// The value of a field (NVML_FI_DEV_...) of a GPU with so many NVLinks. @param scope  the link,
/// where the field's number does not say which.
std::optional<unsigned> field_of_nvlinks(unsigned field, unsigned scope, std::size_t links) {
  enum : unsigned {  // NVLINK_SPEED_MBPS_L0 to _L5, _COMMON, LINK_COUNT, _L6 to _L11, GET_...
    speed_0 = 84,
    speed_5 = 89,
    speed_of_all = 90,
    link_count = 91,
    speed_6 = 132,
    speed_11 = 137,
    speed = 164,
    state = 165,
    version = 166
  };
  if (field == link_count) return static_cast<unsigned>(links);
  if (field >= speed_0 && field <= speed_5) scope = field - speed_0;
  if (field >= speed_6 && field <= speed_11) scope = field - speed_6 + 6;
  if (field == speed_of_all) scope = 0;
  if (scope >= links) return std::nullopt;
  if (field == state) return 1;
  if (field == version) return nvlink().version;
  const bool asks_speed = field == speed || (field >= speed_0 && field <= speed_of_all) ||
                          (field >= speed_6 && field <= speed_11);
  return asks_speed ? std::optional{nvlink().megabytes_per_s} : std::nullopt;
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
    *version = nvlink().version;
    return success;
  });
}

/// Of what a GPU tells by numbers of fields, its NVLinks are known; each field says so itself.
PHANTORA_EXPORT Status nvmlDeviceGetFieldValues(Device device, int count, FieldValue* values) {
  return device_entry(device, [&](int index) {
    if (!values || count <= 0) return invalid_argument;
    const std::size_t links = links_of(look(index).gpu).size();
    for (FieldValue& value : std::span{values, static_cast<std::size_t>(count)}) {
      const std::optional<unsigned> known = field_of_nvlinks(value.field, value.scope, links);
      value.timestamp_us = rank::virtual_now().time_since_epoch().count() / 1'000'000;
      value.latency_us = 0;
      value.type = FieldValue::unsigned_int;
      value.status = known ? success : not_supported;
      value.value = known.value_or(0);
    }
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
