#pragma once

#include "channel/sequence.hpp"

#include <phantora/simulation/memory_ledger.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

/// What rank processes and the engine share: the layout of shared memory and of the messages on
/// their socket. Both ends are built together; `version` guards against a mixed installation.
///
/// Rank to engine: Records in the ring, in the order in which the rank's threads append them, and
/// a bell when the engine has to look (a blocking call, a ring half full, a clock that passed
/// `doorbell_at`): it is counted, and goes through the socket where the engine sleeps. Engine to
/// rank: a Reply in the thread's slot, and Deliveries (results of small-data collectives, host
/// functions to run) on the socket.
namespace phantora::channel {

inline constexpr std::uint32_t version = 13;

/// Ids that a process chooses (markers, streams, tickets) have so many bits. Above them stands,
/// where ids of several processes meet, the engine's number of the process.
inline constexpr unsigned id_bits = 40;

/// Set by a process once it is connected, for its children: they are not ranks.
inline constexpr const char* connected_variable = "PHANTORA_CONNECTED_PID";

/// The handle of none: of a rank that no communicator has come to.
inline constexpr std::int64_t no_communicator = 0;
inline constexpr std::int64_t no_time = std::numeric_limits<std::int64_t>::max();

enum class Op : std::uint16_t {
  define_query,        ///< a = query id; payload = its text (kernels/query_text.hpp)
  create_stream,       ///< stream, device, a = its priority, from 0 on the greater the sooner
  launch,              ///< stream, a = query id, b = tag of its span, if that is wanted
  record,              ///< stream, a = marker
  wait,                ///< stream, a = marker
  graph,               ///< stream; a = whether what follows there is of a CUDA graph
  drop_marker,         ///< a = marker: nobody will ask about it any more
  host_function,       ///< stream, a = function ticket
  host_function_done,  ///< a = function ticket
  collective,  ///< stream, a = tag of the collectives' span, b = of the messages', if these are
               ///< wanted; payload = CollectiveRecord per operation of one group
  meet,  ///< stream, device; payload = std::uint16_t for each GPU of the host that waits there for
         ///< the others of them: its device, and others
  operand,             ///< a = ticket; payload = the bytes of a small operand
  leave_communicator,  ///< a = communicator
  counter,             ///< a = amount; payload = name
  memory,              ///< device, a = bytes taken, or b = bytes given back (RunShared::recorded)
  context,             ///< the same of what a context takes
  begin_range,         ///< b = its number: the program names what follows
  range,               ///< what began as b, or here, ends; of its thread a, since c; payload = name
  // Blocking: answered in the thread's slot.
  synchronize,  ///< a = marker
  query,        ///< a = marker; reply.value = done
  elapsed,  ///< a = start marker, b = end marker; reply.value = picoseconds, or no_time if either
            ///< is not done
  join_communicator,   ///< a = ranks, b = rank, payload = 128-byte id; reply.value = communicator,
                       ///< or no_communicator
  split_communicator,  ///< a = parent, b = color, c = key; reply.value as of
                       ///< join_communicator
  take_spans,          ///< the spans that have a tag and have ended by its clock are delivered
};

/// One entry of the ring; `payload_bytes` bytes follow it, padded to a multiple of its size.
struct Record {
  Op op{};
  std::uint16_t device = 0;
  std::uint32_t thread = 0;   ///< index of the thread's slot; no_thread for a background one
  std::int64_t clock_ps = 0;  ///< the issuing thread's clock
  std::uint64_t stream = 0;
  std::uint64_t a = 0, b = 0, c = 0;
  std::uint32_t payload_bytes = 0;
  std::uint32_t reserved = 0;
  std::uint64_t reserved2 = 0;
};
static_assert(sizeof(Record) == 64 && std::is_trivially_copyable_v<Record>);
inline constexpr std::uint32_t no_thread = 0xffffffff;

struct CollectiveRecord {
  std::uint64_t communicator = 0;
  std::uint64_t ticket = 0;    ///< of this rank's operand and result; 0: no data is carried
  std::uint64_t count = 0;     ///< elements, as the NCCL call gives it
  std::uint8_t op = 0;         ///< channel::Collective
  std::uint8_t type = 0;       ///< ncclDataType_t
  std::uint8_t reduction = 0;  ///< channel::Reduction
  std::uint8_t reserved = 0;
  std::int32_t peer = 0;
  double premul = 1.0;
};
static_assert(std::is_trivially_copyable_v<CollectiveRecord>);

enum class ThreadState : std::uint32_t {
  unused,
  running,
  waiting,     ///< as ThreadSlot::wait says: it uses no turn
  sleeping,    ///< for a time that it chose: it uses no turn
  background,  ///< asks, but has no part in time
};

/// What a waiting thread waits for.
enum class Wait : std::uint32_t {
  none,
  condition,  ///< condition variable
  semaphore,
  lock,         ///< mutex or read-write lock
  interpreter,  ///< Python's lock of that name
  thread,       ///< the end of a thread (pthread_join)
  futex,        ///< a future, an atomic's wait()
  descriptor,   ///< data, a connection or room (read, recv, accept, poll, epoll_wait ...)
  process,      ///< the end of a process (waitpid)
  memory,       ///< memory that others write: it looks there again and again, and sleeps in between
};

/// How the 128 bytes of an ncclUniqueId begin that ncclGetUniqueId made; the rest is 0.
struct UniqueId {
  static constexpr std::uint64_t known_magic = 0x7068616e746f7261ULL;  // "phantora"
  std::uint64_t magic = known_magic;
  std::uint64_t process = 0;   ///< that made it: the engine's number
  std::uint64_t sequence = 0;  ///< among those that this process made, from 1
};

struct Reply {
  std::int64_t clock_ps = 0;  ///< completion time, or the time of the answer
  std::int64_t value = 0;
  std::int32_t ranks = 0, rank = 0;  ///< of a communicator that was split off
  /// Of a query by a background thread: the process waits for what it does, so that its asking has
  /// to take time.
  bool counts = false;
  std::uint64_t deliveries = 0;  ///< data messages sent to this process before this answer
};

/// Of one thread, which writes here at each call: apart from what others do.
struct alignas(64) ThreadSlot {
  std::atomic<std::int64_t> clock_ps{0};
  std::atomic<ThreadState> state{ThreadState::unused};
  std::atomic<Wait> wait{Wait::none};
  /// While it waits: the instant at which it goes on by itself.
  std::atomic<std::int64_t> wakes_at_ps{no_time};
  /// Simulated per CPU time while host time is charged, else 0: so the engine knows how far a
  /// thread has come that computes and does not call.
  std::atomic<float> charged_scale{0};
  Sequence replies{};  ///< raised by each reply
  std::int32_t tid = 0;
  Reply reply{};
};

inline constexpr std::size_t max_threads = 256;
inline constexpr std::size_t max_gpus_per_host = 64;
inline constexpr std::size_t max_pollers = 64;
inline constexpr std::size_t ring_bytes = std::size_t{1} << 20;

struct RankShared {
  std::uint32_t layout_version = version;
  /// A running thread whose clock reaches this rings the doorbell.
  std::atomic<std::int64_t> doorbell_at{no_time};
  std::atomic<std::uint32_t> thread_count{0};
  std::array<ThreadSlot, max_threads> threads{};
  /// Byte counts since the start; position = count % ring_bytes. One reader, writers take turns.
  /// Each side writes one of them, in a cache line that the other seldom takes away.
  alignas(64) std::atomic<std::uint64_t> written{0};
  alignas(64) std::atomic<std::uint64_t> consumed{0};
  Sequence space{};  ///< raised when some was freed
  /// Thread ids of libraries' own threads that wake now and then by a timer, look, and sleep again
  /// (watchdogs, event loops): that they woke does not mean that anything happened. 0 = free.
  alignas(64) std::array<std::atomic<std::int32_t>, max_pollers> pollers{};
  /// Id of the hooks' own thread, which handles what the engine sends; 0 = not begun.
  std::atomic<std::int32_t> receiver{0};
  Sequence handled{};  ///< raised by each delivery that was handled
  /// Bytes that this process holds of each GPU of its host: given back when it is gone.
  std::array<std::atomic<std::uint64_t>, max_gpus_per_host> held{};
  alignas(64) std::array<std::byte, ring_bytes> ring{};
};

/// The memory of one host's GPUs, as all of its processes take it.
struct HostShared {
  std::array<MemoryLedger, max_gpus_per_host> gpus{};
};

/// Virtual time that travels beside data between the processes of a run: what was last written to a
/// connection was written at this instant.
///
/// A key that finds no room takes the place of another, whose reader then goes on by its own clock.
struct MessageTimes {
  struct Entry {
    std::atomic<std::uint64_t> key{0};  ///< of one direction of a connection; 0 = free
    std::atomic<std::int64_t> clock_ps{0};
    std::atomic<bool> by_helper{false};  ///< a process that uses no GPU wrote that
  };
  std::array<Entry, std::size_t{1} << 14> entries{};
};

/// The same of pipes, where many messages may wait to be read: the data loaders of a rank write
/// batches ahead of it, and each is as old as its writer was.
struct PipeTimes {
  /// What was written to the pipe from byte `at` on.
  struct Written {
    std::atomic<std::uint64_t> at{0};
    std::atomic<std::int64_t> clock_ps{0};
    std::atomic<bool> by_helper{false};
  };
  struct Entry {
    std::atomic<std::uint64_t> key{0};               ///< of the pipe; 0 = free
    std::atomic<std::uint64_t> written{0}, read{0};  ///< bytes
    std::atomic<std::uint64_t> messages{0};
    /// The last messages, each at its number modulo their count. A pipe has room for 64 KiB: as
    /// many of a batch's size.
    std::array<Written, 64> last{};
  };
  std::array<Entry, std::size_t{1} << 12> entries{};
};

/// What all processes of a run share.
struct RunShared {
  MessageTimes message_times{};
  PipeTimes pipe_times{};
  /// What a rank's CPU time was last multiplied by, where that is measured; 0: none has said.
  std::atomic<double> host_scale{0};
  /// How often bytes were sent on connections and pipes: counted when whom they wake is awake, and
  /// before the sender's clock goes on.
  std::atomic<std::uint64_t> sends{0};
  /// The latest instant at which a call of any process has returned.
  std::atomic<std::int64_t> answered_ps{0};
  /// Odd while the engine reads clocks and gives the answers that these allow. A thread that waits
  /// no longer may have been read as one that waits until this has moved on, and be passed.
  std::atomic<std::uint64_t> passes{0};
  /// For the clocks of processes that use no GPU (rank/runtime/followed_clock.hpp), in ns of real
  /// time: how long the run went on until it last stood, and since when it goes on now (as
  /// CLOCK_MONOTONIC shows it; 0: it stands).
  std::atomic<std::int64_t> went_ns{0};
  std::atomic<std::int64_t> goes_since_ns{0};
  std::atomic<bool> followed{false};  ///< some process waits by them
  /// How often a rank wanted the engine to look.
  alignas(64) std::atomic<std::uint32_t> bells{0};
  /// It may not see that by itself: whoever resets this sends a doorbell.
  std::atomic<bool> engine_sleeps{false};
  /// There is a core for the engine and one for each process: who waits may look for a little
  /// before it sleeps (channel/lookout.hpp).
  std::atomic<bool> cores_to_spare{false};
  /// A record of the run is kept: only then does the engine read of memory, contexts and where
  /// ranges begin.
  std::atomic<bool> recorded{false};
};

// --- Socket messages (SOCK_STREAM) ---

/// First message of a connection, from the rank.
struct Hello {
  std::uint32_t layout_version = version;
  std::int32_t pid = 0;
  std::int32_t rank = -1;  ///< RANK, or -1
  std::int32_t host = 0;
};

/// The engine's answer; carries three file descriptors: RankShared, HostShared and RunShared. It
/// comes when the process may run (limit on runnable ranks).
struct Welcome {
  std::uint32_t layout_version = version;
  std::int32_t process = 0;  ///< index of this process in the engine
  /// Where the clock of the rank's former process stopped, for a rank that runs several in turn.
  std::int64_t start_ps = 0;
};

/// Rank to engine, after Hello: look at the ring.
inline constexpr char doorbell = '!';

/// When something that a rank had tagged ran on its GPU.
struct TaggedSpan {
  std::uint64_t tag = 0;
  std::int64_t start_ps = 0, end_ps = 0;
  std::uint64_t tree = 0;  ///< of a collective: it ran over a tree
};

/// Engine to rank, after Welcome; `bytes` bytes follow.
struct Delivery {
  enum class Kind : std::uint32_t {
    result,             ///< of the small collective `ticket`
    run_host_function,  ///< `ticket`, at `clock_ps`
    spans,              ///< TaggedSpan each
  } kind{};
  std::uint32_t bytes = 0;
  std::uint64_t ticket = 0;
  std::int64_t clock_ps = 0;
};

}  // namespace phantora::channel
