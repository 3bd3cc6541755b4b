#pragma once

#include "rank/runtime/api_call.hpp"

#include <cstdint>
#include <optional>

/// CUPTI's numbers and names of the functions of CUDA's two interfaces.
namespace phantora::cupti {

/// Nothing for a function that CUPTI has no number for.
std::optional<std::uint32_t> number_of(const rank::CalledFunction& function);
/// As cuptiGetCallbackName has it ("cudaMemcpyAsync_v3020"); nullptr if there is none.
const char* name_of(rank::Interface interface, std::uint32_t number);

}  // namespace phantora::cupti
