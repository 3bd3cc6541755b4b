#include "simulation/chakra.hpp"

#include <phantora/error.hpp>

#include <nlohmann/json.hpp>

#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

namespace phantora {

using namespace detail::chakra;

namespace {

using Json = nlohmann::json;

Groups read_groups(const std::string& text, std::size_t ranks, const std::string& source) {
  Groups groups;
  for (Rank rank = 0; rank < ranks; ++rank) groups[""].ranks.push_back(rank);
  if (text.empty()) return groups;
  const Json json = Json::parse(text, nullptr, false);
  const std::string place = source + ": groups";
  std::map<std::vector<Rank>, std::uint32_t> instances;
  if (!json.is_object()) throw ConfigError{place + ": expected lists of ranks by name, as JSON"};
  for (const auto& [name, list] : json.items()) {
    const std::string expected =
        place + ": " + name + ": expected a list of different ranks below " + std::to_string(ranks);
    if (!list.is_array() || list.empty()) throw ConfigError{expected};
    std::set<Rank> distinct;
    std::vector<Rank> group;
    for (const Json& rank : list) {
      if (!rank.is_number_unsigned() || rank.get<std::uint64_t>() >= ranks ||
          !distinct.insert(rank.get<Rank>()).second)
        throw ConfigError{expected};
      group.push_back(rank.get<Rank>());
    }
    groups[name] = {group, instances[group]++};
  }
  return groups;
}

std::optional<std::string> contents(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  if (!file) return std::nullopt;
  return std::string{std::istreambuf_iterator<char>{file}, {}};
}
void save(const std::string& path, const std::string& bytes) {
  std::ofstream file{path, std::ios::binary};
  file << bytes;
  file.close();
  if (!file) throw Error{path + ": cannot be written"};
}

}  // namespace

ChakraTrace to_chakra(const Workload& workload, const KernelCostModel& costs) {
  ChakraTrace trace;
  for (Rank rank = 0; rank < workload.rank_count(); ++rank)
    trace.ranks.push_back(write_rank(workload, rank, costs));
  Json groups = Json::object();
  for (std::size_t i = 0; i < workload.groups().size(); ++i)
    groups[std::to_string(i + 1)] = workload.groups()[i];
  if (!groups.empty()) trace.groups = groups.dump(1) + "\n";
  return trace;
}

void write_chakra(const Workload& workload, const KernelCostModel& costs,
                  const std::string& prefix) {
  const ChakraTrace trace = to_chakra(workload, costs);
  for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank)
    save(prefix + "." + std::to_string(rank) + ".et", trace.ranks[rank]);
  if (!trace.groups.empty()) save(prefix + ".groups.json", trace.groups);
}

TraceWorkload from_chakra(const ChakraTrace& trace, std::string_view source) {
  TraceWorkload result;
  const auto groups = read_groups(trace.groups, trace.ranks.size(), std::string{source});
  for (Rank rank = 0; rank < trace.ranks.size(); ++rank)
    read_rank(result, groups, std::string{source} + "." + std::to_string(rank) + ".et", rank,
              trace.ranks.size(), trace.ranks[rank]);
  result.recorded.resize(result.workload.rank_count());
  return result;
}

TraceWorkload read_chakra(const std::string& prefix) {
  ChakraTrace trace;
  while (auto bytes = contents(prefix + "." + std::to_string(trace.ranks.size()) + ".et"))
    trace.ranks.push_back(std::move(*bytes));
  if (trace.ranks.empty())
    throw ConfigError{prefix + ".0.et: expected an execution trace, cannot be read"};
  trace.groups = contents(prefix + ".groups.json").value_or("");
  return from_chakra(trace, prefix);
}

}  // namespace phantora
