// NVML, as far as programs ask it which GPUs there are. It numbers the host's GPUs and does not
// know CUDA_VISIBLE_DEVICES. A CUDA toolkit may come without nvml.h, so that the few types of its
// documented ABI that are needed are declared here and in entry.hpp.
#include "cuda/nvml/entry.hpp"
#include "rank/runtime/mutex.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include <cuda.h>

using namespace phantora;
using namespace phantora::nvml;

namespace {

struct Memory {  // nvmlMemory_t
  unsigned long long total, free, used;
};
struct MemoryV2 {  // nvmlMemory_v2_t
  unsigned version;
  unsigned long long total, reserved, free, used;
};

struct ProcessInfo {  // nvmlProcessInfo_v1_t
  unsigned pid;
  unsigned long long used;
};
struct ProcessInfoV2 {  // nvmlProcessInfo_v2_t, nvmlProcessInfo_t
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};
struct Utilization {  // nvmlUtilization_t, in per cent
  unsigned gpu, memory;
};

struct FabricInfo {  // nvmlGpuFabricInfo_v3_t; version 2 ends before the summary
  unsigned version;
  unsigned char cluster_uuid[16];
  int status;
  unsigned clique_id;
  unsigned char state;
  unsigned health_mask;
  unsigned char health_summary;
};

Status copy_text(const std::string& text, char* out, unsigned length) {
  if (!out) return invalid_argument;
  if (length <= text.size()) return insufficient_size;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return success;
}

std::string uuid_text(int index) {
  const auto bytes = driver::physical_uuid(index);
  std::string text = "GPU-";
  char hex[3];
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    std::snprintf(hex, sizeof hex, "%02x", bytes[i]);
    text += hex;
  }
  return text;
}

Status memory_of(int index, Memory& out) {
  const int device = rank::visible_device(index);
  if (device < 0) return not_supported;
  const rank::MemoryInfo info = rank::memory_info(device);
  out = {info.total, info.free, info.total - info.free};
  return success;
}

/// Those that hold memory of the GPU, whichever of the run's ranks they are.
template <class Info>
Status running_processes(Device device, unsigned* count, Info* list) {
  return device_entry(device, [&](int index) {
    if (!count) return invalid_argument;
    const auto all = look(index).gpu["processes"];
    const unsigned room = *count;
    *count = static_cast<unsigned>(all.size());
    if (room < all.size()) return insufficient_size;
    for (std::size_t i = 0; i < all.size(); ++i) {
      Info info{};
      info.pid = all[i]["pid"];
      info.used = all[i]["memory_used"];
      if constexpr (requires { info.gpu_instance; }) {
        info.gpu_instance = info.compute_instance = ~0U;  // GPUs are whole
      }
      list[i] = info;
    }
    return success;
  });
}

}  // namespace

PHANTORA_EXPORT Status nvmlInit_v2() {
  return entry([] { return success; });
}
PHANTORA_EXPORT Status nvmlInit() { return nvmlInit_v2(); }
PHANTORA_EXPORT Status nvmlInitWithFlags(unsigned) { return nvmlInit_v2(); }
PHANTORA_EXPORT Status nvmlShutdown() { return success; }

PHANTORA_EXPORT const char* nvmlErrorString(Status status) {
  switch (status) {
    case success:
      return "Success";
    case uninitialized:
      return "Uninitialized";
    case invalid_argument:
      return "Invalid Argument";
    case not_supported:
      return "Not Supported";
    case not_found:
      return "Not Found";
    case insufficient_size:
      return "Insufficient Size";
    case driver_not_loaded:
      return "Driver Not Loaded";
    default:
      return "Unknown Error";
  }
}

PHANTORA_EXPORT Status nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return entry([&] {
    *version = CUDA_VERSION;
    return success;
  });
}
PHANTORA_EXPORT Status nvmlSystemGetCudaDriverVersion(int* version) {
  return nvmlSystemGetCudaDriverVersion_v2(version);
}

PHANTORA_EXPORT Status nvmlSystemGetNVMLVersion(char* text, unsigned length) {
  return entry([&] { return copy_text("13.580.65.06", text, length); });  // CUDA's and the driver's
}

PHANTORA_EXPORT Status nvmlSystemGetDriverVersion(char* text, unsigned length) {
  // The first driver that supports CUDA 13.0 (its release notes, table 3).
  return entry([&] { return copy_text("580.65.06", text, length); });
}

/// No host of ours computes confidentially: environment, feature and tools are off.
struct ConfidentialState {
  unsigned environment, feature, tools;
};
PHANTORA_EXPORT Status nvmlSystemGetConfComputeState(ConfidentialState* state) {
  return entry([&] {
    *state = {};
    return success;
  });
}

struct ConfidentialSettings {  // nvmlSystemConfComputeSettings_v1_t
  unsigned version, environment, feature, tools, several_gpus;
};
PHANTORA_EXPORT Status nvmlSystemGetConfComputeSettings(ConfidentialSettings* settings) {
  return entry([&] {
    constexpr unsigned first_version = sizeof(ConfidentialSettings) | 1U << 24U;
    if (settings == nullptr) return invalid_argument;
    if (settings->version != first_version) return argument_version_mismatch;
    *settings = {first_version, 0, 0, 0, 0};
    return success;
  });
}

PHANTORA_EXPORT Status nvmlDeviceGetCount_v2(unsigned* count) {
  return entry([&] {
    *count = static_cast<unsigned>(rank::physical_device_count());
    return success;
  });
}
PHANTORA_EXPORT Status nvmlDeviceGetCount(unsigned* count) { return nvmlDeviceGetCount_v2(count); }

PHANTORA_EXPORT Status nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  return entry([&] {
    if (index >= static_cast<unsigned>(rank::physical_device_count())) return invalid_argument;
    *device = device_of(static_cast<int>(index));
    return success;
  });
}
PHANTORA_EXPORT Status nvmlDeviceGetHandleByIndex(unsigned index, Device* device) {
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}

PHANTORA_EXPORT Status nvmlDeviceGetHandleByUUID(const char* uuid, Device* device) {
  return entry([&] {
    for (int index = 0; index < rank::physical_device_count(); ++index) {
      if (uuid_text(index) == uuid) {
        *device = device_of(index);
        return success;
      }
    }
    return not_found;
  });
}

PHANTORA_EXPORT Status nvmlDeviceGetHandleByPciBusId_v2(const char* text, Device* device) {
  return entry([&] {
    unsigned domain = 0, bus = 0, slot = 0;
    if (!text || std::sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3) return invalid_argument;
    for (int index = 0; index < rank::physical_device_count(); ++index) {
      const driver::PciAddress address = driver::physical_pci_address(index);
      if (static_cast<unsigned>(address.bus) == bus &&
          static_cast<unsigned>(address.domain) == domain &&
          static_cast<unsigned>(address.device) == slot) {
        *device = device_of(index);
        return success;
      }
    }
    return not_found;
  });
}
PHANTORA_EXPORT Status nvmlDeviceGetHandleByPciBusId(const char* text, Device* device) {
  return nvmlDeviceGetHandleByPciBusId_v2(text, device);
}

PHANTORA_EXPORT Status nvmlDeviceGetName(Device device, char* text, unsigned length) {
  return device_entry(device, [&](int) { return copy_text(rank::gpu().name, text, length); });
}

PHANTORA_EXPORT Status nvmlDeviceGetUUID(Device device, char* text, unsigned length) {
  return device_entry(device, [&](int index) { return copy_text(uuid_text(index), text, length); });
}

PHANTORA_EXPORT Status nvmlDeviceGetIndex(Device device, unsigned* out) {
  return device_entry(device, [&](int index) {
    *out = static_cast<unsigned>(index);
    return success;
  });
}
PHANTORA_EXPORT Status nvmlDeviceGetMinorNumber(Device device, unsigned* out) {
  return nvmlDeviceGetIndex(device, out);
}

PHANTORA_EXPORT Status nvmlDeviceGetPciInfo_v3(Device device, PciInfo* info) {
  return device_entry(device, [&](int index) {
    *info = pci_info(driver::physical_pci_address(index));
    return success;
  });
}
PHANTORA_EXPORT Status nvmlDeviceGetPciInfo_v2(Device device, PciInfo* info) {
  return nvmlDeviceGetPciInfo_v3(device, info);
}
PHANTORA_EXPORT Status nvmlDeviceGetPciInfo(Device device, PciInfo* info) {
  return nvmlDeviceGetPciInfo_v3(device, info);
}

// A x16 slot of 2.5, 5, 8, 16, 32 ... gigatransfers a second and lane is of generation 1, 2, 3,
// 4, 5.
PHANTORA_EXPORT Status nvmlDeviceGetCurrPcieLinkGeneration(Device device, unsigned* out) {
  return device_entry(device, [&](int) {
    constexpr double bits = 8, lanes = 16, of_first = 2e9;
    const double transfers = rank::gpu().pcie.bytes_per_second() * bits / lanes;
    *out = static_cast<unsigned>(std::lround(std::log2(transfers / of_first))) + 1;
    return success;
  });
}
PHANTORA_EXPORT Status nvmlDeviceGetMaxPcieLinkGeneration(Device device, unsigned* out) {
  return nvmlDeviceGetCurrPcieLinkGeneration(device, out);
}
PHANTORA_EXPORT Status nvmlDeviceGetGpuMaxPcieLinkGeneration(Device device, unsigned* out) {
  return nvmlDeviceGetCurrPcieLinkGeneration(device, out);
}
PHANTORA_EXPORT Status nvmlDeviceGetCurrPcieLinkWidth(Device device, unsigned* out) {
  return device_entry(device, [&](int) {
    *out = 16;
    return success;
  });
}
PHANTORA_EXPORT Status nvmlDeviceGetMaxPcieLinkWidth(Device device, unsigned* out) {
  return nvmlDeviceGetCurrPcieLinkWidth(device, out);
}

PHANTORA_EXPORT Status nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
  return device_entry(device, [&](int index) { return memory_of(index, *memory); });
}

PHANTORA_EXPORT Status nvmlDeviceGetMemoryInfo_v2(Device device, MemoryV2* memory) {
  return device_entry(device, [&](int index) {
    Memory plain{};
    const Status status = memory_of(index, plain);
    memory->total = plain.total;
    memory->reserved = 0;
    memory->free = plain.free;
    memory->used = plain.used;
    return status;
  });
}

PHANTORA_EXPORT Status nvmlDeviceGetCudaComputeCapability(Device device, int* major, int* minor) {
  return device_entry(device, [&](int) {
    *major = rank::gpu().capability_major;
    *minor = rank::gpu().capability_minor;
    return success;
  });
}

PHANTORA_EXPORT Status nvmlDeviceGetMigMode(Device device, unsigned* current, unsigned* pending) {
  return device_entry(device, [&](int) {
    *current = *pending = 0;  // NVML_DEVICE_MIG_DISABLE
    return success;
  });
}

PHANTORA_EXPORT Status nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count,
                                                               ProcessInfoV2* list) {
  return running_processes(device, count, list);
}
PHANTORA_EXPORT Status nvmlDeviceGetComputeRunningProcesses_v2(Device device, unsigned* count,
                                                               ProcessInfoV2* list) {
  return running_processes(device, count, list);
}
PHANTORA_EXPORT Status nvmlDeviceGetComputeRunningProcesses(Device device, unsigned* count,
                                                            ProcessInfo* list) {
  return running_processes(device, count, list);
}

PHANTORA_EXPORT Status nvmlDeviceGetGraphicsRunningProcesses_v3(Device device, unsigned* count,
                                                                ProcessInfoV2*) {
  return device_entry(device, [&](int) {
    *count = 0;
    return success;
  });
}
PHANTORA_EXPORT Status nvmlDeviceGetGraphicsRunningProcesses_v2(Device device, unsigned* count,
                                                                ProcessInfoV2* list) {
  return nvmlDeviceGetGraphicsRunningProcesses_v3(device, count, list);
}

PHANTORA_EXPORT Status nvmlSystemGetProcessName(unsigned pid, char* name, unsigned length) {
  return entry([&] {
    std::ifstream file{"/proc/" + std::to_string(pid) + "/comm"};
    std::string text;
    if (!std::getline(file, text)) return not_found;
    return copy_text(text, name, length);
  });
}

/// Of simulated time, since this process last asked. How much the memory did is not kept apart.
PHANTORA_EXPORT Status nvmlDeviceGetUtilizationRates(Device device, Utilization* out) {
  return device_entry(device, [&](int index) {
    if (!out) return invalid_argument;
    struct Instant {
      double simulated_s = 0, busy_s = 0;
    };
    static rank::Mutex mutex;
    static auto& last = *new std::map<int, Instant>;
    const Look seen = look(index);
    const Instant now{seen.simulated_s, seen.gpu["busy_s"]};
    const std::lock_guard lock{mutex};
    const Instant before = std::exchange(last[index], now);
    const double passed = now.simulated_s - before.simulated_s;
    const double share = passed > 0 ? (now.busy_s - before.busy_s) / passed : 0;
    *out = {.gpu = static_cast<unsigned>(100 * std::clamp(share, 0.0, 1.0)), .memory = 0};
    return success;
  });
}

// What a simulated GPU has none of.
#define PHANTORA_NOT_THERE(function, ...) \
  PHANTORA_EXPORT Status function(Device, __VA_ARGS__) { return not_supported; }
PHANTORA_NOT_THERE(nvmlDeviceGetPowerUsage, unsigned*)
PHANTORA_NOT_THERE(nvmlDeviceGetEnforcedPowerLimit, unsigned*)
PHANTORA_NOT_THERE(nvmlDeviceGetPowerManagementLimit, unsigned*)
PHANTORA_NOT_THERE(nvmlDeviceGetTotalEnergyConsumption, unsigned long long*)
PHANTORA_NOT_THERE(nvmlDeviceGetTemperature, int, unsigned*)
PHANTORA_NOT_THERE(nvmlDeviceGetFanSpeed, unsigned*)
PHANTORA_NOT_THERE(nvmlDeviceGetClockInfo, int, unsigned*)
#undef PHANTORA_NOT_THERE

/// NVLink between hosts, as of NVL72. None of the simulated GPUs has it.
PHANTORA_EXPORT Status nvmlDeviceGetGpuFabricInfoV(Device device, FabricInfo* info) {
  return device_entry(device, [&](int) {
    if (!info) return invalid_argument;
    const unsigned version = info->version >> 24U, size = info->version & 0xffffffU;
    if (version < 2 || version > 3 || size > sizeof *info) return argument_version_mismatch;
    std::memset(&info->cluster_uuid, 0, size - sizeof info->version);
    return success;  // state 0: NVML_GPU_FABRIC_STATE_NOT_SUPPORTED
  });
}
