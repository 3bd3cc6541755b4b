#include "rank_fakes.hpp"

#include "rank/memory/data_queue.hpp"
#include "rank/runtime/api_call.hpp"
#include "rank/runtime/legacy_order.hpp"
#include "rank/runtime/process.hpp"
#include "rank/small_data.hpp"

#include <phantora/kernels/gpu_model.hpp>

#include <deque>
#include <utility>

namespace phantora::rank {

namespace fakes {
Process& process() {
  static Process instance;
  return instance;
}
namespace {
std::vector<KernelQuery>& interned() {
  static std::vector<KernelQuery> queries;
  return queries;
}
LegacyOrder& legacy_order() {
  static LegacyOrder order;
  return order;
}
/// Where the next operation on `stream` comes.
DataQueue& next_data(Stream& stream) {
  order_with_legacy(stream);
  LegacyOrder::operation(stream);
  return data();
}
}  // namespace

DataQueue& data() {
  static DataQueue queue;
  return queue;
}
void exchange(Stream& stream, DataQueue::Ticket ticket, DataQueue::Operation send,
              DataQueue::Receive receive) {
  next_data(stream).exchange(stream, ticket, std::move(send), std::move(receive));
}
}  // namespace fakes

SmallData& small_data() noexcept {
  static auto* const made = new SmallData;  // memory is used by destructors at exit
  return *made;
}

namespace data {
bool pending() noexcept { return !fakes::data().idle(); }
bool any_capture() noexcept { return false; }
bool captured(Stream&, Operation) { return false; }
bool pending(Stream& stream) {
  if (!pending()) return false;
  order_with_legacy(stream);
  return fakes::data().holds(stream);
}
void hold_back(Stream& stream, Operation operation) {
  fakes::next_data(stream).append(stream, std::move(operation));
}
}  // namespace data

bool reserve_memory(int, std::size_t bytes) noexcept {
  auto& process = fakes::process();
  if (process.used + bytes > process.capacity) return false;
  process.used += bytes;
  return true;
}
void release_memory(int, std::size_t bytes) noexcept { fakes::process().used -= bytes; }
void count(const char* counter, std::uint64_t n) noexcept {
  fakes::process().counters[counter] += n;
}
const channel::Settings* settings() noexcept { return nullptr; }
const GpuModel& gpu() {
  static const GpuModel model = gpu_model("h200");
  return model;
}
void warn_once(const char*, const std::string& message) {
  fakes::process().warnings.push_back(message);
}

Stream& legacy_stream(int device) {
  static std::map<int, Stream> streams;
  const auto [found, made] = streams.try_emplace(device);
  Stream& stream = found->second;
  if (!made) return stream;
  stream.id = 1 + static_cast<std::uint64_t>(device);
  stream.device = device;
  stream.legacy = true;
  fakes::legacy_order().add(stream);
  return stream;
}
Stream& create_stream(int device, unsigned flags, int priority) {
  static std::deque<Stream> streams;
  const std::uint64_t id = 100 + streams.size();
  Stream& stream = streams.emplace_back();
  stream.id = id;
  stream.device = device;
  stream.flags = flags;
  stream.priority = priority;
  fakes::legacy_order().add(stream);
  return stream;
}
void order_with_legacy(Stream& stream) {
  static Marker marker = Marker{1} << 40U;
  LegacyOrder& order = fakes::legacy_order();
  for (const LegacyOrder::Join& join : order.before(stream)) {
    fakes::data().record(*join.earlier, ++marker);
    fakes::data().wait(*join.later, marker);
    order.joined(join);
  }
}
QueryId intern(const KernelQuery& query, const KernelCode&) {
  fakes::interned().push_back(query);
  return static_cast<QueryId>(fakes::interned().size() - 1);
}
int current_device() noexcept { return 0; }
void costs_more(Duration by) noexcept { fakes::process().costs += by; }
void launch(Stream&, QueryId query) {
  fakes::process().launched.push_back(fakes::interned()[query]);
}
void launch(Stream&, const KernelQuery& query) { fakes::process().launched.push_back(query); }
void meet(Stream&, std::span<const int> devices) {
  fakes::process().met.emplace_back(devices.begin(), devices.end());
}
void synchronize(Stream&) { ++fakes::process().synchronizations; }

}  // namespace phantora::rank
