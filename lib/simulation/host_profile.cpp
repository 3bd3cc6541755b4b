#include <phantora/error.hpp>
#include <phantora/simulation/host_profile.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

namespace phantora {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t version = 1;

/// Reads the fields of an object, and complains about what is wrong with each.
class Fields {
 public:
  Fields(const Json& object, std::string source, std::string name)
      : object_{object}, source_{std::move(source)}, name_{std::move(name)} {
    if (!object_.is_object()) throw wrong({}, "an object");
  }

  [[nodiscard]] const Json* find(const char* field) {
    asked_.emplace_back(field);
    const auto found = object_.find(field);
    return found == object_.end() ? nullptr : &*found;
  }
  std::string text(const char* field) {
    const Json* const value = find(field);
    if (value == nullptr || !value->is_string()) throw wrong(field, "text");
    return value->get<std::string>();
  }
  unsigned count(const char* field) {
    const Json* const value = find(field);
    constexpr std::int64_t most = 1'000'000;
    if (value == nullptr || !value->is_number_integer() || *value < 1 || *value > most)
      throw wrong(field, "a whole number from 1 to 1000000");
    return value->get<unsigned>();
  }
  double nanoseconds(const char* field) {
    const Json* const value = find(field);
    // Neither the end of the range of doubles nor what no clock could tell from nothing.
    if (value == nullptr || !value->is_number() || !(*value >= 1e-3) || !(*value <= 1e12))
      throw wrong(field, "nanoseconds from 0.001 to 1e12");
    return value->get<double>();
  }
  void expect_no_others() const {
    for (const auto& [field, _] : object_.items()) {
      if (std::find(asked_.begin(), asked_.end(), field) == asked_.end())
        throw ConfigError{source_ + ": there is no field \"" + name_ + field + "\""};
    }
  }
  [[nodiscard]] ConfigError wrong(const std::string& field, const std::string& expected) const {
    const auto found = object_.is_object() ? object_.find(field) : object_.end();
    const std::string got = !object_.is_object()     ? object_.dump()
                            : found == object_.end() ? "nothing"
                                                     : found->dump();
    return ConfigError{source_ + ": " + (field.empty() ? "" : name_ + field + ": ") + "expected " +
                       expected + ", got " + got};
  }

 private:
  const Json& object_;
  std::string source_, name_;
  std::vector<std::string> asked_{};
};

}  // namespace

HostProfile parse_host_profile(std::string_view json, std::string_view source) {
  const Json document = Json::parse(json, nullptr, false);
  const std::string place{source};
  if (document.is_discarded())
    throw ConfigError{place + ": expected JSON, as phantora host writes it"};
  Fields fields{document, place, ""};
  const Json* const format = fields.find("phantora_host");
  if (format == nullptr || !format->is_number_integer() || *format != version)
    throw fields.wrong("phantora_host", "version " + std::to_string(version));
  HostProfile host;
  host.name = fields.text("name");
  if (host.name.empty()) throw fields.wrong("name", "a name");
  host.processor = fields.text("processor");
  host.sockets = fields.count("sockets");
  host.cores = fields.count("cores");
  host.threads = fields.count("threads");
  if (host.cores < host.sockets) throw fields.wrong("cores", "at least as many as sockets");
  if (host.threads < host.cores) throw fields.wrong("threads", "at least as many as cores");
  if (fields.find("measured") != nullptr) host.measured = fields.text("measured");
  const Json* const work = fields.find("work_ns");
  if (work == nullptr) throw fields.wrong("work_ns", "an object");
  Fields kinds{*work, place, "work_ns."};
  host.interpreter_ns = kinds.nanoseconds("interpreter");
  host.allocation_ns = kinds.nanoseconds("allocation");
  host.memory_ns = kinds.nanoseconds("memory");
  kinds.expect_no_others();
  if (fields.find("calls_ns") != nullptr) host.calls_ns = fields.nanoseconds("calls_ns");
  fields.expect_no_others();
  return host;
}

std::string to_json(const HostProfile& host) {
  Json json;
  json["phantora_host"] = version;
  json["name"] = host.name;
  json["processor"] = host.processor;
  json["sockets"] = host.sockets;
  json["cores"] = host.cores;
  json["threads"] = host.threads;
  if (!host.measured.empty()) json["measured"] = host.measured;
  json["work_ns"] = {{"interpreter", host.interpreter_ns},
                     {"allocation", host.allocation_ns},
                     {"memory", host.memory_ns}};
  if (host.calls_ns) json["calls_ns"] = *host.calls_ns;
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + '\n';
}

HostSlowness slowness(const HostProfile& host, const HostProfile& other) {
  // By interpreter-like work alone the AMD EPYC of host_presets() would be 0.54 times as slow as
  // the H200s' host; its CPU time in nine programs is 0.66 of that host's (HostScale). With a
  // quarter by memory it is 0.64 times as slow.
  constexpr double by_memory = 0.25;
  const double work = std::pow(host.interpreter_ns / other.interpreter_ns, 1 - by_memory) *
                      std::pow(host.memory_ns / other.memory_ns, by_memory);
  return {.work = work,
          .calls = host.calls_ns && other.calls_ns ? *host.calls_ns / *other.calls_ns : work};
}

HostProfile host_profile(std::string_view spec) {
  std::string known;
  for (const HostProfile& preset : host_presets()) {
    if (preset.name == spec) return preset;
    known += (known.empty() ? "" : ", ") + preset.name;
  }
  const std::string path{spec};
  std::ifstream file{path};
  const std::string text{std::istreambuf_iterator<char>{file}, {}};
  if (!file || text.empty())
    throw ConfigError{"host \"" + path + "\": expected one of " + known +
                      ", or a file that phantora host has written"};
  return parse_host_profile(text, path);
}

}  // namespace phantora
