#include "run/kernels_command.hpp"

#include "run/cluster_choice.hpp"
#include "run/kernel_files.hpp"
#include "run/kernels_csv.hpp"
#include "run/priced_kernels.hpp"

#include <phantora/error.hpp>
#include <phantora/format.hpp>
#include <phantora/kernels/gpu_model.hpp>
#include <phantora/kernels/kernel_database.hpp>
#include <phantora/kernels/query_text.hpp>
#include <phantora/simulation/workload.hpp>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace phantora::run {
namespace {

using Json = nlohmann::json;

/// What tells a query from others of its name, in short: "m=64 n=64 k=64 bf16 N T".
std::string sizes_of(const KernelQuery& query) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : " ") + part; };
  if (query.grid) add(fmt::format("grid {}x{}x{}", query.grid->x, query.grid->y, query.grid->z));
  if (query.bytes > 0 && query.features.empty()) add(fmt::format("{:.0f} bytes", query.bytes));
  for (const auto& [key, value] : query.features) add(fmt::format("{}={:.17g}", key, value));
  for (const auto& [key, value] : query.attributes) add(fmt::format("{}={}", key, value));
  return text;
}

double share(Duration part, Duration whole) {
  return whole > Duration{} ? 100 * to_seconds(part) / to_seconds(whole) : 0.0;
}

double relative(Duration stddev, Duration of) {
  return of > Duration{} ? 100 * to_seconds(stddev) / to_seconds(of) : 0.0;
}

// --- list ---

struct ListOptions {
  std::string path{};
  std::string filter{};
  std::string gpu{};
  std::string sort = "total";
  std::size_t top = 0;  ///< 0: all
  bool long_names = false;
};

void list(const ListOptions& options, std::ostream& out) {
  const KernelDatabase database{options.path};
  for (const KernelSource& source : database.sources())
    out << fmt::format("{}, driver {}, {}: {} ({})\n", source.gpu,
                       source.driver.empty() ? "unknown" : source.driver,
                       source.libraries.empty() ? "no libraries" : source.libraries, source.command,
                       source.date);
  std::vector<MeasuredKernel> kernels =
      database.kernels(options.gpu.empty() ? std::nullopt : std::optional{options.gpu});
  Duration all{};
  for (const MeasuredKernel& kernel : kernels) all += kernel.total();
  std::erase_if(kernels, [&](const MeasuredKernel& kernel) {
    return kernel.query.name.find(options.filter) == std::string::npos;
  });
  const auto by = [&](auto value) {
    std::stable_sort(kernels.begin(), kernels.end(),
                     [&](const auto& a, const auto& b) { return value(a) > value(b); });
  };
  if (options.sort == "count") {
    by([](const MeasuredKernel& kernel) { return kernel.count(); });
  } else if (options.sort == "mean") {
    by([](const MeasuredKernel& kernel) { return kernel.mean(); });
  } else if (options.sort == "spread") {
    by([](const MeasuredKernel& kernel) { return relative(kernel.stddev(), kernel.mean()); });
  } else {
    by([](const MeasuredKernel& kernel) { return kernel.total(); });
  }
  out << fmt::format("{:>11} {:>6} {:>8} {:>11} {:>11} {:>11} {:>7}  {}\n", "total", "share",
                     "count", "mean", "median", "least", "spread", "kernel");
  const std::size_t shown =
      options.top == 0 ? kernels.size() : std::min(options.top, kernels.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const MeasuredKernel& it = kernels[i];
    const std::string name = options.long_names ? it.query.name : shortened(it.query.name, 60);
    out << fmt::format("{:>11} {:>5.1f}% {:>8} {:>11} {:>11} {:>11} {:>6.1f}%  {} {}\n",
                       fmt::format("{}", it.total()), share(it.total(), all), it.count(),
                       fmt::format("{}", it.mean()), fmt::format("{}", it.median()),
                       fmt::format("{}", it.least()), relative(it.stddev(), it.mean()), name,
                       sizes_of(it.query));
  }
  out << fmt::format("{} of {} kinds of kernels, copies and library calls, {} in all\n", shown,
                     kernels.size(), all);
}

// --- compare ---

void compare(const std::string& first_path, const std::string& second_path, std::size_t top,
             std::ostream& out) {
  const KernelDatabase first{first_path}, second{second_path};
  struct Pair {
    MeasuredKernel first{}, second{};
  };
  std::map<std::string, Pair> pairs;
  for (MeasuredKernel& kernel : first.kernels())
    pairs[to_text(kernel.query)].first = std::move(kernel);
  for (MeasuredKernel& kernel : second.kernels())
    pairs[to_text(kernel.query)].second = std::move(kernel);
  out << fmt::format("A: {}, {}\nB: {}, {}\n", first_path, fmt::join(first.gpus(), " and "),
                     second_path, fmt::join(second.gpus(), " and "));
  std::vector<const Pair*> common;
  std::size_t only_first = 0, only_second = 0;
  Duration time_only_first{}, time_only_second{};
  double as_first = 0, as_second = 0;  // what the common ones take, as often as in A
  for (const auto& [text, pair] : pairs) {
    if (pair.second.durations.empty()) {
      ++only_first;
      time_only_first += pair.first.total();
    } else if (pair.first.durations.empty()) {
      ++only_second;
      time_only_second += pair.second.total();
    } else {
      common.push_back(&pair);
      const auto count = static_cast<double>(pair.first.count());
      as_first += to_seconds(pair.first.mean()) * count;
      as_second += to_seconds(pair.second.mean()) * count;
    }
  }
  const auto difference = [](const Pair& pair) {
    return std::abs(to_seconds(pair.second.mean() - pair.first.mean())) *
           static_cast<double>(pair.first.count());
  };
  std::stable_sort(common.begin(), common.end(),
                   [&](const Pair* a, const Pair* b) { return difference(*a) > difference(*b); });
  out << fmt::format("{} in both, {} only in A ({}), {} only in B ({})\n", common.size(),
                     only_first, time_only_first, only_second, time_only_second);
  if (common.empty()) return;
  out << fmt::format("those in both, as often as in A: B takes {:.4f} of A's time\n",
                     as_first > 0 ? as_second / as_first : 1.0);
  out << fmt::format("{:>11} {:>11} {:>7} {:>8}  {}\n", "A", "B", "B/A", "count", "kernel");
  const std::size_t shown = top == 0 ? common.size() : std::min(top, common.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const auto& [a, b] = *common[i];
    out << fmt::format("{:>11} {:>11} {:>7.3f} {:>8}  {} {}\n", fmt::format("{}", a.mean()),
                       fmt::format("{}", b.mean()), to_seconds(b.mean()) / to_seconds(a.mean()),
                       a.count(), shortened(a.query.name, 60), sizes_of(a.query));
  }
}

// --- where ---

struct WhereOptions {
  std::string path{};
  std::string cluster{};
  std::vector<std::string> databases{};
  std::size_t top = 20;
  std::string format = "table";
};

Json json_of(const std::vector<PricedKernel>& kernels) {
  Json list = Json::array();
  for (const PricedKernel& it : kernels) {
    Json entry{
        {"name", it.name}, {"source", it.source}, {"count", it.count}, {"total_s", it.total_s}};
    if (it.query) entry["query"] = Json::parse(to_text(*it.query));
    if (it.stddev_s >= 0) entry["stddev_s"] = it.stddev_s;
    list.push_back(std::move(entry));
  }
  return {{"kernels", std::move(list)}};
}

/// Of a report: its kernels by name, at the times that they had in that run.
std::vector<PricedKernel> of_report(const std::string& path, const Json& report) {
  std::vector<PricedKernel> kernels;
  try {
    for (const Json& kernel : report.at("kernels")) {
      kernels.push_back({.name = kernel.at("name"),
                         .source = kernel.at("source"),
                         .count = kernel.at("count"),
                         .total_s = kernel.at("total_s")});
      if (kernel.value("deviation_s", 0.0) > 0)  // else it is not known
        kernels.back().stddev_s =
            kernel.at("deviation_s").get<double>() / static_cast<double>(kernels.back().count);
    }
  } catch (const Json::exception&) {
    throw ConfigError{path + ": expected a report of phantora run, or a record"};
  }
  return kernels;
}

/// Of a record: each of its kernels, priced anew.
std::vector<PricedKernel> of_record(const WhereOptions& options) {
  const Workload workload = Workload::load(options.path);
  if (options.cluster.empty())
    throw ConfigError{options.path + " is a record: expected a --cluster that it is priced on"};
  const Cluster cluster = cluster_of(options.cluster, std::nullopt);
  if (cluster.hosts.empty()) throw ConfigError{options.cluster + ": expected a cluster of hosts"};
  const KernelCostModel costs =
      costs_of(options.databases, cluster)(gpu_model(cluster.hosts.front()));
  std::vector<std::uint64_t> counts(workload.kernels().size());
  for (Rank rank = 0; rank < workload.rank_count(); ++rank)
    for (const Workload::Operation& operation : workload.operations(rank))
      if (const auto* const launch = std::get_if<Workload::Launch>(&operation))
        ++counts[launch->kernel];
  std::vector<PricedKernel> kernels;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const Kernel& kernel = workload.kernels()[i];
    const std::optional<CostEstimate> price =
        kernel.known ? kernel.known : costs.estimate(kernel.query);
    if (!price || counts[i] == 0) continue;
    kernels.push_back({.name = kernel.query.name + " " + sizes_of(kernel.query),
                       .source = std::string{to_string(price->source)},
                       .query = kernel.query,
                       .count = counts[i],
                       .total_s = to_seconds(price->duration) * static_cast<double>(counts[i]),
                       .stddev_s = to_seconds(price->stddev)});
  }
  return kernels;
}

void where(const WhereOptions& options, std::ostream& out) {
  std::ifstream file{options.path};
  if (!file) throw ConfigError{options.path + ": expected a report or a record, cannot be read"};
  const Json json = Json::parse(file, nullptr, false);
  const bool report = json.is_object() && json.contains("phantora");
  std::vector<PricedKernel> kernels = report ? of_report(options.path, json) : of_record(options);
  std::stable_sort(
      kernels.begin(), kernels.end(),
      [](const PricedKernel& a, const PricedKernel& b) { return a.total_s > b.total_s; });
  if (options.format == "json") {
    out << json_of(kernels).dump(1) << '\n';
  } else {
    print_sources(kernels, out);
    print_kernels(kernels, options.top, out);
  }
}

// --- merge, export, import ---

void merge(const std::vector<std::string>& paths, std::ostream& out) {
  KernelDatabase into{paths.front(), KernelDatabase::Access::write};
  for (std::size_t i = 1; i < paths.size(); ++i) into.merge(KernelDatabase{paths[i]});
  out << fmt::format("{}: {} kinds of kernels of {} processes on {}\n", paths.front(),
                     into.kernels().size(), into.sources().size(), fmt::join(into.gpus(), " and "));
}

void export_csv(const std::string& database, const std::string& csv, std::ostream& out) {
  const KernelDatabase from{database};
  if (csv == "-") {
    write_csv(from, out);
    return;
  }
  std::ofstream file{csv};
  write_csv(from, file);
  file.close();
  if (!file) throw ConfigError{"cannot write " + csv};
}

void import_csv(const std::string& csv, const std::string& database, std::ostream& out) {
  std::ifstream file{csv};
  if (!file) throw ConfigError{csv + ": expected a file of phantora kernels export"};
  const std::vector<SourceKernels> read = read_csv(file, csv);
  KernelDatabase into{database, KernelDatabase::Access::write};
  std::size_t kernels = 0;
  for (const SourceKernels& one : read) {
    // As merge() does: what is there of the same source is not counted twice.
    into.merge(one.source, one.kernels);
    kernels += one.kernels.size();
  }
  out << fmt::format("{}: {} kinds of kernels of {} processes\n", csv, kernels, read.size());
}

}  // namespace

void add_kernels_command(CLI::App& app, std::function<void(std::ostream&)>& chosen) {
  CLI::App* const command =
      app.add_subcommand("kernels", "kernel databases: what phantora measure wrote");
  command->require_subcommand(1);

  const auto listed = std::make_shared<ListOptions>();
  CLI::App* const lists = command->add_subcommand("list", "what a database holds");
  lists->add_option("database", listed->path, "of phantora measure")->required();
  lists->add_option("--filter", listed->filter, "a part of the kernels' names");
  lists->add_option("--gpu", listed->gpu, "only what was measured on this one, by its full name");
  lists->add_option("--sort", listed->sort, "total, count, mean or spread")
      ->check(CLI::IsMember({"total", "count", "mean", "spread"}))
      ->capture_default_str();
  lists->add_option("--top", listed->top, "only so many (default: all)");
  lists->add_flag("--long", listed->long_names, "whole names");
  lists->callback(
      [listed, &chosen] { chosen = [listed](std::ostream& out) { list(*listed, out); }; });

  const auto merged = std::make_shared<std::vector<std::string>>();
  CLI::App* const merges = command->add_subcommand(
      "merge", "adds databases to the first, which is made if it is not there");
  merges->add_option("databases", *merged, "INTO FROM...")->required()->expected(2, 1 << 20);
  merges->callback(
      [merged, &chosen] { chosen = [merged](std::ostream& out) { merge(*merged, out); }; });

  const auto exported = std::make_shared<std::array<std::string, 2>>();
  CLI::App* const exports = command->add_subcommand("export", "a database as CSV, losing nothing");
  exports->add_option("database", exported->at(0), "of phantora measure")->required();
  exports->add_option("csv", exported->at(1), "what is written; - is the output")->required();
  exports->callback([exported, &chosen] {
    chosen = [exported](std::ostream& out) { export_csv(exported->at(0), exported->at(1), out); };
  });

  const auto imported = std::make_shared<std::array<std::string, 2>>();
  CLI::App* const imports = command->add_subcommand("import", "adds such a CSV to a database");
  imports->add_option("csv", imported->at(0), "of phantora kernels export")->required();
  imports->add_option("database", imported->at(1), "made if it is not there")->required();
  imports->callback([imported, &chosen] {
    chosen = [imported](std::ostream& out) { import_csv(imported->at(0), imported->at(1), out); };
  });

  const auto compared = std::make_shared<std::array<std::string, 2>>();
  const auto compared_top = std::make_shared<std::size_t>(20);
  CLI::App* const compares =
      command->add_subcommand("compare", "two databases, by what makes the greatest difference");
  compares->add_option("a", compared->at(0), "a database")->required();
  compares->add_option("b", compared->at(1), "another one")->required();
  compares->add_option("--top", *compared_top, "so many lines; 0: all")->capture_default_str();
  compares->callback([compared, compared_top, &chosen] {
    chosen = [compared, compared_top](std::ostream& out) {
      compare(compared->at(0), compared->at(1), *compared_top, out);
    };
  });

  const auto asked = std::make_shared<WhereOptions>();
  CLI::App* const asks = command->add_subcommand(
      "where",
      "where the kernel times of a run came from: of a report as it was, or of a record\n"
      "(phantora run --record) priced anew, with error bars");
  asks->add_option("path", asked->path, "a report or a record")->required();
  asks->add_option("--cluster", asked->cluster, "what a record is priced on, as in h200:1x1");
  asks->add_option("--kernels", asked->databases, "a kernel database; repeatable, first hit wins")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  asks->add_option("--top", asked->top, "so many lines; 0: all")->capture_default_str();
  asks->add_option("--format", asked->format, "table or json, which has the queries too")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();
  asks->callback([asked, &chosen] { chosen = [asked](std::ostream& out) { where(*asked, out); }; });
}

}  // namespace phantora::run
