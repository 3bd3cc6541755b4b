#include "simulation/workload_form.hpp"

#include <phantora/error.hpp>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

namespace phantora {
namespace detail {
namespace {

/// Numbers a table's entries in the order in which they are named.
class Numbering {
 public:
  std::uint32_t operator()(std::uint32_t old) {
    if (old >= numbers_.size()) numbers_.resize(old + std::size_t{1}, none);
    if (numbers_[old] == none) {
      numbers_[old] = static_cast<std::uint32_t>(order_.size());
      order_.push_back(old);
    }
    return numbers_[old];
  }
  template <class T>
  [[nodiscard]] std::vector<T> sorted(const std::vector<T>& table) const {
    std::vector<T> result;
    for (const std::uint32_t old : order_) result.push_back(table[old]);
    return result;
  }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  std::vector<std::uint32_t> numbers_{}, order_{};
};

}  // namespace

WorkloadDocument document_of(const Workload& workload) {
  Numbering kernels, groups, calls, messages, labels;
  WorkloadDocument document;
  document.ranks.resize(workload.rank_count());
  for (Rank rank = 0; rank < workload.rank_count(); ++rank) {
    const auto operations = workload.operations(rank);
    auto& list = document.ranks[rank];
    list.assign(operations.begin(), operations.end());
    for (Workload::Operation& operation : list) {
      if (auto* launch = std::get_if<Workload::Launch>(&operation)) {
        launch->kernel = kernels(launch->kernel);
      } else if (auto* collective = std::get_if<Workload::Collective>(&operation)) {
        collective->call = calls(collective->call);
      } else if (auto* exchange = std::get_if<Workload::Exchange>(&operation)) {
        exchange->messages = messages(exchange->messages);
      } else if (auto* allocate = std::get_if<Workload::Allocate>(&operation)) {
        allocate->label = labels(allocate->label);
      } else if (auto* range = std::get_if<Workload::Range>(&operation)) {
        range->label = labels(range->label);
      }
    }
  }
  document.kernels = kernels.sorted(workload.kernels());
  document.calls = calls.sorted(workload.calls());
  document.messages = messages.sorted(workload.messages());
  document.labels = labels.sorted(workload.labels());
  for (auto& call : document.calls) call.group = groups(call.group);
  for (auto& message : document.messages) message.group = groups(message.group);
  document.groups = groups.sorted(workload.groups());
  document.instances = groups.sorted(workload.instances());
  document.origin = workload.origin();
  return document;
}

namespace form {

std::size_t kinds_of(std::int64_t version) {
  if (version == 1) return kinds_of_version_1;
  if (version < 4) return kinds_of_version_2;
  return version == 4 ? kinds_of_version_4 : kinds.size();
}

std::int64_t version_of(const WorkloadDocument& document) {
  std::size_t last_kind = 0;
  for (const auto& operations : document.ranks)
    for (const auto& operation : operations) last_kind = std::max(last_kind, operation.index());
  const bool by_data =
      std::any_of(document.kernels.begin(), document.kernels.end(),
                  [](const Kernel& kernel) { return !kernel.query.by_data.empty(); });
  if (by_data) return 7;
  const bool operands =
      std::any_of(document.kernels.begin(), document.kernels.end(),
                  [](const Kernel& kernel) { return kernel.query.operands.read > 0.0; });
  if (operands) return 6;
  if (last_kind >= kinds_of_version_4) return 5;
  const bool power =
      std::any_of(document.kernels.begin(), document.kernels.end(),
                  [](const Kernel& kernel) { return kernel.known && kernel.known->power_share; });
  if (power || last_kind >= kinds_of_version_2) return 4;
  if (!document.origin.empty()) return 3;
  const bool same_groups = std::any_of(document.instances.begin(), document.instances.end(),
                                       [](std::uint32_t instance) { return instance > 0; });
  return same_groups || last_kind >= kinds_of_version_1 ? 2 : 1;
}

std::string between(std::int64_t least, std::int64_t most) {
  if (least > most) return "nothing, since there is none to name";
  if (least == most) return std::to_string(least);
  if (most == any) return "a whole number >= " + std::to_string(least);
  return "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
}

std::string entries(std::size_t least, std::size_t most) {
  if (least == most) return std::to_string(least) + " entries";
  return least == 0 ? "a list" : "a list of " + std::to_string(least) + " or more";
}

std::string one_of(std::span<const std::string_view> words) {
  std::string text = "one of";
  for (const std::string_view word : words) text += ' ' + std::string{word};
  return text;
}

}  // namespace form
}  // namespace detail

namespace {

/// What ranks do, without where it comes from.
std::string work_of(const Workload& workload) {
  detail::WorkloadDocument document = detail::document_of(workload);
  document.origin.clear();
  return detail::bytes_of(std::move(document));
}

}  // namespace

bool operator==(const Workload& a, const Workload& b) {
  return a.rank_count() == b.rank_count() && a.operation_count() == b.operation_count() &&
         work_of(a) == work_of(b);
}

std::uint64_t Workload::hash() const {
  // FNV-1a (Fowler, Noll, Vo) of the binary form.
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char byte : work_of(*this))
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3ULL;
  return hash;
}

Workload Workload::load(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  if (!file) throw ConfigError{path + ": expected a workload, got a file that cannot be read"};
  const std::string bytes{std::istreambuf_iterator<char>{file}, {}};
  // No binary form begins like a JSON object.
  const auto first = bytes.find_first_not_of(" \t\r\n");
  return first != bytes.npos && bytes[first] == '{' ? from_json(bytes, path)
                                                    : from_binary(bytes, path);
}

void Workload::save(const std::string& path) const {
  std::ofstream file{path, std::ios::binary};
  file << (path.ends_with(".json") ? to_json() : to_binary());
  file.close();
  if (!file) throw Error{"cannot write the workload " + path};
}

}  // namespace phantora
