#pragma once

#include "channel/collective_types.hpp"

namespace phantora::cupti {

/// The name of the kernel in which NCCL runs an operation. Lives as long as the process.
/// @param tree  it runs over a tree.
const char* nccl_kernel(channel::Collective op, channel::DataType type, bool tree);

}  // namespace phantora::cupti
