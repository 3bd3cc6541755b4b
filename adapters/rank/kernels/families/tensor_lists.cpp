#include "rank/kernels/families/tensor_lists.hpp"

#include "rank/kernels/families/aligned.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace phantora::rank {

namespace {

/// How much the lists in a kernel's parameter hold, by the number of lists. PyTorch has two kinds:
/// parameters of up to 4 KiB, and from 2.14 on of up to 32 KiB.
struct Capacity {
  std::size_t blocks;
  std::size_t tensor_number_bytes;  ///< of the number of a block's tensor
  std::array<std::size_t, 5> tensors, tensors_with_scalars;
};
constexpr std::array<Capacity, 2> capacities = {
    Capacity{320, 1, {110, 64, 48, 36, 30}, {96, 64, 48, 36, 30}},
    Capacity{2240, 2, {770, 448, 336, 252, 210}, {672, 448, 336, 252, 210}}};

/// Offsets in the parameter, for lists of one capacity.
struct Layout {
  std::size_t tensors;  ///< per list
  std::size_t numel, extra, tensor_of_block, chunk_of_block, start;
  std::size_t blocks, tensor_number_bytes;
};

/// The layout whose size is the parameter's: the name does not tell.
std::optional<Layout> layout_of(std::size_t bytes, ListKind kind, std::size_t depth,
                                std::optional<ElementType> scalar_type) {
  for (const Capacity& capacity : capacities) {
    Layout l{};
    const std::size_t with_scalars = capacity.tensors_with_scalars[depth - 1];
    l.tensors = kind == ListKind::scalars ? with_scalars : capacity.tensors[depth - 1];
    l.blocks = capacity.blocks;
    l.tensor_number_bytes = capacity.tensor_number_bytes;
    l.numel = depth * l.tensors * 8;
    l.extra = l.tensor_of_block = l.numel + l.tensors * 8;
    if (kind == ListKind::scalars) l.tensor_of_block += l.tensors * size_of(*scalar_type);
    if (kind == ListKind::optimizer) l.tensor_of_block += with_scalars * 8;
    l.chunk_of_block = l.tensor_of_block + l.blocks * l.tensor_number_bytes;
    l.start = l.chunk_of_block + l.blocks * 4;
    const std::size_t end = kind == ListKind::scalars ? l.start : l.start + 4;
    if (aligned(end, 8) == bytes) return l;
  }
  return std::nullopt;
}

}  // namespace

std::optional<TensorLists> read_lists(const Arguments& arguments, ListKind kind, std::size_t depth,
                                      std::optional<ElementType> scalar_type) {
  const auto layout = layout_of(arguments.bytes(0).size(), kind, depth, scalar_type);
  if (!layout) return std::nullopt;

  TensorLists lists;
  lists.depth = depth;
  lists.addresses.resize(depth);
  if (kind == ListKind::plain) lists.start_tensor = arguments.get<std::uint32_t>(0, layout->start);
  std::size_t tensors = 0;
  const std::size_t blocks = std::min<std::size_t>(arguments.shape.grid.x, layout->blocks);
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::size_t place = layout->tensor_of_block + b * layout->tensor_number_bytes;
    const std::size_t tensor = layout->tensor_number_bytes == 1
                                   ? arguments.get<std::uint8_t>(0, place)
                                   : arguments.get<std::uint16_t>(0, place);
    if (tensor >= layout->tensors) return std::nullopt;
    tensors = std::max(tensors, tensor + 1);
    const std::size_t index = arguments.get<std::uint32_t>(0, layout->chunk_of_block + 4 * b);
    const auto elements = arguments.get<std::uint64_t>(0, layout->numel + 8 * tensor);
    const std::size_t first = index * chunk_elements;
    if (first >= elements) return std::nullopt;
    const std::size_t count = std::min(chunk_elements, elements - first);
    lists.chunks.push_back({tensor, first, count});
    lists.chunk_index.push_back(index);
    lists.elements += static_cast<double>(count);
  }
  for (std::size_t t = 0; t < tensors; ++t) {
    lists.numel.push_back(arguments.get<std::uint64_t>(0, layout->numel + 8 * t));
  }
  for (std::size_t d = 0; d < depth; ++d) {
    for (std::size_t t = 0; t < tensors; ++t) {
      lists.addresses[d].push_back(arguments.pointer(0, (d * layout->tensors + t) * 8));
    }
  }
  for (std::size_t t = 0; t < tensors; ++t) {
    if (kind == ListKind::scalars) {
      std::array<std::byte, 8> bytes{};
      const auto all = arguments.bytes(0).subspan(layout->extra + t * size_of(*scalar_type));
      std::copy_n(all.begin(), size_of(*scalar_type), bytes.begin());
      lists.scalars.push_back(load(*scalar_type, bytes.data()));
    }
    if (kind == ListKind::optimizer) {
      lists.steps.push_back(arguments.pointer(0, layout->extra + 8 * t));
    }
  }
  return lists;
}

void add_operands(Effect& effect, const TensorLists& lists, const std::vector<std::size_t>& sizes,
                  std::size_t reads, const std::vector<bool>& written) {
  const std::size_t tensors = lists.addresses[0].size();
  std::vector<std::pair<std::size_t, std::size_t>> ranges(tensors, {~std::size_t{0}, 0});
  for (const Chunk& chunk : lists.chunks) {
    auto& [first, last] = ranges[chunk.tensor];
    first = std::min(first, chunk.first);
    last = std::max(last, chunk.first + chunk.count);
  }
  for (std::size_t d = 0; d < lists.depth; ++d) {
    for (std::size_t t = 0; t < tensors; ++t) {
      const auto [first, last] = ranges[t];
      const std::size_t count = last > first ? last - first : 0;
      effect.operands.push_back({lists.addresses[d][t] + (count == 0 ? 0 : first * sizes[d]),
                                 count * sizes[d], d < reads, written[d]});
      effect.bytes += static_cast<double>(count * sizes[d]) *
                      ((d < reads ? 1.0 : 0.0) + (written[d] ? 1.0 : 0.0));
    }
  }
  std::size_t longest = 0;
  for (const Chunk& chunk : lists.chunks) longest = std::max(longest, chunk.count);
  effect.features.emplace_back("numel", lists.elements);
  effect.features.emplace_back("cols", static_cast<double>(longest));
  effect.independent = true;
}

std::vector<std::size_t> first_elements(const TensorLists& lists) {
  std::vector<std::size_t> first(lists.addresses[0].size(), ~std::size_t{0});
  for (const Chunk& chunk : lists.chunks) {
    first[chunk.tensor] = std::min(first[chunk.tensor], chunk.first);
  }
  return first;
}

}  // namespace phantora::rank
