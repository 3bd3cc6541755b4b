#include "rank/memory/data_queue.hpp"

namespace phantora::rank {

/// Runs what can run at the head of `items`. @return whether anything did.
bool DataQueue::advance(Items& items) {
  bool moved = false;
  while (!items.empty()) {
    Item& head = items.front();
    if (auto* operation = std::get_if<Operation>(&head)) {
      const Operation run = std::move(*operation);
      items.pop_front();
      run();
    } else if (const auto* passing = std::get_if<Passing>(&head)) {
      unreached_.erase(passing->marker);
      items.pop_front();
    } else if (const auto* waiting = std::get_if<Waiting>(&head)) {
      if (unreached_.contains(waiting->marker)) return moved;
      items.pop_front();
    } else {
      auto& exchange = std::get<Exchange>(head);
      if (!exchange.sent) {
        exchange.sent = true;
        exchange.send();
      }
      const auto result = results_.find(exchange.ticket);
      if (result == results_.end()) return moved;
      const auto bytes = std::move(result->second);
      results_.erase(result);
      const auto receive = std::move(exchange.receive);
      items.pop_front();
      if (receive) receive(bytes);
    }
    moved = true;
  }
  return moved;
}

/// Runs everything that can run, in every stream.
void DataQueue::drain() {
  if (draining_) return;  // called from an operation: the outer call goes on
  struct Draining {
    bool& flag;
    explicit Draining(bool& f) : flag{f} { flag = true; }
    ~Draining() { flag = false; }
  } const draining{draining_};
  for (bool moved = true; moved;) {
    moved = false;
    for (auto& [stream, items] : held_) moved = advance(items) || moved;
  }
  std::erase_if(held_, [](const auto& entry) { return entry.second.empty(); });
  any_held_.store(!held_.empty(), std::memory_order_release);
}

void DataQueue::push(const Stream& stream, Item item) {
  const std::scoped_lock lock{mutex_};
  held_[stream.id].push_back(std::move(item));
  drain();
}

void DataQueue::append(const Stream& stream, Operation operation) {
  push(stream, std::move(operation));
}

void DataQueue::record(const Stream& stream, Marker marker) {
  if (idle()) return;
  const std::scoped_lock lock{mutex_};
  unreached_.insert(marker);
  push(stream, Passing{marker});
}

void DataQueue::wait(const Stream& stream, Marker marker) {
  if (idle()) return;
  const std::scoped_lock lock{mutex_};
  if (unreached_.contains(marker)) push(stream, Waiting{marker});
}

void DataQueue::exchange(const Stream& stream, Ticket ticket, Operation send, Receive receive) {
  push(stream, Exchange{ticket, std::move(send), std::move(receive)});
}

void DataQueue::deliver(Ticket ticket, std::span<const std::byte> result) {
  const std::scoped_lock lock{mutex_};
  results_.emplace(ticket, std::vector<std::byte>{result.begin(), result.end()});
  drain();
}

bool DataQueue::holds(const Stream& stream) {
  if (idle()) return false;
  const std::scoped_lock lock{mutex_};
  drain();
  const auto found = held_.find(stream.id);
  return found != held_.end() && !found->second.empty();
}

}  // namespace phantora::rank
