#pragma once

#include "rank/runtime/graph.hpp"
#include "rank/runtime/mutex.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace phantora::rank {

/// What `stream` gets from now on is of a graph and follows something of that graph there, or is no
/// more.
void in_graph(Stream& stream, bool inside);

/// A graph made ready to be launched: the program's cudaGraphExec_t. Its branches run in streams
/// beside the one that it is launched in.
class Executable {
 public:
  /// nullptr if the graph's dependencies go round in a circle.
  static std::unique_ptr<Executable> make(const Graph& graph, std::uint64_t flags);
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  ~Executable();

  /// All nodes come behind what is in `stream`, and what `stream` gets later behind them.
  void launch(Stream& stream);

  /// The node that was made of `node`, which may be one of a child graph. False if there is none.
  bool has(const Node& node) const { return places_.contains(node.id); }
  [[nodiscard]] const WorkPointer& work(const Node& node) const;
  void set_work(const Node& node, WorkPointer work);
  [[nodiscard]] bool enabled(const Node& node) const;
  void enable(const Node& node, bool enabled);
  /// Where another graph differs: a node that is of another type or has other dependencies;
  /// nullptr if there are more nodes, or fewer.
  struct Difference {
    const Node* node = nullptr;
    bool type = false;
  };
  /// Takes over what the nodes of `graph` do, if it differs in nothing else.
  std::optional<Difference> update(const Graph& graph);
  /// The same of a child graph.
  std::optional<Difference> update(const Node& child, const Graph& graph);

  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  [[nodiscard]] std::uint64_t flags() const noexcept { return flags_; }
  [[nodiscard]] std::size_t size() const noexcept { return steps_.size(); }
  /// Whether it is on the device, as from its first launch on; counts as one.
  bool uploaded() noexcept { return std::exchange(uploaded_, true); }

 private:
  /// A node, or where the child graph of one begins.
  struct Step {
    const Node* node = nullptr;  ///< while the executable is made or updated
    bool begins = false;
    WorkPointer work{};
    std::vector<DataQueue::Operation> data{};
    int device = 0;
    bool enabled = true;
    std::vector<std::size_t> dependencies{};  ///< places of other steps, all earlier
    std::size_t lane = 0;
    std::vector<std::size_t> waits{};  ///< of the dependencies, those that the lane has not seen
    bool awaited = false;              ///< by another lane
  };
  using Steps = std::vector<Step>;

  Executable() = default;
  static bool append(const Graph& graph, const std::vector<std::size_t>& before, Steps& steps);
  void assign_lanes();
  std::optional<Difference> update(std::size_t first, std::size_t last, const Steps& steps);
  void keep(const Graph& graph);

  std::uint64_t id_ = 0, flags_ = 0;
  bool uploaded_ = false;
  Mutex mutex_{};
  Steps steps_{};
  std::unordered_map<std::uint64_t, std::size_t> places_{};  ///< by node's id
  std::unordered_map<std::uint64_t, std::size_t> begins_{};  ///< of child graphs, likewise
  std::vector<int> lanes_{};                                 ///< devices
  std::vector<std::size_t> last_of_lane_{};                  ///< steps
  std::map<UserObject*, unsigned> kept_{};
  Stream* last_launched_in_ = nullptr;  ///< its launches run one after the other
};

}  // namespace phantora::rank
