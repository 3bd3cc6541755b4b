#pragma once

#include "rank/memory/data_queue.hpp"
#include "rank/runtime/timeline.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// CUDA graphs as the program builds them, by capture or node by node. Objects are the program's
/// handles. As with CUDA's, threads that share a graph take turns by themselves.
namespace phantora::rank {

class Graph;

/// Numbered as CUgraphNodeType and cudaGraphNodeType.
enum class NodeType : std::uint8_t {
  kernel,
  memcpy,
  memset,
  host,
  graph,
  empty,
  wait_event,
  event_record,
  mem_alloc = 10,
  mem_free = 11,
  conditional = 13,
};

/// What a node does. Immutable, so that a graph, its clones and its executables share it.
class Work {
 public:
  Work() = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  virtual ~Work() = default;

  [[nodiscard]] virtual NodeType type() const noexcept = 0;
  /// Puts it into a stream, as the call would have that a program makes without a graph.
  virtual void issue(Stream& stream) const = 0;
  /// What it is in words.
  [[nodiscard]] virtual std::string label() const = 0;
  /// The graph that it stands for, of a child graph.
  [[nodiscard]] virtual const Graph* child() const noexcept { return nullptr; }
};
using WorkPointer = std::shared_ptr<const Work>;

/// cudaGraphEdgeData: ports and type, as the program gives them. They are kept for who asks; an
/// edge of any type orders whole nodes.
using EdgeData = std::array<unsigned char, 8>;

struct Node;
struct Edge {
  Node* node = nullptr;
  EdgeData data{};
  bool operator==(const Edge&) const = default;
};

/// The program's cudaGraphNode_t.
struct Node {
  Graph* graph = nullptr;
  std::uint64_t id = 0;      ///< of no other node
  std::uint64_t origin = 0;  ///< the id of the node that it was cloned from; else its own
  int device = 0;
  WorkPointer work{};
  /// What the work does to data beside what issue() says: of operations of libraries, which tell
  /// the timeline about time and data apart.
  std::vector<DataQueue::Operation> data{};
  std::vector<Edge> dependencies{}, dependents{};
  /// cudaLaunchAttributeValues that the program set on a kernel, by number: kept for who asks.
  std::map<int, std::array<std::byte, 64>> attributes{};
};

/// cudaUserObject_t: something of the program's that graphs keep alive.
struct UserObject {
  void (*destroy)(void*) = nullptr;
  void* object = nullptr;
  unsigned references = 0;
};
void retain(UserObject& object, unsigned count);
/// The last reference destroys it.
void release(UserObject& object, unsigned count);

/// The program's cudaGraph_t.
class Graph {
 public:
  Graph();
  Graph(const Graph& other);
  Graph& operator=(const Graph&) = delete;
  ~Graph();

  Node& add(WorkPointer work, std::span<const Edge> dependencies, int device);
  /// Its edges go with it.
  void remove(Node& node);
  /// False if there is such an edge, or the two are one node or of another graph.
  bool connect(Node& from, Node& to, const EdgeData& data = {});
  /// False if there is no such edge.
  static bool disconnect(Node& from, Node& to);

  /// In the order in which they were added.
  [[nodiscard]] const std::vector<std::unique_ptr<Node>>& nodes() const noexcept { return nodes_; }
  /// The same, each behind what it depends on; nothing if that goes round in a circle.
  [[nodiscard]] std::vector<Node*> in_order() const;
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  /// The node here that was cloned from `origin`; nullptr if there is none.
  [[nodiscard]] Node* clone_of(const Node& origin) const noexcept;

  /// Takes references over from the caller, or more of them.
  void keep(UserObject& object, unsigned count, bool take_over);
  /// False if the graph has not so many.
  bool give_up(UserObject& object, unsigned count);
  [[nodiscard]] const std::map<UserObject*, unsigned>& kept() const noexcept { return kept_; }

 private:
  std::uint64_t id_;
  std::vector<std::unique_ptr<Node>> nodes_{};
  std::map<UserObject*, unsigned> kept_{};
};

// --- Work of this layer ---

/// A kernel of a library, which no program can change: its price is known when it is captured.
class LibraryWork final : public Work {
 public:
  LibraryWork(QueryId query, std::string name) : query_{query}, name_{std::move(name)} {}
  NodeType type() const noexcept override { return NodeType::kernel; }
  void issue(Stream& stream) const override { launch(stream, query_); }
  std::string label() const override { return name_; }

 private:
  QueryId query_;
  std::string name_;
};

/// The operations of one NCCL group on one stream.
class CollectiveWork final : public Work {
 public:
  explicit CollectiveWork(std::vector<CollectiveCall> calls) : calls_{std::move(calls)} {}
  NodeType type() const noexcept override { return NodeType::kernel; }
  void issue(Stream& stream) const override;
  std::string label() const override { return "nccl"; }

 private:
  std::vector<CollectiveCall> calls_;
};

class HostWork final : public Work {
 public:
  HostWork(void (*called)(void*), void* with) : function{called}, argument{with} {}
  NodeType type() const noexcept override { return NodeType::host; }
  void issue(Stream& stream) const override { host_function(stream, function, argument); }
  std::string label() const override { return "host function"; }

  void (*const function)(void*);
  void* const argument;
};

class EmptyWork final : public Work {
 public:
  NodeType type() const noexcept override { return NodeType::empty; }
  void issue(Stream&) const override {}
  std::string label() const override { return "empty"; }
};

/// An event of the world outside of the graph.
class EventWork final : public Work {
 public:
  /// @param type  event_record or wait_event.
  EventWork(NodeType type, Event& outside) : type_{type}, event{outside} {}
  NodeType type() const noexcept override { return type_; }
  void issue(Stream& stream) const override;
  std::string label() const override {
    return type_ == NodeType::event_record ? "event record" : "event wait";
  }

 private:
  const NodeType type_;

 public:
  Event& event;
};

class ChildWork final : public Work {
 public:
  explicit ChildWork(std::unique_ptr<Graph> own) : graph{std::move(own)} {}
  NodeType type() const noexcept override { return NodeType::graph; }
  /// An executable takes its nodes instead.
  void issue(Stream&) const override {}
  std::string label() const override { return "child graph"; }
  const Graph* child() const noexcept override { return graph.get(); }

  /// Its nodes can be changed, as those of any graph.
  const std::unique_ptr<Graph> graph;
};

}  // namespace phantora::rank
