#include "cuda/driver/context.hpp"

#include "cuda/driver/driver_state.hpp"
#include "rank/runtime/process.hpp"

#include <cstdio>

namespace phantora::driver {

bool activate(int device) { return driver_state().contexts.activate(device); }
bool active(int device) noexcept { return driver_state().contexts.active(device); }
void deactivate(int device) { driver_state().contexts.deactivate(device); }

PciAddress pci_address(int device) { return physical_pci_address(rank::physical_device(device)); }

PciAddress physical_pci_address(int physical_device) {
  // One bus per GPU, in order of the physical index, as on an HGX board.
  return {.domain = 0, .bus = 0x10 * (physical_device + 1) + 0xb, .device = 0};
}

std::string to_string(const PciAddress& address) {
  char text[32];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.0", static_cast<unsigned>(address.domain),
                static_cast<unsigned>(address.bus), static_cast<unsigned>(address.device));
  return text;
}

int device_at(const std::string& text) {
  unsigned domain = 0, bus = 0, slot = 0;
  if (std::sscanf(text.c_str(), "%x:%x:%x", &domain, &bus, &slot) != 3) {
    domain = 0;
    if (std::sscanf(text.c_str(), "%x:%x", &bus, &slot) != 2) return -1;
  }
  for (int device = 0; device < rank::device_count(); ++device) {
    const PciAddress address = pci_address(device);
    if (static_cast<int>(domain) == address.domain && static_cast<int>(bus) == address.bus &&
        static_cast<int>(slot) == address.device) {
      return device;
    }
  }
  return -1;
}

std::array<unsigned char, 16> uuid(int device) {
  return physical_uuid(rank::physical_device(device));
}

std::array<unsigned char, 16> physical_uuid(int physical_device) {
  // FNV-1a of host name and index, once per half with another start.
  const std::string name = rank::host_name() + '/' + std::to_string(physical_device);
  std::array<unsigned char, 16> bytes{};
  for (std::size_t half = 0; half < 2; ++half) {
    std::uint64_t hash = 0xcbf29ce484222325u + half;
    for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    for (std::size_t i = 0; i < 8; ++i)
      bytes[half * 8 + i] = static_cast<unsigned char>(hash >> (8 * i));
  }
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0f) | 0x40);  // RFC 9562, version 4
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3f) | 0x80);
  return bytes;
}

}  // namespace phantora::driver
