#pragma once

#include <phantora/units.hpp>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

/// How quantities look in Python: seconds and bytes per second are float, bytes are int.
namespace phantora::python {

namespace nb = nanobind;
using namespace nb::literals;

/// Bytes as Python gives them: 4096, 2 * parameters, or "128MiB".
using Size = std::variant<std::int64_t, double, std::string>;
/// @throws ArgumentError if that is no size.
Bytes to_bytes(const Size& size);

/// To the nearest picosecond. @throws ArgumentError if it is negative, not finite or too long.
Duration to_duration(double seconds);

/// The nearest double, so that 5 us print as 5e-06: a product with 1e-12 is not always.
inline double to_python(Duration time) { return static_cast<double>(time.count()) / 1e12; }
inline double to_python(Time time) { return to_python(time.time_since_epoch()); }
inline std::int64_t to_python(Bytes size) { return size.count(); }

/// A numpy array of its own memory.
template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> array(std::vector<T> values) {
  auto* kept = new std::vector<T>{std::move(values)};
  nb::capsule owner{kept, [](void* it) noexcept { delete static_cast<std::vector<T>*>(it); }};
  return {kept->data(), {kept->size()}, owner};
}

// The parts of the module.
void define_errors(nb::module_& m);
void define_cluster(nb::module_& m);
void define_kernels(nb::module_& m);
void define_workload(nb::module_& m);
void define_traces(nb::module_& m);
void define_transformer(nb::module_& m);
void define_report(nb::module_& m);
void define_simulation(nb::module_& m);
void define_network(nb::module_& m);

}  // namespace phantora::python
