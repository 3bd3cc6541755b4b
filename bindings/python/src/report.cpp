#include "json/simulate.hpp"
#include "results.hpp"
#include "values.hpp"

#include <phantora/error.hpp>
#include <phantora/simulation/report.hpp>

namespace phantora::python {
namespace {

/// A part of the critical path, with its link by name.
struct Part {
  PathPart part;
  std::optional<std::string> link{};
};

/// One value of each rank, as Python has it.
template <class Get>
auto column(const Report& report, Get get) {
  std::vector<decltype(get(report.ranks.front()))> values;
  for (const RankReport& rank : report.ranks) values.push_back(get(rank));
  return array(std::move(values));
}
template <class T>
auto column(const Report& report, T RankReport::*of) {
  return column(report, [of](const RankReport& rank) { return to_python(rank.*of); });
}

nb::dict ranks(const Result& result) {
  const Report& report = result.report;
  nb::dict table;
  table["gpu"] = array(report.gpus);
  table["end"] = column(report, &RankReport::end);
  table["computing"] = column(report, &RankReport::computing);
  table["exposed"] = column(report, &RankReport::exposed);
  table["waiting"] = column(report, &RankReport::waiting);
  table["idle"] = column(report, &RankReport::idle);
  table["communicating"] = column(report, &RankReport::communicating);
  table["kernel_time"] =
      column(report, [](const RankReport& rank) { return to_python(rank.kernels.total); });
  table["kernels"] = column(report, [](const RankReport& rank) { return rank.kernels.kernels; });
  table["peak_memory"] = column(report, &RankReport::peak_memory);
  table["memory"] = column(report, &RankReport::memory);
  return table;
}

nb::dict spans(const Result& result) {
  PHANTORA_EXPECTS(result.spans != nullptr, "a run keeps its spans if it is told to: spans=True");
  const std::vector<Spans::One>& all = result.spans->all;
  const auto each = [&](auto get) {
    std::vector<decltype(get(all.front()))> values;
    for (const Spans::One& one : all) values.push_back(get(one));
    return array(std::move(values));
  };
  nb::list kinds, names;
  std::vector<nb::str> texts;
  for (const std::string& name : result.spans->names) texts.emplace_back(name.c_str(), name.size());
  std::vector<nb::str> kind_texts;
  for (const std::string_view kind : Spans::kinds)
    kind_texts.emplace_back(kind.data(), kind.size());
  for (const Spans::One& one : all) {
    kinds.append(kind_texts[one.kind]);
    names.append(texts[one.name]);
  }
  nb::dict table;
  table["rank"] = each([](const Spans::One& one) { return one.rank; });
  table["stream"] = each([](const Spans::One& one) { return one.lane; });
  table["kind"] = kinds;
  table["name"] = names;
  table["start"] = each([](const Spans::One& one) { return to_python(one.start); });
  table["end"] = each([](const Spans::One& one) { return to_python(one.end); });
  return table;
}

std::vector<Part> critical_path(const Result& result) {
  std::vector<Part> parts;
  for (const PathPart& part : result.report.critical_path) {
    parts.push_back({part, {}});
    if (part.link) parts.back().link = result.simulation.cluster().topology.name(*part.link);
  }
  return parts;
}

nb::dict kernel_time(const Result& result) {
  const KernelTime kernels = result.report.kernels();
  nb::dict by_source;
  for (std::size_t source = 0; source < kernels.by_source.size(); ++source)
    by_source[std::string{to_string(static_cast<CostSource>(source))}.c_str()] =
        to_python(kernels.by_source[source]);
  return by_source;
}

/// What is written in Python, of module phantora._tables.
nb::object in_python(const char* function, nb::handle self) {
  return nb::module_::import_("phantora._tables").attr(function)(self);
}

}  // namespace

void define_report(nb::module_& m) {
  nb::class_<Part>(m, "PathPart", "Alike operations on the critical path.")
      .def_prop_ro(
          "kind", [](const Part& it) { return to_string(it.part.kind); },
          "\"kernel\", \"communication\", \"host\", \"launch\" or \"queueing\".")
      .def_prop_ro("name", [](const Part& it) { return it.part.name; })
      .def_prop_ro("count", [](const Part& it) { return it.part.count; })
      .def_prop_ro(
          "time", [](const Part& it) { return to_python(it.part.time); },
          "Seconds of the makespan; it would be shorter by no more than that if they were free.")
      .def_ro("link", &Part::link, "What would hold a communication if it were alone, or None.")
      .def("__repr__", [](const Part& it) {
        return "<PathPart " + std::to_string(it.part.count) + " x " + it.part.name + ": " +
               std::to_string(to_python(it.part.time) * 1e3) + " ms>";
      });

  const auto time = [](auto get) {
    return [get](const Result& it) { return to_python(get(it.report)); };
  };
  nb::class_<Result>(m, "Report",
                     R"(What a simulation says of a workload. Times are seconds, memory is bytes.

computing + exposed + waiting + idle is the makespan: kernels ran; none did, and a communication
moved data; neither, and a communication waited for other ranks; nothing was on the GPU.)")
      .def_prop_ro("start", time([](const Report& it) { return it.start; }))
      .def_prop_ro("makespan", time([](const Report& it) { return it.makespan; }),
                   "From the start to the end of the last rank.")
      .def_prop_ro("deviation", time([](const Report& it) { return it.deviation; }),
                   "One standard deviation of the makespan, by its kernels'.")
      .def_prop_ro("step", time([](const Report& it) { return it.step(); }),
                   "Median step without the first; the makespan where none is marked.")
      .def_prop_ro(
          "steps",
          [](const Result& it) {
            std::vector<double> ends;
            for (const Time end : it.report.steps) ends.push_back(to_python(end));
            return array(std::move(ends));
          },
          nb::rv_policy::move, "When each step ended: float64[steps].")
      .def_prop_ro("computing", time([](const Report& it) { return it.computing(); }),
                   "Mean over the ranks.")
      .def_prop_ro("exposed", time([](const Report& it) { return it.exposed(); }),
                   "Mean over the ranks.")
      .def_prop_ro("waiting", time([](const Report& it) { return it.waiting(); }),
                   "Mean over the ranks.")
      .def_prop_ro("idle", time([](const Report& it) { return it.idle(); }), "Mean over the ranks.")
      .def_prop_ro("peak_memory", time([](const Report& it) { return it.peak_memory(); }),
                   "Bytes of the rank that has most.")
      .def_prop_ro(
          "fits", [](const Result& it) { return it.report.fits(); },
          "Whether each rank's memory does.")
      .def_prop_ro(
          "ranks", &ranks,
          nb::sig("def ranks(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"),
          R"(A column for each figure, of shape [ranks]: "gpu", "end", "computing", "exposed", "waiting",
"idle", "communicating", "kernel_time" in seconds, "kernels", "peak_memory" and "memory" in bytes.)")
      .def("spans", &spans, nb::sig("def spans(self) -> dict[str, typing.Any]"),
           R"(When each kernel, copy and communication ran, in order of their starts, as columns:
uint32 arrays "rank" and "stream", lists "kind" ("compute", "copy", "communication", or "range" of what
a recorded program named, whose "stream" is a thread) and "name", float64 arrays "start" and "end".
pandas.DataFrame(report.spans()) is a table of them. Of a run with spans=True.)")
      .def_prop_ro("kernel_time", &kernel_time,
                   nb::sig("def kernel_time(self) -> dict[str, float]"),
                   "Kernel seconds of all ranks by where their prices come from.")
      .def_prop_ro("critical_path", &critical_path,
                   "What the makespan consists of, longest first; the times add up to it.")
      .def(
          "to_json",
          [](const Result& it) { return bindings::to_json(it.report, it.simulation.cluster()); },
          "All of it, with times in whole picoseconds (bindings/json/README.md).")
      .def(
          "to_pandas", [](nb::handle self) { return in_python("to_pandas", self); },
          nb::sig("def to_pandas(self) -> typing.Any"),
          "A pandas.DataFrame of `ranks`, a row for each rank.")
      .def(
          "plot", [](nb::handle self) { return in_python("plot", self); },
          nb::sig("def plot(self) -> typing.Any"),
          "A matplotlib Figure: where each rank's time goes, its memory, and the critical path.")
      .def("__repr__", [](const Result& it) {
        return "<Report of " + it.simulation.cluster().name + ": step " +
               std::to_string(to_python(it.report.step()) * 1e3) + " ms, " +
               std::to_string(to_python(it.report.peak_memory()) >> 20) + " MiB" +
               (it.report.fits() ? ">" : ", does not fit>");
      });
}

}  // namespace phantora::python
