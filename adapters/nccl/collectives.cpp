#include "nccl/communicator.hpp"
#include "nccl/entry.hpp"
#include "nccl/group.hpp"

using namespace phantora::nccl;
namespace rank = phantora::rank;
namespace driver = phantora::driver;
using rank::Collective;
using rank::CollectiveCall;

namespace {

/// Fills in what all operations share and hands the call on. `root` is a root or peer, -1 if the
/// operation has none.
ncclResult_t submit(CollectiveCall call, ncclComm_t comm, ncclDataType_t type, int root,
                    cudaStream_t stream) {
  return entry(in_group() ? Api::library_setup : Api::nccl_enqueue, [&] {
    if (!comm || type < 0 || type >= ncclNumTypes) return ncclInvalidArgument;
    if (root < -1 || root >= comm->info.ranks) return ncclInvalidArgument;
    if (call.count == 0) return ncclSuccess;  // NCCL launches nothing
    call.communicator = comm->handle;
    call.type = static_cast<rank::DataType>(type);
    call.peer = root < 0 ? 0 : root;
    call.stream = &driver::stream_of(stream);
    add(call);
    return ncclSuccess;
  });
}

/// Sets `call`'s reduction. False if `op` is no operator of `comm`.
bool reduces(CollectiveCall& call, ncclRedOp_t op, ncclComm_t comm) {
  if (op < ncclNumOps) {
    call.reduction = static_cast<rank::Reduction>(op);
    return op >= 0;
  }
  if (!comm) return false;
  const std::scoped_lock lock{comm->mutex};
  const auto found = comm->multipliers.find(op);
  if (found == comm->multipliers.end()) return false;
  call.reduction = rank::Reduction::premul_sum;
  call.premul = found->second;
  return true;
}

}  // namespace

static_assert(ncclSum == 0 && ncclProd == 1 && ncclMax == 2 && ncclMin == 3 && ncclAvg == 4,
              "rank::Reduction has NCCL's order");

PHANTORA_EXPORT ncclResult_t ncclAllReduce(const void* send, void* recv, std::size_t count,
                                           ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                           cudaStream_t stream) {
  CollectiveCall call{.op = Collective::all_reduce, .send = send, .recv = recv, .count = count};
  if (!reduces(call, op, comm)) return ncclInvalidArgument;
  return submit(call, comm, type, -1, stream);
}

PHANTORA_EXPORT ncclResult_t ncclReduceScatter(const void* send, void* recv, std::size_t count,
                                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                               cudaStream_t stream) {
  CollectiveCall call{.op = Collective::reduce_scatter, .send = send, .recv = recv, .count = count};
  if (!reduces(call, op, comm)) return ncclInvalidArgument;
  return submit(call, comm, type, -1, stream);
}

PHANTORA_EXPORT ncclResult_t ncclReduce(const void* send, void* recv, std::size_t count,
                                        ncclDataType_t type, ncclRedOp_t op, int root,
                                        ncclComm_t comm, cudaStream_t stream) {
  CollectiveCall call{.op = Collective::reduce, .send = send, .recv = recv, .count = count};
  if (root < 0 || !reduces(call, op, comm)) return ncclInvalidArgument;
  return submit(call, comm, type, root, stream);
}

PHANTORA_EXPORT ncclResult_t ncclAllGather(const void* send, void* recv, std::size_t count,
                                           ncclDataType_t type, ncclComm_t comm,
                                           cudaStream_t stream) {
  return submit({.op = Collective::all_gather, .send = send, .recv = recv, .count = count}, comm,
                type, -1, stream);
}

PHANTORA_EXPORT ncclResult_t ncclBroadcast(const void* send, void* recv, std::size_t count,
                                           ncclDataType_t type, int root, ncclComm_t comm,
                                           cudaStream_t stream) {
  if (root < 0) return ncclInvalidArgument;
  return submit({.op = Collective::broadcast, .send = send, .recv = recv, .count = count}, comm,
                type, root, stream);
}

PHANTORA_EXPORT ncclResult_t ncclBcast(void* buffer, std::size_t count, ncclDataType_t type,
                                       int root, ncclComm_t comm, cudaStream_t stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

PHANTORA_EXPORT ncclResult_t ncclAlltoAll(const void* send, void* recv, std::size_t count,
                                          ncclDataType_t type, ncclComm_t comm,
                                          cudaStream_t stream) {
  return submit({.op = Collective::all_to_all, .send = send, .recv = recv, .count = count}, comm,
                type, -1, stream);
}

PHANTORA_EXPORT ncclResult_t ncclGather(const void* send, void* recv, std::size_t count,
                                        ncclDataType_t type, int root, ncclComm_t comm,
                                        cudaStream_t stream) {
  if (root < 0) return ncclInvalidArgument;
  return submit({.op = Collective::gather, .send = send, .recv = recv, .count = count}, comm, type,
                root, stream);
}

PHANTORA_EXPORT ncclResult_t ncclScatter(const void* send, void* recv, std::size_t count,
                                         ncclDataType_t type, int root, ncclComm_t comm,
                                         cudaStream_t stream) {
  if (root < 0) return ncclInvalidArgument;
  return submit({.op = Collective::scatter, .send = send, .recv = recv, .count = count}, comm, type,
                root, stream);
}

PHANTORA_EXPORT ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t type,
                                      int peer, ncclComm_t comm, cudaStream_t stream) {
  if (peer < 0) return ncclInvalidArgument;
  return submit({.op = Collective::send, .send = send, .count = count}, comm, type, peer, stream);
}

PHANTORA_EXPORT ncclResult_t ncclRecv(void* recv, std::size_t count, ncclDataType_t type, int peer,
                                      ncclComm_t comm, cudaStream_t stream) {
  if (peer < 0) return ncclInvalidArgument;
  return submit({.op = Collective::recv, .recv = recv, .count = count}, comm, type, peer, stream);
}

PHANTORA_EXPORT ncclResult_t ncclGroupStart() {
  begin_group();
  return ncclSuccess;
}

PHANTORA_EXPORT ncclResult_t ncclGroupEnd() {
  return entry(Api::nccl_enqueue, [] { return end_group(); });
}
