#pragma once

#include "rank/runtime/graph.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

/// Stream capture: what a program puts into captured streams becomes nodes of a graph, and nothing
/// of it runs. Functions throw Refusal where CUDA refuses (CUDA programming guide, "Cross-stream
/// Dependencies and Events" and "Prohibited and Unhandled Operations"; with the statuses that an
/// H200's driver gave, bench/accuracy/h200_graphs.jsonl), and spoil the captures that it spoils.
/// Thread-safe.
namespace phantora::rank {

/// Numbered as cudaStreamCaptureMode.
enum class CaptureMode : std::uint8_t { global, thread_local_mode, relaxed };
/// Numbered as cudaStreamCaptureStatus.
enum class CaptureStatus : std::uint8_t { none, active, invalidated };

/// @param into  the nodes go there, behind `dependencies`; nullptr: into a graph of their own.
void begin_capture(Stream& stream, CaptureMode mode, Graph* into = nullptr,
                   std::span<const Edge> dependencies = {});
/// @return the graph, the caller's if it was not given to begin_capture().
Graph* end_capture(Stream& stream);

struct CaptureInfo {
  CaptureStatus status{};
  std::uint64_t id = 0;
  Graph* graph = nullptr;
  std::vector<Edge> dependencies{};  ///< of the stream's next node
};
CaptureInfo capture_info(Stream& stream);
/// Gives the stream's next node other dependencies; with `add`, these beside those that it has.
void update_capture_dependencies(Stream& stream, std::span<const Edge> dependencies, bool add);
/// What the calling thread may do while there are captures. @return what it was.
CaptureMode exchange_capture_mode(CaptureMode mode) noexcept;

// --- For what puts work into streams, or asks about it ---

namespace detail {
extern std::atomic<int> capture_count;
bool capturing(Stream& stream);
}  // namespace detail

/// Whether there is any capture in this process. Costs next to nothing.
inline bool any_capture() noexcept {
  return detail::capture_count.load(std::memory_order_relaxed) != 0;
}
/// Whether what comes next in `stream` is to be captured.
inline bool capturing(Stream& stream) { return any_capture() && detail::capturing(stream); }

/// Adds a node where the captured stream is. @return it.
Node& capture(Stream& stream, WorkPointer work);
/// Adds what a library's operation does to data.
void capture_data(Stream& stream, DataQueue::Operation operation);
/// `event` now stands for the end of the captured stream.
void capture_record(Stream& stream, Event& event);
/// What comes next in `stream` comes after `event`, if one of the two is captured: an event brings
/// a stream into its capture. @return whether that is so.
bool capture_wait(Stream& stream, const Event& event);
/// `event` was recorded by a stream that is not captured, or is no more.
void no_longer_captured(Event& event) noexcept;

/// A call that waits for a stream, or asks about it.
void refuse_if_captured(Stream& stream);
/// One that waits for a whole device.
void refuse_if_captured(int device);
/// One that waits for an event, or asks about it. @param spoils  the event's capture.
void refuse_if_captured(const Event& event, bool spoils);
/// A call that a capture may make unsafe (cudaThreadExchangeStreamCaptureMode says who may).
void refuse_if_unsafe();

}  // namespace phantora::rank
