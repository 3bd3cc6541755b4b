#include "rank/kernels/families/tensor_accessor.hpp"
#include "rank/kernels/families/tensor_info.hpp"
#include "rank/kernels/kernel_effect.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string_view>

/// Pooling without cuDNN
/// (ATen/native/cuda/{DilatedMaxPool2d,DilatedMaxPool3d,AveragePool2d,AdaptiveAveragePooling}.cu),
/// resizing, and elementwise kernels with several outputs (Loops.cuh): described, not executed.
namespace phantora::rank {

namespace {

/// unrolled_elementwise_kernel_for_multi_outputs<outputs, functor, std::array<char*, n>,
/// ...>(numel, functor, pointers, calculators): one element per channel. Sizes are those of
/// float64, the widest.
std::unique_ptr<Meaning> multiple_outputs(const TemplateName& kernel) {
  if (kernel.arguments.size() < 4) return nullptr;
  const std::size_t outputs = number_in(kernel.arguments[0]);
  const LambdaName lambda = lambda_name(kernel.arguments[1]);
  std::size_t element = 0;
  for (const auto type : lambda.parameters) element = std::max(element, moved_bytes(type));
  if (element == 0 || !kernel.arguments[3].starts_with("TrivialOffsetCalculator")) return nullptr;
  return meaning([=](const Arguments& a) -> std::optional<Effect> {
    const std::size_t count = a.get<std::uint32_t>(0);
    Effect effect;
    const std::size_t tensors = a.bytes(2).size() / 8;
    for (std::size_t t = 0; t < tensors; ++t) {
      effect.operands.push_back({a.pointer(2, 8 * t), count * element, t >= outputs, t < outputs});
    }
    effect.bytes = static_cast<double>(tensors * count * element);
    effect.features.emplace_back("numel", static_cast<double>(count));
    return effect;
  });
}

/// An integer of either width.
std::size_t number(const Arguments& a, std::size_t p) {
  return a.bytes(p).size() == 8 ? a.get<std::size_t>(p) : std::size_t{a.get<std::uint32_t>(p)};
}

/// Elements of an image under one window, along `axes` axes: a window may be larger than the image,
/// as that of EfficientNet's last average in Transformers, 2,560 each way over 19 by 19.
std::size_t taps_within(const Arguments& a, std::size_t image, std::size_t window,
                        std::size_t axes) {
  std::size_t taps = 1;
  for (std::size_t axis = 0; axis < axes; ++axis)
    taps *= std::min(number(a, image + axis), number(a, window + axis));
  return taps;
}

/// Pooling of planes: outputs (forward) or inputs (backward) are written, with indices of 8 bytes
/// where the window's maximum is kept. Windows overlap in cache: each element is read about once,
/// whatever the window.
std::unique_ptr<Meaning> pooling(const TemplateName& kernel, std::string_view name) {
  const std::size_t element = moved_bytes(kernel.arguments[0]);
  if (element == 0) return nullptr;
  const bool maximum = name.starts_with("max_pool");
  const bool backward = name.find("backward") != std::string_view::npos;
  const bool channels_last = name.ends_with("_nhwc");
  if (maximum && !channels_last && !name.ends_with("_nchw")) return nullptr;
  return meaning([=](const Arguments& a) -> std::optional<Effect> {
    // (gradient, indices, batch, channels, height, width, pooled height and width, the window's,
    // ..., gradient of the input) for a maximum's gradient; the others have one number less before
    // their height: (count, input, channels, ...) or (input, batch, channels, ...).
    const std::size_t at = maximum && backward ? 4 : 3;
    const std::size_t plane = number(a, at) * number(a, at + 1),
                      pooled = number(a, at + 2) * number(a, at + 3),
                      taps = taps_within(a, at, at + 4, 2);
    if (plane == 0 || pooled == 0) return std::nullopt;
    const std::size_t planes = maximum && backward ? number(a, 2) * number(a, 3)
                               : maximum && channels_last
                                   ? number(a, 1) * number(a, 2)
                                   : number(a, 0) / (backward ? plane : pooled);
    const std::size_t input = planes * plane, output = planes * pooled;
    const std::size_t count = backward ? input : output;
    const std::size_t last = a.sizes.size() - 1;
    Effect effect;
    if (maximum && backward) {
      effect.operands = {{a.pointer(last), count * element, false, true}};
    } else if (maximum) {
      effect.operands = {{a.pointer(last - 1), count * element, false, true},
                         {a.pointer(last), count * 8, false, true}};
    } else {
      // (..., output, divisor, two flags)
      effect.operands = {{a.pointer(last - 3), count * element, false, true}};
    }
    effect.bytes = static_cast<double>((input + output) * element + (maximum ? output * 8 : 0));
    effect.features = {{"numel", static_cast<double>(count)}, {"cols", static_cast<double>(taps)}};
    return effect;
  });
}

/// max_pool3d_with_indices_{single,backward_single}_out_frame: (input, output, indices, channels,
/// depth, height, width, batch, pooled depth, height and width, the window's, ...) or (gradient of
/// the input, gradient, indices, the same without a window). The gradient is added up where the
/// maxima were. Where channels do not come last, a grid's depth goes through the pooled planes, of
/// which a launch has 65535 at most.
std::unique_ptr<Meaning> maximum_of_volumes(const TemplateName& kernel, bool backward) {
  const std::size_t element = moved_bytes(kernel.arguments[0]);
  if (element == 0) return nullptr;
  return meaning([=](const Arguments& a) -> std::optional<Effect> {
    const auto of_three = [&](std::size_t p) {
      return number(a, p) * number(a, p + 1) * number(a, p + 2);
    };
    const std::size_t volumes = number(a, 3) * number(a, 7), volume = of_three(4),
                      pooled = of_three(8);
    if (volume == 0 || pooled == 0) return std::nullopt;
    Effect effect;
    effect.operands = {{a.pointer(0), volumes * volume * element, true, backward},
                       {a.pointer(1), volumes * pooled * element, backward, !backward},
                       {a.pointer(2), volumes * pooled * 8, backward, !backward}};
    const bool channels_last = a.get<std::uint8_t>(a.sizes.size() - 1) != 0;
    const auto output = static_cast<double>(
        channels_last ? volumes * pooled : a.shape.grid.z * number(a, 9) * number(a, 10));
    const double each = static_cast<double>(volume) / static_cast<double>(pooled);
    const auto size = static_cast<double>(element);
    effect.bytes = output * ((backward ? 2.0 : 1.0 + each) * size + 8.0);
    effect.features = {{"numel", output},
                       {"cols", backward ? each : static_cast<double>(taps_within(a, 4, 11, 3))}};
    return effect;
  });
}

/// Averages over windows that make up a plane (AdaptiveAveragePooling.cu): (input, output, height
/// and width, pooled height and width, ...), a block of the grid for each plane; where channels
/// come last, the batch and the channels stand before these. A gradient has them the other way
/// round.
std::unique_ptr<Meaning> adaptive_average(const TemplateName& kernel, bool channels_last,
                                          bool backward) {
  // An index's type stands before the element's where channels come last, else behind, if at all.
  const std::size_t element =
      moved_bytes(channels_last ? kernel.arguments.back() : kernel.arguments.front());
  if (element == 0) return nullptr;
  return meaning([=](const Arguments& a) -> std::optional<Effect> {
    const std::size_t at = channels_last ? 4 : 2;
    const std::size_t height = number(a, at), width = number(a, at + 1),
                      pooled_height = number(a, at + 2), pooled_width = number(a, at + 3);
    if (pooled_height == 0 || pooled_width == 0) return std::nullopt;
    const std::size_t planes = channels_last ? number(a, 2) * number(a, 3) : a.shape.grid.x;
    const std::size_t input = planes * height * width,
                      output = planes * pooled_height * pooled_width;
    const std::size_t taps = ((height + pooled_height - 1) / pooled_height) *
                             ((width + pooled_width - 1) / pooled_width);
    Effect effect;
    effect.operands = {{a.pointer(0), input * element, !backward, backward},
                       {a.pointer(1), output * element, backward, !backward}};
    effect.bytes = static_cast<double>((input + output) * element);
    effect.features = {{"numel", static_cast<double>(output)}, {"cols", static_cast<double>(taps)}};
    return effect;
  });
}

/// Where a kernel that resizes images has its numbers.
struct Resizing {
  std::string_view name;
  std::size_t read, written;   ///< pointers
  std::size_t image, resized;  ///< first of the sizes of either
  std::size_t dimensions;      ///< of them
  enum class Told : std::uint8_t { planes, product_of_two, resized_elements, image_elements } told;
  std::size_t count;  ///< of what is told; of a product the first, which the other follows
};

using Told = Resizing::Told;
/// The resized is the larger one, where images are made larger; gradients go back to the image.
constexpr std::array resizings{
    Resizing{"upsample_nearest2d_out_frame", 0, 1, 3, 5, 2, Told::planes, 2},
    Resizing{"upsample_nearest2d_nhwc_out_frame", 0, 1, 3, 5, 2, Told::resized_elements, 9},
    Resizing{"upsample_nearest2d_backward_out_frame", 0, 7, 5, 3, 2, Told::product_of_two, 1},
    Resizing{"upsample_nearest2d_backward_nhwc_out_frame", 0, 1, 4, 2, 2, Told::image_elements, 9},
    Resizing{"upsample_nearest3d_out_frame", 0, 9, 3, 6, 3, Told::product_of_two, 1},
    Resizing{"upsample_nearest3d_backward_out_frame", 0, 9, 6, 3, 3, Told::product_of_two, 1},
    Resizing{"upsample_bilinear2d_nhwc_out_frame", 8, 9, 4, 6, 2, Told::resized_elements, 10},
    Resizing{"upsample_bilinear2d_backward_out_frame", 9, 8, 1, 3, 2, Told::planes, 0},
    Resizing{"upsample_bilinear2d_backward_nhwc_out_frame", 8, 7, 0, 2, 2, Told::image_elements,
             11},
};

/// UpSample{Nearest2d,Nearest3d,Bilinear2d}.cu. Neighbours that several results share come from the
/// cache.
std::unique_ptr<Meaning> resizing(const TemplateName& kernel, std::string_view name) {
  const std::size_t element = moved_bytes(kernel.arguments[0]);
  if (element == 0) return nullptr;
  const auto described = [=](std::byte* from, std::size_t read, std::byte* to,
                             std::size_t written) {
    Effect effect;
    effect.operands = {{from, read * element, true, false}, {to, written * element, false, true}};
    effect.bytes = static_cast<double>((read + written) * element);
    const double each =
        static_cast<double>(read) / static_cast<double>(std::max<std::size_t>(written, 1));
    effect.features = {{"numel", static_cast<double>(written)}, {"cols", std::max(1.0, each)}};
    return effect;
  };
  if (name == "upsample_bilinear2d_out_frame") {
    // (pixels, two scales, whether corners are aligned, input, output): each thread goes through
    // all planes.
    return meaning([=](const Arguments& a) -> std::optional<Effect> {
      const std::size_t read = accessor_elements(a, 4, 4), written = accessor_elements(a, 5, 4),
                        pixels = number(a, 0);
      if (read == 0 || written == 0 || pixels == 0) return std::nullopt;
      Effect effect = described(a.pointer(4), read, a.pointer(5), written);
      effect.features.emplace_back("rows", static_cast<double>(written / pixels));
      return effect;
    });
  }
  const auto found = std::ranges::find(resizings, name, &Resizing::name);
  if (found == resizings.end()) return nullptr;
  return meaning([=, at = *found](const Arguments& a) -> std::optional<Effect> {
    std::size_t image = 1, resized = 1;
    for (std::size_t d = 0; d < at.dimensions; ++d) {
      image *= number(a, at.image + d);
      resized *= number(a, at.resized + d);
    }
    if (image == 0 || resized == 0) return std::nullopt;
    std::size_t planes = number(a, at.count);
    switch (at.told) {
      case Told::planes:
        break;
      case Told::product_of_two:
        planes *= number(a, at.count + 1);
        break;
      case Told::resized_elements:
        planes /= resized;
        break;
      case Told::image_elements:
        planes /= image;
        break;
    }
    const bool backward = at.name.find("backward") != std::string_view::npos;
    return described(a.pointer(at.read), planes * (backward ? resized : image),
                     a.pointer(at.written), planes * (backward ? image : resized));
  });
}

}  // namespace

std::unique_ptr<Meaning> read_pooling(const Signature& signature, const KernelResources&) {
  const TemplateName& kernel = signature.kernel;
  const std::string_view name = unqualified(kernel.name);
  if (name == "unrolled_elementwise_kernel_for_multi_outputs") return multiple_outputs(kernel);
  if (kernel.arguments.empty()) return nullptr;
  if (name.starts_with("max_pool_") || name.starts_with("avg_pool2d_")) {
    return pooling(kernel, name);
  }
  if (name == "max_pool3d_with_indices_single_out_frame") return maximum_of_volumes(kernel, false);
  if (name == "max_pool3d_with_indices_backward_single_out_frame") {
    return maximum_of_volumes(kernel, true);
  }
  if (name == "adaptive_average_pool" || name == "adaptive_average_pool_nhwc" ||
      name == "adaptive_average_gradinput" || name == "adaptive_average_gradinput_nhwc" ||
      name == "atomic_adaptive_average_gradinput") {
    return adaptive_average(kernel, name.ends_with("_nhwc"),
                            name.find("gradinput") != std::string_view::npos);
  }
  if (name.starts_with("upsample_")) return resizing(kernel, name);
  return nullptr;
}

}  // namespace phantora::rank
