#include "cuda/driver/host_memory.hpp"
#include "cuda/driver/stream.hpp"
#include "nccl/communicator.hpp"
#include "rank/memory/device_memory.hpp"

#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace phantora::nccl {
namespace {

thread_local int group_depth = 0;
thread_local std::vector<rank::CollectiveCall> pending_calls;
thread_local std::vector<std::function<ncclResult_t()>> pending_initialisations;

/// One thread that initialises several ranks of a communicator must not wait for the first alone.
ncclResult_t run_together(const std::vector<std::function<ncclResult_t()>>& work) {
  std::vector<ncclResult_t> results(work.size(), ncclSuccess);
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < work.size(); ++i) {
    others.emplace_back([&, i] { results[i] = work[i](); });
  }
  if (!work.empty()) results[0] = work[0]();
  for (std::thread& other : others) other.join();
  for (const ncclResult_t result : results) {
    if (result != ncclSuccess) return result;
  }
  return ncclSuccess;
}

}  // namespace

ncclResult_t submit(const rank::CollectiveCall& call) {
  if (group_depth > 0) {
    pending_calls.push_back(call);
  } else {
    rank::enqueue_collectives({&call, 1});
  }
  return ncclSuccess;
}

ncclResult_t submit(std::function<ncclResult_t()> initialisation) {
  if (group_depth == 0) return initialisation();
  pending_initialisations.push_back(std::move(initialisation));
  return ncclSuccess;
}

namespace {

ncclResult_t end_group() {
  if (group_depth == 0) {
    return fail(ncclInvalidUsage, "ncclGroupEnd: not in a group call");
  }
  if (--group_depth > 0) return ncclSuccess;
  const auto initialisations = std::exchange(pending_initialisations, {});
  const auto calls = std::exchange(pending_calls, {});
  if (const ncclResult_t result = run_together(initialisations); result != ncclSuccess) {
    return result;
  }
  if (!calls.empty()) rank::enqueue_collectives(calls);
  return ncclSuccess;
}

struct Arguments {
  rank::Collective op{};
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;
  ncclDataType_t type{};
  ncclRedOp_t op_code = ncclSum;
  int peer = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
};

/// Checks what NCCL checks (argcheck) and hands the call over.
ncclResult_t operation(const Arguments& a) noexcept {
  const rank::Api api = group_depth > 0 ? rank::Api::nccl_append : rank::Api::nccl_enqueue;
  return entry(api, [&]() -> ncclResult_t {
    if (a.comm == nullptr) return fail(ncclInvalidArgument, "comm is NULL");
    if (a.comm->suspended) return fail(ncclInvalidUsage, "the communicator is suspended");
    if (a.type < 0 || a.type >= ncclNumTypes) {
      return fail(ncclInvalidArgument, "invalid type " + std::to_string(a.type));
    }
    if (a.peer < 0 || a.peer >= a.comm->ranks) {
      return fail(ncclInvalidArgument, "invalid root or peer " + std::to_string(a.peer) +
                                           " (a value between 0 and " +
                                           std::to_string(a.comm->ranks - 1) + " is expected)");
    }
    for (const void* buffer : {a.send, static_cast<const void*>(a.recv)}) {
      if (buffer == nullptr || a.count == 0) continue;
      if (!rank::is_device_address(buffer) && !driver::pinned(buffer)) {
        return fail(ncclInvalidArgument, "a buffer is not memory that the GPU can reach");
      }
    }
    const Operator op = operator_of(a.op_code);
    return submit(rank::CollectiveCall{
        .op = a.op,
        .communicator = a.comm->handle,
        .send = a.send,
        .recv = a.recv,
        .count = a.count,
        .type = static_cast<rank::DataType>(a.type),
        .reduction = op.reduction,
        .premul = op.premul,
        .peer = a.peer,
        .stream = &driver::stream_of(a.stream),
    });
  });
}

}  // namespace
}  // namespace phantora::nccl

using namespace phantora::nccl;
using phantora::rank::Collective;

PHANTORA_EXPORT ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}
PHANTORA_EXPORT ncclResult_t ncclGroupEnd() {
  using phantora::rank::Api;
  const bool launches = group_depth == 1 && !pending_calls.empty();
  return entry(launches ? Api::nccl_enqueue : Api::nccl_append, [] { return end_group(); });
}

PHANTORA_EXPORT ncclResult_t ncclAllReduce(const void* send, void* recv, std::size_t count,
                                           ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                           cudaStream_t stream) {
  return operation({.op = Collective::all_reduce,
                    .send = send,
                    .recv = recv,
                    .count = count,
                    .type = type,
                    .op_code = op,
                    .comm = comm,
                    .stream = stream});
}
PHANTORA_EXPORT ncclResult_t ncclReduce(const void* send, void* recv, std::size_t count,
                                        ncclDataType_t type, ncclRedOp_t op, int root,
                                        ncclComm_t comm, cudaStream_t stream) {
  return operation({.op = Collective::reduce,
                    .send = send,
                    .recv = recv,
                    .count = count,
                    .type = type,
                    .op_code = op,
                    .peer = root,
                    .comm = comm,
                    .stream = stream});
}
PHANTORA_EXPORT ncclResult_t ncclReduceScatter(const void* send, void* recv, std::size_t count,
                                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                               cudaStream_t stream) {
  return operation({.op = Collective::reduce_scatter,
                    .send = send,
                    .recv = recv,
                    .count = count,
                    .type = type,
                    .op_code = op,
                    .comm = comm,
                    .stream = stream});
}
PHANTORA_EXPORT ncclResult_t ncclBroadcast(const void* send, void* recv, std::size_t count,
                                           ncclDataType_t type, int root, ncclComm_t comm,
                                           cudaStream_t stream) {
  return operation({.op = Collective::broadcast,
                    .send = send,
                    .recv = recv,
                    .count = count,
                    .type = type,
                    .peer = root,
                    .comm = comm,
                    .stream = stream});
}
PHANTORA_EXPORT ncclResult_t ncclBcast(void* buffer, std::size_t count, ncclDataType_t type,
                                       int root, ncclComm_t comm, cudaStream_t stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}
PHANTORA_EXPORT ncclResult_t ncclAllGather(const void* send, void* recv, std::size_t count,
                                           ncclDataType_t type, ncclComm_t comm,
                                           cudaStream_t stream) {
  return operation({.op = Collective::all_gather,
                    .send = send,
                    .recv = recv,
                    .count = count,
                    .type = type,
                    .comm = comm,
                    .stream = stream});
}
PHANTORA_EXPORT ncclResult_t ncclAlltoAll(const void* send, void* recv, std::size_t count,
                                          ncclDataType_t type, ncclComm_t comm,
                                          cudaStream_t stream) {
  return operation({.op = Collective::all_to_all,
                    .send = send,
                    .recv = recv,
                    .count = count,
                    .type = type,
                    .comm = comm,
                    .stream = stream});
}
PHANTORA_EXPORT ncclResult_t ncclGather(const void* send, void* recv, std::size_t count,
                                        ncclDataType_t type, int root, ncclComm_t comm,
                                        cudaStream_t stream) {
  return operation({.op = Collective::gather,
                    .send = send,
                    .recv = recv,
                    .count = count,
                    .type = type,
                    .peer = root,
                    .comm = comm,
                    .stream = stream});
}
PHANTORA_EXPORT ncclResult_t ncclScatter(const void* send, void* recv, std::size_t count,
                                         ncclDataType_t type, int root, ncclComm_t comm,
                                         cudaStream_t stream) {
  return operation({.op = Collective::scatter,
                    .send = send,
                    .recv = recv,
                    .count = count,
                    .type = type,
                    .peer = root,
                    .comm = comm,
                    .stream = stream});
}
PHANTORA_EXPORT ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t type,
                                      int peer, ncclComm_t comm, cudaStream_t stream) {
  return operation({.op = Collective::send,
                    .send = send,
                    .count = count,
                    .type = type,
                    .peer = peer,
                    .comm = comm,
                    .stream = stream});
}
PHANTORA_EXPORT ncclResult_t ncclRecv(void* recv, std::size_t count, ncclDataType_t type, int peer,
                                      ncclComm_t comm, cudaStream_t stream) {
  return operation({.op = Collective::recv,
                    .recv = recv,
                    .count = count,
                    .type = type,
                    .peer = peer,
                    .comm = comm,
                    .stream = stream});
}
