#include "rank/memory/data_queue.hpp"

#include "rank/runtime/legacy_order.hpp"

#include <phantora/error.hpp>

#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>

namespace phantora::rank::data {

namespace {

struct Passing {
  Marker marker;
};
struct Waiting {
  Marker marker;
};
struct Exchange {
  Ticket ticket;
  Operation send;
  std::function<void(std::span<const std::byte>)> receive;
  bool sent = false;
};
using Item = std::variant<Operation, Passing, Waiting, Exchange>;

struct Queue {
  std::deque<Item> items;
};

/// Only streams with operations that are held back are here, so that an idle queue costs one read
/// of an atomic.
struct Queues {
  // Recursive: an operation may deliver (a communicator of one rank needs no engine).
  std::recursive_mutex mutex;
  std::map<std::uint64_t, Queue> held;  // by stream id; operations may add streams while we iterate
  std::unordered_set<Marker> unreached;  // recorded, but held back
  std::unordered_map<Ticket, std::vector<std::byte>> results;
  bool draining = false;
};

Queues& queues() {
  static Queues* const instance = new Queues;  // entry points are called from destructors at exit
  return *instance;
}

std::atomic<bool> any_held{false};

/// Runs what can run at the head of `queue`. @return whether anything did.
bool advance(Queues& all, Queue& queue) {
  bool moved = false;
  while (!queue.items.empty()) {
    Item& head = queue.items.front();
    if (auto* operation = std::get_if<Operation>(&head)) {
      const Operation run = std::move(*operation);
      queue.items.pop_front();
      run();
    } else if (const auto* passing = std::get_if<Passing>(&head)) {
      all.unreached.erase(passing->marker);
      queue.items.pop_front();
    } else if (const auto* waiting = std::get_if<Waiting>(&head)) {
      if (all.unreached.contains(waiting->marker)) return moved;
      queue.items.pop_front();
    } else {
      auto& exchange = std::get<Exchange>(head);
      if (!exchange.sent) {
        exchange.sent = true;
        exchange.send();
      }
      const auto result = all.results.find(exchange.ticket);
      if (result == all.results.end()) return moved;
      const auto bytes = std::move(result->second);
      all.results.erase(result);
      const auto receive = std::move(exchange.receive);
      queue.items.pop_front();
      if (receive) receive(bytes);
    }
    moved = true;
  }
  return moved;
}

/// Runs everything that can run, in every stream.
void drain(Queues& all) {
  if (all.draining) return;  // called from an operation: the outer call goes on
  struct Draining {
    bool& flag;
    explicit Draining(bool& f) : flag{f} { flag = true; }
    ~Draining() { flag = false; }
  } const draining{all.draining};
  for (bool moved = true; moved;) {
    moved = false;
    for (auto& [id, queue] : all.held) moved = advance(all, queue) || moved;
  }
  std::erase_if(all.held, [](const auto& entry) { return entry.second.items.empty(); });
  any_held.store(!all.held.empty(), std::memory_order_release);
}

void append(const Stream& stream, Item item) {
  Queues& all = queues();
  const std::scoped_lock lock{all.mutex};
  all.held[stream.id].items.push_back(std::move(item));
  drain(all);
}

void append_operation(Stream& stream, Item item) {
  order_with_legacy(stream);
  LegacyOrder::operation(stream);
  append(stream, std::move(item));
}

bool idle() noexcept { return !any_held.load(std::memory_order_acquire); }

}  // namespace

void hold_back(Stream& stream, Operation operation) {
  append_operation(stream, std::move(operation));
}

void record(const Stream& stream, Marker marker) {
  if (idle()) return;
  Queues& all = queues();
  const std::scoped_lock lock{all.mutex};
  all.unreached.insert(marker);
  append(stream, Passing{marker});
}

void wait(const Stream& stream, Marker marker) {
  if (idle()) return;
  Queues& all = queues();
  const std::scoped_lock lock{all.mutex};
  if (all.unreached.contains(marker)) append(stream, Waiting{marker});
}

void collective(Stream& stream, Ticket ticket, Operation send,
                std::function<void(std::span<const std::byte>)> receive) {
  append_operation(stream, Exchange{ticket, std::move(send), std::move(receive)});
}

void deliver(Ticket ticket, std::span<const std::byte> result) {
  Queues& all = queues();
  const std::scoped_lock lock{all.mutex};
  all.results.emplace(ticket, std::vector<std::byte>{result.begin(), result.end()});
  drain(all);
}

bool pending(Stream& stream) {
  if (idle()) return false;
  order_with_legacy(stream);
  Queues& all = queues();
  const std::scoped_lock lock{all.mutex};
  drain(all);
  const auto found = all.held.find(stream.id);
  return found != all.held.end() && !found->second.items.empty();
}

bool pending() noexcept { return !idle(); }

}  // namespace phantora::rank::data
