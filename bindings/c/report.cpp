#include "c/handles.hpp"
#include "json/simulate.hpp"

using namespace phantora;
using namespace phantora::bindings;

namespace {

const Report& of(const phantora_report* report) { return expect(report, "report").report; }

}  // namespace

phantora_status phantora_report_summary(const phantora_report* report, phantora_summary* out) {
  return call([&] {
    const Report& all = of(report);
    write(out, {.struct_size = 0,
                .start = all.start.time_since_epoch().count(),
                .makespan = all.makespan.count(),
                .deviation = all.deviation.count(),
                .step = all.step().count(),
                .computing = all.computing().count(),
                .exposed = all.exposed().count(),
                .waiting = all.waiting().count(),
                .idle = all.idle().count(),
                .peak_memory = all.peak_memory().count(),
                .ranks = all.ranks.size(),
                .steps = all.steps.size(),
                .path_parts = all.critical_path.size(),
                .fits = all.fits()});
  });
}

phantora_status phantora_report_rank(const phantora_report* report, uint32_t rank,
                                     phantora_rank_report* out) {
  return call([&] {
    const Report& all = of(report);
    PHANTORA_EXPECTS(rank < all.ranks.size(), "there is no rank " + std::to_string(rank));
    const RankReport& one = all.ranks[rank];
    write(out, {.struct_size = 0,
                .gpu = all.gpus[rank],
                .end = one.end.time_since_epoch().count(),
                .computing = one.computing.count(),
                .exposed = one.exposed.count(),
                .waiting = one.waiting.count(),
                .idle = one.idle.count(),
                .communicating = one.communicating.count(),
                .kernel_time = one.kernels.total.count(),
                .kernel_deviation = one.kernels.deviation.count(),
                .kernels = one.kernels.kernels,
                .peak_memory = one.peak_memory.count(),
                .memory = one.memory.count()});
  });
}

phantora_status phantora_report_steps(const phantora_report* report, int64_t* ends) {
  return call([&] {
    const Report& all = of(report);
    if (!all.steps.empty()) expect(ends, "ends");
    for (std::size_t i = 0; i < all.steps.size(); ++i)
      ends[i] = all.steps[i].time_since_epoch().count();
  });
}

phantora_status phantora_report_path_part(const phantora_report* report, size_t part,
                                          phantora_path_part* out) {
  return call([&] {
    const Report& all = of(report);
    PHANTORA_EXPECTS(part < all.critical_path.size(),
                     "the critical path has no part " + std::to_string(part));
    const PathPart& one = all.critical_path[part];
    write(out, {.struct_size = 0,
                .kind = static_cast<phantora_path_kind>(one.kind),
                .name = one.name.c_str(),
                .count = one.count,
                .time = one.time.count(),
                .link = one.link ? std::int64_t{one.link->value} : -1});
  });
}

phantora_status phantora_report_to_json(const phantora_report* report, char** out) {
  return call([&] {
    expect(out, "out");
    *out = copy_of(to_json(of(report), report->simulation.cluster()));
  });
}
void phantora_report_destroy(phantora_report** report) { destroy(report); }
