#include "channel/settings.hpp"

#include "channel/number.hpp"

#include <algorithm>
#include <array>
#include <concepts>
#include <utility>

namespace phantora::channel {
namespace {

constexpr std::array<std::pair<Unknown, std::string_view>, 3> unknowns = {
    {{Unknown::zero, "0"}, {Unknown::one, "1"}, {Unknown::normal, "normal"}}};

constexpr std::array<std::pair<Choice, std::string_view>, 4> choices = {
    {{Choice::balanced, "balanced"},
     {Choice::random, "random"},
     {Choice::first, "first"},
     {Choice::none, "none"}}};

/// Takes off the front of `text` what stands before the next `separator`, and that.
std::string_view next_of(std::string_view& text, char separator) {
  const std::string_view first = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(text.size(), first.size() + 1));
  return first;
}

template <class Number>
bool read(std::string_view text, Number& into) {
  const auto value = number<Number>(text);
  into = value.value_or(into);
  return value.has_value();
}

/// "8 h200 150110011392 h200-0": the name last, which may hold blanks.
bool read_host(std::string_view text, HostFacts& host) {
  const std::string_view gpus = next_of(text, ' ');
  host.gpu_model = next_of(text, ' ');
  std::int64_t memory = 0;
  if (!read(gpus, host.gpus) || !read(next_of(text, ' '), memory)) return false;
  host.gpu_memory = Bytes{memory};
  host.name = text;
  return true;
}

bool read(std::string_view text, Bytes& into) {
  std::int64_t count = 0;
  if (!read(text, count)) return false;
  into = Bytes{count};
  return true;
}
template <class Rate>
requires(std::same_as<Rate, Bandwidth> ||
         std::same_as<Rate, FlopRate>) bool read(std::string_view text, Rate& into) {
  double rate = 0;
  if (!read(text, rate)) return false;
  into = Rate{rate};
  return true;
}

using channel::text_of;
std::string text_of(Bytes bytes) { return std::to_string(bytes.count()); }
std::string text_of(Bandwidth bandwidth) { return text_of(bandwidth.bytes_per_second()); }
std::string text_of(FlopRate rate) { return text_of(rate.per_second()); }
std::string text_of(int number) { return std::to_string(number); }

/// Calls `act` with each of the figures of a GPU, in the order of the line that has them.
template <class Gpu, class Act>
void figures(Gpu& gpu, Act act) {
  act(gpu.capability_major), act(gpu.capability_minor), act(gpu.sm_count), act(gpu.clock_hz);
  act(gpu.memory), act(gpu.context_memory), act(gpu.l2);
  act(gpu.memory_bandwidth), act(gpu.nvlink), act(gpu.pcie);
  act(gpu.fp8), act(gpu.half), act(gpu.tf32), act(gpu.fp32), act(gpu.fp64);
  act(gpu.tensor_power), act(gpu.memory_power);
}

/// "mine 9 0 132 ... NVIDIA H20": key, figures, and the name last, which may hold blanks.
bool read_gpu(std::string_view text, GpuModel& gpu) {
  gpu.key = next_of(text, ' ');
  bool good = true;
  figures(gpu, [&](auto& figure) { good = read(next_of(text, ' '), figure) && good; });
  gpu.name = text;
  return good;
}

std::string line_of(const GpuModel& gpu) {
  std::string line = "gpu " + gpu.key;
  figures(gpu, [&](const auto& figure) { line += ' ' + text_of(figure); });
  return line + ' ' + gpu.name;
}

bool read_line(std::string_view line, Settings& settings) {
  const std::string_view name = next_of(line, ' ');
  if (name == "socket") {
    settings.socket = line;
  } else if (name == "run_memory") {
    settings.run_memory = line;
  } else if (name == "host_time") {
    const auto policy = parse_host_time(line);
    if (!policy) return false;
    settings.host_time = *policy;
  } else if (name == "host_scale") {
    settings.host_time.scale = number<double>(line);
    return settings.host_time.scale.has_value();
  } else if (name == "slowness") {
    HostSlowness& host = settings.host_time.host;
    return read(next_of(line, ' '), host.work) && read(line, host.calls);
  } else if (name == "epoch") {
    return read(next_of(line, ' '), settings.epoch.realtime_ns) &&
           read(line, settings.epoch.monotonic_ns);
  } else if (name == "unknown") {
    const auto unknown = parse_unknown(line);
    if (!unknown) return false;
    settings.unknown = *unknown;
  } else if (name == "routing") {
    const auto choice = parse_choice(line);
    if (!choice) return false;
    settings.routing = *choice;
  } else if (name == "selected") {
    return read(line, settings.selected) && settings.selected >= 0 && settings.selected <= 1;
  } else if (name == "host_by_rank") {
    settings.host_by_rank = true;
  } else if (name == "gpu") {
    return read_gpu(line, settings.gpus.emplace_back());
  } else if (name == "host") {
    return read_host(line, settings.hosts.emplace_back());
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::optional<Unknown> parse_unknown(std::string_view text) {
  for (const auto& [unknown, name] : unknowns) {
    if (name == text) return unknown;
  }
  return std::nullopt;
}

std::string to_string(Unknown unknown) {
  return std::string{unknowns[static_cast<std::size_t>(unknown)].second};
}

std::optional<Choice> parse_choice(std::string_view text) {
  for (const auto& [choice, name] : choices) {
    if (name == text) return choice;
  }
  return std::nullopt;
}

std::string to_string(Choice choice) {
  return std::string{choices[static_cast<std::size_t>(choice)].second};
}

std::string to_text(const Settings& settings) {
  std::string text = "socket " + settings.socket;
  if (!settings.run_memory.empty()) text += "\nrun_memory " + settings.run_memory;
  text += "\nhost_time " + to_string(settings.host_time);
  if (settings.host_time.scale) text += "\nhost_scale " + text_of(*settings.host_time.scale);
  const HostSlowness& slowness = settings.host_time.host;
  text += "\nslowness " + text_of(slowness.work) + ' ' + text_of(slowness.calls);
  text += "\nepoch " + std::to_string(settings.epoch.realtime_ns) + ' ' +
          std::to_string(settings.epoch.monotonic_ns);
  text += "\nunknown " + to_string(settings.unknown);
  text += "\nrouting " + to_string(settings.routing);
  text += "\nselected " + text_of(settings.selected);
  if (settings.host_by_rank) text += "\nhost_by_rank";
  for (const GpuModel& gpu : settings.gpus) text += '\n' + line_of(gpu);
  for (const HostFacts& host : settings.hosts) {
    text += "\nhost " + std::to_string(host.gpus) + ' ' + host.gpu_model + ' ' +
            std::to_string(host.gpu_memory.count()) + ' ' + host.name;
  }
  return text;
}

std::optional<Settings> parse_settings(std::string_view text) {
  Settings settings;
  while (!text.empty()) {
    if (!read_line(next_of(text, '\n'), settings)) return std::nullopt;
  }
  if (settings.socket.empty() || settings.hosts.empty()) return std::nullopt;
  return settings;
}

std::optional<Seat> seat_of_rank(const Settings& settings, int rank) {
  for (std::size_t host = 0; host < settings.hosts.size(); ++host) {
    const int gpus = settings.hosts[host].gpus;
    if (rank < gpus) return Seat{host, rank};
    rank -= gpus;
  }
  return std::nullopt;
}

}  // namespace phantora::channel
