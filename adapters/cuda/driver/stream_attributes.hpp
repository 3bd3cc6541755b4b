#pragma once

#include "rank/runtime/timeline.hpp"

#include <cuda.h>

namespace phantora::driver {

/// What a program set on a stream (CUstreamAttrID, cudaStreamAttrID), which is answered and changes
/// nothing: how the L2 cache is used, how to wait. False for attributes that streams do not have.
bool set_attribute(const rank::Stream& stream, CUlaunchAttributeID id,
                   const CUlaunchAttributeValue& value);
bool get_attribute(const rank::Stream& stream, CUlaunchAttributeID id,
                   CUlaunchAttributeValue& value);
void copy_attributes(const rank::Stream& destination, const rank::Stream& source);

}  // namespace phantora::driver
