#include "measure/handles.hpp"

#include <mutex>
#include <shared_mutex>
#include <unordered_map>

namespace phantora::measure {
namespace {

/// Never destroyed: programs destroy handles in their own destructors.
struct Handles {
  std::shared_mutex mutex{};
  std::unordered_map<const void*, void*> of_keys{};
};
Handles& handles() {
  static auto* const instance = new Handles;
  return *instance;
}

}  // namespace

void* handle_for_keys(const void* handle) {
  Handles& all = handles();
  const std::shared_lock lock{all.mutex};
  const auto found = all.of_keys.find(handle);
  return found == all.of_keys.end() ? nullptr : found->second;
}

void stands_for(const void* handle, void* of_keys) {
  Handles& all = handles();
  const std::lock_guard lock{all.mutex};
  all.of_keys[handle] = of_keys;
}

void forget_handle_at(const void* handle) {
  Handles& all = handles();
  const std::lock_guard lock{all.mutex};
  all.of_keys.erase(handle);
}

}  // namespace phantora::measure
