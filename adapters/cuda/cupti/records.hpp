#pragma once

#include "rank/runtime/activities.hpp"

#include <cstddef>
#include <functional>
#include <span>

#include <cupti.h>

/// What happened, as CUPTI's records.
///
/// A record has the newest layout of its kind. Programs that were built with older headers read the
/// beginning of it: from CUDA 12.6 to 13.2 fields have come only at the end of a record, or in its
/// padding.
namespace phantora::cupti {

using Write = std::function<void(std::span<const std::byte> record)>;
/// An instant as the program's clock shows it.
using Stamp = std::function<std::uint64_t(Time)>;

/// Hands the record of `activity` to `write`, if it has one of a kind that `wanted` says yes to.
void put(const rank::Activity& activity, const Stamp& stamp,
         const std::function<bool(CUpti_ActivityKind)>& wanted, const Write& write);

/// Bytes of a record, by its kind; 0 if there is none.
std::size_t size_of(CUpti_ActivityKind kind);

std::uint32_t context_id(int device);
std::uint32_t stream_id(const rank::Stream& stream);

}  // namespace phantora::cupti
