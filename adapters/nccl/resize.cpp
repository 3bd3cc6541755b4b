// Communicators made of another one: smaller, or larger by ranks that were in none.

#include "nccl/communicator.hpp"
#include "rank/runtime/mutex.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

namespace phantora::nccl {
namespace {

/// What the members of a communicator call the `sequence`th one made of it: all of them know it
/// without a message, and no other name of the run is equal.
ncclUniqueId name_of(const ncclComm& parent, std::uint64_t kind, std::uint64_t sequence) {
  ncclUniqueId id{};
  const std::uint64_t parts[] = {kind, parent.handle >> 20U, sequence};
  std::memcpy(id.internal, parts, sizeof parts);
  return id;
}

constexpr std::uint64_t grown = 0x67726f776eULL, shrunk = 0x736872756e6bULL;

rank::Mutex shrinks_mutex;
/// How often this rank has left out these ranks of that communicator. Ranks that stay agree on it.
std::map<std::pair<std::uint64_t, std::vector<int>>, std::uint64_t> shrinks;

}  // namespace
}  // namespace phantora::nccl

using namespace phantora::nccl;
using phantora::rank::Api;

PHANTORA_EXPORT ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* id) {
  return entry(Api::get_device, [&] {
    if (comm == nullptr || id == nullptr) return fail(ncclInvalidArgument, "argument is NULL");
    if (comm->name_given) {
      return fail(ncclInvalidUsage, "the last unique id of this communicator was not used yet");
    }
    comm->name_given = true;
    *id = name_of(*comm, grown, comm->grows);
    return ncclSuccess;
  });
}

/// Members of `comm` keep their ranks; new ones, which have no `comm`, say theirs.
PHANTORA_EXPORT ncclResult_t ncclCommGrow(ncclComm_t comm, int ranks, const ncclUniqueId* id,
                                          int rank, ncclComm_t* grown_comm, ncclConfig_t*) {
  return entry(Api::get_device, [&] {
    if (comm == nullptr) {
      if (id == nullptr) return fail(ncclInvalidArgument, "a new rank needs the unique id");
      return init(grown_comm, ranks, *id, rank);
    }
    if (rank != -1) return fail(ncclInvalidArgument, "a member of comm passes -1 as its rank");
    if (ranks <= comm->ranks) return fail(ncclInvalidArgument, "nRanks must be more than now");
    const ncclUniqueId name = name_of(*comm, grown, comm->grows);
    if (id != nullptr && std::memcmp(id, &name, sizeof name) != 0) {
      return fail(ncclInvalidArgument, "this is not the unique id that ncclCommGetUniqueId gave");
    }
    ++comm->grows;
    comm->name_given = false;
    return init(grown_comm, ranks, name, comm->rank);
  });
}

/// Called by the ranks that stay. They are numbered anew, in the old order.
PHANTORA_EXPORT ncclResult_t ncclCommShrink(ncclComm_t comm, int* excluded, int count,
                                            ncclComm_t* shrunk_comm, ncclConfig_t*, int) {
  return entry(Api::get_device, [&] {
    if (comm == nullptr || (excluded == nullptr && count > 0)) {
      return fail(ncclInvalidArgument, "argument is NULL");
    }
    std::vector<int> out(excluded, excluded + std::max(count, 0));
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    if (out.empty() || out.front() < 0 || out.back() >= comm->ranks) {
      return fail(ncclInvalidArgument, "ranks to exclude must be some of the communicator's");
    }
    const auto before = std::lower_bound(out.begin(), out.end(), comm->rank);
    if (before != out.end() && *before == comm->rank) {
      return fail(ncclInvalidArgument, "an excluded rank must not call ncclCommShrink");
    }
    ncclUniqueId name{};
    {
      const std::lock_guard lock{shrinks_mutex};
      name = name_of(*comm, shrunk, shrinks[{comm->handle, out}]++);
    }
    // Different sets of one communicator have different names: the set is part of them.
    constexpr std::size_t fnv_prime = 0x100000001b3;
    std::size_t set = out.size();
    for (const int rank : out) set = (set ^ static_cast<std::size_t>(rank)) * fnv_prime;
    std::memcpy(name.internal + sizeof name.internal - sizeof set, &set, sizeof set);
    return init(shrunk_comm, comm->ranks - static_cast<int>(out.size()), name,
                comm->rank - static_cast<int>(before - out.begin()));
  });
}
