#include "rank/runtime/process.hpp"

#include "rank/runtime/connection.hpp"
#include "rank/runtime/rank.hpp"
#include "rank/runtime/standing.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <limits>
#include <span>

namespace phantora::rank {
namespace {

thread_local int device_of_thread = 0;

void add_to_counter(const char* name, std::uint64_t amount) {
  if (Connection* connection = this_rank().clocks.connection()) {
    connection->append({.op = channel::Op::counter, .a = amount},
                       std::as_bytes(std::span{name, std::strlen(name)}));
  }
}

bool is_recorded(Connection& connection) {
  return connection.run().recorded.load(std::memory_order_relaxed);
}

}  // namespace

bool simulated() noexcept {
  try {
    if (Rank* const rank = rank_in_time()) return rank->connect() != nullptr;
    return standing() == Standing::may_join;
  } catch (...) {
    return false;
  }
}

const channel::Settings* settings() noexcept {
  const auto& told = this_rank().settings;
  return told ? &*told : nullptr;
}

int device_count() { return static_cast<int>(this_rank().devices().size()); }

int physical_device_count() {
  const Rank& rank = this_rank();
  return standing() == Standing::outside ? 0 : rank.settings->hosts[rank.host].gpus;
}

const GpuModel& gpu() { return this_rank().gpu; }

const std::string& host_name() { return this_rank().settings->hosts[this_rank().host].name; }

int current_device() noexcept { return device_of_thread; }
void set_current_device(int device) noexcept { device_of_thread = device; }
int physical_device(int device) {
  return this_rank().devices().at(static_cast<std::size_t>(device));
}
int visible_device(int physical) {
  for (int device = 0; device < device_count(); ++device) {
    if (physical_device(device) == physical) return device;
  }
  return -1;
}

namespace {
/// More than a GPU has stays more than it has.
Bytes as_bytes(std::size_t bytes) {
  constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());
  return Bytes{static_cast<std::int64_t>(std::min(bytes, most))};
}

/// A GPU's memory, as the processes of its host account for it.
class SharedMemoryOf {
 public:
  explicit SharedMemoryOf(int device)
      : connection_{*this_rank().connect()},
        physical_{static_cast<std::size_t>(physical_device(device))} {}

  [[nodiscard]] MemoryLedger& ledger() const { return connection_.host().gpus.at(physical_); }
  /// What this process holds of it.
  [[nodiscard]] std::atomic<std::uint64_t>& held() const {
    return connection_.shared().held.at(physical_);
  }
  /// So that a record of the run has it.
  void tell(channel::Op what, std::size_t taken, std::size_t given_back) const {
    if (!is_recorded(connection_)) return;
    connection_.append({.op = what,
                        .device = static_cast<std::uint16_t>(physical_),
                        .thread = channel::no_thread,
                        .a = taken,
                        .b = given_back},
                       {});
  }

 private:
  Connection& connection_;
  std::size_t physical_;
};

bool take(channel::Op what, int device, std::size_t bytes) {
  const SharedMemoryOf memory{device};
  if (!memory.ledger().allocate_within(gpu().memory, as_bytes(bytes))) return false;
  memory.held() += bytes;
  memory.tell(what, bytes, 0);
  return true;
}
void give_back(channel::Op what, int device, std::size_t bytes) {
  const SharedMemoryOf memory{device};
  memory.held() -= bytes;
  memory.ledger().free(as_bytes(bytes));
  memory.tell(what, 0, bytes);
}
}  // namespace

bool reserve_memory(int device, std::size_t bytes) noexcept {
  return take(channel::Op::memory, device, bytes);
}
void release_memory(int device, std::size_t bytes) noexcept {
  give_back(channel::Op::memory, device, bytes);
}
bool reserve_context(int device, std::size_t bytes) noexcept {
  return take(channel::Op::context, device, bytes);
}
void release_context(int device, std::size_t bytes) noexcept {
  give_back(channel::Op::context, device, bytes);
}

MemoryInfo memory_info(int device) noexcept {
  const auto capacity = static_cast<std::uint64_t>(gpu().memory.count());
  // Whoever has no part in the simulation yet sees what it could have.
  if (standing() == Standing::may_join) return {.free = capacity, .total = capacity};
  const auto used = static_cast<std::uint64_t>(SharedMemoryOf{device}.ledger().held().count());
  return {.free = capacity - std::min(used, capacity), .total = capacity};
}

void warn_once(const char* key, const std::string& message) {
  if (this_rank().warnings.first(key)) std::fprintf(stderr, "phantora: %s\n", message.c_str());
}

void unsupported(const char* entry_point) noexcept {
  warn_once(entry_point, std::string{entry_point} + " is not simulated; it returns an error");
  add_to_counter((std::string{"unsupported "} + entry_point).c_str(), 1);
}

std::uint64_t begin_range(Time now) {
  const std::uint64_t range = ++this_rank().named_ranges;
  Connection* const connection = this_rank().clocks.connection();
  if (connection != nullptr && is_recorded(*connection))
    connection->append({.op = channel::Op::begin_range,
                        .thread = this_thread().index,
                        .clock_ps = now.time_since_epoch().count(),
                        .b = range});
  return range;
}

void note_range(std::uint64_t range, std::string_view name, Time start, Time end) {
  Connection* const connection = this_rank().clocks.connection();
  if (connection == nullptr) return;
  thread_local const std::uint64_t thread = this_rank().naming_threads++;
  constexpr std::size_t longest = 4096;  // a name is to be read, and a message has its limits
  name = name.substr(0, longest);
  connection->append({.op = channel::Op::range,
                      .thread = this_thread().index,
                      .clock_ps = end.time_since_epoch().count(),
                      .a = thread,
                      .b = range,
                      .c = static_cast<std::uint64_t>(start.time_since_epoch().count())},
                     std::as_bytes(std::span{name.data(), name.size()}));
}

void count(const char* counter, std::uint64_t n) noexcept { add_to_counter(counter, n); }

}  // namespace phantora::rank
