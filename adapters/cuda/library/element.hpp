#pragma once

#include "rank/kernels/element_type.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>

#include <library_types.h>

namespace phantora::library {

/// Size of one element; 0 for types below a byte or unknown ones.
std::size_t size_of(cudaDataType type) noexcept;
/// As kernel queries name it: "bf16", "fp32", "fp8_e4m3", "complex64", ...
const char* name_of(cudaDataType type) noexcept;
/// The type to compute with on real data; nullopt where we do not.
std::optional<rank::ElementType> real_type(cudaDataType type) noexcept;

/// The largest power of two, at most 16, that divides both the address and `stride_bytes`.
double alignment_of(const void* address, std::uint64_t stride_bytes) noexcept;

}  // namespace phantora::library
