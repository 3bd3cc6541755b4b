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

}  // namespace

RecurrentSpaces spaces_of(const RecurrentShape& shape) {
  const auto [gates, directions, layers, steps, batch, input, hidden, projection, element, dropout,
              packed] = shape;
  const std::size_t state = projection != 0 ? projection : hidden;
  const std::size_t rows = steps * batch, widest = std::max(input, hidden);
  const bool both_ways = directions == 2;

  std::size_t weights = 0;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::size_t from = layer == 0 ? input : directions * state;
    weights += directions * (gates * hidden * (from + state) + projection * hidden);
  }

  // Of a batch's states, for each layer.
  std::size_t forward_states = gates == lstm ? 6 : gates == gru ? 3 : 1;
  std::size_t backward_states = gates == lstm ? 7 : 1;
  if (!packed) {
    forward_states += gates == lstm ? 4 : 2;
    backward_states += 4;
  }
  if (both_ways) {
    forward_states = 2 * forward_states + 4;
    backward_states = 2 * backward_states + 4;
  }

  std::size_t forward = 0, backward = 0;
  if (both_ways) {
    forward = rows * (2 * gates + 4) * hidden;
    backward = rows * ((layers == 1 ? 2 : 4) * hidden + 4 * widest);
  } else {
    forward = std::min(steps, steps_at_once) * batch * gates * hidden;
    if (dropout) forward += rows * hidden;
    const std::size_t kept = layers == 1 ? steps : std::min(steps, steps_between_layers(batch));
    backward = rows * widest + kept * batch * hidden;
  }
  std::size_t beside = layers * directions * of_each_layer + 256;
  if (!packed) {
    const std::size_t unpadded = rows * (directions * hidden + input);
    forward += unpadded;
    backward += 2 * unpadded;
    beside += 8 * batch;  // where each sequence begins
  }
  forward += forward_states * layers * batch * hidden + weights;
  backward += backward_states * layers * batch * hidden + weights;

  std::size_t kept_of_layer = gates == lstm ? 5 * hidden : gates == gru ? 6 * hidden : hidden;
  if (projection != 0) kept_of_layer += hidden + projection;
  const std::size_t kept =
      rows * (layers * directions * kept_of_layer + (layers - 1) * directions * state);
  // A bit for each element and direction.
  const std::size_t dropped =
      dropout ? (layers - 1) * directions * directions * hidden * rows / 8 : 0;
  return {.inference = forward * element + beside,
          .training = std::max(forward, backward) * element + beside,
          .reserve = kept * element + dropped + 256};
}

}  // namespace phantora::cudnn
