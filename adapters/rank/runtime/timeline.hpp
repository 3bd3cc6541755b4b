#pragma once

#include "channel/collective_types.hpp"
#include "rank/runtime/shared_event.hpp"

#include <phantora/kernels/kernel_cost_model.hpp>
#include <phantora/units.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

/// The rank's side of the simulated GPU's timeline: asynchronous calls append to a queue in shared
/// memory and return; blocking calls ask the engine and move the calling thread's clock.
namespace phantora::rank {

/// A CUDA stream. Objects live until the process ends, so that a stale handle never dangles.
struct Stream {
  std::uint64_t id = 0;  ///< unique within the process; never 0
  int device = 0;
  unsigned flags = 0;  ///< as in cudaStreamCreateWithFlags; 0 = blocking (synchronises with legacy)
  int priority = 0;
  bool legacy = false;                       ///< the legacy default stream of its device
  std::atomic<std::uint64_t> operations{0};  ///< so many it was given so far, of work and of data
  // Of streams that synchronise with the legacy stream, or are it (legacy_order.hpp):
  std::uint64_t joined_by_legacy = 0;  ///< so many of these the legacy stream waits for
  /// For so many of the legacy stream's this one waits.
  std::atomic<std::uint64_t> legacy_joined{0};
  bool destroyed = false;
};

/// An instant in a stream: what one record call or one synchronisation point refers to. 0 = none.
using Marker = std::uint64_t;

struct CapturedPoint;

/// A CUDA event: the marker of its latest record.
struct Event {
  int device = 0;
  unsigned flags = 0;  ///< as in cudaEventCreateWithFlags
  std::atomic<Marker> marker{0};
  /// Instead, if a captured stream recorded it last (capture.hpp).
  std::shared_ptr<const CapturedPoint> captured{};
  /// Instead of `marker`, if other processes have it too.
  std::shared_ptr<SharedMarker> shared{};

  [[nodiscard]] Marker latest() const { return shared ? shared->load() : marker.load(); }
};

/// The legacy default stream of `device`, and new streams. Thread-safe.
Stream& legacy_stream(int device);
/// The calling thread's default stream of `device` (cudaStreamPerThread).
Stream& per_thread_stream(int device);
Stream& create_stream(int device, unsigned flags, int priority);
void destroy_stream(Stream& stream);
/// What has to come before the next operation on `stream` by the rule of the legacy stream is
/// appended to time and data.
void order_with_legacy(Stream& stream);

/// What is known of the code of a kernel that the program launches itself.
struct KernelCode {
  const char* name = nullptr;  ///< mangled
  int registers = 0;
  std::size_t static_shared = 0, local = 0;
};

/// Appends a kernel, a library operation or a copy ("memcpy_*", "memset"). Never blocks.
void launch(Stream& stream, const KernelQuery& query);
/// The same for a query that was interned before: what hot paths use.
using QueryId = std::uint32_t;
QueryId intern(const KernelQuery& query, const KernelCode& code = {});
void launch(Stream& stream, QueryId query);

/// What is appended to `stream` from now on waits for the streams of other GPUs of the host that
/// this is called for too, with the same devices: the first call of each, then the second, and so
/// on.
/// @param devices  distinct; that of the stream among them.
void meet(Stream& stream, std::span<const int> devices);

/// Records a new marker at the stream's end.
Marker record(Stream& stream);
/// The same into `event`, whose former marker is forgotten.
/// @param external  in a captured stream: each launch of the graph records it.
void record(Stream& stream, Event& event, bool external = false);
/// Nobody will ask about `marker` again (its event was destroyed). 0 is allowed.
void forget_marker(Marker marker);
/// Work appended to `stream` from now on starts no earlier than `marker`'s completion.
void wait(Stream& stream, Marker marker);
/// The same of an event, which counts as complete if it was never recorded.
/// @param external  in a captured stream: each launch of the graph waits for it.
void wait(Stream& stream, Event& event, bool external = false);

/// Block the calling thread until completion; its clock becomes max(own, completion).
void synchronize(Marker marker);
void synchronize(const Event& event);
void synchronize(Stream& stream);
void synchronize_device(int device);  ///< captured streams have nothing to wait for

/// Done at the calling thread's present clock? Never moves the clock to the completion.
bool done(Marker marker);
bool done(const Event& event);
bool done(Stream& stream);

/// Completion times of two finished markers, later - earlier; nullopt when either is not done.
std::optional<Duration> elapsed(Marker start, Marker end);
/// The event's marker, which the program may ask about: not while a captured stream has it.
Marker marker_of(const Event& event);

/// Runs `function(argument)` on a thread of its own when the stream reaches it; the stream goes on
/// after it returned.
void host_function(Stream& stream, void (*function)(void*), void* argument);

// --- Communicators and collectives (used by the NCCL hook) ---

using channel::Collective;
using channel::DataType;
using channel::Reduction;
using channel::size_of;

/// One NCCL operation of one rank. `count` is in elements, as the NCCL call gives it.
struct CollectiveCall {
  Collective op{};
  std::uint64_t communicator = 0;  ///< handle from join_communicator
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;
  DataType type{};
  Reduction reduction{};
  double premul = 1.0;  ///< scalar of premul_sum
  int peer = 0;         ///< root, or peer of send/recv
  Stream* stream = nullptr;
};

/// Joins (blocking, as ncclCommInitRank) the communicator named by the 128-byte `unique_id`.
/// @return the communicator's handle within this process; none if the process that made the id has
///         ended, through which the ranks would find each other.
std::optional<std::uint64_t> join_communicator(std::span<const std::byte, 128> unique_id, int ranks,
                                               int rank, int device);
/// ncclCommSplit: blocking, collective over `parent`; 0 when `color` is negative (NOCOLOR).
std::uint64_t split_communicator(std::uint64_t parent, int color, int key);
void leave_communicator(std::uint64_t communicator);
struct CommunicatorInfo {
  int ranks = 0, rank = 0, device = 0;
};
CommunicatorInfo communicator_info(std::uint64_t communicator);
/// Fills an id that no other call in the job returns.
void make_unique_id(std::span<std::byte, 128> out);

/// Appends the operations of one group (one call outside of ncclGroupStart/End).
void enqueue_collectives(std::span<const CollectiveCall> group);

}  // namespace phantora::rank
