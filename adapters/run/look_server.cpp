#include "run/look_server.hpp"

#include "channel/handshake.hpp"

#include <phantora/error.hpp>
#include <phantora/kernels/gpu_model.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

#include <sys/socket.h>
#include <sys/time.h>

namespace phantora::run {

namespace {

/// How many NVLinks of a GPU lead to each of its neighbours: the NVSwitch, or GPUs of its host by
/// index.
nlohmann::ordered_json nvlinks_of(const Topology& topology, const Host& host, NodeId gpu,
                                  const GpuModel& model) {
  // NVLink 3 and 4 move 25 GB/s per link and direction, NVLink 5 50 (lib/cluster).
  const double of_one = model.capability_major >= 10 ? 50e9 : 25e9;
  auto links = nlohmann::ordered_json::object();
  const auto add = [&](const std::string& where, NodeId neighbour) {
    double rate = 0;
    for (const LinkId link : topology.links_between(gpu, neighbour))
      if (topology.source(link) == gpu) rate += topology.bandwidth(link).bytes_per_second();
    if (rate > 0) links[where] = std::max(1L, std::lround(rate / of_one));
  };
  if (host.nvswitch) add("nvswitch", *host.nvswitch);
  if (host.nvlink_mesh)
    for (std::size_t i = 0; i < host.gpus.size(); ++i)
      if (host.gpus[i] != gpu) add(std::to_string(i), host.gpus[i]);
  return links;
}

/// The PCIe switch that a GPU or a NIC is plugged into; nothing where it is none.
std::string pcie_switch_of(const Topology& topology, NodeId node) {
  for (const LinkId link : topology.links_of(node)) {
    const NodeId other = topology.target(link);
    if (topology.kind(other) == NodeKind::pcie_switch) return topology.name(other);
  }
  return {};
}

}  // namespace

LookServer::LookServer(std::string socket_name, const Cluster& cluster, std::string cluster_name,
                       std::vector<std::string> command, const Session& session,
                       const Engine& engine)
    : cluster_{cluster},
      cluster_name_{std::move(cluster_name)},
      command_{std::move(command)},
      session_{session},
      engine_{engine},
      listener_{socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)},
      busy_then_(cluster.gpus.size()) {
  const channel::Address address{socket_name};
  if (bind(listener_.get(), address.get(), address.length) != 0 ||
      listen(listener_.get(), 16) != 0) {
    throw Error{std::string{"cannot listen for phantora smi: "} + std::strerror(errno)};
  }
}

void LookServer::serve() {
  while (true) {
    const UniqueFd socket{accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)};
    if (socket.get() < 0) return;
    // Who does not read is not waited for.
    const timeval patience{.tv_sec = 0, .tv_usec = 200'000};
    setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    const std::string text = describe();
    std::size_t sent = 0;
    while (sent < text.size()) {
      const ssize_t more = send(socket.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (more <= 0) break;
      sent += static_cast<std::size_t>(more);
    }
  }
}

std::string LookServer::describe() {
  using Json = nlohmann::ordered_json;
  const Time now = session_.now();
  const Duration passed = now - looked_at_;
  Json run{{"command", command_},
           {"cluster", cluster_name_},
           {"simulated_s", to_seconds(now.time_since_epoch())},
           {"gpus", Json::array()}};
  const std::vector<Engine::Resident> residents = engine_.residents();
  for (GpuIndex gpu = 0; gpu < cluster_.gpus.size(); ++gpu) {
    const Host& host = cluster_.host_of(cluster_.gpus[gpu]);
    const GpuModel model = gpu_model(host);
    const auto slot = std::find(host.gpus.begin(), host.gpus.end(), cluster_.gpus[gpu]);
    const Duration busy = session_.use(gpu).busy;
    Json entry{{"host", host.name},
               {"index", slot - host.gpus.begin()},
               {"name", model.name},
               {"memory_used", engine_.used_memory(gpu)},
               {"memory_total", model.memory.count()},
               {"busy_s", to_seconds(busy)},
               {"utilization", nullptr},
               {"nvlinks", nvlinks_of(cluster_.topology, host, cluster_.gpus[gpu], model)},
               {"pcie_switch", pcie_switch_of(cluster_.topology, cluster_.gpus[gpu])},
               {"nic", nullptr},
               {"processes", Json::array()}};
    const auto place = static_cast<std::size_t>(slot - host.gpus.begin());
    if (place < host.nics.size()) entry["nic"] = cluster_.topology.name(host.nics[place]);
    if (passed > Duration{}) {
      entry["utilization"] = static_cast<double>((busy - busy_then_[gpu]).count()) /
                             static_cast<double>(passed.count());
      busy_then_[gpu] = busy;
    }
    for (const Engine::Resident& resident : residents) {
      if (resident.gpu != gpu) continue;
      entry["processes"].push_back(
          {{"pid", resident.pid}, {"rank", resident.rank}, {"memory_used", resident.bytes}});
    }
    run["gpus"].push_back(std::move(entry));
  }
  looked_at_ = now;
  return run.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace phantora::run
