#pragma once

#include <cstdint>
#include <string_view>

namespace phantora::detail {

/// A convolution's sizes. Pixels are those of an image that goes in, positions those of one that
/// comes out, of all its dimensions.
struct Convolution {
  double images = 1, in = 1, out = 1;  ///< channels of all groups
  double pixels = 1, positions = 1;
  double taps = 1, strides = 1;  ///< of all dimensions, multiplied
  double groups = 1;
  double size = 2;  ///< of an element, in bytes
  bool nchw = true;
};

/// How cuDNN runs the groups of a convolution on the tensor cores.
enum class Groups : std::uint8_t {
  together,  ///< in one kernel, several in a tile of 64 channels
  padded,    ///< the same, after each was widened to a power of two of channels
  apart      ///< beside each other, each a convolution of its own
};

/// What the names of the kernels in the sweeps tell of 3,621 calls with filters of several taps, on
/// an H200 or an H100: 2,999 run as this says, of those that judge as many as of the others (83 %).
/// Of those over sequences and of wide filters 78 %, and as many of their judges.
/// Called `name`, with so many channels in the wider side of each group.
Groups run_of_groups(std::string_view name, const Convolution& shape, double width);

/// Whether groups that run apart run on the plain units, though their type is one of the tensor
/// cores': with long filters, in 16 bits and with channels first. Forward those whose width neither
/// fits a tile of 32 nor nearly fills one of 64, of 4,600 products and more for each element of the
/// result: 51 of 57 such calls over sequences run so, and 1 of 98 others. Gradients of the data
/// those wider than 64 channels, and of others those of few groups or images: 72 of 77, and 3 of 78
/// (data/h200_sweep13.jsonl.gz, and on an H100 the same; judges too).
bool run_on_plain_units(std::string_view name, const Convolution& shape, double width);

}  // namespace phantora::detail
