#pragma once

/// Everything, for examples and small programs; others include what they use. Only
/// topology_graph.hpp is left out, because it includes Boost.

#include <phantora/builtin_cost_model.hpp>
#include <phantora/cluster.hpp>
#include <phantora/collectives.hpp>
#include <phantora/error.hpp>
#include <phantora/fitted_model.hpp>
#include <phantora/flow_network.hpp>
#include <phantora/gpu_model.hpp>
#include <phantora/ids.hpp>
#include <phantora/kernel_check.hpp>
#include <phantora/kernel_cost_model.hpp>
#include <phantora/kernel_data.hpp>
#include <phantora/kernel_limits.hpp>
#include <phantora/kernel_signature.hpp>
#include <phantora/kernel_work.hpp>
#include <phantora/measured_table.hpp>
#include <phantora/network_view.hpp>
#include <phantora/quantity.hpp>
#include <phantora/roofline.hpp>
#include <phantora/session.hpp>
#include <phantora/steps.hpp>
#include <phantora/subscription.hpp>
#include <phantora/topologies.hpp>
#include <phantora/topology.hpp>
#include <phantora/topology_render.hpp>
#include <phantora/trace.hpp>
#include <phantora/units.hpp>
#include <phantora/version.hpp>
#include <phantora/virtual_clock.hpp>
