#include <phantora/collectives/operation.hpp>

#include <algorithm>

namespace phantora {

std::string_view to_string(CollectiveOp op) noexcept {
  switch (op) {
    case CollectiveOp::all_reduce:
      return "all_reduce";
    case CollectiveOp::all_gather:
      return "all_gather";
    case CollectiveOp::reduce_scatter:
      return "reduce_scatter";
    case CollectiveOp::broadcast:
      return "broadcast";
    case CollectiveOp::reduce:
      return "reduce";
    case CollectiveOp::all_to_all:
      return "all_to_all";
    case CollectiveOp::gather:
      return "gather";
    case CollectiveOp::scatter:
      return "scatter";
    case CollectiveOp::barrier:
      return "barrier";
  }
  return "unknown";
}
std::string_view to_string(Algorithm algorithm) noexcept {
  switch (algorithm) {
    case Algorithm::tree:
      return "tree";
    case Algorithm::ring:
      return "ring";
    case Algorithm::collnet_direct:
      return "collnet_direct";
    case Algorithm::collnet_chain:
      return "collnet_chain";
    case Algorithm::nvls:
      return "nvls";
    case Algorithm::nvls_tree:
      return "nvls_tree";
    case Algorithm::pat:
      return "pat";
    case Algorithm::point_to_point:
      return "point_to_point";
  }
  return "unknown";
}
std::string_view to_string(Protocol protocol) noexcept {
  switch (protocol) {
    case Protocol::ll:
      return "ll";
    case Protocol::ll128:
      return "ll128";
    case Protocol::simple:
      return "simple";
  }
  return "unknown";
}

BufferBytes buffer_bytes(CollectiveOp op, Bytes one, int ranks, bool is_root) noexcept {
  const Bytes none{}, all = one * ranks;
  switch (op) {
    case CollectiveOp::all_reduce:
      return {one, one};
    case CollectiveOp::all_gather:
      return {one, all};
    case CollectiveOp::reduce_scatter:
      return {all, one};
    case CollectiveOp::broadcast:
      return {is_root ? one : none, one};
    case CollectiveOp::reduce:
      return {one, is_root ? one : none};
    case CollectiveOp::all_to_all:
      return {all, all};
    case CollectiveOp::gather:
      return {one, is_root ? all : none};
    case CollectiveOp::scatter:
      return {is_root ? all : none, one};
    case CollectiveOp::barrier:
      return {};
  }
  return {};
}

Bytes total_bytes(CollectiveOp op, Bytes one, int ranks) noexcept {
  const BufferBytes root = buffer_bytes(op, one, ranks);
  return std::max(root.send, root.receive);
}

}  // namespace phantora
