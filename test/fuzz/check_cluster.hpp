#pragma once

#include <phantora/cluster/cluster.hpp>

#include <string_view>

namespace phantora::fuzz {

/// Whether a number in the text has more than so many digits: a large cluster, which the parser may
/// take its seconds for. Their limits have a test of their own (test/topology_test.cpp).
bool may_be_large(std::string_view text, int most_digits);

/// Ends the run unless the cluster is one that can be simulated and described.
void check(const Cluster& cluster);

}  // namespace phantora::fuzz
