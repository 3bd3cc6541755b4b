#include "cuda/driver/loaded_module.hpp"

#include "cuda/driver/image.hpp"
#include "rank/code/module_variable.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/runtime/process.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <mutex>
#include <unordered_map>

namespace phantora::driver {

namespace {

struct Loaded {
  rank::Mutex mutex{};
  std::unordered_map<const void*, LoadedFunction> functions{};
};

/// Never destroyed: programs launch kernels in their own static destructors.
Loaded& loaded() {
  static auto* const instance = new Loaded;
  return *instance;
}

}  // namespace

LoadedModule::LoadedModule(std::vector<std::byte> image) : image_{std::move(image)} {
  module_.image = image_.data();
}

LoadedModule* LoadedModule::load(std::vector<std::byte> image) {
  return image.empty() ? nullptr : new LoadedModule{std::move(image)};
}

LoadedModule* LoadedModule::load_file(const char* path) {
  std::ifstream file{path, std::ios::binary};
  if (!file) return nullptr;
  const std::string bytes{std::istreambuf_iterator<char>{file}, {}};
  return load(copy_image(bytes.c_str()));
}

Function* LoadedModule::function(const char* name) {
  const std::scoped_lock lock{mutex_};
  if (!functions_.contains(name) && !rank::has_kernel(module_, name)) return nullptr;
  const auto [entry, added] = functions_.try_emplace(name);
  Function& function = entry->second;
  if (added) {
    function.module = &module_;
    function.mangled = entry->first.c_str();
    const std::scoped_lock all{loaded().mutex};
    loaded().functions[&function] = {&function, this};
  }
  return &function;
}

std::vector<Function*> LoadedModule::functions() {
  std::vector<Function*> found;
  for (const std::string& name : rank::kernel_names(module_))
    found.push_back(function(name.c_str()));
  return found;
}

Variable LoadedModule::variable(const char* name) {
  const std::scoped_lock lock{mutex_};
  Variable& variable = variables_[std::pair{std::string{name}, rank::current_device()}];
  if (variable.address) return variable;
  const auto known = rank::variable(module_, name);
  if (!known) return {};
  if (known->size == 0) {
    const std::string told = "variable " + std::string{name} +
                             " is not simulated: its size is known to compilers alone; with "
                             "NVIDIA's NVRTC installed it is";
    rank::warn_once(told.c_str(), told);
    return {};
  }
  variable.size = known->size;
  variable.address = rank::allocate(rank::current_device(), variable.size);
  if (!variable.address) return variable;
  rank::write(variable.address, known->value.data(), known->value.size());
  if (!known->constant) rank::add_variable(module_, variable.address, variable.size);
  return variable;
}

LoadedFunction loaded_function(const void* handle) {
  const std::scoped_lock lock{loaded().mutex};
  const auto found = loaded().functions.find(handle);
  return found == loaded().functions.end() ? LoadedFunction{} : found->second;
}

}  // namespace phantora::driver
