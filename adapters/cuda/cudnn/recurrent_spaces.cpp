#include "cuda/cudnn/recurrent_spaces.hpp"

#include <algorithm>

namespace phantora::cudnn {
namespace {

constexpr std::size_t lstm = 4, gru = 3;
constexpr std::size_t of_each_layer = std::size_t{8} << 20U;
/// Steps that the gates of a forward pass are kept of at once.
constexpr std::size_t steps_at_once = 256;

/// Steps of a layer that the backward pass of several keeps: 20 to 32 with 10 sequences and more,
/// 64 and 80 with fewer.
std::size_t steps_between_layers(std::size_t batch) {
  return batch <= 8 ? 80 : batch <= 32 ? 32 : 24;
}

/// Elements of the two passes' workspaces without the weights.
struct Passes {
  std::size_t forward = 0, backward = 0;
};

/// A kernel for each step, or for some.
Passes by_steps(const RecurrentShape& shape) {
  const std::size_t rows = shape.steps * shape.batch, hidden = shape.hidden;
  const std::size_t widest = std::max(shape.input, hidden);
  // Of a batch's states, for each layer.
  std::size_t forward_states = shape.gates == lstm ? 6 : shape.gates == gru ? 3 : 1;
  std::size_t backward_states = shape.gates == lstm ? 7 : 1;
  if (!shape.packed) {
    forward_states += shape.gates == lstm ? 4 : 2;
    backward_states += 4;
  }
  Passes passes;
  if (shape.directions == 2) {
    forward_states = 2 * forward_states + 4;
    backward_states = 2 * backward_states + 4;
    passes.forward = rows * (2 * shape.gates + 4) * hidden;
    passes.backward = rows * ((shape.layers == 1 ? 2 : 4) * hidden + 4 * widest);
  } else {
    passes.forward = std::min(shape.steps, steps_at_once) * shape.batch * shape.gates * hidden;
    const std::size_t kept =
        shape.layers == 1 ? shape.steps : std::min(shape.steps, steps_between_layers(shape.batch));
    passes.backward = rows * widest + kept * shape.batch * hidden;
  }
  passes.forward += forward_states * shape.layers * shape.batch * hidden;
  passes.backward += backward_states * shape.layers * shape.batch * hidden;
  return passes;
}

/// A kernel for each layer.
Passes by_layers(const RecurrentShape& shape) {
  const std::size_t rows = shape.steps * shape.batch, hidden = shape.hidden;
  const std::size_t widest = std::max(shape.input, hidden);
  std::size_t forward_states = shape.gates == lstm ? 8 : 4;
  std::size_t backward_states = shape.gates == lstm ? 12 : 6;
  const std::size_t several = shape.layers > 1 ? shape.directions : 0;
  const std::size_t more = shape.gates == lstm ? 12 : shape.gates == gru ? 14 : 9;
  Passes passes;
  if (shape.directions == 2) {
    forward_states = 2 * forward_states + 2;
    backward_states = 2 * backward_states + 2;
    passes.forward = rows * (6 * shape.gates + 4) * hidden;
    passes.backward = rows * ((more + 2 + several) * hidden + 4 * widest);
  } else {
    passes.forward = rows * 5 * shape.gates * hidden;
    passes.backward = rows * ((more + 1 + several) * hidden + widest);
  }
  passes.forward += forward_states * shape.layers * shape.batch * hidden;
  passes.backward += backward_states * shape.layers * shape.batch * hidden;
  return passes;
}

}  // namespace

RecurrentSpaces spaces_of(const RecurrentShape& shape) {
  const std::size_t rows = shape.steps * shape.batch, hidden = shape.hidden;
  const std::size_t state = shape.projection != 0 ? shape.projection : hidden;

  std::size_t weights = 0;
  for (std::size_t layer = 0; layer < shape.layers; ++layer) {
    const std::size_t from = layer == 0 ? shape.input : shape.directions * state;
    weights +=
        shape.directions * (shape.gates * hidden * (from + state) + shape.projection * hidden);
  }
  auto [forward, backward] = shape.persistent ? by_layers(shape) : by_steps(shape);
  if (shape.dropout && shape.directions == 1) forward += rows * hidden;
  std::size_t beside = shape.layers * shape.directions * of_each_layer + 256;
  if (!shape.packed) {
    const std::size_t unpadded = rows * (shape.directions * hidden + shape.input);
    forward += unpadded;
    backward += 2 * unpadded;
    beside += 8 * shape.batch;  // where each sequence begins
  }

  std::size_t kept_of_layer = shape.gates == lstm  ? 5 * hidden
                              : shape.gates == gru ? 6 * hidden
                                                   : hidden;
  if (shape.projection != 0) kept_of_layer += hidden + shape.projection;
  const std::size_t between = (shape.layers - 1) * shape.directions;
  const std::size_t kept =
      rows * (shape.layers * shape.directions * kept_of_layer + between * state);
  // A bit for each element and direction.
  const std::size_t dropped = shape.dropout ? between * shape.directions * hidden * rows / 8 : 0;
  return {.inference = (forward + weights) * shape.element + beside,
          .training = (std::max(forward, backward) + weights) * shape.element + beside,
          .reserve = kept * shape.element + dropped + 256};
}

}  // namespace phantora::cudnn
