#pragma once

#include <utility>

namespace phantora::rank {

/// A node that a map gave up, for the next that it takes: what is allocated and freed in turn needs
/// no memory of the host's each time. Not thread-safe.
template <class Map>
class KeptNode {
 public:
  /// What `key` had before is replaced.
  void put(Map& map, typename Map::key_type key, typename Map::mapped_type value) {
    if (node_.empty()) {
      map.insert_or_assign(std::move(key), std::move(value));
      return;
    }
    node_.key() = std::move(key);
    node_.mapped() = std::move(value);
    auto done = map.insert(std::move(node_));
    if (done.inserted) return;
    done.position->second = std::move(done.node.mapped());
    node_ = std::move(done.node);
  }
  void remove(Map& map, typename Map::const_iterator at) { node_ = map.extract(at); }

 private:
  typename Map::node_type node_{};
};

}  // namespace phantora::rank
