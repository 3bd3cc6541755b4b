#pragma once

#include <compare>
#include <cstdint>
#include <functional>

/// Identifiers as types, so that a link is never passed for a node.
namespace phantora {

template <class Tag, class Rep = std::uint32_t>
struct Id {
  Rep value = 0;
  constexpr auto operator<=>(const Id&) const = default;
};

using NodeId = Id<struct NodeTag>;
using LinkId = Id<struct LinkTag>;
using FlowId = Id<struct FlowTag, std::uint64_t>;
/// A GPU stream. The caller of a Session chooses it, unique within the session.
using StreamId = Id<struct StreamTag, std::uint64_t>;
using CommunicatorId = Id<struct CommunicatorTag, std::uint64_t>;

}  // namespace phantora

template <class Tag, class Rep>
struct std::hash<phantora::Id<Tag, Rep>> {
  std::size_t operator()(phantora::Id<Tag, Rep> id) const noexcept {
    return std::hash<Rep>{}(id.value);
  }
};
