#include "cuda/nvml/entry.hpp"

#include "channel/handshake.hpp"
#include "rank/runtime/api_call.hpp"

#include <cstdio>
#include <stdexcept>
#include <string>

#include <sys/socket.h>
#include <unistd.h>

namespace phantora::nvml {

PciInfo pci_info(const driver::PciAddress& address) {
  PciInfo info{};
  info.domain = static_cast<unsigned>(address.domain);
  info.bus = static_cast<unsigned>(address.bus);
  info.device = static_cast<unsigned>(address.device);
  std::snprintf(info.bus_id, sizeof info.bus_id, "%08X:%02X:%02X.0", info.domain, info.bus,
                info.device);
  std::snprintf(info.bus_id_legacy, sizeof info.bus_id_legacy, "%04X:%02X:%02X.0",
                info.domain & 0xffffu, info.bus & 0xffu, info.device & 0xffu);
  return info;
}

Look look(int index) {
  // Waiting for the answer is no wait of the program's.
  const rank::ApiCall call{rank::Api::mem_get_info};
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const channel::Address address{rank::settings()->socket + channel::look_suffix};
  std::string text;
  if (connect(socket, address.get(), address.length) == 0) {
    char part[4096];
    for (ssize_t got = 0; (got = recv(socket, part, sizeof part, 0)) > 0;)
      text.append(part, static_cast<std::size_t>(got));
  }
  close(socket);
  const auto run = nlohmann::json::parse(text);
  for (const auto& gpu : run["gpus"])
    if (gpu["host"] == rank::host_name() && gpu["index"] == index) return {run["simulated_s"], gpu};
  throw std::runtime_error{"the run does not know this GPU"};
}

}  // namespace phantora::nvml
