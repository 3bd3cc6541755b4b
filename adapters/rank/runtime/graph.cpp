#include "rank/runtime/graph.hpp"

#include "rank/runtime/mutex.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <queue>
#include <unordered_map>

namespace phantora::rank {
namespace {

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

Mutex& user_objects_mutex() {
  static auto* const mutex = new Mutex;
  return *mutex;
}

bool joins(const std::vector<Edge>& edges, const Node& node) {
  return std::ranges::any_of(edges, [&](const Edge& edge) { return edge.node == &node; });
}

}  // namespace

void retain(UserObject& object, unsigned count) {
  const std::lock_guard lock{user_objects_mutex()};
  object.references += count;
}

void release(UserObject& object, unsigned count) {
  {
    const std::lock_guard lock{user_objects_mutex()};
    object.references -= std::min(count, object.references);
    if (object.references > 0) return;
  }
  object.destroy(object.object);
  delete &object;
}

Graph::Graph() : id_{next_id()} {}

Graph::Graph(const Graph& other) : id_{next_id()} {
  std::unordered_map<const Node*, Node*> copies;
  for (const auto& node : other.nodes_) {
    WorkPointer work = node->work;
    // The program may change the nodes of a child graph: each clone has its own.
    if (const Graph* const child = work->child())
      work = std::make_shared<ChildWork>(std::make_unique<Graph>(*child));
    Node& copy = add(std::move(work), {}, node->device);
    copy.origin = node->id;
    copy.data = node->data;
    copy.attributes = node->attributes;
    copies[node.get()] = &copy;
  }
  for (const auto& node : other.nodes_) {
    for (const Edge& edge : node->dependencies)
      connect(*copies.at(edge.node), *copies.at(node.get()), edge.data);
  }
  for (const auto& [object, count] : other.kept_) keep(*object, count, false);
}

Graph::~Graph() {
  for (const auto& [object, count] : kept_) release(*object, count);
}

Node& Graph::add(WorkPointer work, std::span<const Edge> dependencies, int device) {
  Node& node = *nodes_.emplace_back(std::make_unique<Node>());
  node.graph = this;
  node.id = node.origin = next_id();
  node.device = device;
  node.work = std::move(work);
  for (const Edge& edge : dependencies) connect(*edge.node, node, edge.data);
  return node;
}

void Graph::remove(Node& node) {
  const auto forget = [&](std::vector<Edge>& edges) {
    std::erase_if(edges, [&](const Edge& edge) { return edge.node == &node; });
  };
  for (const Edge& edge : node.dependencies) forget(edge.node->dependents);
  for (const Edge& edge : node.dependents) forget(edge.node->dependencies);
  std::erase_if(nodes_, [&](const auto& one) { return one.get() == &node; });
}

bool Graph::connect(Node& from, Node& to, const EdgeData& data) {
  if (&from == &to || from.graph != this || to.graph != this) return false;
  if (joins(to.dependencies, from)) return false;
  to.dependencies.push_back({&from, data});
  from.dependents.push_back({&to, data});
  return true;
}

bool Graph::disconnect(Node& from, Node& to) {
  if (!joins(to.dependencies, from)) return false;
  std::erase_if(to.dependencies, [&](const Edge& edge) { return edge.node == &from; });
  std::erase_if(from.dependents, [&](const Edge& edge) { return edge.node == &to; });
  return true;
}

std::vector<Node*> Graph::in_order() const {
  std::unordered_map<const Node*, std::size_t> awaited;
  // Of those that could come next, the one that was added first.
  const auto later = [](const Node* a, const Node* b) { return a->id > b->id; };
  std::priority_queue<Node*, std::vector<Node*>, decltype(later)> ready{later};
  for (const auto& node : nodes_) {
    if (node->dependencies.empty()) ready.push(node.get());
    awaited[node.get()] = node->dependencies.size();
  }
  std::vector<Node*> order;
  order.reserve(nodes_.size());
  while (!ready.empty()) {
    Node* const next = ready.top();
    ready.pop();
    order.push_back(next);
    for (const Edge& edge : next->dependents) {
      if (--awaited[edge.node] == 0) ready.push(edge.node);
    }
  }
  if (order.size() != nodes_.size()) order.clear();
  return order;
}

Node* Graph::clone_of(const Node& origin) const noexcept {
  for (const auto& node : nodes_) {
    if (node->origin == origin.id && node->id != origin.id) return node.get();
  }
  return nullptr;
}

void Graph::keep(UserObject& object, unsigned count, bool take_over) {
  if (!take_over) retain(object, count);
  kept_[&object] += count;
}

bool Graph::give_up(UserObject& object, unsigned count) {
  const auto found = kept_.find(&object);
  if (found == kept_.end() || found->second < count) return false;
  found->second -= count;
  if (found->second == 0) kept_.erase(found);
  release(object, count);
  return true;
}

void CollectiveWork::issue(Stream& stream) const {
  std::vector<CollectiveCall> calls = calls_;
  for (CollectiveCall& call : calls) call.stream = &stream;
  enqueue_collectives(calls);
}

void EventWork::issue(Stream& stream) const {
  if (type_ == NodeType::event_record) {
    record(stream, event);
  } else if (const Marker marker = event.latest()) {
    wait(stream, marker);
  }
}

}  // namespace phantora::rank
