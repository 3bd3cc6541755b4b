#include "c/handles.hpp"
#include "json/simulate.hpp"

#include <phantora/simulation/step_observer.hpp>

#include <algorithm>
#include <functional>
#include <vector>

using namespace phantora;
using namespace phantora::bindings;

namespace {

const Simulation& of(const phantora_simulation* simulation) {
  return expect(simulation, "simulation").simulation;
}

NcclVariables nccl_variables(const char* const* entries) {
  NcclVariables variables;
  for (; entries != nullptr && *entries != nullptr; ++entries) {
    const std::string_view entry{*entries};
    const std::size_t equals = entry.find('=');
    PHANTORA_EXPECTS(equals != std::string_view::npos,
                     "nccl: expected NAME=VALUE in place of " + std::string{entry});
    variables[std::string{entry.substr(0, equals)}] = entry.substr(equals + 1);
  }
  return variables;
}

}  // namespace

phantora_status phantora_simulation_create(const char* cluster,
                                           const phantora_simulation_options* options,
                                           phantora_simulation** out) {
  return call([&] {
    phantora_simulation_options given{};
    if (options != nullptr) given = read(options, "options");
    PHANTORA_EXPECTS(given.gpu_memory >= 0,
                     "gpu_memory is " + std::to_string(given.gpu_memory) + " bytes");
    std::optional<Bytes> memory;
    if (given.gpu_memory > 0) memory = Bytes{given.gpu_memory};
    create(out, Simulation{make_cluster(&expect(cluster, "cluster"), memory),
                           {.nccl = nccl_variables(given.nccl)}});
  });
}
void phantora_simulation_destroy(phantora_simulation** simulation) { destroy(simulation); }
size_t phantora_simulation_gpu_count(const phantora_simulation* simulation) {
  return simulation == nullptr ? 0 : simulation->simulation.cluster().gpus.size();
}

phantora_status phantora_simulation_run(const phantora_simulation* simulation,
                                        const phantora_workload* workload, const uint32_t* gpus,
                                        size_t gpu_count, phantora_report** out) {
  return call([&] {
    create(out,
           of(simulation).run(expect(workload, "workload").workload, list(gpus, gpu_count, "gpus")),
           of(simulation));
  });
}

phantora_status phantora_simulation_step(const phantora_simulation* simulation,
                                         const phantora_workload* workload, const uint32_t* gpus,
                                         size_t gpu_count, const char* marker, int64_t* out) {
  return call([&] {
    expect(out, "out");
    StepObserver observed{marker == nullptr ? "" : marker};
    const std::vector<SessionObserver*> observers{&observed};
    const Report report =
        of(simulation)
            .run(expect(workload, "workload").workload, list(gpus, gpu_count, "gpus"), observers);
    *out = observed.step(report.gpus).value_or(Duration{}).count();
  });
}

phantora_status phantora_simulation_run_all(const phantora_simulation* simulation,
                                            const phantora_workload* const* workloads, size_t count,
                                            unsigned threads, phantora_report** reports) {
  return call([&] {
    std::vector<Workload> all;
    for (const phantora_workload* workload : list(workloads, count, "workloads"))
      all.push_back(expect(workload, "a workload").workload);
    if (count > 0) expect(reports, "reports");
    std::vector<std::unique_ptr<phantora_report>> made;
    for (Report& report : of(simulation).run_all(all, threads))
      made.emplace_back(new phantora_report{std::move(report), of(simulation)});
    for (std::size_t i = 0; i < count; ++i) reports[i] = made[i].release();
  });
}

phantora_status phantora_simulation_link_loads(const phantora_simulation* simulation,
                                               const phantora_workload* workload,
                                               const uint32_t* gpus, size_t gpu_count,
                                               phantora_link_load* loads, size_t capacity,
                                               size_t* count) {
  return call([&] {
    expect(count, "count");
    const std::vector<LinkLoad> all =
        of(simulation)
            .link_loads(expect(workload, "workload").workload, list(gpus, gpu_count, "gpus"));
    const std::size_t told = std::min(capacity, all.size());
    // The caller's elements may be larger or smaller than ours.
    const std::size_t size = told == 0 ? 0 : expect(loads, "loads").struct_size;
    for (std::size_t i = 0; i < told; ++i) {
      auto* element =
          reinterpret_cast<phantora_link_load*>(reinterpret_cast<char*>(loads) + i * size);
      element->struct_size = size;
      write(element, {.struct_size = 0,
                      .link = all[i].link.value,
                      .bytes = all[i].bytes.count(),
                      .time = all[i].time.count()});
    }
    *count = all.size();
  });
}

phantora_status phantora_simulation_link_name(const phantora_simulation* simulation, uint32_t link,
                                              char** out) {
  return call([&] {
    expect(out, "out");
    const Topology& topology = of(simulation).cluster().topology;
    PHANTORA_EXPECTS(link < topology.link_count(), "there is no link " + std::to_string(link));
    *out = copy_of(topology.name(LinkId{link}));
  });
}

// --- Jobs that share it ---

phantora_status phantora_jobs_create(const phantora_simulation* simulation, phantora_jobs** out) {
  return call([&] { create(out, of(simulation), Jobs{of(simulation)}); });
}
void phantora_jobs_destroy(phantora_jobs** jobs) { destroy(jobs); }

phantora_status phantora_jobs_add(phantora_jobs* jobs, const phantora_workload* workload,
                                  const uint32_t* gpus, size_t gpu_count, int64_t start,
                                  uint32_t* job) {
  return call([&] {
    expect(job, "job");
    Jobs& ours = expect(jobs, "jobs").jobs;
    *job = ours.add(expect(workload, "workload").workload, list(gpus, gpu_count, "gpus"),
                    std::max(ours.now(), Time{Duration{start}}))
               .value;
  });
}
phantora_status phantora_jobs_next(phantora_jobs* jobs, int64_t until, bool* ended, uint32_t* job) {
  return call([&] {
    expect(ended, "ended");
    expect(job, "job");
    const auto id = expect(jobs, "jobs").jobs.next(Time{Duration{until}});
    *ended = id.has_value();
    if (id) *job = id->value;
  });
}
int64_t phantora_jobs_now(const phantora_jobs* jobs) {
  return jobs == nullptr ? 0 : jobs->jobs.now().time_since_epoch().count();
}
phantora_status phantora_jobs_report(const phantora_jobs* jobs, uint32_t job,
                                     phantora_report** out) {
  return call([&] { create(out, expect(jobs, "jobs").jobs.report(JobId{job}), jobs->simulation); });
}
phantora_status phantora_jobs_free_gpus(const phantora_jobs* jobs, uint32_t* gpus, size_t capacity,
                                        size_t* count) {
  return call([&] {
    expect(count, "count");
    const std::vector<GpuIndex> free = expect(jobs, "jobs").jobs.free_gpus();
    const std::size_t told = std::min(capacity, free.size());
    if (told > 0) std::copy_n(free.begin(), told, &expect(gpus, "gpus"));
    *count = free.size();
  });
}
