#include "kernels/round_trips.hpp"
#include "kernels/work/families.hpp"
#include "kernels/work/reading.hpp"

#include <algorithm>
#include <cmath>

namespace phantora::detail {

namespace {

/// cuDNN keeps the weights of a layer of up to as many units in the SMs, but not in bf16: so do all
/// of the sweeps' 1,301 passes. (RNN: up to 368 forward and 240 backward, from 408 and 296 on no
/// more; LSTM and GRU up to 192 and 128, from 200 and 136 on no more.)
double persistent_units(bool forward, double gates) {
  const double units = gates > 1.0 ? 192.0 : 384.0;
  return forward ? units : units * 2.0 / 3.0;
}

/// A step of a layer whose weights stay in the SMs: a block has a sequence, and a thread goes
/// through the states of so many units, padded to 32. `parts` of 4096 weights beyond 12 do not fit
/// into the registers with what else is there, beyond 16 they come from the L2 cache. Read off the
/// medians of the 348 such kernels in the sweeps: forward 0.24, 0.31, 0.43, 0.47 and 0.94 us at 32,
/// 64, 96, 128 and 192 units of an RNN, 0.32, 0.44, 0.72, 2.06 and 4.6 at 32 to 160 of an LSTM;
/// backward some 0.15 us more.
double persistent_step_seconds(bool forward, double units, double parts) {
  const double spilled = parts > 12.0 ? 1.5 + 0.28 * std::max(0.0, parts - 16.0) : 0.0;
  return 1e-6 * ((forward ? 0.16 : 0.31) + 0.0024 * units + 0.035 * parts + spilled);
}

/// The gradients of the biases are sums over all rows, by a block for 32 units, whose threads take
/// 32 rows at once: 0.09 to 0.8 us for each such step by the number of columns, of a GRU, whose
/// sums are of more than its gates, 0.4 to 1.7.
double bias_step_seconds(double gates, double columns) {
  return gates == 3.0 ? 0.6e-6 + 0.2e-9 * columns : 0.08e-6 + 0.12e-9 * columns;
}

}  // namespace

/// cuDNN's recurrent networks: the inputs' products at once, the states' one step after the other.
/// The gradients of the weights are products over all steps.
KernelWork recurrent(const KernelQuery& query) {
  const auto type = attribute(query, "type", "fp32");
  const double steps = feature(query, "steps", 1.0);
  const double rows = feature(query, "batch", 1.0);
  const double input = feature(query, "input", 1.0);
  const double hidden = feature(query, "hidden", 1.0);
  const double layers = feature(query, "layers", 1.0);
  const double directions = feature(query, "directions", 1.0);
  const double cell_gates = feature(query, "gates", 1.0);
  const double gates = cell_gates * hidden;
  const bool forward = query.name == "rnn_fwd";
  KernelWork work;
  work.limit = KernelLimit::arithmetic;
  work.arithmetic = arithmetic_of(type, attribute(query, "compute", "fp32"));
  work.batch = 1.0;
  work.a_along_k = forward;
  const double inputs = input + (layers - 1.0) * directions * hidden;  // of all layers
  bool persistent = false;
  if (query.name == "rnn_bwd_weights") {
    // A product with the inputs and one with the states, both over all rows of all steps.
    work.b_along_k = false;
    work.m = gates;
    work.n = 0.5 * (hidden + inputs / layers);
    work.k = rows * steps;
    work.repeats = 2.0 * layers * directions;
    constexpr double rows_at_once = 32.0;
    const double sums = std::ceil(work.k / rows_at_once) * bias_step_seconds(cell_gates, gates);
    // The product over one step alone, and the sums.
    work.round_trips = 2.0 * launch_round_trips + 0.5 * sums / round_trip_seconds;
    work.bytes = (work.k * (work.m + work.n) + work.m * work.n) * type_bytes(type);
  } else if (type != "bf16" && hidden <= persistent_units(forward, cell_gates)) {
    // One kernel takes all steps of a layer.
    persistent = true;
    work.batch = 0.0;
    constexpr double padding = 32.0, part = 4096.0, full = 16.0;
    const double padded = std::ceil(hidden / padding) * padding;
    const double parts = cell_gates * padded * padded / part;
    work.blocks = rows;
    work.resident = std::max(1.0, std::floor(full / parts));
    // The weights are loaded first; the inputs' product comes before, and backward the gates'
    // gradients as well.
    constexpr double start = 1.5e-6, loaded_part = 0.5e-6, beside = 4.5e-6;
    work.round_trips =
        layers * directions *
        (start + loaded_part * parts + steps * persistent_step_seconds(forward, padded, parts) +
         (forward ? beside : 2.0 * beside)) /
        l2_trip_seconds;
    work.flops = 2.0 * rows * steps * gates * inputs * directions;
    work.bytes = rows * steps * (inputs + gates * layers) * directions * type_bytes(type);
  } else {
    work.m = forward ? gates : hidden;
    work.n = rows;
    work.k = forward ? hidden : gates;
    work.repeats = steps * layers * directions;
    // The product, and the kernel that applies the gates.
    work.round_trips = 2.0 * launch_round_trips;
    work.flops = 2.0 * rows * steps * gates * inputs * directions;
    work.bytes = (work.m * work.k + rows * (work.m + work.k)) * type_bytes(type);
  }
  work.group = query.name;
  work.group += persistent ? "/persistent" : label(work.arithmetic);
  work.family = type;
  work.coordinates = {log_coordinate(hidden, 1.0), log_coordinate(rows, 2.0),
                      log_coordinate(steps, 2.0),  log_coordinate(gates / hidden, 2.0),
                      log_coordinate(layers, 1.5), log_coordinate(directions, 1.5),
                      log_coordinate(inputs, 4.0), 0.0F};
  return work;
}

}  // namespace phantora::detail
