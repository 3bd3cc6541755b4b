#pragma once

/// Everything, for examples and small programs. Others include what they use.

#include <phantora/cluster.hpp>
#include <phantora/collectives.hpp>
#include <phantora/error.hpp>
#include <phantora/flow_network.hpp>
#include <phantora/ids.hpp>
#include <phantora/kernel_cost_model.hpp>
#include <phantora/network_view.hpp>
#include <phantora/topologies.hpp>
#include <phantora/topology.hpp>
#include <phantora/topology_render.hpp>
#include <phantora/units.hpp>
#include <phantora/virtual_clock.hpp>
