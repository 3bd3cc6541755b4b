#include "run/svg_plots.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

namespace phantora::run {
namespace {

// In units of the drawing, which is as wide as the page makes it.
constexpr double width = 960, left = 88, right = 100, top = 8, below = 44;
constexpr double plot_width = width - left - right;

/// Marks of an axis from 0: 1, 2 or 5 times a power of ten apart, up to some eight of them.
std::vector<double> marks(double most) {
  if (!(most > 0)) return {0};
  const double rough = most / 8, power = std::pow(10, std::floor(std::log10(rough)));
  double apart = 10 * power;
  for (const double step : {1.0, 2.0, 5.0}) {
    if (step * power >= rough) {
      apart = step * power;
      break;
    }
  }
  std::vector<double> all;
  for (int i = 0; i * apart <= most * 1.0001; ++i) all.push_back(i * apart);
  return all;
}

std::string opened(double height, std::string_view about) {
  return fmt::format("<svg viewBox=\"0 0 {} {:.0f}\" role=\"img\" aria-label=\"{}\">\n", width,
                     height, escaped(about));
}

std::string text(double x, double y, std::string_view css_class, std::string_view what) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\">{}</text>\n", x, y, css_class,
                     escaped(what));
}

std::string rule(double x1, double y1, double x2, double y2, std::string_view css_class) {
  return fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n", x1, y1, x2,
      y2, css_class);
}

/// The horizontal axis of bars, with lines up to the top.
std::string axis_of_bars(double most, double bottom, const Unit& unit, std::string_view axis) {
  std::string svg;
  for (const double mark : marks(most / unit.size)) {
    const double x = left + plot_width * mark * unit.size / most;
    svg += rule(x, top, x, bottom, "grid");
    svg += text(x, bottom + 16, "middle", fmt::format("{:g}", mark));
  }
  return svg + text(left + plot_width / 2, bottom + 36, "middle axis",
                    fmt::format("{} [{}]", axis, unit.name));
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        if (static_cast<unsigned char>(c) < ' ' && c != '\n' && c != '\t') {
          safe += "\uFFFD";
        } else {
          safe += c;
        }
    }
  }
  return safe;
}

Unit time_unit(double most_seconds) {
  constexpr std::array<std::pair<const char*, double>, 4> units = {
      {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}}};
  for (const auto& [name, size] : units)
    if (most_seconds >= size) return {name, size};
  return {units.back().first, units.back().second};
}

Unit memory_unit() { return {"GiB", 1024.0 * 1024 * 1024}; }

std::string bars(const std::vector<Bar>& rows, const Unit& unit, std::string_view axis,
                 std::string_view about) {
  constexpr std::size_t many = 64;
  const bool thin = rows.size() > many;
  const double pitch = thin ? 5 : 22, thick = thin ? 4 : 15;
  const std::size_t label_each = thin ? 4 : 1;
  double most = 0;
  for (const Bar& row : rows) {
    double sum = 0;
    for (const Bar::Part& part : row.parts) sum += part.value;
    most = std::max({most, sum, row.of});
  }
  if (!(most > 0)) most = unit.size;
  const double bottom = top + pitch * static_cast<double>(rows.size());
  std::string svg = opened(bottom + below, about) + axis_of_bars(most, bottom, unit, axis);
  double y = top + (pitch - thick) / 2;
  for (std::size_t i = 0; i < rows.size(); ++i, y += pitch) {
    const Bar& row = rows[i];
    const bool labelled = i % label_each == 0;
    const double middle = y + thick / 2 + 4;
    if (labelled) svg += text(left - 8, middle, "end", row.label);
    double x = left;
    for (const Bar::Part& part : row.parts) {
      const double length = plot_width * part.value / most;
      if (length <= 0) continue;
      svg += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" class=\"{}\">"
          "<title>{}</title></rect>\n",
          x, y, length, thick, part.css_class, escaped(part.title));
      x += length;
    }
    if (row.of > 0 && thin) {  // frames would be all that one sees
      const double end = left + plot_width * row.of / most;
      svg += rule(end, y, end, y + pitch, "frame");
    } else if (row.of > 0) {
      svg += fmt::format(
          "<rect x=\"{}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" class=\"frame\"/>\n", left, y,
          plot_width * row.of / most, thick);
    }
    if (labelled) svg += text(left + plot_width + 8, middle, "", row.value);
  }
  return svg + "</svg>\n";
}

std::string lines(const std::vector<Line>& all, const Unit& unit, std::string_view horizontal,
                  std::string_view vertical, std::string_view about) {
  constexpr double height = 220, bottom = top + height;
  constexpr std::size_t few = 64;  // points of more lines hide each other
  double most = 0;
  std::size_t longest = 1;
  for (const Line& line : all) {
    longest = std::max(longest, line.values.size());
    for (const double value : line.values) most = std::max(most, value);
  }
  if (!(most > 0)) most = unit.size;
  // The highest points lie below the upper end.
  const std::vector<double> found = marks(most / unit.size);
  if (found.size() > 1) most = (found.back() + found[1]) * unit.size;
  const auto at_x = [&](double number) {
    return left + plot_width * (number - 0.5) / static_cast<double>(longest);
  };
  const auto at_y = [&](double value) { return bottom - height * value / most; };
  std::string svg = opened(bottom + below, about);
  for (const double mark : marks(most / unit.size)) {
    svg += rule(left, at_y(mark * unit.size), left + plot_width, at_y(mark * unit.size), "grid");
    svg += text(left - 8, at_y(mark * unit.size) + 4, "end", fmt::format("{:g}", mark));
  }
  const auto apart = std::max<std::size_t>(
      1, static_cast<std::size_t>(std::ceil(static_cast<double>(longest) / 20)));
  for (std::size_t number = 1; number <= longest; number += apart)
    svg += text(at_x(static_cast<double>(number)), bottom + 16, "middle", std::to_string(number));
  svg += text(left + plot_width / 2, bottom + 36, "middle axis", horizontal);
  svg += fmt::format(
      "<text x=\"0\" y=\"0\" class=\"middle axis\" transform=\"translate(20 {:.0f}) rotate(-90)\">"
      "{} [{}]</text>\n",
      top + height / 2, escaped(vertical), unit.name);
  for (const Line& line : all) {
    std::string points;
    for (std::size_t i = 0; i < line.values.size(); ++i)
      points +=
          fmt::format("{:.1f},{:.1f} ", at_x(static_cast<double>(i + 1)), at_y(line.values[i]));
    svg += fmt::format("<g class=\"line\"><title>{}</title><polyline points=\"{}\"/>\n",
                       escaped(line.title), points);
    for (std::size_t i = 0; all.size() <= few && i < line.values.size(); ++i) {
      svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"{}/>\n",
                         at_x(static_cast<double>(i + 1)), at_y(line.values[i]),
                         line.hollow[i] ? " class=\"hollow\"" : "");
    }
    svg += "</g>\n";
  }
  return svg + "</svg>\n";
}

}  // namespace phantora::run
