#include "json/simulate.hpp"

#include <nlohmann/json.hpp>

namespace phantora::bindings {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const KernelTime& kernels) {
  Json by_source = Json::object();
  for (std::size_t source = 0; source < kernels.by_source.size(); ++source)
    by_source[to_string(static_cast<CostSource>(source))] = kernels.by_source[source].count();
  return {{"total_ps", kernels.total.count()},
          {"by_source_ps", std::move(by_source)},
          {"deviation_ps", kernels.deviation.count()},
          {"count", kernels.kernels}};
}

Json to_json(const RankReport& rank, GpuIndex gpu) {
  return {{"gpu", gpu},
          {"end_ps", rank.end.time_since_epoch().count()},
          {"computing_ps", rank.computing.count()},
          {"exposed_ps", rank.exposed.count()},
          {"waiting_ps", rank.waiting.count()},
          {"idle_ps", rank.idle.count()},
          {"communicating_ps", rank.communicating.count()},
          {"kernels", to_json(rank.kernels)},
          {"peak_memory", rank.peak_memory.count()},
          {"memory", rank.memory.count()},
          {"fits", rank.fits()}};
}

Json to_json(const PathPart& part, const Cluster& cluster) {
  Json json{{"kind", to_string(part.kind)},
            {"name", part.name},
            {"count", part.count},
            {"time_ps", part.time.count()}};
  if (part.link) json["link"] = cluster.topology.name(*part.link);
  return json;
}

}  // namespace

std::string to_json(const Report& report, const Cluster& cluster) {
  Json json{{"cluster", cluster.name},
            {"start_ps", report.start.time_since_epoch().count()},
            {"makespan_ps", report.makespan.count()},
            {"deviation_ps", report.deviation.count()},
            {"step_ps", report.step().count()},
            {"computing_ps", report.computing().count()},
            {"exposed_ps", report.exposed().count()},
            {"waiting_ps", report.waiting().count()},
            {"idle_ps", report.idle().count()},
            {"peak_memory", report.peak_memory().count()},
            {"fits", report.fits()},
            {"kernels", to_json(report.kernels())}};
  json["steps_ps"] = Json::array();
  for (const Time end : report.steps) json["steps_ps"].push_back(end.time_since_epoch().count());
  json["ranks"] = Json::array();
  for (std::size_t rank = 0; rank < report.ranks.size(); ++rank)
    json["ranks"].push_back(to_json(report.ranks[rank], report.gpus[rank]));
  json["critical_path"] = Json::array();
  for (const PathPart& part : report.critical_path)
    json["critical_path"].push_back(to_json(part, cluster));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace phantora::bindings
