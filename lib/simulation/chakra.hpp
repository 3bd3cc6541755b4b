#pragma once

#include <phantora/kernels/kernel_cost_model.hpp>
#include <phantora/simulation/traces.hpp>
#include <phantora/simulation/workload.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

/// Chakra's execution traces: the format's numbers, and what chakra.cpp has of its two sides.
namespace phantora::detail::chakra {

// et_def.proto of schema 0.0.4: https://github.com/mlcommons/chakra, schema/protobuf/et_def.proto.
// Names of attributes and their types: src/feeder/et_feeder_node.cpp there.
enum NodeField : unsigned {
  id_field = 1,
  name_field = 2,
  type_field = 3,
  control_field = 4,
  data_field = 5,
  duration_field = 7,
  attribute_field = 10
};
enum NodeType : std::uint64_t {
  invalid_node = 0,
  memory_load = 2,
  memory_store = 3,
  computation = 4,
  sending = 5,
  receiving = 6,
  collective_node = 7
};
enum ValueField : unsigned {
  double_value = 3,
  float_value = 5,
  int32_value = 7,
  int64_value = 9,
  uint32_value = 11,
  uint64_value = 13,
  sint32_value = 15,
  sint64_value = 17,
  fixed32_value = 19,
  sfixed64_value = 25,
  bool_value = 27,
  string_value = 29
};
/// CollectiveCommType's numbers of CollectiveOp, in its order.
inline constexpr std::array<std::uint64_t, 9> collective_types{0, 2, 7, 5, 1, 6, 3, 4, 9};
inline constexpr std::uint64_t reduce_scatter_block = 8, barrier = 9;

/// Ranks, and which of the groups of these ranks.
struct Group {
  std::vector<Rank> ranks{};
  std::uint32_t instance = 0;
};

/// By name; "" is all ranks.
using Groups = std::map<std::string, Group>;

/// The trace of one rank.
std::string write_rank(const Workload& workload, Rank rank, const KernelCostModel& costs);

/// Adds what a rank's trace does to a workload.
/// @param source  names the trace in errors and notes
void read_rank(TraceWorkload& result, const Groups& groups, const std::string& source, Rank rank,
               std::size_t ranks, std::string_view bytes);

}  // namespace phantora::detail::chakra
