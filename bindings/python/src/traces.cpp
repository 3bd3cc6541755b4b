#include "values.hpp"

#include <phantora/kernels/builtin_cost_model.hpp>
#include <phantora/kernels/gpu_model.hpp>
#include <phantora/simulation/traces.hpp>

#include <filesystem>

#include <nanobind/stl/filesystem.h>

namespace phantora::python {

void define_traces(nb::module_& m) {
  nb::class_<TraceWorkload>(m, "TraceWorkload", "A workload that was read from traces.")
      .def_ro("workload", &TraceWorkload::workload)
      .def_prop_ro(
          "recorded",
          [](const TraceWorkload& it) {
            std::vector<double> times;
            for (const Duration time : it.recorded) times.push_back(to_python(time));
            return array(std::move(times));
          },
          nb::rv_policy::move,
          "Seconds of each rank, from its first call or work to the end of the last, as recorded: "
          "float64[ranks]; 0 where the trace has no times.")
      .def_ro("notes", &TraceWorkload::notes,
              "What the traces do not say, and what was taken instead; empty if all was there.")
      .def("__repr__", [](const TraceWorkload& it) {
        return "<TraceWorkload of " + std::to_string(it.workload.rank_count()) + " ranks, " +
               std::to_string(it.notes.size()) + " notes>";
      });

  m.def(
      "read_kineto",
      [](const nb::args& given) {
        std::vector<std::string> paths;
        for (const nb::handle it : given) {
          std::filesystem::path path;
          if (!nb::try_cast(it, path)) throw nb::type_error("read_kineto: expected paths");
          paths.push_back(path.string());
        }
        const nb::gil_scoped_release release;
        return read_kineto(paths);
      },
      nb::sig("def read_kineto(*paths: str | os.PathLike) -> TraceWorkload"),
      R"(A workload of PyTorch's profiles (torch.profiler's export_chrome_trace, unpacked): a file for each
rank.

Kernels take as long as they were recorded, on whatever GPU they run; NCCL's are collectives and
messages again where the profiles of all their ranks are there. Raises ConfigError.)");
  m.def(
      "read_chakra",
      [](const std::filesystem::path& prefix) { return read_chakra(prefix.string()); }, "prefix"_a,
      nb::call_guard<nb::gil_scoped_release>(),
      R"(A workload of an MLCommons Chakra execution trace, as ASTRA-sim reads it: the files PREFIX.0.et,
PREFIX.1.et, ..., and PREFIX.groups.json if that is there. Raises ConfigError.)");
  m.def(
      "write_chakra",
      [](const Workload& workload, const std::filesystem::path& prefix, std::string_view gpu) {
        write_chakra(workload, builtin_cost_model(gpu_model(gpu)), prefix.string());
      },
      "workload"_a, "prefix"_a, "gpu"_a = "h200", nb::call_guard<nb::gil_scoped_release>(),
      R"(Writes a workload as such a trace: a file for each rank, and PREFIX.groups.json.

gpu: what prices kernels that have no known time (gpu_model_keys() has them). Raises ConfigError if
a rank waits for an event of another, which a trace cannot say; Error if a file cannot be written.)");
}

}  // namespace phantora::python
