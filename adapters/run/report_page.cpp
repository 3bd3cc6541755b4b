#include "run/report_page.hpp"

#include "run/svg_plots.hpp"

#include <phantora/format.hpp>
#include <phantora/version.hpp>

#include <algorithm>
#include <numeric>
#include <ranges>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace phantora::run {
namespace {

constexpr std::string_view style = R"(
:root { color-scheme: light dark; --page: #ffffff; --text: #1c2128; --quiet: #57606a; --rule: #d9dde2;
  --card: #f4f6f8; --computing: #2a78d6; --exposed: #e07b00; --idle: #c3c8cf; --memory: #2a78d6;
  --warning: #fff1dc; --database: #0f8a83; --measured: #2a9d5c; --fitted: #2a78d6; --roofline: #e07b00;
  --code: #8e5bd0; --grid: #d64550; --unknown: #8a8f98; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14181d; --text: #e3e7ec; --quiet: #9aa4af; --rule: #343b44; --card: #1e242b;
    --computing: #4f9bf0; --exposed: #f0992e; --idle: #4b535d; --memory: #4f9bf0; --warning: #4a3512;
    --database: #2fb5ac; --measured: #45bd78; --fitted: #4f9bf0; --roofline: #f0992e; --code: #ac83e6;
    --grid: #ef6b75; --unknown: #8a939d; } }
body { margin: 0 auto; padding: 24px; max-width: 1040px; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 24px; margin: 0; overflow-wrap: anywhere; } h2 { font-size: 18px; margin: 36px 0 4px; }
p { margin: 4px 0; } .quiet { color: var(--quiet); } code { overflow-wrap: anywhere; }
.warning { background: var(--warning); padding: 8px 12px; border-radius: 6px; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(180px, 1fr)); gap: 12px; margin: 20px 0; }
.cards div { background: var(--card); border-radius: 8px; padding: 10px 14px; }
.cards dt { color: var(--quiet); font-size: 13px; } .cards dd { margin: 0; font-size: 20px; font-weight: 600; }
.cards dd span { display: block; font-size: 13px; font-weight: 400; color: var(--quiet); }
figure { margin: 8px 0 0; overflow-x: auto; }
svg { width: 100%; min-width: 640px; height: auto; font-size: 12px; }
svg text { fill: var(--text); } .middle { text-anchor: middle; } .end { text-anchor: end; }
svg text.axis { fill: var(--quiet); } line.grid { stroke: var(--rule); }
.frame { fill: none; stroke: var(--quiet); }
.line polyline { fill: none; stroke: var(--computing); stroke-opacity: 0.55; stroke-width: 1.5; }
.line circle { fill: var(--computing); } .line circle.hollow { fill: var(--page); stroke: var(--computing); }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 6px 0; padding: 0; font-size: 14px; }
.legend svg { width: 12px; min-width: 12px; height: 12px; margin-right: 6px; }
.computing { fill: var(--computing); } .exposed { fill: var(--exposed); } .idle { fill: var(--idle); }
.memory { fill: var(--memory); } .database { fill: var(--database); } .measured { fill: var(--measured); }
.fitted { fill: var(--fitted); } .roofline { fill: var(--roofline); } .code { fill: var(--code); }
rect.grid { fill: var(--grid); } .unknown { fill: var(--unknown); }
.scrolls { overflow-x: auto; } table { border-collapse: collapse; font-size: 13px; width: 100%; }
th, td { text-align: right; padding: 3px 8px; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th { color: var(--quiet); font-weight: 600; }
thead th { white-space: normal; vertical-align: bottom; } th[scope=row] { color: inherit; font-weight: 400; }
.name { text-align: left; white-space: normal; overflow-wrap: anywhere; min-width: 22em;
  font-family: ui-monospace, monospace; font-size: 12px; }
tbody th.name { font-weight: 400; } thead th.name { font: inherit; font-weight: 600; }
.name span { display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 2; overflow: hidden; }
pre { background: var(--card); padding: 12px; border-radius: 8px; overflow-x: auto; font-size: 12px; }
)";

/// A figure as people read it, and as it stands in the JSON.
std::string figure(Duration d) {
  return fmt::format("<data value=\"{}\">{}</data>", to_seconds(d), d);
}
std::string figure(Bytes b) {
  return fmt::format("<data value=\"{}\">{:.2GiB}</data>", b.count(), b);
}
std::string figure(std::uint64_t n) { return fmt::format("<data value=\"{0}\">{0}</data>", n); }

std::string shown(Duration d) { return fmt::format("{}", d); }
std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }
double ratio(Duration part, Duration of) {
  return of > Duration{} ? to_seconds(part) / to_seconds(of) : 0.0;
}

/// The classes that plots have, with what they stand for.
using Keys = std::vector<std::pair<std::string, std::string>>;
std::string legend(const Keys& keys) {
  std::string html = "<ul class=\"legend\">";
  for (const auto& [css_class, meaning] : keys) {
    html += fmt::format(
        "<li><svg viewBox=\"0 0 12 12\" aria-hidden=\"true\"><rect width=\"12\" height=\"12\" "
        "rx=\"2\" "
        "class=\"{}\"/></svg>{}</li>",
        css_class, escaped(meaning));
  }
  return html + "</ul>\n";
}

std::string plot(std::string_view svg) { return fmt::format("<figure>{}</figure>\n", svg); }

/// Lets the page grow in the order in which it is read.
class Page {
 public:
  explicit Page(const Report& report)
      : report_{report}, simulated_{report.simulated()}, facts_{report.facts()} {}

  std::string text() {
    const std::string title = fmt::format("{}: {} on {}", facts_.record.empty() ? "run" : "replay",
                                          facts_.cluster, report_.gpu_names());
    html_ = fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<title>Phantora {}</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n",
        escaped(title), style);
    head();
    cards();
    parts();
    course();
    host();
    memory();
    sources();
    kernels();
    ranks();
    summary();
    return html_ + fmt::format(
                       "</main>\n<footer class=\"quiet\"><p>Phantora {}</p></footer>\n"
                       "</body>\n</html>\n",
                       PHANTORA_VERSION_STRING);
  }

 private:
  void section(std::string_view title, std::string_view explanation) {
    html_ += fmt::format("<h2>{}</h2>\n<p class=\"quiet\">{}</p>\n", escaped(title),
                         escaped(explanation));
  }

  void head() {
    html_ += fmt::format("<h1>{} on {} {}</h1>\n", escaped(facts_.cluster), simulated_.gpus.size(),
                         escaped(report_.gpu_names()));
    if (facts_.record.empty()) {
      html_ += fmt::format("<p><code>{}</code></p>\n",
                           escaped(fmt::format("{}", fmt::join(facts_.command, " "))));
    } else {
      html_ += fmt::format("<p>replayed from <code>{}</code>, {}</p>\n", escaped(facts_.record),
                           escaped(facts_.widen));
    }
    if (!facts_.cut_short.empty())
      html_ += fmt::format("<p class=\"warning\">This report is partial: {}.</p>\n",
                           escaped(facts_.cut_short));
  }

  void card(std::string_view name, std::string_view value, std::string_view beside) {
    html_ += fmt::format("<div><dt>{}</dt><dd>{}<span>{}</span></dd></div>\n", name, value,
                         escaped(beside));
  }

  /// The middle one of what each GPU has.
  template <class Figure>
  auto median(Figure figure_of) const {
    std::vector<decltype(figure_of(simulated_.gpus.front()))> values;
    for (const GpuReport& gpu : simulated_.gpus) values.push_back(figure_of(gpu));
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }

  void cards() {
    html_ += "<dl class=\"cards\">\n";
    const auto step = report_.step();
    const Steps* const most =
        simulated_.most_steps() == nullptr ? nullptr : &simulated_.most_steps()->steps;
    card("Step time", step ? figure(*step) : "not found",
         most == nullptr
             ? "no repeating work"
             : fmt::format("median of {} of {} steps; {} kernels and copies",
                           std::ranges::count(most->typical, true), most->count(), most->items));
    const Duration whole = simulated_.makespan.time_since_epoch();
    card("Simulated time", figure(whole), "of the whole run");
    const Duration busy = median([](const GpuReport& gpu) { return gpu.use.busy; });
    card("GPU busy", figure(busy), percent(ratio(busy, whole)) + " of the whole run");
    const Duration exposed = median([](const GpuReport& gpu) { return gpu.use.exposed; });
    card("Exposed communication", figure(exposed),
         percent(ratio(exposed, whole)) + " of the whole run");
    const auto& peaks = report_.peak_memory();
    const auto fullest =
        std::ranges::max_element(std::views::iota(GpuIndex{0}, static_cast<GpuIndex>(peaks.size())),
                                 {}, [&](GpuIndex gpu) { return peaks[gpu]; });
    card("Peak memory", figure(Bytes{static_cast<std::int64_t>(peaks[*fullest])}),
         fmt::format("of {:.2GiB}, rank {}", report_.kind_of(*fullest).memory, *fullest));
    html_ += "</dl>\n";
  }

  /// A bar of what a rank's GPU did, and nothing else.
  static Bar bar_of(GpuIndex rank, const StepParts& parts) {
    const std::string name = fmt::format("rank {}", rank);
    const Duration all = parts.computing + parts.exposed + parts.idle;
    const auto part = [&](std::string_view css_class, std::string_view what, Duration d) {
      return Bar::Part{std::string{css_class}, to_seconds(d),
                       fmt::format("{}: {} {} ({})", name, d, what, percent(ratio(d, all)))};
    };
    return {.label = name,
            .parts = {part("computing", "computing", parts.computing),
                      part("exposed", "exposed communication", parts.exposed),
                      part("idle", "idle", parts.idle)},
            .value = shown(all)};
  }

  void add_bars(const std::vector<Bar>& rows, Duration longest, std::string_view axis) {
    html_ += legend(
        {{"computing", "computing: kernels or copies run"},
         {"exposed", "exposed communication: it runs alone, or waits for other ranks"},
         {"idle", "idle: nothing runs, while the GPU waits for its host or starts kernels"}});
    html_ +=
        plot(bars(rows, time_unit(to_seconds(longest)), axis,
                  "Of each rank, how that time is divided into computing, exposed communication "
                  "and idle time. The table of ranks has the same figures."));
  }

  void parts() {
    std::vector<Bar> rows;
    Duration longest{};
    const bool steps_known = simulated_.most_steps() != nullptr;
    const Duration whole = simulated_.makespan.time_since_epoch();
    for (GpuIndex rank = 0; rank < simulated_.gpus.size(); ++rank) {
      const GpuReport& gpu = simulated_.gpus[rank];
      if (steps_known && gpu.steps.count() == 0) continue;
      const GpuUse& use = gpu.use;
      const StepParts parts = steps_known
                                  ? gpu.parts
                                  : StepParts{.computing = use.busy - use.exposed,
                                              .exposed = use.exposed,
                                              .idle = std::max(whole - use.busy, Duration{})};
      longest = std::max(longest, parts.computing + parts.exposed + parts.idle);
      rows.push_back(bar_of(rank, parts));
    }
    if (steps_known) {
      section("Where the step goes", "Means over each rank's typical steps.");
      add_bars(rows, longest, "time of a typical step");
    } else {
      section("Where the time goes", "Of the whole run, since no steps were found in it.");
      add_bars(rows, longest, "simulated time");
    }
  }

  void course() {
    std::vector<Line> course;
    double longest = 0;
    for (GpuIndex rank = 0; rank < simulated_.gpus.size(); ++rank) {
      const Steps& steps = simulated_.gpus[rank].steps;
      Line line{.title = fmt::format("rank {}", rank)};
      for (std::size_t i = 0; i < steps.count(); ++i) {
        line.values.push_back(to_seconds(steps.bounds[i + 1] - steps.bounds[i]));
        line.hollow.push_back(!steps.typical[i]);
        longest = std::max(longest, line.values.back());
      }
      if (!line.values.empty()) course.push_back(std::move(line));
    }
    if (course.empty()) return;
    section(
        "Steps over time",
        "A line for each rank; hollow points are steps that warm up or hold other work, which the "
        "step time leaves out.");
    html_ += plot(lines(course, time_unit(longest), "step", "length",
                        "The length of every step of each rank, in their order."));
  }

  void host() {
    if (!facts_.sensitivity) {
      if (!facts_.no_sensitivity.empty())
        section("What the host decides", "It is not known: " + facts_.no_sensitivity + ".");
      return;
    }
    const HostSensitivity& of = *facts_.sensitivity;
    section("What the host decides",
            fmt::format(
                "The job was simulated on hosts like {}; {} of the step waits for them. So long "
                "would the step be on others.",
                facts_.host, percent(of.share())));
    std::vector<Bar> rows;
    for (const auto& [label, step] :
         {std::pair{"free", of.free}, std::pair{"20 % faster", of.faster},
          std::pair{"as it is", of.step}, std::pair{"20 % slower", of.slower}}) {
      rows.push_back(
          {.label = label,
           .parts = {{"computing", to_seconds(step), fmt::format("{}: {}", label, step)}},
           .value = shown(step)});
    }
    const double most = std::max(to_seconds(of.slower), to_seconds(of.step));
    html_ +=
        plot(bars(rows, time_unit(most), "step time",
                  fmt::format("Step time if host work took no time: {}; on hosts that are 20 % "
                              "faster: {}; as it is: {}; 20 % slower: {}.",
                              of.free, of.faster, of.step, of.slower)));
  }

  void memory() {
    std::vector<Bar> rows;
    for (GpuIndex rank = 0; rank < simulated_.gpus.size(); ++rank) {
      const Bytes peak{static_cast<std::int64_t>(report_.peak_memory()[rank])};
      const Bytes all = report_.kind_of(rank).memory;
      rows.push_back(
          {.label = fmt::format("rank {}", rank),
           .parts = {{peak > all ? "exposed" : "memory", static_cast<double>(peak.count()),
                      fmt::format("rank {}: {:.2GiB} of {:.2GiB}", rank, peak, all)}},
           .value = fmt::format("{:.2GiB}", peak),
           .of = static_cast<double>(all.count())});
    }
    section("Peak memory", "Of each GPU; the frame is what it has.");
    html_ +=
        plot(bars(rows, memory_unit(), "memory",
                  "Peak memory of each rank beside its GPU's capacity. The table of ranks has the "
                  "same figures."));
  }

  void sources() {
    const auto by_source = simulated_.kernel_time();
    const Duration all = std::accumulate(by_source.begin(), by_source.end(), Duration{});
    if (all == Duration{}) return;
    section("Where kernel times come from", "Kernels and copies of all GPUs together.");
    Keys keys;
    Bar row{.label = "all ranks", .value = shown(all)};
    for (const CostSource source : shown_sources) {
      const Duration time = by_source[static_cast<std::size_t>(source)];
      if (time == Duration{}) continue;
      const std::string name{to_string(source)};
      const std::string meaning =
          fmt::format("{}: {} ({})", meaning_of(source), time, percent(ratio(time, all)));
      keys.emplace_back(name, meaning);
      row.parts.push_back({name, to_seconds(time), meaning});
    }
    html_ += legend(keys);
    html_ += plot(bars({row}, time_unit(to_seconds(all)), "kernel time",
                       "Kernel time by the source of its prices, as listed above."));
  }

  static std::string meaning_of(CostSource source) {
    switch (source) {
      case CostSource::database:
        return "database: measured by phantora measure";
      case CostSource::measured:
        return "measured: in the built-in data";
      case CostSource::fitted:
        return "fitted: by kernels of its kind that were measured";
      case CostSource::roofline:
        return "roofline: by arithmetic and bytes alone";
      case CostSource::code:
        return "code: by its machine code";
      case CostSource::grid:
        return "grid: by the size of its launch alone";
      case CostSource::unknown:
        break;
    }
    return "unknown";
  }

  void kernels() {
    constexpr std::size_t longest = 20;
    const auto& all = simulated_.kernels;
    if (all.empty()) return;
    section(
        "Kernels by time",
        fmt::format("The longest of {} names, over all GPUs. +- is one standard deviation of what "
                    "their prices are off by, where it is known.",
                    all.size()));
    html_ +=
        "<div class=\"scrolls\"><table id=\"kernels\">\n<thead><tr><th scope=\"col\">total</th>"
        "<th scope=\"col\">+-</th><th scope=\"col\">share</th><th scope=\"col\">count</th>"
        "<th scope=\"col\">source</th><th scope=\"col\" class=\"name\">kernel</th></tr></thead>\n"
        "<tbody>\n";
    for (std::size_t i = 0; i < std::min(longest, all.size()); ++i) {
      const NamedKernel& it = all[i];
      const std::string off =
          it.deviation > Duration{}
              ? fmt::format("<data value=\"{}\">{}</data>", to_seconds(it.deviation),
                            percent(ratio(it.deviation, it.total)))
              : "-";
      html_ += fmt::format(
          "<tr><td>{0}</td><td>{1}</td><td>{2}</td><td>{3}</td><td>{4}</td>"
          "<th scope=\"row\" class=\"name\"><span title=\"{5}\">{5}</span></th></tr>\n",
          figure(it.total), off, percent(simulated_.share_of_kernels(it.total)), figure(it.count),
          to_string(it.source), escaped(it.name));
    }
    html_ += "</tbody></table></div>\n";
  }

  void ranks() {
    section("Ranks",
            "Computing, exposed and idle are of a typical step, on average; busy and exposed "
            "communication of the whole run.");
    html_ += "<div class=\"scrolls\"><table id=\"ranks\">\n<thead><tr>";
    for (const char* const column :
         {"rank", "host", "steps", "step time", "computing", "exposed", "idle", "busy",
          "exposed communication", "kernels", "peak memory", "of"})
      html_ += fmt::format("<th scope=\"col\">{}</th>", column);
    html_ += "</tr></thead>\n<tbody>\n";
    for (GpuIndex rank = 0; rank < simulated_.gpus.size(); ++rank) {
      const GpuReport& gpu = simulated_.gpus[rank];
      const GpuKind& kind = report_.kind_of(rank);
      html_ += fmt::format(
          "<tr><th scope=\"row\">{}</th><td>{}</td>", figure(std::uint64_t{rank}),
          escaped(simulated_.kinds.size() == 1 ? gpu.host : gpu.host + ", " + kind.model));
      const bool known = gpu.steps.count() > 0;
      const auto cell = [&](const std::string& text) { html_ += "<td>" + text + "</td>"; };
      cell(figure(std::uint64_t{gpu.steps.count()}));
      for (const Duration d :
           {gpu.steps.median(), gpu.parts.computing, gpu.parts.exposed, gpu.parts.idle})
        cell(known ? figure(d) : "-");
      cell(figure(gpu.use.busy));
      cell(figure(gpu.use.exposed));
      cell(figure(gpu.use.kernels));
      cell(figure(Bytes{static_cast<std::int64_t>(report_.peak_memory()[rank])}));
      cell(figure(kind.memory));
      html_ += "</tr>\n";
    }
    html_ += "</tbody></table></div>\n";
  }

  void summary() {
    section("What was printed", "The table at the end of the run, with what it doubts.");
    std::ostringstream table;
    report_.print(table, facts_.wall_seconds);
    html_ += fmt::format("<pre>{}</pre>\n", escaped(table.str()));
  }

  const Report& report_;
  const SessionReport& simulated_;
  const RunFacts& facts_;
  std::string html_{};
};

}  // namespace

std::string page_of(const Report& report) { return Page{report}.text(); }

}  // namespace phantora::run
