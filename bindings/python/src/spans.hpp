#pragma once

#include <phantora/simulation/observer.hpp>
#include <phantora/simulation/workload.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace phantora::python {

/// What the streams of a workload's ranks did, and what their hosts named, one after the other.
class Spans final : public SessionObserver {
 public:
  /// A stretch of time.
  struct One {
    Rank rank = 0;
    std::uint32_t lane = 0;  ///< stream; of a range, thread
    std::uint8_t kind = 0;   ///< in `kinds`
    std::uint32_t name = 0;  ///< in `names`
    Time start{}, end{};
  };
  static constexpr std::string_view kinds[] = {"compute", "copy", "communication", "range"};

  void on_span(const Span& span) override;
  void on_range(const NamedRange& range) override;
  /// The run has ended: streams get the workload's numbers, and the list the order of its starts.
  void finish(const Workload& workload);

  std::vector<One> all{};
  std::vector<std::string> names{};

 private:
  std::uint32_t name(std::string_view text);
  std::map<std::string, std::uint32_t, std::less<>> numbers_{};
};

}  // namespace phantora::python
