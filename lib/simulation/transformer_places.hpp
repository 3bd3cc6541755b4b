#pragma once

#include <phantora/simulation/transformer.hpp>
#include <phantora/simulation/workload.hpp>

#include <map>
#include <utility>
#include <vector>

namespace phantora::detail::transformer {

/// A rank, where it stands, and what it holds at a point of its step.
struct Place {
  int stage = 0;
  Rank rank = 0, before = 0, next = 0;  ///< its own, and those of the neighbouring stages
  std::vector<Rank> tensor{}, context{}, replicas{}, experts{}, expert_replicas{}, stages{};
  int slice = 0;  ///< in its context group
  /// By chunk and micro-batch: activations whose backward pass is to come, and what the loss left.
  std::map<std::pair<int, int>, std::vector<Workload::Block>> activations{};
  std::map<std::pair<int, int>, Workload::Block> outputs{};    ///< until they are passed back
  std::map<std::pair<int, int>, Workload::Block> gradients{};  ///< that those of weights need
  std::vector<Workload::Block> gathered{};                     ///< weights, oldest first
  double unreduced = 0, unreduced_experts = 0;  ///< gradients of the last micro-batch, elements
};

/// The rank of a number: tensor groups are of neighbours, then come context, data and stages.
Place place_of(int number, const Parallelism& p);

}  // namespace phantora::detail::transformer
