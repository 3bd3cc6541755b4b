#include "rank/kernels/families/aligned.hpp"
#include "rank/kernels/families/tensor_info.hpp"
#include "rank/kernels/kernel_effect.hpp"
#include "rank/memory/device_memory.hpp"

#include <array>

/// PyTorch's CatArrayBatchedCopy kernels (ATen/native/cuda/Shape.cu): torch.cat and torch.stack.
namespace phantora::rank {

namespace {

constexpr std::size_t dims = 4;

/// TensorSizeStride<unsigned, 4>
struct Shape {
  std::array<std::uint32_t, dims> sizes{}, strides{};
  static Shape read(const Arguments& arguments, std::size_t parameter, std::size_t offset) {
    Shape shape;
    for (std::size_t d = 0; d < dims; ++d) {
      shape.sizes[d] = arguments.get<std::uint32_t>(parameter, offset + 4 * d);
      shape.strides[d] = arguments.get<std::uint32_t>(parameter, offset + 4 * (dims + d));
    }
    return shape;
  }
  /// Offset of an element of a part whose size in the concatenated dimension is `own_size`.
  [[nodiscard]] std::size_t offset(std::size_t used, std::size_t dimension, std::size_t own_size,
                                   std::size_t index) const {
    std::size_t at = 0;
    for (std::size_t d = used; d-- > 1;) {
      const std::size_t size = d == dimension ? own_size : sizes[d];
      at += index % size * strides[d];
      index /= size;
    }
    return at + index * strides[0];
  }
};

struct Part {
  std::byte* data = nullptr;
  std::size_t first = 0;  ///< element of the output where it begins
  std::size_t own_size = 0, elements = 0;
  bool contiguous = true;
  Shape shape;
};

}  // namespace

std::unique_ptr<Meaning> read_concatenation(const Signature& signature, const KernelResources&) {
  const std::string_view name = unqualified(signature.kernel.name);
  if (!name.starts_with("CatArrayBatchedCopy")) return nullptr;
  // <element, index, dimensions, batch, strides stored[, alignment[, elements per vector]]>
  const auto& arguments = signature.kernel.arguments;
  if (arguments.size() < 5 || arguments[1] != "unsigned int") return nullptr;
  const std::size_t element = moved_bytes(arguments[0]);
  const std::size_t used = number_in(arguments[2]), batch = number_in(arguments[3]);
  const std::size_t stored_shapes = number_in(arguments[4]);
  const bool vectorized = name == "CatArrayBatchedCopy_vectorized";
  if (element == 0 || (vectorized && arguments.size() != 7)) return nullptr;
  // The vectorized kernel counts in vectors.
  const std::size_t per_vector = vectorized ? number_in(arguments[6]) : 1;
  const std::size_t unit = element * per_vector;
  return meaning([=](const Arguments& launch) -> std::optional<Effect> {
    const std::size_t offsets = batch * 8, own_sizes = offsets + batch * 4,
                      counts = own_sizes + batch * 4, contiguous = counts + batch * 4,
                      shapes = contiguous + batch;
    if (aligned(shapes + stored_shapes * 32, 8) != launch.bytes(1).size()) return std::nullopt;
    const Shape output = Shape::read(launch, 2, 0);
    const auto dimension = launch.get<std::uint32_t>(3);
    const std::size_t scale = launch.get<std::uint32_t>(4);  // stride, or trailing size
    std::vector<Part> parts;
    Effect effect;
    std::size_t end = 0, longest = 0;
    double elements = 0;
    for (std::size_t i = 0; i < std::min<std::size_t>(launch.shape.grid.y, batch); ++i) {
      Part part;
      part.data = launch.pointer(1, 8 * i);
      part.elements = launch.get<std::uint32_t>(1, counts + 4 * i) / per_vector;
      const std::size_t own = launch.get<std::uint32_t>(1, own_sizes + 4 * i);
      const std::size_t offset = launch.get<std::uint32_t>(1, offsets + 4 * i);
      part.own_size = vectorized ? own * scale / per_vector : own;
      part.first = vectorized ? offset * scale / per_vector : offset * scale;
      if (stored_shapes > 1) {
        part.contiguous = launch.get<std::uint8_t>(1, contiguous + i) != 0;
        part.shape = Shape::read(launch, 1, shapes + 32 * i);
      }
      std::size_t span = part.elements;
      if (part.elements > 0) {
        const std::size_t last = part.elements - 1;
        if (!part.contiguous) span = part.shape.offset(used, dimension, part.own_size, last) + 1;
        end = std::max(end, part.first + output.offset(used, dimension, part.own_size, last) + 1);
      }
      effect.operands.push_back({part.data, span * unit, true, false});
      elements += static_cast<double>(part.elements * per_vector);
      longest = std::max(longest, part.elements * per_vector);
      parts.push_back(part);
    }
    effect.operands.push_back({launch.pointer(0), end * unit, false, true});
    effect.bytes = 2 * elements * static_cast<double>(element);
    effect.features = {{"numel", elements}, {"cols", static_cast<double>(longest)}};
    effect.independent = end * unit <= small_bytes;  // unknown parts make their own part unknown
    if (!effect.independent) return effect;
    effect.compute = [=](std::span<Image> images) {
      for (std::size_t p = 0; p < parts.size(); ++p) {
        const Part& part = parts[p];
        for (std::size_t i = 0; i < part.elements; ++i) {
          const std::size_t from =
              part.contiguous ? i : part.shape.offset(used, dimension, part.own_size, i);
          const std::size_t to = part.first + output.offset(used, dimension, part.own_size, i);
          images.back().move(to * unit, images[p], from * unit, unit);
        }
      }
    };
    return effect;
  });
}

}  // namespace phantora::rank
