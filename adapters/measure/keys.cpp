// The rank behind the entry points of libphantora_keys.so: it has one stream for each of the
// program's, takes addresses for what the real driver says of them, knows no byte, and of what is
// launched only notes the query.
#include "measure/keys.hpp"

#include "cuda/driver/context.hpp"
#include "cuda/driver/function.hpp"
#include "cuda/driver/graph_work.hpp"
#include "cuda/driver/host_memory.hpp"
#include "cuda/driver/stream.hpp"
#include "rank/memory/data_queue.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/runtime/api_call.hpp"
#include "rank/runtime/capture.hpp"
#include "rank/runtime/process.hpp"
#include "rank/runtime/timeline.hpp"
#include "rank/small_data.hpp"

#include <phantora/kernels/gpu_model.hpp>
#include <phantora/kernels/query_text.hpp>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

namespace phantora {
namespace {

using measure::Asked;
using measure::Machine;

const Machine* machine = nullptr;

/// The GPU's model where we know it; else what kernels are read by, which is its architecture.
GpuModel model_of(const Machine& real) {
  GpuModel model;
  for (const std::string& key : gpu_model_keys()) {
    if (gpu_model(key).name == real.gpu_name) model = gpu_model(key);
  }
  model.name = real.gpu_name;
  model.capability_major = real.capability_major;
  model.capability_minor = real.capability_minor;
  model.sm_count = real.sm_count;
  return model;
}

/// Never destroyed: programs call from their own destructors.
struct Notes {
  std::mutex mutex{};
  std::map<KernelQuery, rank::QueryId> ids{};
  std::deque<std::string> texts{};
};
Notes& notes() {
  static auto* const instance = new Notes;
  return *instance;
}

thread_local std::vector<Asked> asked;

struct StreamOfProgram : rank::Stream {
  const void* handle = nullptr;
};

/// Addresses of variables, which the stand-ins allocate themselves: nobody else knows them.
struct Variables {
  std::mutex mutex{};
  std::unordered_set<const void*> addresses{};
};
Variables& variables() {
  static auto* const instance = new Variables;
  return *instance;
}
bool is_variable(const void* address) {
  Variables& all = variables();
  const std::lock_guard lock{all.mutex};
  return all.addresses.contains(address);
}

}  // namespace

// --- rank/runtime ---

namespace rank {

bool simulated() noexcept { return machine != nullptr; }
const channel::Settings* settings() noexcept { return nullptr; }
const GpuModel& gpu() {
  static const GpuModel model = model_of(*machine);
  return model;
}
int device_count() { return 1; }
int physical_device_count() { return 1; }
int physical_device(int device) { return device; }
int current_device() noexcept { return 0; }
void set_current_device(int) noexcept {}
void warn_once(const char*, const std::string&) {}
void unsupported(const char*) noexcept {}
void count(const char*, std::uint64_t) noexcept {}
bool in_host_function() noexcept { return false; }

ApiCall::ApiCall(Api, CalledFunction) noexcept {}
ApiCall::~ApiCall() = default;
void costs_more(Duration) noexcept {}

QueryId intern(const KernelQuery& query, const KernelCode&) {
  Notes& all = notes();
  const std::lock_guard lock{all.mutex};
  // The real cache has its part in the real time.
  KernelQuery key = query;
  key.operands = {};
  const auto [found, added] = all.ids.try_emplace(key, static_cast<QueryId>(all.texts.size()));
  if (added) all.texts.push_back(to_text(key));
  return found->second;
}
void launch(Stream& stream, QueryId query) {
  asked.push_back({query, static_cast<StreamOfProgram&>(stream).handle});
}
void launch(Stream& stream, const KernelQuery& query) { launch(stream, intern(query)); }
void meet(Stream&, std::span<const int>) {}  // one GPU is measured

// What a program captures into a graph reaches the real library alone.
std::atomic<int> detail::capture_count{0};
bool detail::capturing(Stream&) { return false; }
Node& capture(Stream&, WorkPointer) { std::abort(); }
void refuse_if_captured(Stream&) {}

void synchronize(Stream&) {}
void host_function(Stream&, void (*)(void*), void*) {}

// --- rank/memory: nothing is known, and nothing is done to data. ---

namespace data {
bool pending() noexcept { return true; }
bool pending(Stream&) { return true; }
void hold_back(Stream&, Operation) {}
bool any_capture() noexcept { return false; }
bool captured(Stream&, Operation) { return false; }
}  // namespace data

SmallData& small_data() noexcept {
  static auto* const made = new SmallData;
  return *made;
}
bool reserve_memory(int, std::size_t) noexcept { return false; }
void release_memory(int, std::size_t) noexcept {}

void* allocate(int, std::size_t) {
  Variables& all = variables();
  const std::lock_guard lock{all.mutex};
  return const_cast<void*>(*all.addresses.insert(new char).first);
}
std::optional<Allocation> allocation_of(const void* address) {
  void* base = nullptr;
  std::size_t bytes = 0;
  if (!machine->allocation_of(address, &base, &bytes)) return std::nullopt;
  return Allocation{0, static_cast<std::byte*>(base), bytes};
}
std::optional<int> owner_of(const void*) { return 0; }  // one GPU is measured
bool shows_peers() noexcept { return false; }
bool reachable(const void*, std::size_t) { return true; }  // the real GPU says otherwise
bool is_device_address(const void* address) noexcept {
  return machine->place_of(address) == Machine::Place::device || is_variable(address);
}
bool read(void*, const void*, std::size_t) { return false; }
bool read_with_mask(std::byte*, std::uint8_t*, const void*, std::size_t) { return false; }
bool known(const void*, std::size_t) { return false; }
bool may_know(const void*, std::size_t) { return false; }
void write(void*, const void*, std::size_t) {}
void write_known(void*, const std::byte*, std::span<const std::uint8_t>, std::size_t,
                 const Writer&) {}
void write_from_host(void*, const void*, std::size_t) {}
void fill(void*, std::span<const std::byte>, std::size_t) {}
void fill(void*, int, std::size_t) {}
void copy(void*, const void*, std::size_t) {}
void forget(void*, std::size_t, const Writer&) {}
void note_share_set(const void*, std::size_t, double) {}
std::optional<double> share_set(const void*, std::size_t) { return std::nullopt; }
void defer(const void*, std::size_t, std::shared_ptr<const Deferred>) {}
std::optional<DeferredPart> deferred(const void*, std::size_t) { return std::nullopt; }

}  // namespace rank

// --- cuda/driver ---

namespace driver {

bool activate(int) { return true; }
PciAddress pci_address(int) { return {}; }

/// The program's handle is kept for whoever times the call; 0, 1 and 2 are the default streams.
rank::Stream& stream_of(const void* handle, DefaultStream null_handle) {
  static std::mutex mutex;
  static auto* const streams = new std::map<const void*, StreamOfProgram>;
  constexpr std::uintptr_t per_thread = 2;  // cudaStreamPerThread
  if (handle == nullptr && null_handle == DefaultStream::per_thread)
    handle = reinterpret_cast<const void*>(per_thread);
  const std::lock_guard lock{mutex};
  StreamOfProgram& stream = (*streams)[handle];
  stream.handle = handle;
  return stream;
}

/// The real driver checks launches.
LaunchStatus launch(Function& function, const rank::LaunchShape& shape, void** arguments,
                    rank::Stream& stream, const KernelQuery::Dim3&) {
  rank::launch_kernel(function, shape, arguments, stream);
  return LaunchStatus::launched;
}
int blocks_per_sm(const Function&, int, std::size_t) { return 1 << 20; }
int clusters_at_once(const Function&, int, std::size_t, unsigned) { return 1 << 20; }
int max_dynamic_shared(const Function&) { return 1 << 30; }
bool set_attribute(Function&, CUfunction_attribute, int) { return true; }
std::optional<std::size_t> dynamic_shared_room(const Function&, int, int) { return std::nullopt; }

bool pinned(const void* address) { return machine->place_of(address) == Machine::Place::pinned; }
std::optional<HostMemory> host_memory_of(const void*) { return std::nullopt; }
void* allocate_host(std::size_t, HostMemoryKind, unsigned) { return nullptr; }
bool advise(const void*, const std::function<void(Advice&)>&) { return false; }

void CopyWork::issue(rank::Stream&) const {}
std::string CopyWork::label() const { return {}; }
void FillWork::issue(rank::Stream&) const {}
std::string FillWork::label() const { return {}; }

}  // namespace driver
}  // namespace phantora

extern "C" __attribute__((visibility("default"))) const phantora::measure::Keys* phantora_keys() {
  using namespace phantora;
  static constexpr measure::Keys functions{.begin = [](const Machine* real) { machine = real; },
                                           .take =
                                               [](Asked* taken, std::size_t most) {
                                                 const std::size_t there = asked.size();
                                                 std::copy_n(asked.begin(), std::min(there, most),
                                                             taken);
                                                 asked.clear();
                                                 return there;
                                               },
                                           .text_of =
                                               [](std::uint32_t query) {
                                                 Notes& all = notes();
                                                 const std::lock_guard lock{all.mutex};
                                                 return all.texts.at(query).c_str();
                                               }};
  return &functions;
}
