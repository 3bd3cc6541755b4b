#pragma once

#include <string>
#include <string_view>
#include <vector>

/// Plots as SVG that stands within a page. What they look like is up to the page's style sheet:
/// shapes have classes, never colours.
namespace phantora::run {

/// Text within HTML or SVG, also within an attribute's quotes. Characters that neither may hold
/// become a replacement character.
std::string escaped(std::string_view text);

/// The unit that numbers of an axis are shown in.
struct Unit {
  std::string name{};  ///< "ms"
  double size = 1;     ///< of one of it
};
/// By which times up to this, in seconds, are read best.
Unit time_unit(double most_seconds);
/// Gibibytes, of bytes.
Unit memory_unit();

/// A row of a plot of bars.
struct Bar {
  struct Part {
    std::string css_class{};
    double value = 0;
    std::string title{};  ///< what a reader is told of it
  };
  std::string label{};        ///< at its left
  std::vector<Part> parts{};  ///< side by side
  std::string value{};        ///< at its right
  double of = 0;  ///< drawn as a frame or its end: what the parts could be; 0: not known
};
/// Horizontal bars, one below the other. Of very many, thin ones, of which some have labels.
/// @param about  what a reader who does not see it is told.
/// @param axis  what is shown, without its unit.
std::string bars(const std::vector<Bar>& rows, const Unit& unit, std::string_view axis,
                 std::string_view about);

struct Line {
  std::vector<double> values{};  ///< at 1, 2, 3 ...
  std::vector<bool> hollow{};    ///< which points are drawn so
  std::string title{};
};
/// Lines over whole numbers.
std::string lines(const std::vector<Line>& all, const Unit& unit, std::string_view horizontal,
                  std::string_view vertical, std::string_view about);

}  // namespace phantora::run
