#include "values.hpp"

#include <phantora/cluster/cluster.hpp>
#include <phantora/error.hpp>
#include <phantora/network/flow_network.hpp>

#include <cmath>
#include <limits>

namespace phantora::python {
namespace {

/// Flows between GPUs of a cluster.
class Flows {
 public:
  explicit Flows(const Cluster& cluster)
      : cluster_{cluster}, network_{cluster.topology.view(cluster.routing)} {
    schedule_failures(cluster_, network_);
  }

  std::size_t start(std::uint32_t source, std::uint32_t target, const Size& size, double at,
                    std::uint64_t key) {
    PHANTORA_EXPECTS(source < cluster_.gpus.size() && target < cluster_.gpus.size(),
                     cluster_.name + " has " + std::to_string(cluster_.gpus.size()) + " GPUs");
    flows_.push_back(network_.start({.src = cluster_.gpus[source],
                                     .dst = cluster_.gpus[target],
                                     .size = to_bytes(size),
                                     .start = Time{to_duration(at)},
                                     .key = key}));
    return flows_.size() - 1;
  }
  void set_capacity(std::string_view link, double at, double bandwidth) {
    const auto found = cluster_.topology.find_link(link);
    PHANTORA_EXPECTS(found.has_value(), cluster_.name + " has no link " + std::string{link});
    network_.set_capacity(*found, Time{to_duration(at)}, Bandwidth{bandwidth});
  }
  void run() { network_.advance_to(never); }
  [[nodiscard]] std::vector<double> completions() const {
    std::vector<double> times;
    for (const FlowId flow : flows_) {
      const auto end = network_.completion(flow);
      times.push_back(end ? to_python(*end) : std::numeric_limits<double>::quiet_NaN());
    }
    return times;
  }

 private:
  Cluster cluster_;
  FlowNetwork network_;
  std::vector<FlowId> flows_{};
};

}  // namespace

void define_network(nb::module_& m) {
  nb::class_<Flows>(m, "FlowNetwork",
                    R"(Flows between GPUs that share a cluster's links, max-min fair.

A flow that starts before what run() has simulated changes the past: the results are as if it had
been told before.)")
      .def(nb::init<const Cluster&>(), "cluster"_a)
      .def(
          "start", &Flows::start, "source"_a, "target"_a, "size"_a, "at"_a = 0.0, "key"_a = 0,
          R"(Tells of a flow from GPU to GPU; gives its number. at: seconds. key: what chooses among
equally short routes.)")
      .def("set_capacity", &Flows::set_capacity, "link"_a, "at"_a, "bandwidth"_a,
           "A link of that name has `bandwidth` bytes per second from `at` on; 0: it is down.")
      .def("run", &Flows::run, nb::call_guard<nb::gil_scoped_release>(),
           "Goes on until nothing changes any more.")
      .def(
          "completions", [](const Flows& flows) { return array(flows.completions()); },
          "When each flow's last byte arrives: float64[flows] seconds; NaN: it has not.");
}

}  // namespace phantora::python
