#pragma once

#include "rank/kernels/families/element_type.hpp"
#include "rank/kernels/kernel_effect.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

/// TensorLists of tensors that one launch works on, as PyTorch's multi_tensor_apply_kernel has them
/// (ATen/native/cuda/MultiTensorApply.cuh): a block for each chunk of a tensor.
namespace phantora::rank {

constexpr std::size_t chunk_elements = 65536;
/// Of lists in one launch.
constexpr std::size_t max_depth = 5;

/// A chunk of one tensor of each list: what a block works on.
struct Chunk {
  std::size_t tensor = 0;
  std::size_t first = 0;  ///< element of the tensor
  std::size_t count = 0;
};

/// The lists as the kernel's first parameter has them.
struct TensorLists {
  std::size_t depth = 0;
  std::vector<std::vector<std::byte*>> addresses;  ///< depth x tensors
  std::vector<std::byte*> steps;                   ///< fused optimizers: one counter per tensor
  std::vector<Value> scalars;                      ///< lists with a scalar per tensor
  std::vector<std::size_t> numel;                  ///< of each tensor
  std::vector<Chunk> chunks;                       ///< one per block
  std::vector<std::size_t> chunk_index;            ///< of each block
  std::size_t start_tensor = 0;
  double elements = 0;
};

/// What a launch has beside addresses and sizes: nothing, a scalar or a step counter per tensor.
enum class ListKind : std::uint8_t { plain, scalars, optimizer };

std::optional<TensorLists> read_lists(const Arguments& arguments, ListKind kind, std::size_t depth,
                                      std::optional<ElementType> scalar_type);

/// Appends all tensors' operands, list by list.
/// @param sizes   of an element in each list
/// @param reads   how many of the lists, from the first, are read
void add_operands(Effect& effect, const TensorLists& lists, const std::vector<std::size_t>& sizes,
                  std::size_t reads, const std::vector<bool>& written);

/// The first element of each tensor that the launch works on: operands start there.
std::vector<std::size_t> first_elements(const TensorLists& lists);

}  // namespace phantora::rank
