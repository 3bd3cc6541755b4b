#include <phantora/error.hpp>
#include <phantora/kernels/query_text.hpp>

#include <nlohmann/json.hpp>

#include <limits>
#include <optional>

namespace phantora {
namespace {

using Json = nlohmann::json;

Json to_json(const KernelQuery::Dim3& d) { return {d.x, d.y, d.z}; }
Json to_json(const std::optional<KernelQuery::Dim3>& d) { return d ? to_json(*d) : Json{}; }

ConfigError malformed(const std::string& what) {
  return ConfigError{"malformed kernel query: " + what};
}

// The library's own conversions cut numbers to fit, and take true for one.
std::uint32_t whole(const Json& json) {
  constexpr std::uint32_t most = std::numeric_limits<std::uint32_t>::max();
  if (!json.is_number_unsigned() || json.get<std::uint64_t>() > most) {
    throw malformed("expected a whole number of up to 32 bits, got " + json.dump());
  }
  return json.get<std::uint32_t>();
}
double real(const Json& json) {
  if (!json.is_number()) throw malformed("expected a number, got " + json.dump());
  return json.get<double>();
}
KernelQuery::Dim3 dim3_from(const Json& json) {
  if (!json.is_array() || json.size() != 3) throw malformed("expected [x,y,z], got " + json.dump());
  return {whole(json[0]), whole(json[1]), whole(json[2])};
}
std::optional<KernelQuery::Dim3> grid_from(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return dim3_from(json);
}
Arithmetic arithmetic_from(const Json& json) {
  for (const Arithmetic arithmetic :
       {Arithmetic::none, Arithmetic::fp8, Arithmetic::half, Arithmetic::tf32, Arithmetic::fp32,
        Arithmetic::fp64, Arithmetic::int8}) {
    if (json == to_string(arithmetic)) return arithmetic;
  }
  throw malformed("expected a kind of arithmetic, got " + json.dump());
}
const Json& object(const Json& json) {
  if (!json.is_object()) throw malformed("expected {...}, got " + json.dump());
  return json;
}

}  // namespace

std::string to_text(const KernelQuery& query) {
  // Kernel names come from the program: bytes that are not UTF-8 are replaced, never refused.
  Json json{{"name", query.name},
            {"grid", to_json(query.grid)},
            {"block", to_json(query.block)},
            {"shared", query.shared_bytes},
            {"bytes", query.bytes},
            {"flops", query.flops},
            {"arithmetic", to_string(query.arithmetic)},
            {"features", query.features},
            {"attributes", query.attributes}};
  if (query.operands.read > 0.0)
    json["operands"] = {{"read", query.operands.read},
                        {"written", query.operands.written},
                        {"cold", query.operands.cold}};
  if (!query.by_data.empty()) json["by_data"] = query.by_data;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

KernelQuery query_from_text(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    KernelQuery query;
    query.name = json.at("name").get<std::string>();
    query.grid = grid_from(json.at("grid"));
    query.block = dim3_from(json.at("block"));
    query.shared_bytes = whole(json.at("shared"));
    query.bytes = real(json.at("bytes"));
    query.flops = real(json.at("flops"));
    query.arithmetic = arithmetic_from(json.at("arithmetic"));
    for (const auto& [key, value] : object(json.at("features")).items()) {
      query.features[key] = real(value);
    }
    for (const auto& [key, value] : object(json.at("attributes")).items()) {
      query.attributes[key] = value.get<std::string>();
    }
    if (const auto by_data = json.find("by_data"); by_data != json.end()) {
      for (const auto& [key, value] : object(*by_data).items()) query.by_data[key] = real(value);
    }
    if (const auto operands = json.find("operands"); operands != json.end()) {
      query.operands = {.read = real(object(*operands).at("read")),
                        .written = real(operands->at("written")),
                        .cold = real(operands->at("cold"))};
    }
    return query;
  } catch (const Json::exception& error) {
    throw malformed(error.what());
  }
}

}  // namespace phantora
