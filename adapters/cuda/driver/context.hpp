#pragma once

#include <array>
#include <cstdint>
#include <string>

/// What the runtime API and the driver API share: contexts and identities of devices.
namespace phantora::driver {

/// Makes sure that `device`'s primary context exists; the first call takes the context's own device
/// memory from the ledger.
/// @return false if the GPU has not that much memory left.
bool activate(int device);
bool active(int device) noexcept;
/// Gives the context's memory back (cudaDeviceReset).
void deactivate(int device);

/// PCI address of a GPU, made up but the same for every process of the host.
struct PciAddress {
  int domain = 0, bus = 0, device = 0;
};
PciAddress physical_pci_address(int physical_device);
PciAddress pci_address(int device);                ///< of a visible device
std::string to_string(const PciAddress& address);  // "0000:1b:00.0"
/// The visible device at `text`, -1 if none is there.
int device_at(const std::string& text);

/// A UUID made from the host's name and the physical index.
std::array<unsigned char, 16> physical_uuid(int physical_device);
std::array<unsigned char, 16> uuid(int device);  ///< of a visible device

}  // namespace phantora::driver
