#pragma once

#include <phantora/kernels/kernel_cost_model.hpp>
#include <phantora/kernels/kernel_signature.hpp>
#include <phantora/kernels/kernel_work.hpp>

#include <string_view>

/// The families of kernels, each in a file of its own: what a query of theirs asks for as work.
/// `describe()` in kernel_work.cpp chooses among them.
namespace phantora::detail {

// Operations of NVIDIA's libraries.
KernelWork gemm(const KernelQuery& query);
KernelWork convolution(const KernelQuery& query);
/// cuDNN's; PyTorch's own are launches of kernels by name.
KernelWork batch_norm(const KernelQuery& query);
KernelWork recurrent(const KernelQuery& query);
KernelWork library_attention(const KernelQuery& query);
/// LAPACK's routines, as cuSOLVER and cuBLAS have them.
bool is_dense_algebra(std::string_view name);
KernelWork dense_algebra(const KernelQuery& query);
KernelWork fourier_transform(const KernelQuery& query);
/// Of a sparse matrix with a vector, with a dense matrix, or of two dense ones at the places of a
/// sparse one.
KernelWork sparse_product(const KernelQuery& query);

// Launches of kernels by name.
/// CUTLASS's product of groups, each of the shape that is told: as a batched product of cuBLAS.
KernelWork grouped_product(const KernelQuery& query);
KernelWork fused_attention(const KernelQuery& query, const KernelSignature& signature);
KernelWork hopper_attention(const KernelQuery& query);
KernelWork elementwise(const KernelQuery& query, const KernelSignature& signature);
/// Elements that move to or from the places of a table that tensors of indices name.
KernelWork moved_by_index(const KernelQuery& query, const KernelSignature& signature);
KernelWork multi_tensor(const KernelQuery& query, const KernelSignature& signature);
/// Says that a launch whose code is told is compared with other launches of the same kernel, as its
/// code has them.
void compare_by_code(KernelWork& work, const KernelQuery& query, const KernelSignature& signature);
/// Any that no other family knows.
KernelWork other_kernel(const KernelQuery& query, const KernelSignature& signature);

}  // namespace phantora::detail
