#pragma once

#include "measure/keys.hpp"

#include <cstddef>

/// How long the GPU works for a call. Of CUPTI, which tells of each kernel when it began and ended;
/// without it, of pairs of events around the call, less what usually lies between them.
namespace phantora::measure {

/// Between construction and destruction the program's call is made, for which the keys told
/// `queries` queries, `asked` the first of them. Of several, none can be told its part of the time.
class Timed {
 public:
  Timed(std::size_t queries, const Asked& asked);
  ~Timed();
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  std::size_t queries_;
  Asked asked_;
};

/// Between construction and destruction the GPU works for nothing that the program would do again:
/// CUPTI sees that, too.
class NotTheProgram {
 public:
  NotTheProgram();
  ~NotTheProgram();
  NotTheProgram(const NotTheProgram&) = delete;
  NotTheProgram& operator=(const NotTheProgram&) = delete;
};

/// One way to time calls. begin() and end() are called in pairs on one thread.
struct Timer {
  static constexpr std::uint32_t no_query = ~std::uint32_t{0};    ///< time that has no key
  static constexpr std::uint32_t not_the_program = no_query - 1;  ///< what nobody asks for
  virtual void begin(const Asked& asked) = 0;
  virtual void end(const Asked& asked) = 0;
  /// Tells results.hpp of all calls so far, once the GPU has come to them.
  virtual void flush() = 0;

 protected:
  Timer() = default;
  Timer(const Timer&) = default;
  Timer& operator=(const Timer&) = default;
  ~Timer() = default;
};
/// nullptr if there is no CUPTI, or it does not do.
Timer* cupti_timer();
Timer& event_timer();
/// The one that is used: the first that there is, or the one that $PHANTORA_MEASURE_TIMER names.
Timer& timer();

}  // namespace phantora::measure
