// What graphs keep: objects of the program, and memory.

#include "cuda/graphs/calls.hpp"
#include "rank/runtime/process.hpp"

#include <cstdint>

using namespace phantora::graphs;
namespace driver = phantora::driver;
namespace rank = phantora::rank;

namespace {

constexpr int used_now = 0, used_high = 1, reserved_now = 2, reserved_high = 3;

rank::UserObject& object_of(UserObjectHandle handle) {
  expect(handle != nullptr);
  return *reinterpret_cast<rank::UserObject*>(handle);
}

}  // namespace

PHANTORA_EXPORT Status PHANTORA_API(UserObjectCreate)(UserObjectHandle* handle, void* object,
                                                      HostFunction destroy, unsigned references,
                                                      unsigned flags) {
  return call([&] {
    constexpr unsigned no_destructor_sync = 1;  // cudaUserObjectNoDestructorSync, which must be
    expect(handle != nullptr && destroy != nullptr && references > 0 &&
           flags == no_destructor_sync);
    *handle = reinterpret_cast<UserObjectHandle>(
        new rank::UserObject{.destroy = destroy, .object = object, .references = references});
  });
}
PHANTORA_EXPORT Status PHANTORA_API(UserObjectRetain)(UserObjectHandle object, unsigned count) {
  return call([&] {
    expect(count > 0);
    rank::retain(object_of(object), count);
  });
}
PHANTORA_EXPORT Status PHANTORA_API(UserObjectRelease)(UserObjectHandle object, unsigned count) {
  return call([&] {
    expect(count > 0);
    rank::release(object_of(object), count);
  });
}
PHANTORA_EXPORT Status PHANTORA_API(GraphRetainUserObject)(GraphHandle graph,
                                                           UserObjectHandle object, unsigned count,
                                                           unsigned flags) {
  return call([&] {
    constexpr unsigned move = 1;  // cudaGraphUserObjectMove
    expect(count > 0 && flags <= move);
    graph_of(graph).keep(object_of(object), count, flags == move);
  });
}
PHANTORA_EXPORT Status PHANTORA_API(GraphReleaseUserObject)(GraphHandle graph,
                                                            UserObjectHandle object,
                                                            unsigned count) {
  return call([&] { expect(count > 0 && graph_of(graph).give_up(object_of(object), count)); });
}

PHANTORA_EXPORT Status PHANTORA_API(DeviceGetGraphMemAttribute)(int device,
                                                                MemoryAttribute attribute,
                                                                void* value) {
  return call([&] {
    expect(value != nullptr && valid_device(device) && attribute >= used_now &&
           attribute <= reserved_high);
    const driver::GraphMemoryUse use = driver::graph_memory_use(device);
    const bool high = attribute == used_high || attribute == reserved_high;
    *static_cast<std::uint64_t*>(value) = high ? use.high : use.now;
  });
}
PHANTORA_EXPORT Status PHANTORA_API(DeviceSetGraphMemAttribute)(int device,
                                                                MemoryAttribute attribute,
                                                                void* value) {
  return call([&] {
    expect(value != nullptr && valid_device(device) && *static_cast<std::uint64_t*>(value) == 0 &&
           (attribute == used_high || attribute == reserved_high));
    driver::reset_graph_memory_high(device);
  });
}
PHANTORA_EXPORT Status PHANTORA_API(DeviceGraphMemTrim)(int device) {
  return call([&] { expect(valid_device(device)); });  // nothing is kept that is not used
}
