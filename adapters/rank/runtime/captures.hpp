#pragma once

#include "rank/runtime/capture.hpp"
#include "rank/runtime/mutex.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace phantora::rank {

struct Capture;

/// The captures of a process, and what they refuse: capture.hpp says what the functions mean.
/// Thread-safe.
class Captures {
 public:
  /// @param count  how many captures there are, for those who ask at every call
  explicit Captures(std::atomic<int>& count) : count_{count} {}

  void begin(Stream& stream, CaptureMode mode, Graph* into, std::span<const Edge> dependencies);
  Graph* end(Stream& stream);
  CaptureInfo info(Stream& stream);
  void update_dependencies(Stream& stream, std::span<const Edge> dependencies, bool add);

  bool capturing(Stream& stream);
  Node& add(Stream& stream, WorkPointer work);
  void add_data(Stream& stream, DataQueue::Operation operation);
  void record(Stream& stream, Event& event);
  bool wait(Stream& stream, const Event& event);

  void refuse(Stream& stream);
  void refuse(int device);
  void refuse(const Event& event, bool spoils);
  /// @param mode  of the calling thread
  void refuse_if_unsafe(CaptureMode mode);

 private:
  std::shared_ptr<Capture> of(const Stream& stream) const;
  std::shared_ptr<Capture> blocking_beside(const Stream& stream) const;
  std::shared_ptr<Capture> usable(Stream& stream);

  std::atomic<int>& count_;
  Mutex mutex_{};
  std::vector<std::shared_ptr<Capture>> all_{};
  std::uint64_t last_id_ = 0;
};

}  // namespace phantora::rank
