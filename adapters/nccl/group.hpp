#pragma once

#include "rank/timeline.hpp"

#include <functional>

#include <nccl.h>

/// Operations between ncclGroupStart and ncclGroupEnd of one thread.
namespace phantora::nccl {

/// Whether the calling thread is in a group.
bool in_group() noexcept;
void begin_group() noexcept;
/// Ends a group; the outermost end executes what was added.
ncclResult_t end_group();

/// Executes `call` now, or at the end of the thread's group.
void add(const rank::CollectiveCall& call);
/// The same for what makes a communicator. Several in one group are made at once, each on a thread
/// of its own, since each waits for the others.
ncclResult_t add_initialisation(std::function<void()> join);

}  // namespace phantora::nccl
