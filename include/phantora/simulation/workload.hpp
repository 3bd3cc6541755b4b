#pragma once

#include <phantora/collectives/operation.hpp>
#include <phantora/kernels/kernels.hpp>
#include <phantora/units.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace phantora {

namespace detail {
struct WorkloadDocument;
}

/// A rank of a workload, counted from 0: a host thread with a GPU of its own.
using Rank = std::uint32_t;
/// A stream of a rank's GPU, as the rank numbers it. 0 is as good as any other.
using StreamNumber = std::uint32_t;

/// What every rank of a job does, in the order in which its host issues it. Plain data: it can be
/// copied, compared, written down and read again, and run on any cluster (Simulation).
///
///     Workload step;
///     for (const Rank rank : {0, 1}) step.launch(rank, gemm(8192, 8192, 8192));
///     step.all_reduce({0, 1}, 128_MiB);
///     const Report report = Simulation{parse_cluster("h200:1x2")}.run(step);
///
/// Each call appends to the lists of the ranks that it names, which are as many as the largest of
/// them asks for. Streams are queues: what is issued on one runs in order, what is issued on two
/// runs side by side unless a record() and a wait() order it. Hosts go on at once, but for host()
/// and synchronize(). Every rank ends when all its streams have. Kernels, groups and labels are
/// kept once, however often they are named. The operations of a rank take 24 bytes each.
///
/// A rank's host is one thread, unless thread() says that others issue for it too.
///
/// Functions throw ArgumentError, which names the argument, and then change nothing.
class Workload {
 public:
  Workload() = default;

  /// A point in a stream, which record() makes, or in what a host does, which mark() makes.
  struct Event {
    Rank rank = 0;             ///< whose it is
    std::uint32_t number = 0;  ///< among those that the rank records and marks
    bool operator==(const Event&) const = default;
  };
  /// A piece of device memory. allocate() makes it.
  struct Block {
    Rank rank = 0;             ///< whose it is
    std::uint32_t number = 0;  ///< among those that the rank allocates
    bool operator==(const Block&) const = default;
  };
  /// A kernel of this workload, for those who launch one often. kernel() makes it.
  struct KernelNumber {
    std::uint32_t value = 0;  ///< in kernels()
  };

  // What a rank's list consists of. Numbers are places in the tables below.
  /// A kernel is put on a stream.
  struct Launch {
    StreamNumber stream = 0;   ///< of the rank
    std::uint32_t kernel = 0;  ///< in kernels()
  };
  /// The rank's part of collectives that run as one kernel.
  struct Collective {
    StreamNumber stream = 0;  ///< of the rank
    std::uint32_t call = 0;   ///< in calls()
  };
  /// The rank's sends and receives that run as one kernel.
  struct Exchange {
    StreamNumber stream = 0;     ///< of the rank
    std::uint32_t messages = 0;  ///< in messages()
  };
  /// The event whose number is that of such operations, and of marks, before it in the list.
  struct Record {
    StreamNumber stream = 0;  ///< of the rank
  };
  /// The stream waits.
  struct Wait {
    StreamNumber stream = 0;  ///< of the rank
    Event event{};            ///< of any rank
  };
  /// The host waits.
  struct Synchronize {
    Event event{};  ///< of any rank
  };
  /// The rank's host works.
  struct Host {
    Duration time{};  ///< that it takes
  };
  /// The rank takes device memory.
  struct Allocate {
    Bytes size{};             ///< of the block
    std::uint32_t label = 0;  ///< in labels()
  };
  /// It gives a block back.
  struct Free {
    std::uint32_t block = 0;  ///< the number of the rank's allocation
  };
  /// A step ends where the stream's work does that was issued before.
  struct StepEnd {
    StreamNumber stream = 0;  ///< of the rank
  };
  /// The event that has come when the host has: numbered with those of Record.
  struct Mark {};
  /// The operations that follow in the list are of this thread of the host.
  struct Thread {
    std::uint32_t number = 0;  ///< 0 is the first
  };
  /// A stretch of the host's time that has a name ends here.
  struct Range {
    Event event{};            ///< a mark, where it began
    std::uint32_t label = 0;  ///< in labels(): its name
  };
  /// What follows in the stream is of a CUDA graph, each behind what it depends on, or no more.
  struct Graph {
    StreamNumber stream = 0;  ///< of the rank
    bool inside = false;      ///< what follows is of a graph
  };
  /// Which kernels go first where streams compete for the GPU: those of the stream with the least
  /// number, as in CUDA. It is the stream's from its beginning; 0 where nothing is said.
  struct Priority {
    StreamNumber stream = 0;    ///< of the rank
    std::int32_t priority = 0;  ///< any number
  };
  /// What a rank does next.
  using Operation = std::variant<Launch, Collective, Exchange, Record, Wait, Synchronize, Host,
                                 Allocate, Free, StepEnd, Mark, Thread, Range, Graph, Priority>;

  /// Collectives of a group of ranks.
  struct Call {
    std::uint32_t group = 0;                      ///< in groups()
    std::vector<GroupedCollective> operations{};  ///< that run as one kernel
  };
  /// Messages between ranks of a group, which they name by their place in it.
  struct Messages {
    std::uint32_t group = 0;  ///< in groups()
    /// Src_rank or dst_rank of each is the caller's place in the group.
    std::vector<SendRecv> parts{};
  };

  /// A group of ranks. group() makes it.
  struct GroupNumber {
    std::uint32_t value = 0;  ///< in groups()
  };

  // --- Work on streams ---

  /// Puts a kernel on a stream. @throws ArgumentError if a known time is negative.
  Workload& launch(Rank rank, const Kernel& kernel, StreamNumber stream = 0);
  /// The same of a kernel() of this workload.
  Workload& launch(Rank rank, KernelNumber kernel, StreamNumber stream = 0);
  /// Notes a kernel, which launch() then takes by number.
  KernelNumber kernel(const Kernel& kernel);

  /// The ranks of `group` run a collective; this one call stands for those of all of them.
  /// @param group  distinct ranks in the order of the communicator.
  /// @param total  bytes of the larger buffer of one rank, as Communicator::plan() counts them: the
  ///   whole tensor for all_gather and reduce_scatter.
  /// @param root  its place in the group, where the operation has one.
  Workload& collective(std::span<const Rank> group, CollectiveOp op, Bytes total,
                       StreamNumber stream = 0, int root = 0);
  /// The same of rank `rank` alone; each rank of the group has to say so in its turn.
  Workload& collective(Rank rank, std::span<const Rank> group, CollectiveOp op, Bytes total,
                       StreamNumber stream = 0, int root = 0);
  /// The same of several that run as one kernel, as between ncclGroupStart and ncclGroupEnd.
  Workload& collectives(Rank rank, std::span<const Rank> group,
                        std::span<const GroupedCollective> operations, StreamNumber stream = 0);
  /// The same of a group() of this workload.
  Workload& collectives(Rank rank, GroupNumber group, std::span<const GroupedCollective> operations,
                        StreamNumber stream = 0);
  /// collective() of that name.
  Workload& all_reduce(std::span<const Rank> group, Bytes total, StreamNumber stream = 0) {
    return collective(group, CollectiveOp::all_reduce, total, stream);
  }
  /// collective() of that name.
  Workload& all_gather(std::span<const Rank> group, Bytes total, StreamNumber stream = 0) {
    return collective(group, CollectiveOp::all_gather, total, stream);
  }
  /// collective() of that name.
  Workload& reduce_scatter(std::span<const Rank> group, Bytes total, StreamNumber stream = 0) {
    return collective(group, CollectiveOp::reduce_scatter, total, stream);
  }
  /// collective() of that name.
  Workload& all_to_all(std::span<const Rank> group, Bytes total, StreamNumber stream = 0) {
    return collective(group, CollectiveOp::all_to_all, total, stream);
  }
  /// collective() of a list in braces: w.all_reduce({0, 1}, 1_GB).
  Workload& collective(std::initializer_list<Rank> group, CollectiveOp op, Bytes total,
                       StreamNumber stream = 0, int root = 0) {
    return collective(std::span{group.begin(), group.size()}, op, total, stream, root);
  }
  /// all_reduce() of a list in braces.
  Workload& all_reduce(std::initializer_list<Rank> group, Bytes total, StreamNumber stream = 0) {
    return collective(group, CollectiveOp::all_reduce, total, stream);
  }

  /// A message to another rank, which has to receive() one of that size. Messages between two
  /// ranks arrive in the order in which they are sent.
  Workload& send(Rank rank, Rank to, Bytes size, StreamNumber stream = 0);
  /// The other side of a send().
  Workload& receive(Rank rank, Rank from, Bytes size, StreamNumber stream = 0);
  /// Sends and receives of one rank that run together, as between ncclGroupStart and ncclGroupEnd.
  /// @param group  of the communicator.
  /// @param parts  src_rank or dst_rank of each is the rank's place in the group.
  Workload& exchange(Rank rank, std::span<const Rank> group, std::span<const SendRecv> parts,
                     StreamNumber stream = 0);
  /// The same of a group() of this workload.
  Workload& exchange(Rank rank, GroupNumber group, std::span<const SendRecv> parts,
                     StreamNumber stream = 0);

  /// A group whose ranks call each operation together with each other. Those of the same ranks are
  /// told apart by their instance, as two communicators of NCCL: what is called on one does not
  /// meet what is called on the other. Wherever ranks alone are named, instance 0 is meant.
  GroupNumber group(std::span<const Rank> ranks, std::uint32_t instance);

  /// Marks the end of what the stream was given so far.
  Event record(Rank rank, StreamNumber stream = 0);
  /// What the stream is given from now on waits for the event, of any rank.
  Workload& wait(Rank rank, Event event, StreamNumber stream = 0);
  /// What `after` is given from now on waits for what `before` was given so far: record() and
  /// wait().
  Workload& order(Rank rank, StreamNumber before, StreamNumber after);

  /// What the stream is told from now on is of a CUDA graph, and follows something of that graph in
  /// the stream; or is no more. Kernels of a graph follow one another more closely.
  Workload& graph(Rank rank, bool inside, StreamNumber stream = 0);

  /// Kernels of the rank's stream have the SMs that they can fill before those of its streams with
  /// a greater number, as in CUDA; 0 where nothing is said. It holds for all that the stream is
  /// given, wherever it is told.
  Workload& prioritize(Rank rank, std::int32_t priority, StreamNumber stream = 0);

  // --- Hosts ---

  /// The rank's host works for a while before it goes on issuing.
  Workload& host(Rank rank, Duration time);
  /// Every host() takes `factor` times as long, to the picosecond.
  Workload& scale_host_time(double factor);
  /// It blocks until the event has come.
  Workload& synchronize(Rank rank, Event event);
  /// It blocks until all that the stream was given has ended.
  Workload& synchronize(Rank rank, StreamNumber stream);
  /// It blocks until all that the rank was given has ended.
  Workload& synchronize(Rank rank);
  /// What the rank is told from now on is issued by this thread of its host; 0 is the first.
  /// Threads have clocks of their own, and go on side by side unless a mark() and a synchronize()
  /// order them. What several of them give a stream comes in the order of these calls.
  Workload& thread(Rank rank, std::uint32_t number);
  /// Marks where the rank's host, or its present thread, is. Other hosts synchronize() with it;
  /// streams do not wait for it.
  Event mark(Rank rank);
  /// Names the time from a mark(), of any thread, to where the rank's host, or its present thread,
  /// is, for those who watch (SessionObserver::on_range): traces show it, and it may end a step
  /// (StepObserver). It takes no time.
  Workload& range(Rank rank, Event begin, std::string_view name);

  // --- Memory ---

  /// The rank holds device memory from now on, in the order of its host.
  /// @param label  what for, as the report calls it.
  Block allocate(Rank rank, Bytes size, std::string_view label = {});
  /// @throws ArgumentError if it has been freed.
  Workload& free(Block block);

  // --- Steps ---

  /// A step of all ranks ends with what their stream was given so far.
  Workload& end_step(StreamNumber stream = 0);
  /// The same of one rank.
  Workload& end_step(Rank rank, StreamNumber stream);

  // --- What it holds: views of the workload, which no temporary gives ---

  /// Ranks are 0 to rank_count() - 1.
  [[nodiscard]] std::size_t rank_count() const noexcept { return ranks_.size(); }
  /// Of all ranks together.
  [[nodiscard]] std::size_t operation_count() const noexcept;
  /// What a rank does, in the order in which its host issues it.
  [[nodiscard]] std::span<const Operation> operations(Rank rank) const&;
  void operations(Rank rank) const&& = delete;
  /// Each once; Launch::kernel is a place here.
  [[nodiscard]] const std::vector<Kernel>& kernels() const& noexcept { return kernels_; }
  void kernels() const&& = delete;
  /// Each once; Call::group and Messages::group are places here.
  [[nodiscard]] const std::vector<std::vector<Rank>>& groups() const& noexcept { return groups_; }
  void groups() const&& = delete;
  /// By group.
  [[nodiscard]] const std::vector<std::uint32_t>& instances() const& noexcept { return instances_; }
  void instances() const&& = delete;
  /// Each once; Collective::call is a place here.
  [[nodiscard]] const std::vector<Call>& calls() const& noexcept { return calls_; }
  void calls() const&& = delete;
  /// Each once; Exchange::messages is a place here.
  [[nodiscard]] const std::vector<Messages>& messages() const& noexcept { return messages_; }
  void messages() const&& = delete;
  /// Each once; Allocate::label and Range::label are places here.
  [[nodiscard]] const std::vector<std::string>& labels() const& noexcept { return labels_; }
  void labels() const&& = delete;
  /// An operation in words, as errors and reports call it: "all_reduce of 128.0 MiB by ranks 0, 1".
  [[nodiscard]] std::string describe(Rank rank, std::size_t operation) const;

  /// Facts about where it comes from, by name, which it takes with it: of a record, "cluster",
  /// NCCL's variables, and why it ended early ("cut_short") if it did. They are no part of what
  /// ranks do, and so equal workloads may differ in them.
  using Origin = std::map<std::string, std::string, std::less<>>;
  /// Such facts; none unless set_origin() was called.
  [[nodiscard]] const Origin& origin() const noexcept { return origin_; }
  /// Takes such facts in place of those that it has.
  Workload& set_origin(Origin origin);

  /// Whether all ranks do the same in the same order, however it was told. O(operations).
  friend bool operator==(const Workload& a, const Workload& b);
  /// Equal for equal workloads, on every machine. O(operations).
  [[nodiscard]] std::uint64_t hash() const;

  // --- Written down ---

  /// As JSON, which include/phantora/simulation/README.md describes. A line per operation.
  [[nodiscard]] std::string to_json() const;
  /// @param source  what errors call the text, such as its path.
  /// @throws ConfigError naming source, line, field and what was expected there.
  static Workload from_json(std::string_view text, std::string_view source = "workload");
  /// The same in about 4 bytes per operation, equal for equal workloads.
  [[nodiscard]] std::string to_binary() const;
  /// @throws ConfigError naming source, byte, field and what was expected there.
  static Workload from_binary(std::string_view bytes, std::string_view source = "workload");
  /// From a file of either form.
  /// @throws ConfigError as the two above, or if it cannot be read.
  static Workload load(const std::string& path);
  /// As JSON if the path ends in ".json", else in binary form. @throws Error if it cannot be
  /// written.
  void save(const std::string& path) const;

 private:
  /// A rank's list, and what it has of things that others name by number.
  struct RankList {
    std::vector<Operation> operations{};
    std::vector<bool> events{};  ///< whether they are marks
    std::vector<bool> blocks{};  ///< whether they are held
    std::vector<StreamNumber> streams{};
  };
  friend class Recorder;
  friend Workload widen(const Workload& workload, std::uint32_t factor, Rank replica,
                        const Workload* narrower);
  explicit Workload(detail::WorkloadDocument document);
  RankList& rank_list(Rank rank);
  Workload& append(Rank rank, StreamNumber stream, Operation operation);
  std::uint32_t call(std::uint32_t group, std::span<const GroupedCollective> operations);
  static void note(RankList& list, StreamNumber stream);
  /// Counts what a rank's list, which was read, has up to the operation.
  void adopt(Rank rank, RankList& list, const Operation& operation) const;
  // They throw ArgumentError.
  void expect_event(Event event) const;
  void expect_recorded(Event event) const;
  void expect_marked(Event event) const;
  std::uint32_t label(std::string_view text);
  /// @return the place of the rank in the group.
  int expect_group(Rank rank, std::uint32_t group) const;
  static void expect_distinct(const std::vector<Rank>& group);
  static void expect_messages(Rank rank, int place, std::span<const SendRecv> parts);
  static void expect_held(Rank rank, const RankList& list, std::uint32_t block);

  std::vector<RankList> ranks_{};
  std::vector<Kernel> kernels_{};
  std::vector<std::vector<Rank>> groups_{};
  std::vector<std::uint32_t> instances_{};
  std::vector<Call> calls_{};
  std::vector<Messages> messages_{};
  std::vector<std::string> labels_{};
  Origin origin_{};
  // By what they are: where the tables have them.
  std::map<std::string, std::uint32_t, std::less<>> kernel_numbers_{};
  std::map<std::pair<std::vector<Rank>, std::uint32_t>, std::uint32_t> group_numbers_{};
  std::map<std::vector<std::int64_t>, std::uint32_t> call_numbers_{}, message_numbers_{};
  std::map<std::string, std::uint32_t, std::less<>> label_numbers_{};
};

}  // namespace phantora
