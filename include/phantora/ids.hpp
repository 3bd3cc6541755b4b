#pragma once

#include <compare>
#include <cstdint>
#include <functional>

/// Identifiers as types, so that a link is never passed for a node.
namespace phantora {

template <class Tag, class Rep = std::uint32_t>
/// A number that stands for one kind of thing only.
struct Id {
  Rep value = 0;  ///< as its owner counts
  constexpr auto operator<=>(const Id&) const = default;
};

/// A node of a Topology.
using NodeId = Id<struct NodeTag>;
/// A link of a Topology, of one direction, or of a NetworkView.
using LinkId = Id<struct LinkTag>;
/// A flow of a FlowNetwork, which chooses it.
using FlowId = Id<struct FlowTag, std::uint64_t>;
/// A GPU stream. The caller of a Session chooses it, unique within the session.
using StreamId = Id<struct StreamTag, std::uint64_t>;
/// A communicator of a Session, which chooses it.
using CommunicatorId = Id<struct CommunicatorTag, std::uint64_t>;

}  // namespace phantora

/// @cond
template <class Tag, class Rep>
struct std::hash<phantora::Id<Tag, Rep>> {
  std::size_t operator()(phantora::Id<Tag, Rep> id) const noexcept {
    return std::hash<Rep>{}(id.value);
  }
};
/// @endcond
