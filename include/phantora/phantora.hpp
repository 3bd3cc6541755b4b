#pragma once

/// Everything, for examples and small programs; others include what they use. Only
/// topology_graph.hpp and format.hpp are left out, because they include Boost and fmt.

#include <phantora/cluster/cluster.hpp>
#include <phantora/cluster/topologies.hpp>
#include <phantora/cluster/topology.hpp>
#include <phantora/cluster/topology_analysis.hpp>
#include <phantora/cluster/topology_render.hpp>
#include <phantora/collectives/communicator.hpp>
#include <phantora/collectives/operation.hpp>
#include <phantora/error.hpp>
#include <phantora/ids.hpp>
#include <phantora/kernels/builtin_cost_model.hpp>
#include <phantora/kernels/fitted_model.hpp>
#include <phantora/kernels/gpu_model.hpp>
#include <phantora/kernels/kernel_check.hpp>
#include <phantora/kernels/kernel_cost_model.hpp>
#include <phantora/kernels/kernel_data.hpp>
#include <phantora/kernels/kernel_limits.hpp>
#include <phantora/kernels/kernel_signature.hpp>
#include <phantora/kernels/kernel_work.hpp>
#include <phantora/kernels/kernels.hpp>
#include <phantora/kernels/measured_table.hpp>
#include <phantora/kernels/roofline.hpp>
#include <phantora/network/flow_network.hpp>
#include <phantora/network/network_view.hpp>
#include <phantora/quantity.hpp>
#include <phantora/simulation/communicators.hpp>
#include <phantora/simulation/device_timing.hpp>
#include <phantora/simulation/host_process.hpp>
#include <phantora/simulation/memory_ledger.hpp>
#include <phantora/simulation/observer.hpp>
#include <phantora/simulation/recorder.hpp>
#include <phantora/simulation/rendezvous.hpp>
#include <phantora/simulation/report.hpp>
#include <phantora/simulation/session.hpp>
#include <phantora/simulation/simulation.hpp>
#include <phantora/simulation/step_observer.hpp>
#include <phantora/simulation/steps.hpp>
#include <phantora/simulation/trace.hpp>
#include <phantora/simulation/transformer.hpp>
#include <phantora/simulation/virtual_clock.hpp>
#include <phantora/simulation/workload.hpp>
#include <phantora/subscription.hpp>
#include <phantora/units.hpp>
#include <phantora/version.hpp>
