#include "nccl/communicator.hpp"

#include "rank/memory/device_memory.hpp"
#include "rank/runtime/mutex.hpp"
#include "rank/runtime/refusal.hpp"

#include <array>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <vector>

namespace phantora::nccl {
namespace {

rank::Mutex last_error_mutex;
std::string last_error = "no error";

rank::Mutex operators_mutex;
struct Dynamic {
  double scalar = 1.0;
  bool live = false;
};
std::vector<Dynamic> dynamic_operators;

/// A new communicator's ncclComm_t, once this rank has been told its handle.
ncclComm_t make_comm(std::uint64_t handle) {
  const rank::CommunicatorInfo info = rank::communicator_info(handle);
  auto comm = std::make_unique<ncclComm>();
  comm->handle = handle;
  comm->ranks = info.ranks;
  comm->rank = info.rank;
  comm->device = info.device;
  return comm.release();
}

}  // namespace

ncclResult_t init(ncclComm_t* comm, int ranks, const ncclUniqueId& id, int rank) {
  if (comm == nullptr) return fail(ncclInvalidArgument, "comm is NULL");
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    return fail(ncclInvalidArgument,
                "invalid rank requested: " + std::to_string(rank) + "/" + std::to_string(ranks));
  }
  const int device = rank::current_device();
  return submit([=] {
    std::span<const std::byte, 128> bytes{reinterpret_cast<const std::byte*>(id.internal), 128};
    const auto handle = rank::join_communicator(bytes, ranks, rank, device);
    // NCCL's ranks find each other through the process that made the id: there it is a connection
    // that is refused.
    if (!handle) {
      return fail(ncclSystemError, "the process that made this unique id has ended");
    }
    *comm = make_comm(*handle);
    return ncclSuccess;
  });
}

ncclResult_t fail(ncclResult_t result, std::string why) noexcept {
  const std::lock_guard lock{last_error_mutex};
  last_error = std::move(why);
  return result;
}

ncclResult_t told_of_exception() noexcept {
  try {
    throw;
  } catch (const rank::Refusal& refusal) {
    return fail(ncclUnhandledCudaError, refusal.what());
  } catch (const std::exception& error) {
    // NCCL's text for this status sends the user to NCCL's developers.
    const std::string why =
        std::string{"in Phantora's stand-in for NCCL, not in NCCL: "} + error.what();
    rank::warn_once("nccl internal error", "internal error " + why);
    return fail(ncclInternalError, why);
  }
}

Operator operator_of(ncclRedOp_t op) {
  switch (op) {
    case ncclSum:
      return {rank::Reduction::sum};
    case ncclProd:
      return {rank::Reduction::prod};
    case ncclMax:
      return {rank::Reduction::max};
    case ncclMin:
      return {rank::Reduction::min};
    case ncclAvg:
      return {rank::Reduction::avg};
    default:
      break;
  }
  const std::lock_guard lock{operators_mutex};
  const auto index = static_cast<std::size_t>(op) - ncclNumOps;
  if (op < ncclNumOps || index >= dynamic_operators.size() || !dynamic_operators[index].live) {
    throw std::invalid_argument{"unknown reduction operator"};
  }
  return {rank::Reduction::premul_sum, dynamic_operators[index].scalar};
}

}  // namespace phantora::nccl

using namespace phantora::nccl;
namespace rank = phantora::rank;
using rank::Api;

PHANTORA_EXPORT ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return ncclInvalidArgument;
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

PHANTORA_EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return entry(Api::get_device, [&] {
    if (id == nullptr) return fail(ncclInvalidArgument, "uniqueId is NULL");
    rank::make_unique_id(
        std::span<std::byte, 128>{reinterpret_cast<std::byte*>(id->internal), 128});
    return ncclSuccess;
  });
}

PHANTORA_EXPORT ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id,
                                              int rank) {
  return entry(Api::get_device, [&] { return init(comm, ranks, id, rank); });
}

/// Non-blocking initialisation completes before it returns: that is one of its allowed outcomes.
PHANTORA_EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id,
                                                    int rank, ncclConfig_t*) {
  return entry(Api::get_device, [&] { return init(comm, ranks, id, rank); });
}

/// Any of the ids names the communicator: all ranks are given the same list.
PHANTORA_EXPORT ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int ranks, int rank,
                                                      int ids, ncclUniqueId* list, ncclConfig_t*) {
  return entry(Api::get_device, [&] {
    if (ids < 1 || list == nullptr) return fail(ncclInvalidArgument, "no unique id");
    return init(comm, ranks, list[0], rank);
  });
}

PHANTORA_EXPORT ncclResult_t ncclCommInitAll(ncclComm_t* comms, int devices, const int* list) {
  return entry(Api::get_device, [&] {
    if (comms == nullptr || devices < 1) return fail(ncclInvalidArgument, "no devices");
    ncclUniqueId id{};
    if (const ncclResult_t made = ncclGetUniqueId(&id); made != ncclSuccess) return made;
    const int before = rank::current_device();
    ncclGroupStart();
    for (int i = 0; i < devices; ++i) {
      rank::set_current_device(list != nullptr ? list[i] : i);
      init(&comms[i], devices, id, i);
    }
    rank::set_current_device(before);
    return ncclGroupEnd();
  });
}

PHANTORA_EXPORT ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t* comm,
                                           ncclConfig_t*) {
  return entry(Api::get_device, [&] {
    if (parent == nullptr || comm == nullptr) return fail(ncclInvalidArgument, "comm is NULL");
    return submit([=] {
      const std::uint64_t handle = rank::split_communicator(parent->handle, color, key);
      *comm = handle == 0 ? nullptr : make_comm(handle);
      return ncclSuccess;
    });
  });
}

PHANTORA_EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return entry(Api::get_device, [&] {
    if (comm == nullptr) return ncclSuccess;
    rank::leave_communicator(comm->handle);
    delete comm;
    return ncclSuccess;
  });
}
PHANTORA_EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) { return ncclCommDestroy(comm); }

PHANTORA_EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return entry(Api::get_device, [&] {
    return comm != nullptr ? ncclSuccess : fail(ncclInvalidArgument, "comm is NULL");
  });
}

/// NCCL gives its buffers back; ours take no device memory, so that only the state changes.
PHANTORA_EXPORT ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags) {
  return entry(Api::get_device, [&] {
    if (comm == nullptr) return fail(ncclInvalidArgument, "comm is NULL");
    if (flags != NCCL_SUSPEND_MEM)
      return fail(ncclInvalidArgument, "flags must be NCCL_SUSPEND_MEM");
    comm->suspended = true;
    return ncclSuccess;
  });
}
PHANTORA_EXPORT ncclResult_t ncclCommResume(ncclComm_t comm) {
  return entry(Api::get_device, [&] {
    if (comm == nullptr) return fail(ncclInvalidArgument, "comm is NULL");
    comm->suspended = false;
    return ncclSuccess;
  });
}
PHANTORA_EXPORT ncclResult_t ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t what,
                                              std::uint64_t* value) {
  return entry(Api::get_device, [&] {
    if (comm == nullptr || value == nullptr) return fail(ncclInvalidArgument, "argument is NULL");
    if (what < ncclStatGpuMemSuspend || what > ncclStatGpuMemTotal) {
      return fail(ncclInvalidArgument, "unknown statistic");
    }
    *value = what == ncclStatGpuMemSuspended && comm->suspended ? 1 : 0;
    return ncclSuccess;
  });
}

namespace {

/// How ncclCommProperties_t begins (NCCL 2.29, nccl_device/host.h). What comes behind says what
/// GPUs can do by themselves: there are no device communicators, so that all of that is 0.
struct CommProperties {
  std::size_t size;
  unsigned magic, version;
  int rank, ranks, cuda_device, nvml_device;
};

}  // namespace

PHANTORA_EXPORT ncclResult_t ncclCommQueryProperties(ncclComm_t comm, void* properties) {
  constexpr unsigned api_magic = 0xcafebeef;  // NCCL_API_MAGIC
  return entry(Api::get_device, [&] {
    if (comm == nullptr || properties == nullptr) {
      return fail(ncclInvalidArgument, "argument is NULL");
    }
    CommProperties known{};
    std::memcpy(&known, properties, sizeof known);
    if (known.magic != api_magic || known.size < sizeof known || known.size > 4096) {
      return fail(ncclInvalidArgument, "props is not NCCL_COMM_PROPERTIES_INITIALIZER");
    }
    known.rank = comm->rank;
    known.ranks = comm->ranks;
    known.cuda_device = comm->device;
    known.nvml_device = rank::physical_device(comm->device);
    std::memset(properties, 0, known.size);
    std::memcpy(properties, &known, sizeof known);
    return ncclSuccess;
  });
}

PHANTORA_EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  if (comm == nullptr || state == nullptr) return fail(ncclInvalidArgument, "comm is NULL");
  *state = comm->state.load();
  return ncclSuccess;
}

namespace {
ncclResult_t tell(ncclComm_t comm, int ncclComm::*what, int* out) {
  if (comm == nullptr || out == nullptr) return fail(ncclInvalidArgument, "argument is NULL");
  *out = comm->*what;
  return ncclSuccess;
}
}  // namespace

PHANTORA_EXPORT ncclResult_t ncclCommCount(ncclComm_t comm, int* count) {
  return tell(comm, &ncclComm::ranks, count);
}
PHANTORA_EXPORT ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  return tell(comm, &ncclComm::rank, rank);
}
PHANTORA_EXPORT ncclResult_t ncclCommCuDevice(ncclComm_t comm, int* device) {
  return tell(comm, &ncclComm::device, device);
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

PHANTORA_EXPORT const char* ncclGetLastError(ncclComm_t) {
  thread_local std::string copy;
  const std::lock_guard lock{last_error_mutex};
  copy = last_error;
  return copy.c_str();
}

PHANTORA_EXPORT ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar,
                                                      ncclDataType_t type,
                                                      ncclScalarResidence_t residence, ncclComm_t) {
  return entry(Api::get_device, [&] {
    if (op == nullptr || scalar == nullptr) return fail(ncclInvalidArgument, "argument is NULL");
    std::array<std::byte, 8> bytes{};
    const std::size_t size = rank::size_of(static_cast<rank::DataType>(type));
    // A scalar in device memory is read now: nothing that makes one writes it later.
    if (residence == ncclScalarDevice && rank::is_device_address(scalar)) {
      rank::read(bytes.data(), scalar, size);
    } else {
      std::memcpy(bytes.data(), scalar, size);
    }
    double value = 1.0;
    switch (type) {
      case ncclFloat64:
        std::memcpy(&value, bytes.data(), sizeof value);
        break;
      case ncclFloat32: {
        float narrow = 0;
        std::memcpy(&narrow, bytes.data(), sizeof narrow);
        value = static_cast<double>(narrow);
        break;
      }
      case ncclBfloat16: {
        std::uint16_t bits = 0;
        std::memcpy(&bits, bytes.data(), sizeof bits);
        const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16U;
        float narrow = 0;
        std::memcpy(&narrow, &wide, sizeof narrow);
        value = static_cast<double>(narrow);
        break;
      }
      default:
        return fail(ncclInvalidArgument, "PreMulSum of this type is not simulated");
    }
    const std::lock_guard lock{operators_mutex};
    dynamic_operators.push_back({value, true});
    *op = static_cast<ncclRedOp_t>(ncclNumOps + dynamic_operators.size() - 1);
    return ncclSuccess;
  });
}

PHANTORA_EXPORT ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t) {
  const std::lock_guard lock{operators_mutex};
  const auto index = static_cast<std::size_t>(op) - ncclNumOps;
  if (op < ncclNumOps || index >= dynamic_operators.size()) {
    return fail(ncclInvalidArgument, "operator is not a dynamic one");
  }
  dynamic_operators[index].live = false;
  return ncclSuccess;
}

PHANTORA_EXPORT ncclResult_t ncclMemAlloc(void** out, std::size_t bytes) {
  return entry(Api::malloc, [&] {
    if (out == nullptr) return fail(ncclInvalidArgument, "ptr is NULL");
    *out = rank::allocate(rank::current_device(), bytes);
    return *out != nullptr ? ncclSuccess : fail(ncclUnhandledCudaError, "out of memory");
  });
}
PHANTORA_EXPORT ncclResult_t ncclMemFree(void* address) {
  return entry(Api::free, [&] {
    return address == nullptr || rank::deallocate(address)
               ? ncclSuccess
               : fail(ncclInvalidArgument, "not allocated by ncclMemAlloc");
  });
}

/// Registration changes nothing here: the handle only has to be non-null.
PHANTORA_EXPORT ncclResult_t ncclCommRegister(const ncclComm_t, void* buffer, std::size_t,
                                              void** handle) {
  if (handle != nullptr) *handle = buffer;
  return ncclSuccess;
}
PHANTORA_EXPORT ncclResult_t ncclCommDeregister(const ncclComm_t, void*) { return ncclSuccess; }
#undef ncclResetDebugInit  // newer headers have an empty macro of that name
PHANTORA_EXPORT void ncclResetDebugInit() {}
