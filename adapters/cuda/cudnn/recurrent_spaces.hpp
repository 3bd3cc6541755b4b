#pragma once

#include <cstddef>

/// What cuDNN asks for beside a recurrent network.
namespace phantora::cudnn {

struct RecurrentShape {
  std::size_t gates = 1;  ///< of an LSTM 4, a GRU 3, others 1
  std::size_t directions = 1, layers = 1;
  std::size_t steps = 0, batch = 0, input = 0, hidden = 0;
  std::size_t projection = 0;  ///< width of an LSTM's state; 0: that of its cell
  std::size_t element = 4;     ///< bytes
  bool dropout = false;        ///< between layers
  bool packed = false;         ///< sequences lie without padding (CUDNN_RNN_PADDED_IO_DISABLED)
  /// One kernel for a layer (CUDNN_RNN_ALGO_PERSIST_STATIC, ..._SMALL_H), as PyTorch asks for with
  /// few units; in fp16 and fp32, which have such kernels, and with padding alone.
  bool persistent = false;
};

/// In bytes.
struct RecurrentSpaces {
  std::size_t inference = 0, training = 0;  ///< workspaces
  std::size_t reserve = 0;                  ///< what the forward pass keeps for the backward ones
};

/// With T steps, B sequences, inputs of I, and layers of H units with G gates, in elements, of one
/// direction (of both: the code):
///
///     forward   min(T, 256) B G H + T B H if there is dropout
///     backward  T B max(I, H) + T B H, where of several layers the second has 24 to 80 steps
///     both      all matrices of the weights, some rows of B H for each layer;
///               where sequences are padded, input and output without padding: T B (I + H), for
///               the backward pass twice
///     reserve   each layer's gates and states, (G + 1) T B H of an LSTM, 6 T B H of a GRU, and
///               what goes from layer to layer
///
/// and 8 MiB for each layer and direction. Training takes the larger of the two passes. Kernels for
/// whole layers keep 4 G more T B H forward, and 9, 14 or 12 more (others, GRU, LSTM) backward.
///
/// Read off 4,192 answers of cuDNN 9.19 on an H100 (bench/accuracy/h100_rnn_spaces.jsonl.gz, by
/// measure_rnn_spaces.py): all of inference without projections to 0.002 %, and six of seven of
/// training to 0.1 %; others by up to 15 %, in short sequences of few.
RecurrentSpaces spaces_of(const RecurrentShape& shape);

}  // namespace phantora::cudnn
