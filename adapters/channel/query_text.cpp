#include "channel/query_text.hpp"

#include <phantora/error.hpp>

#include <nlohmann/json.hpp>

namespace phantora::channel {
namespace {

using Json = nlohmann::json;

Json to_json(const KernelQuery::Dim3& d) { return {d.x, d.y, d.z}; }
KernelQuery::Dim3 dim3_from(const Json& json) {
  return {json.at(0).get<std::uint32_t>(), json.at(1).get<std::uint32_t>(),
          json.at(2).get<std::uint32_t>()};
}

}  // namespace

std::string to_text(const KernelQuery& query) {
  // Kernel names come from the program: bytes that are not UTF-8 are replaced, never refused.
  return Json{{"name", query.name},
              {"grid", to_json(query.grid)},
              {"block", to_json(query.block)},
              {"shared", query.shared_bytes},
              {"bytes", query.bytes},
              {"flops", query.flops},
              {"features", query.features},
              {"attributes", query.attributes}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

KernelQuery query_from_text(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    KernelQuery query;
    query.name = json.at("name").get<std::string>();
    query.grid = dim3_from(json.at("grid"));
    query.block = dim3_from(json.at("block"));
    query.shared_bytes = json.at("shared").get<std::uint32_t>();
    query.bytes = json.at("bytes").get<double>();
    query.flops = json.at("flops").get<double>();
    for (const auto& [key, value] : json.at("features").items()) query.features[key] = value;
    for (const auto& [key, value] : json.at("attributes").items()) {
      query.attributes[key] = value.get<std::string>();
    }
    return query;
  } catch (const Json::exception& error) {
    throw ConfigError{std::string{"malformed kernel query on the channel: "} + error.what()};
  }
}

}  // namespace phantora::channel
