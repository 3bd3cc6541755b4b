// The rank behind the NCCL of a program that runs on a real GPU while all other ranks are
// simulated: its calls go to its proxy in the simulation (proxy.cpp).
//
// What the others send comes back where it is small, as everywhere in the simulation; of large
// operands nobody knows anything. There the rank gets its own data in the place of theirs, so that
// numbers stay of the kind that kernels expect: a gathered tensor repeats the rank's own part.
#include "cuda/driver/host_memory.hpp"
#include "cuda/driver/stream.hpp"
#include "measure/proxy/messages.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/runtime/api_call.hpp"
#include "rank/runtime/mutex.hpp"
#include "rank/runtime/operands.hpp"
#include "rank/runtime/process.hpp"
#include "rank/runtime/timeline.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include <cuda.h>
#include <dlfcn.h>
#include <sys/socket.h>

namespace phantora {
namespace {

// --- The real GPU, by the driver's functions, which nobody stands before ---

template <class F>
F* driver_function(const char* name) {
  static void* const library = [] {
    void* const loaded = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    return loaded != nullptr ? loaded : dlopen("libcuda.so.1", RTLD_LAZY);
  }();
  auto* const found =
      library != nullptr ? reinterpret_cast<F*>(dlsym(library, name)) : static_cast<F*>(nullptr);
  if (found == nullptr) throw std::runtime_error{std::string{"the driver has no "} + name};
  return found;
}
#define PHANTORA_DRIVER(name)                                          \
  (*([] {                                                              \
    static auto* const found = driver_function<decltype(name)>(#name); \
    return found;                                                      \
  }()))
#define PHANTORA_DRIVER_AS(name, exported)                                \
  (*([] {                                                                 \
    static auto* const found = driver_function<decltype(name)>(exported); \
    return found;                                                         \
  }()))

void check(CUresult status, const char* doing) {
  if (status == CUDA_SUCCESS) return;
  throw std::runtime_error{std::string{doing} + ": CUDA error " + std::to_string(status)};
}

CUdeviceptr device_pointer(const void* address) { return reinterpret_cast<CUdeviceptr>(address); }

/// What we copy is not the program's: its time has no place among what is measured.
class NotTheProgram {
 public:
  NotTheProgram() { tell(true); }
  ~NotTheProgram() { tell(false); }
  NotTheProgram(const NotTheProgram&) = delete;
  NotTheProgram& operator=(const NotTheProgram&) = delete;

 private:
  static void tell(bool begins) {
    static auto* const function =
        reinterpret_cast<void (*)(bool)>(dlsym(RTLD_DEFAULT, "phantora_measure_not_the_program"));
    if (function != nullptr) function(begins);
  }
};

struct StreamOfProgram : rank::Stream {
  CUstream handle = nullptr;
};
CUstream handle_of(const rank::CollectiveCall& call) {
  return static_cast<const StreamOfProgram*>(call.stream)->handle;
}

void wait_for(CUstream stream) {
  check(PHANTORA_DRIVER(cuStreamSynchronize)(stream), "waiting for a stream");
}
std::vector<std::byte> read_in_order(const void* address, std::size_t bytes, CUstream stream) {
  std::vector<std::byte> there(bytes);
  check(PHANTORA_DRIVER_AS(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2")(
            there.data(), device_pointer(address), bytes, stream),
        "reading what a collective sends");
  wait_for(stream);
  return there;
}
void write_in_order(void* address, std::span<const std::byte> bytes, CUstream stream) {
  check(PHANTORA_DRIVER_AS(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2")(
            device_pointer(address), bytes.data(), bytes.size(), stream),
        "writing what a collective receives");
  wait_for(stream);  // `bytes` goes
}
void copy_in_order(void* to, const void* from, std::size_t bytes, CUstream stream) {
  if (to == from || bytes == 0) return;
  check(PHANTORA_DRIVER_AS(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2")(
            device_pointer(to), device_pointer(from), bytes, stream),
        "copying a collective's operand");
}

/// The rank's own data where others' would come.
void assume_own_data(const rank::CollectiveCall& call, const rank::CommunicatorInfo& info) {
  using rank::Collective;
  const CUstream stream = handle_of(call);
  const BufferBytes size = rank::operand_bytes(call, info.ranks, call.peer == info.rank);
  const auto send = static_cast<std::size_t>(size.send.count());
  const auto receive = static_cast<std::size_t>(size.receive.count());
  const auto* const from = static_cast<const std::byte*>(call.send);
  auto* const to = static_cast<std::byte*>(call.recv);
  switch (call.op) {
    case Collective::all_gather:
    case Collective::gather:
      for (std::size_t at = 0; at < receive; at += send) copy_in_order(to + at, from, send, stream);
      return;
    case Collective::reduce_scatter:
      copy_in_order(to, from + static_cast<std::size_t>(info.rank) * receive, receive, stream);
      return;
    case Collective::scatter:
      if (call.peer == info.rank)
        copy_in_order(to, from + static_cast<std::size_t>(info.rank) * receive, receive, stream);
      return;
    case Collective::broadcast:
      if (call.peer != info.rank) return;  // what lies there is as good
      [[fallthrough]];
    case Collective::all_reduce:
    case Collective::reduce:
    case Collective::all_to_all:
      copy_in_order(to, from, std::min(send, receive), stream);
      return;
    case Collective::send:
    case Collective::recv:
      return;
  }
}

// --- The proxy ---

/// This thread's connection.
int connection() {
  static thread_local const int descriptor = [] {
    const char* const name = std::getenv(measure::proxy_variable);
    const measure::ProxyAddress address{name != nullptr ? name : ""};
    const int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made < 0 || connect(made, address.get(), address.length) != 0)
      throw std::runtime_error{"the simulation of the other ranks cannot be reached"};
    return made;
  }();
  return descriptor;
}
measure::Message ask(const measure::Message& request) {
  measure::send_message(connection(), request);
  measure::Message reply;
  if (!measure::receive_message(connection(), reply))
    throw std::runtime_error{"the simulation of the other ranks has ended"};
  return reply;
}
template <class... T>
measure::Message ask(measure::Ask what, const T&... parts) {
  measure::Message request;
  request.put(what);
  (request.put(parts), ...);
  return ask(request);
}

rank::Mutex communicators_mutex;
std::map<std::uint64_t, rank::CommunicatorInfo>& communicators() {
  static auto* const all = new std::map<std::uint64_t, rank::CommunicatorInfo>;
  return *all;
}
std::uint64_t keep(const measure::Joined& joined, int device) {
  const std::lock_guard lock{communicators_mutex};
  if (joined.communicator != 0)
    communicators()[joined.communicator] = {joined.ranks, joined.rank, device};
  return joined.communicator;
}

}  // namespace

namespace rank {

bool simulated() noexcept { return std::getenv(measure::proxy_variable) != nullptr; }
void warn_once(const char* key, const std::string& message) {
  static Mutex mutex;
  static auto* const said = new std::map<std::string, bool>;
  const std::lock_guard lock{mutex};
  if (said->emplace(key, true).second) std::fprintf(stderr, "phantora: %s\n", message.c_str());
}
void unsupported(const char* entry_point) noexcept {
  warn_once(entry_point, std::string{entry_point} +
                             " is not possible where all ranks but this one are simulated");
}
ApiCall::ApiCall(Api, CalledFunction) noexcept {}
ApiCall::~ApiCall() = default;

int current_device() noexcept {
  CUdevice device = 0;
  PHANTORA_DRIVER(cuCtxGetDevice)(&device);
  return device;
}
/// As the program numbers them.
int physical_device(int device) { return device; }
/// A rank has one GPU.
void set_current_device(int) noexcept {}

bool is_device_address(const void* address) noexcept {
  CUmemorytype type{};
  return PHANTORA_DRIVER(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                device_pointer(address)) == CUDA_SUCCESS &&
         type == CU_MEMORYTYPE_DEVICE;
}
void* allocate(int, std::size_t bytes) {
  CUdeviceptr address = 0;
  PHANTORA_DRIVER_AS(cuMemAlloc, "cuMemAlloc_v2")(&address, bytes);
  return reinterpret_cast<void*>(address);
}
bool deallocate(void* address) {
  return PHANTORA_DRIVER_AS(cuMemFree, "cuMemFree_v2")(device_pointer(address)) == CUDA_SUCCESS;
}
bool read(void* to, const void* from, std::size_t bytes) {
  check(PHANTORA_DRIVER_AS(cuMemcpyDtoH, "cuMemcpyDtoH_v2")(to, device_pointer(from), bytes),
        "reading device memory");
  return true;
}

void make_unique_id(std::span<std::byte, 128> out) {
  const auto id = ask(measure::Ask::unique_id).take<std::array<std::byte, 128>>();
  std::copy(id.begin(), id.end(), out.begin());
}
std::optional<std::uint64_t> join_communicator(std::span<const std::byte, 128> unique_id, int ranks,
                                               int rank, int device) {
  measure::Join join{.unique_id = {}, .ranks = ranks, .rank = rank};
  std::copy(unique_id.begin(), unique_id.end(), join.unique_id);
  const auto joined = ask(measure::Ask::join, join).take<measure::Joined>();
  if (joined.communicator == 0) return std::nullopt;
  return keep(joined, device);
}
std::uint64_t split_communicator(std::uint64_t parent, int color, int key) {
  const measure::Split split{.parent = parent, .color = color, .key = key};
  return keep(ask(measure::Ask::split, split).take<measure::Joined>(),
              communicator_info(parent).device);
}
void leave_communicator(std::uint64_t communicator) {
  ask(measure::Ask::leave, communicator);
  const std::lock_guard lock{communicators_mutex};
  communicators().erase(communicator);
}
CommunicatorInfo communicator_info(std::uint64_t communicator) {
  const std::lock_guard lock{communicators_mutex};
  const auto found = communicators().find(communicator);
  return found == communicators().end() ? CommunicatorInfo{} : found->second;
}

/// A graph would issue its collectives again and again, without anybody being told.
void refuse_captured(std::span<const CollectiveCall> group) {
  for (const CollectiveCall& call : group) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    PHANTORA_DRIVER(cuStreamIsCapturing)(handle_of(call), &status);
    if (status != CU_STREAM_CAPTURE_STATUS_NONE)
      throw std::runtime_error{
          "collectives in a CUDA graph are not possible where all ranks but this one are "
          "simulated"};
  }
}

void enqueue_collectives(std::span<const CollectiveCall> group) {
  refuse_captured(group);
  const NotTheProgram ours;
  measure::Message request;
  request.put(measure::Ask::enqueue);
  request.put(static_cast<std::uint32_t>(group.size()));
  for (const CollectiveCall& call : group) {
    const CommunicatorInfo info = communicator_info(call.communicator);
    const bool with_data = carries_data(call, info);
    request.put(measure::Operation{
        .communicator = call.communicator,
        .count = call.count,
        .stream = reinterpret_cast<std::uintptr_t>(handle_of(call)),
        .premul = call.premul,
        .peer = call.peer,
        .op = call.op,
        .type = call.type,
        .reduction = call.reduction,
        .carries_data = with_data,
    });
    if (!with_data) continue;
    const BufferBytes size = operand_bytes(call, info.ranks, call.peer == info.rank);
    const auto send = static_cast<std::size_t>(size.send.count());
    request.put_bytes_counted(send == 0 ? std::vector<std::byte>{}
                                        : read_in_order(call.send, send, handle_of(call)));
  }
  // Before the wait: what is sent was read, and what others send may come later than the program.
  for (const CollectiveCall& call : group)
    assume_own_data(call, communicator_info(call.communicator));
  measure::Message reply = ask(request);
  for (const CollectiveCall& call : group) {
    const CommunicatorInfo info = communicator_info(call.communicator);
    const BufferBytes size = operand_bytes(call, info.ranks, call.peer == info.rank);
    if (!carries_data(call, info) || size.receive.count() == 0) continue;
    const auto bytes = reply.take_bytes_counted();
    const auto known = reply.take_bytes_counted();
    const auto is_known = [](std::byte of) { return of != std::byte{0}; };
    if (std::ranges::all_of(known, is_known)) {
      write_in_order(call.recv, bytes, handle_of(call));
    } else if (std::ranges::any_of(known, is_known)) {
      std::vector<std::byte> mixed = read_in_order(call.recv, bytes.size(), handle_of(call));
      for (std::size_t i = 0; i < mixed.size(); ++i)
        if (is_known(known[i])) mixed[i] = bytes[i];
      write_in_order(call.recv, mixed, handle_of(call));
    }
  }
}

}  // namespace rank

namespace driver {

rank::Stream& stream_of(const void* handle, DefaultStream) {
  static rank::Mutex mutex;
  static auto* const streams = new std::map<const void*, StreamOfProgram>;
  const std::lock_guard lock{mutex};
  StreamOfProgram& stream = (*streams)[handle];
  stream.handle = static_cast<CUstream>(const_cast<void*>(handle));
  return stream;
}

bool pinned(const void* address) {
  CUmemorytype type{};
  return PHANTORA_DRIVER(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                device_pointer(address)) == CUDA_SUCCESS &&
         type == CU_MEMORYTYPE_HOST;
}

}  // namespace driver
}  // namespace phantora
