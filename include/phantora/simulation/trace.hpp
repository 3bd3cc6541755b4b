#pragma once

#include <phantora/simulation/observer.hpp>

#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace phantora {

/// Writes a session's spans as a Chrome trace, which Perfetto opens: a process per rank, a row per
/// stream, and one per thread that named what it does.
class TraceWriter final : public SessionObserver {
 public:
  /// @param rank_of  the rank of a process, for its title.
  /// @param gpu_names  of each GPU, for the same; empty where they are all alike.
  /// @throws Error if `path` cannot be written.
  TraceWriter(const std::string& path, std::function<int(ProcessIndex)> rank_of,
              std::vector<std::string> gpu_names = {});
  /// Told by the session.
  void on_span(const Span& span) override;
  /// The same.
  void on_range(const NamedRange& range) override;
  /// Writes what remains. @throws Error if the file could not be written whole.
  void close();

 private:
  struct Row {
    int rank = 0;
    std::optional<GpuIndex> gpu{};  ///< of a stream
    std::vector<std::string> events{};
  };
  std::string path_;
  std::ofstream file_;
  std::function<int(ProcessIndex)> rank_of_;
  std::vector<std::string> gpu_names_;
  std::map<StreamId, Row> streams_{};
  std::map<std::pair<ProcessIndex, std::uint64_t>, Row> threads_{};
};

}  // namespace phantora
