#include "measure/timer.hpp"

#include "measure/libraries.hpp"
#include "measure/results.hpp"

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace phantora::measure {

Timer& timer() {
  static Timer& chosen = []() -> Timer& {
    expect_results();
    const char* const asked = std::getenv("PHANTORA_MEASURE_TIMER");
    if (asked != nullptr && std::string_view{asked} == "events") return event_timer();
    if (Timer* const cupti = cupti_timer()) return *cupti;
    std::fputs(
        "phantora: no CUPTI was found: kernels are timed by pairs of events, which is right to "
        "some "
        "microseconds\n",
        stderr);
    return event_timer();
  }();
  return chosen;
}

Timed::Timed(std::size_t queries, const Asked& asked) : queries_{queries}, asked_{asked} {
  if (queries_ > 1) asked_.query = Timer::no_query;
  if (queries_ > 0) timer().begin(asked_);
}
Timed::~Timed() {
  if (queries_ > 0) timer().end(asked_);
}

namespace {

void begin_or_end_another(bool begins) {
  if (keys() == nullptr || &timer() == &event_timer()) return;
  const Asked nothing{Timer::not_the_program, nullptr};
  if (begins) {
    timer().begin(nothing);
  } else {
    timer().end(nothing);
  }
}

}  // namespace

NotTheProgram::NotTheProgram() { begin_or_end_another(true); }
NotTheProgram::~NotTheProgram() { begin_or_end_another(false); }

}  // namespace phantora::measure

/// What is done between `begins` and its end is not the program's (proxy/rank.cpp).
extern "C" __attribute__((visibility("default"))) void phantora_measure_not_the_program(
    bool begins) {
  phantora::measure::begin_or_end_another(begins);
}
