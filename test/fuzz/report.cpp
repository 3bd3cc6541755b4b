#include "run/report.hpp"

#include "fuzz.hpp"
#include "run/report_page.hpp"

#include <phantora/error.hpp>

#include <sstream>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace phantora;
  fuzz::accepts<ConfigError>("report.json", [&] {
    const run::Report report = run::Report::parse(fuzz::text_of(data, size), "report.json");
    const std::string json = report.to_json();
    fuzz::expect(run::Report::parse(json, "report.json").to_json() == json,
                 "it is read as it is written");
    std::ostringstream text;
    report.print(text, report.facts().wall_seconds);
    fuzz::expect(run::page_of(report).ends_with("</html>\n"), "a page is whole");
  });
  return 0;
}
