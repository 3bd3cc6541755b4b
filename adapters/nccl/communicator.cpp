#include "nccl/communicator.hpp"

#include "nccl/entry.hpp"
#include "nccl/group.hpp"
#include "rank/device_memory.hpp"
#include "rank/element_type.hpp"

#include <cstring>
#include <optional>
#include <span>

using namespace phantora::nccl;
namespace rank = phantora::rank;

namespace phantora::nccl {

bool blocking(const ncclConfig_t* config) {
  // `size` tells how much of the struct the caller's version of NCCL has; `blocking` was the first
  // member that it got.
  if (!config || config->size < offsetof(ncclConfig_t, blocking) + sizeof config->blocking)
    return true;
  return config->blocking != 0;
}

}  // namespace phantora::nccl

namespace {

std::span<const std::byte, NCCL_UNIQUE_ID_BYTES> bytes_of(const ncclUniqueId& id) {
  return std::as_bytes(std::span<const char, NCCL_UNIQUE_ID_BYTES>{id.internal});
}

/// Makes `*comm` and joins it to the communicator of `id`.
ncclResult_t join(ncclComm_t* comm, int ranks, const ncclUniqueId& id, int rank_in_comm,
                  bool is_blocking) {
  if (!comm || ranks < 1 || rank_in_comm < 0 || rank_in_comm >= ranks) return ncclInvalidArgument;
  auto* const made = new ncclComm;
  const int device = rank::current_device();
  made->info = {ranks, rank_in_comm, device};
  *comm = made;
  const ncclResult_t status = add_initialisation([=] {
    rank::set_current_device(device);  // the group may run this on another thread
    made->handle = rank::join_communicator(bytes_of(id), ranks, rank_in_comm, device);
  });
  if (is_blocking || status != ncclSuccess) return status;
  made->in_progress = 1;
  return ncclInProgress;
}

std::optional<rank::ElementType> element_type(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return rank::ElementType::int8;
    case ncclUint8:
      return rank::ElementType::uint8;
    case ncclInt32:
      return rank::ElementType::int32;
    case ncclUint32:
      return rank::ElementType::uint32;
    case ncclInt64:
      return rank::ElementType::int64;
    case ncclUint64:
      return rank::ElementType::uint64;
    case ncclFloat16:
      return rank::ElementType::float16;
    case ncclFloat32:
      return rank::ElementType::float32;
    case ncclFloat64:
      return rank::ElementType::float64;
    case ncclBfloat16:
      return rank::ElementType::bfloat16;
    default:
      return std::nullopt;
  }
}

}  // namespace

PHANTORA_EXPORT ncclResult_t ncclGetVersion(int* version) {
  if (!version) return ncclInvalidArgument;
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

PHANTORA_EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return entry(Api::library_setup, [&] {
    if (!id) return ncclInvalidArgument;
    rank::make_unique_id(
        std::as_writable_bytes(std::span<char, NCCL_UNIQUE_ID_BYTES>{id->internal}));
    return ncclSuccess;
  });
}

PHANTORA_EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id,
                                                    int rank_in_comm, ncclConfig_t* config) {
  return entry(Api::library_setup,
               [&] { return join(comm, ranks, id, rank_in_comm, blocking(config)); });
}

PHANTORA_EXPORT ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id,
                                              int rank_in_comm) {
  return entry(Api::library_setup, [&] { return join(comm, ranks, id, rank_in_comm, true); });
}

PHANTORA_EXPORT ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int ranks, int rank_in_comm,
                                                      int ids, ncclUniqueId* id,
                                                      ncclConfig_t* config) {
  return entry(Api::library_setup, [&] {
    if (ids < 1 || !id) return ncclInvalidArgument;
    // Several ids spread the load of the real rendezvous; the first names the communicator.
    return join(comm, ranks, *id, rank_in_comm, blocking(config));
  });
}

PHANTORA_EXPORT ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  return entry(Api::library_setup, [&] {
    if (!comms || count < 1) return ncclInvalidArgument;
    ncclUniqueId id;
    rank::make_unique_id(
        std::as_writable_bytes(std::span<char, NCCL_UNIQUE_ID_BYTES>{id.internal}));
    const int before = rank::current_device();
    begin_group();
    for (int i = 0; i < count; ++i) {
      rank::set_current_device(devices ? devices[i] : i);
      join(&comms[i], count, id, i, true);
    }
    const ncclResult_t status = end_group();
    rank::set_current_device(before);
    return status;
  });
}

PHANTORA_EXPORT ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t* child,
                                           ncclConfig_t* config) {
  return entry(Api::library_setup, [&] {
    if (!parent || !child || (color < 0 && color != NCCL_SPLIT_NOCOLOR)) return ncclInvalidArgument;
    // A rank without a colour takes part in the split and gets no communicator.
    ncclComm* const made = color == NCCL_SPLIT_NOCOLOR ? nullptr : new ncclComm;
    *child = made;
    const ncclResult_t status = add_initialisation([=] {
      const std::uint64_t handle = rank::split_communicator(parent->handle, color, key);
      if (!made) return;
      made->handle = handle;
      made->info = rank::communicator_info(handle);
    });
    if (!made || blocking(config) || status != ncclSuccess) return status;
    made->in_progress = 1;
    return ncclInProgress;
  });
}

PHANTORA_EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return entry(Api::library_setup, [&] { return comm ? ncclSuccess : ncclInvalidArgument; });
}

PHANTORA_EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return entry(Api::library_setup, [&] {
    if (!comm) return ncclSuccess;
    rank::leave_communicator(comm->handle);
    delete comm;
    return ncclSuccess;
  });
}

PHANTORA_EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) { return ncclCommDestroy(comm); }

PHANTORA_EXPORT ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  if (!comm || !count) return ncclInvalidArgument;
  *count = comm->info.ranks;
  return ncclSuccess;
}

PHANTORA_EXPORT ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  if (!comm || !device) return ncclInvalidArgument;
  *device = comm->info.device;
  return ncclSuccess;
}

PHANTORA_EXPORT ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank_in_comm) {
  if (!comm || !rank_in_comm) return ncclInvalidArgument;
  *rank_in_comm = comm->info.rank;
  return ncclSuccess;
}

PHANTORA_EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  if (!comm || !error) return ncclInvalidArgument;
  int left = comm->in_progress.load();
  while (left > 0 && !comm->in_progress.compare_exchange_weak(left, left - 1)) {
  }
  *error = left > 0 ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}

PHANTORA_EXPORT const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

PHANTORA_EXPORT const char* ncclGetLastError(ncclComm_t) { return ""; }

PHANTORA_EXPORT ncclResult_t ncclMemAlloc(void** address, std::size_t bytes) {
  return entry(Api::malloc, [&] {
    if (!address || bytes == 0) return ncclInvalidArgument;
    *address = rank::allocate(rank::current_device(), bytes);
    return *address ? ncclSuccess : ncclUnhandledCudaError;
  });
}

PHANTORA_EXPORT ncclResult_t ncclMemFree(void* address) {
  return entry(Api::free, [&] {
    if (!address) return ncclSuccess;
    rank::synchronize_device(rank::current_device());
    return rank::deallocate(address) ? ncclSuccess : ncclInvalidArgument;
  });
}

// Registered buffers only spare the real library a copy; which they are makes no difference here.

PHANTORA_EXPORT ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buffer, std::size_t,
                                              void** handle) {
  if (!comm || !handle) return ncclInvalidArgument;
  *handle = buffer;
  return ncclSuccess;
}

PHANTORA_EXPORT ncclResult_t ncclCommDeregister(const ncclComm_t comm, void*) {
  return comm ? ncclSuccess : ncclInvalidArgument;
}

PHANTORA_EXPORT ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void*, std::size_t,
                                                    ncclWindow_t* window, int) {
  // Symmetric memory is not supported, which NCCL says by a null window.
  if (!comm || !window) return ncclInvalidArgument;
  *window = nullptr;
  return ncclSuccess;
}

PHANTORA_EXPORT ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t) {
  return comm ? ncclSuccess : ncclInvalidArgument;
}

PHANTORA_EXPORT ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar,
                                                      ncclDataType_t type,
                                                      ncclScalarResidence_t residence,
                                                      ncclComm_t comm) {
  return entry(Api::library_setup, [&] {
    const auto element = element_type(type);
    if (!op || !scalar || !comm || !element) return ncclInvalidArgument;
    std::byte bytes[8] = {};
    const std::size_t size = rank::size_of(*element);
    if (residence == ncclScalarDevice && rank::is_device_address(scalar)) {
      rank::read(bytes, scalar, size);
    } else {
      std::memcpy(bytes, scalar, size);
    }
    const std::scoped_lock lock{comm->mutex};
    *op = static_cast<ncclRedOp_t>(comm->next_operator++);
    comm->multipliers[*op] = rank::load(*element, bytes).to_real();
    return ncclSuccess;
  });
}

PHANTORA_EXPORT ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  if (!comm) return ncclInvalidArgument;
  const std::scoped_lock lock{comm->mutex};
  return comm->multipliers.erase(op) ? ncclSuccess : ncclInvalidArgument;
}
