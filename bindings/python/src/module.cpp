#include "values.hpp"

#include <phantora/error.hpp>
#include <phantora/quantity.hpp>
#include <phantora/version.hpp>

#include <cmath>

namespace phantora::python {

Bytes to_bytes(const Size& size) {
  if (const auto* count = std::get_if<std::int64_t>(&size)) return Bytes{*count};
  if (const auto* count = std::get_if<double>(&size)) return Bytes{1} * *count;
  const std::string& text = std::get<std::string>(size);
  const auto parsed = parse_bytes(text);
  if (!parsed) throw ArgumentError{"expected a size as in \"128MiB\" or \"80GB\", not " + text};
  return *parsed;
}

Duration to_duration(double seconds) {
  (void)duration_from_seconds(seconds);  // throws
  return Duration{std::llround(seconds * 1e12)};
}

void define_errors(nb::module_& m) {
  nb::exception<Error> error{m, "Error"};
  error.attr("__doc__") = "What the library raises.";
  const auto define = [&]<class E>(const char* name, const char* doc, E*) {
    nb::exception<E>{m, name, error}.attr("__doc__") = doc;
  };
  define("ConfigError", "Bad text: a cluster, a workload; or one that cannot run there.",
         static_cast<ConfigError*>(nullptr));
  define("CostError", "A kernel that has no price.", static_cast<CostError*>(nullptr));
  define("RouteError", "No path joins two GPUs.", static_cast<RouteError*>(nullptr));
  define("TopologyError", "A malformed topology.", static_cast<TopologyError*>(nullptr));
  define("ArgumentError", "An argument that its function does not take.",
         static_cast<ArgumentError*>(nullptr));
}

}  // namespace phantora::python

NB_MODULE(_core, m) {
  using namespace phantora::python;
  m.doc() = "Simulation of GPU clusters. Times are seconds, sizes bytes, rates bytes per second.";
  m.attr("VERSION") = PHANTORA_VERSION_STRING;
  define_errors(m);
  define_cluster(m);
  define_kernels(m);
  define_workload(m);
  define_transformer(m);
  define_traces(m);
  define_report(m);
  define_simulation(m);
  define_network(m);
}
