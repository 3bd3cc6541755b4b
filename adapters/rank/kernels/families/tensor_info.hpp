#pragma once

#include "rank/kernels/kernel_effect.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace phantora::rank {

/// PyTorch's TensorInfo<T, index> in a kernel's parameters: data, 25 sizes, 25 strides (elements),
/// dims (ATen/cuda/detail/TensorInfo.cuh). The first dimension varies slowest.
struct TensorInfo {
  static constexpr std::size_t max_dims = 25;

  /// dims is out of range, or the parameter has another size: not valid.
  static TensorInfo read(const Arguments& arguments, std::size_t parameter) {
    TensorInfo info;
    const std::size_t size = arguments.bytes(parameter).size();
    const std::size_t width = size == 216 ? 4 : 8;
    if (size != 216 && size != 416) return info;
    const auto dims = arguments.get<std::int32_t>(parameter, 8 + 2 * max_dims * width);
    if (dims < 0 || dims > static_cast<std::int32_t>(max_dims)) return info;
    info.valid = true;
    info.data = arguments.pointer(parameter);
    const auto number = [&](std::size_t offset) {
      return width == 4 ? std::int64_t{arguments.get<std::int32_t>(parameter, offset)}
                        : arguments.get<std::int64_t>(parameter, offset);
    };
    for (std::size_t d = 0; d < static_cast<std::size_t>(dims); ++d) {
      info.sizes.push_back(number(8 + d * width));
      info.strides.push_back(number(8 + (max_dims + d) * width));
    }
    return info;
  }

  /// Offset, in elements, of element `index` in row-major order.
  [[nodiscard]] std::size_t offset(std::size_t index) const {
    std::size_t at = 0;
    for (std::size_t d = sizes.size(); d-- > 0;) {
      const auto size = static_cast<std::size_t>(std::max<std::int64_t>(sizes[d], 1));
      at += index % size * static_cast<std::size_t>(strides[d]);
      index /= size;
    }
    return at;
  }
  [[nodiscard]] std::size_t count() const {
    std::size_t n = 1;
    for (const std::int64_t size : sizes) n *= static_cast<std::size_t>(size);
    return n;
  }
  /// One past the last element's offset, in elements.
  [[nodiscard]] std::size_t span() const {
    std::size_t at = 1;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d] > 0) at += static_cast<std::size_t>((sizes[d] - 1) * strides[d]);
    }
    return at;
  }

  bool valid = false;
  std::byte* data = nullptr;
  std::vector<std::int64_t> sizes, strides;
};

/// Bytes of an element type, named or opaque: "float", "at::native::OpaqueType<4u>"; 0 if unknown.
inline std::size_t moved_bytes(std::string_view type) {
  if (const auto named = number_type_named(type)) return size_of(*named);
  const TemplateName name = template_name(type);
  if (unqualified(name.name) != "OpaqueType" || name.arguments.size() != 1) return 0;
  constexpr std::size_t widest = 16;  // complex<double>
  const std::size_t bytes = number_in(name.arguments[0]);
  return bytes <= widest ? bytes : 0;
}

}  // namespace phantora::rank
