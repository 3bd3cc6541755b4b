#pragma once

#include <phantora/session.hpp>

#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace phantora {

/// Writes a session's spans as a Chrome trace, which Perfetto opens: a process per rank, a row per
/// stream.
class TraceWriter final : public SessionObserver {
 public:
  /// @param rank_of  the rank of a process, for the row's title.
  /// @throws Error if `path` cannot be written.
  TraceWriter(const std::string& path, std::function<int(ProcessIndex)> rank_of);
  void on_span(const Span& span) override;
  /// Writes what remains. @throws Error if the file could not be written whole.
  void close();

 private:
  struct Row {
    int rank = 0;
    int number = 0;
    GpuIndex gpu = 0;
    std::vector<std::string> events{};
  };
  std::string path_;
  std::ofstream file_;
  std::function<int(ProcessIndex)> rank_of_;
  std::map<StreamId, Row> rows_{};
};

}  // namespace phantora
