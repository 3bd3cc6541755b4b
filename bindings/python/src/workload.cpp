#include "values.hpp"

#include <phantora/error.hpp>
#include <phantora/simulation/widen.hpp>
#include <phantora/simulation/workload.hpp>

#include <array>
#include <filesystem>

#include <nanobind/operators.h>
#include <nanobind/stl/filesystem.h>

namespace phantora::python {
namespace {

using Group = std::vector<Rank>;
/// Methods that append give their workload back, so that calls can be strung together.
constexpr auto itself = nb::rv_policy::none;

CollectiveOp operation(std::string_view name) {
  using enum CollectiveOp;
  std::string names;
  for (const CollectiveOp op :
       {all_reduce, all_gather, reduce_scatter, broadcast, reduce, all_to_all, gather, scatter}) {
    if (to_string(op) == name) return op;
    names += (names.empty() ? "" : ", ") + std::string{to_string(op)};
  }
  throw ArgumentError{"op is " + std::string{name} + ", not one of " + names};
}

template <CollectiveOp Op>
Workload& collective(Workload& job, const Group& group, const Size& total, StreamNumber stream) {
  return job.collective(group, Op, to_bytes(total), stream);
}

nb::bytes binary(const Workload& job) {
  const std::string bytes = job.to_binary();
  return nb::bytes{bytes.data(), bytes.size()};
}
Workload from_binary(const nb::bytes& bytes) {
  return Workload::from_binary({bytes.c_str(), bytes.size()});
}

void define_operations(nb::class_<Workload>& workload) {
  workload
      .def(
          "launch",
          [](Workload& job, Rank rank, const Kernel& kernel, StreamNumber stream) -> Workload& {
            return job.launch(rank, kernel, stream);
          },
          "rank"_a, "kernel"_a, "stream"_a = 0, itself, "Puts a kernel on a stream.")
      .def(
          "launch",
          [](Workload& job, const Group& ranks, const Kernel& kernel,
             StreamNumber stream) -> Workload& {
            const Workload::KernelNumber number = job.kernel(kernel);
            for (const Rank rank : ranks) job.launch(rank, number, stream);
            return job;
          },
          "ranks"_a, "kernel"_a, "stream"_a = 0, itself, "The same on each of these ranks.")
      .def(
          "kernel", [](Workload& job, const Kernel& kernel) { return job.kernel(kernel).value; },
          "kernel"_a, "Its number in this workload, for launch_many().")
      .def(
          "launch_many",
          [](Workload& job, Rank rank,
             nb::ndarray<const std::uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> kernels,
             StreamNumber stream) -> Workload& {
            for (std::size_t i = 0; i < kernels.shape(0); ++i)
              PHANTORA_EXPECTS(kernels(i) < job.kernels().size(),
                               "there is no kernel " + std::to_string(kernels(i)));
            for (std::size_t i = 0; i < kernels.shape(0); ++i)
              job.launch(rank, Workload::KernelNumber{kernels(i)}, stream);
            return job;
          },
          "rank"_a, "kernels"_a, "stream"_a = 0, itself,
          "Puts kernels on a stream, one after the other. kernels: uint32[launches], their "
          "numbers.")
      .def(
          "collective",
          [](Workload& job, const Group& group, std::string_view op, const Size& total,
             StreamNumber stream, int root) -> Workload& {
            return job.collective(group, operation(op), to_bytes(total), stream, root);
          },
          "group"_a, "op"_a, "total"_a, "stream"_a = 0, "root"_a = 0, itself,
          R"(The ranks of a group run a collective; one call stands for those of all of them.

op: "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "gather" or
"scatter". total: bytes of the larger buffer of one rank: the whole tensor for all_gather and
reduce_scatter. root: its place in the group, where the operation has one.)")
      .def(
          "collective_of",
          [](Workload& job, Rank rank, const Group& group, std::string_view op, const Size& total,
             StreamNumber stream, int root) -> Workload& {
            return job.collective(rank, group, operation(op), to_bytes(total), stream, root);
          },
          "rank"_a, "group"_a, "op"_a, "total"_a, "stream"_a = 0, "root"_a = 0, itself,
          "The part of one rank; each rank of the group says its own in its turn.")
      .def("all_reduce", &collective<CollectiveOp::all_reduce>, "group"_a, "total"_a,
           "stream"_a = 0, itself, "total: bytes.")
      .def("all_gather", &collective<CollectiveOp::all_gather>, "group"_a, "total"_a,
           "stream"_a = 0, itself, "total: bytes of what all have together.")
      .def("reduce_scatter", &collective<CollectiveOp::reduce_scatter>, "group"_a, "total"_a,
           "stream"_a = 0, itself, "total: bytes of what is reduced.")
      .def("all_to_all", &collective<CollectiveOp::all_to_all>, "group"_a, "total"_a,
           "stream"_a = 0, itself, "total: bytes that a rank sends to all together.")
      .def(
          "send",
          [](Workload& job, Rank rank, Rank to, const Size& size, StreamNumber stream)
              -> Workload& { return job.send(rank, to, to_bytes(size), stream); },
          "rank"_a, "to"_a, "size"_a, "stream"_a = 0, itself,
          "A message, which the other rank has to receive().")
      .def(
          "receive",
          [](Workload& job, Rank rank, Rank from, const Size& size, StreamNumber stream)
              -> Workload& { return job.receive(rank, from, to_bytes(size), stream); },
          "rank"_a, "source"_a, "size"_a, "stream"_a = 0, itself)
      .def("record", &Workload::record, "rank"_a, "stream"_a = 0,
           "Marks the end of what the stream was given so far.")
      .def("wait", &Workload::wait, "rank"_a, "event"_a, "stream"_a = 0, itself,
           "What the stream is given from now on waits for the event, of any rank.")
      .def("order", &Workload::order, "rank"_a, "before"_a, "after"_a, itself,
           "What stream `after` is given waits for what `before` was given: record() and wait().")
      .def(
          "host",
          [](Workload& job, Rank rank, double time) -> Workload& {
            return job.host(rank, to_duration(time));
          },
          "rank"_a, "time"_a, itself, "The rank's host works for `time` seconds.")
      .def("scale_host_time", &Workload::scale_host_time, "factor"_a, itself,
           "Every host() takes `factor` times as long: that of a record on another host.")
      .def(
          "thread", &Workload::thread, "rank"_a, "number"_a, itself,
          R"(What the rank is told from now on is issued by this thread of its host; 0 is the first.

Threads go on side by side unless a mark() and a synchronize() order them.)")
      .def("range", &Workload::range, "rank"_a, "begin"_a, "name"_a, itself,
           "Names the time from a mark() to where the rank's host is, for Report.spans().")
      .def("graph", &Workload::graph, "rank"_a, "inside"_a, "stream"_a = 0, itself,
           "What the stream is told from now on is of a CUDA graph, or is no more.")
      .def("prioritize", &Workload::prioritize, "rank"_a, "priority"_a, "stream"_a = 0, itself,
           "Kernels of the stream go before those of the rank's streams with a greater number.")
      .def("mark", &Workload::mark, "rank"_a,
           "Marks where the rank's host, or its present thread, is, for synchronize() of others.")
      .def(
          "synchronize",
          [](Workload& job, Rank rank) -> Workload& { return job.synchronize(rank); }, "rank"_a,
          itself, "The rank's host waits for all that the rank was given.")
      .def(
          "synchronize",
          [](Workload& job, Rank rank, Workload::Event event) -> Workload& {
            return job.synchronize(rank, event);
          },
          "rank"_a, "event"_a, itself, "It waits for an event.")
      .def(
          "allocate",
          [](Workload& job, Rank rank, const Size& size, std::string_view label) {
            return job.allocate(rank, to_bytes(size), label);
          },
          "rank"_a, "size"_a, "label"_a = "",
          "The rank holds device memory from now on; free() it, or keep it.")
      .def("free", &Workload::free, "block"_a, itself)
      .def(
          "end_step",
          [](Workload& job, StreamNumber stream) -> Workload& { return job.end_step(stream); },
          "stream"_a = 0, itself, "A step of all ranks ends with what their stream was given.");
}

}  // namespace

void define_workload(nb::module_& m) {
  nb::class_<Workload::Event>(m, "Event", "A point in a stream; Workload.record() makes it.")
      .def_ro("rank", &Workload::Event::rank);
  nb::class_<Workload::Block>(m, "Block", "Device memory; Workload.allocate() makes it.")
      .def_ro("rank", &Workload::Block::rank);

  nb::class_<Workload> workload{
      m, "Workload", R"(What every rank of a job does, in the order in which its host issues it.

Plain data: it can be copied, compared, pickled, written down, and run on any cluster. Ranks are
counted from 0. Streams are queues of a rank: what is issued on one runs in order. Sizes are bytes,
or text as in "128MiB". Methods that append give the workload back.)"};
  workload.def(nb::init<>());
  define_operations(workload);
  workload.def_prop_ro("rank_count", &Workload::rank_count)
      .def_prop_ro(
          "groups", [](const Workload& job) { return job.groups(); },
          "The groups of ranks that collectives name.")
      .def("__len__", &Workload::operation_count, "Operations of all ranks together.")
      .def(
          "describe",
          [](const Workload& job, Rank rank, std::size_t number) {
            PHANTORA_EXPECTS(
                number < job.operations(rank).size(),
                "rank " + std::to_string(rank) + " has no operation " + std::to_string(number));
            return job.describe(rank, number);
          },
          "rank"_a, "operation"_a, "An operation of a rank in words.")
      .def(
          "operation_count",
          [](const Workload& job, Rank rank) { return job.operations(rank).size(); }, "rank"_a,
          "Operations of one rank.")
      .def(nb::self == nb::self, nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("digest", &Workload::hash, "Equal for equal workloads, on every machine.")
      .def("to_json", &Workload::to_json)
      .def_static(
          "from_json", [](std::string_view text) { return Workload::from_json(text); }, "text"_a)
      .def("to_bytes", &binary, "The same in about 4 bytes per operation.")
      .def_static("from_bytes", &from_binary, "data"_a)
      .def(
          "save",
          [](const Workload& job, const std::filesystem::path& path) { job.save(path.string()); },
          "path"_a, "As JSON if the path ends in \".json\", else in binary form.")
      .def_static(
          "load", [](const std::filesystem::path& path) { return Workload::load(path.string()); },
          "path"_a,
          "From a file of either form, or a record of a real job (run(..., record=path)).")
      .def("__copy__", [](const Workload& job) { return job; })
      .def(
          "__deepcopy__", [](const Workload& job, const nb::dict&) { return job; }, "memo"_a)
      .def("__getstate__", &binary)
      .def(
          "__setstate__",
          [](Workload& job, const nb::bytes& bytes) { new (&job) Workload{from_binary(bytes)}; },
          "state"_a)
      .def("__repr__", [](const Workload& job) {
        return "<Workload of " + std::to_string(job.rank_count()) + " ranks, " +
               std::to_string(job.operation_count()) + " operations>";
      });

  m.def(
      "widen",
      [](const Workload& job, std::uint32_t factor, Rank replica, const Workload* narrower) {
        return narrower == nullptr ? widen(job, factor, replica)
                                   : widen(job, factor, replica, *narrower);
      },
      "workload"_a, "factor"_a, "replica"_a = 1, "narrower"_a = nb::none(),
      nb::call_guard<nb::gil_scoped_release>(),
      R"(The workload with `factor` times as many data-parallel replicas: copies of its ranks that follow one
another. Groups with ranks of several replicas grow, their collectives keep their sizes.

replica: ranks of one replica: 1 without model parallelism.
narrower: the same job of fewer replicas, which tells how sizes of kernels, collectives and memory
follow their number (sharded data parallelism); without it they stay.)");
}

}  // namespace phantora::python
