#include "cuda/cudart/kernels.hpp"

#include "cuda/cudart/entry.hpp"
#include "cuda/driver/host_memory.hpp"
#include "rank/code/module_variable.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/runtime/mutex.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <vector_types.h>

namespace phantora::cudart {
namespace {

struct RegisteredModule : rank::Module {
  std::size_t first = 0, last = 0;  ///< its functions lie in this range of Registry::functions
};

struct RegisteredVariable {
  rank::Module* module = nullptr;
  const char* name = nullptr;  ///< in the GPU's code
  std::size_t size = 0;
  bool constant = false;
  std::map<int, void*> addresses{};  ///< by device
  void* managed = nullptr;           ///< instead: the same on the host and on every device
};

/// PyTorch registers 10^5 kernels while it is loaded and launches a few hundred: registration only
/// appends, and the index is made when the first kernel is looked up.
struct Registry {
  rank::Mutex mutex{};
  std::deque<RegisteredModule> modules{};
  std::deque<Function> functions{};
  std::size_t indexed = 0;
  std::unordered_map<const void*, Function*> by_stub{};
  std::unordered_map<const void*, Function*> by_handle{};
  std::unordered_map<const void*, RegisteredVariable> variables{};
};

/// Never destroyed: programs unregister in their own static destructors.
Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

RegisteredModule& module_of(void** handle) {
  return static_cast<RegisteredModule&>(*reinterpret_cast<rank::Module*>(handle));
}

}  // namespace

Function* function_of(const void* stub_or_handle) {
  Registry& all = registry();
  const std::scoped_lock lock{all.mutex};
  for (; all.indexed < all.functions.size(); ++all.indexed) {
    Function& function = all.functions[all.indexed];
    all.by_stub[function.host_stub] = &function;
    all.by_handle[&function] = &function;
  }
  if (const auto found = all.by_stub.find(stub_or_handle); found != all.by_stub.end()) {
    return found->second;
  }
  const auto found = all.by_handle.find(stub_or_handle);
  return found == all.by_handle.end() ? driver::loaded_function(stub_or_handle).function
                                      : found->second;
}

Variable variable_of(const void* symbol) {
  Registry& all = registry();
  const std::scoped_lock lock{all.mutex};
  const auto found = all.variables.find(symbol);
  if (found == all.variables.end()) return {};
  RegisteredVariable& variable = found->second;
  if (variable.managed) return {variable.managed, variable.size};
  void*& address = variable.addresses[rank::current_device()];
  if (!address) {
    address = rank::allocate(rank::current_device(), variable.size);
    if (address) {
      if (const auto known = rank::variable(*variable.module, variable.name)) {
        rank::write(address, known->value.data(), std::min(variable.size, known->value.size()));
      }
      if (!variable.constant) rank::add_variable(*variable.module, address, variable.size);
    }
  }
  return {address, variable.size};
}

}  // namespace phantora::cudart

using namespace phantora::cudart;
namespace rank = phantora::rank;

// Registration runs in static constructors of every program and library that holds kernels,
// simulated or not: it must not touch the engine.

PHANTORA_EXPORT void** __cudaRegisterFatBinary(void* fat_binary) {
  Registry& all = registry();
  const std::scoped_lock lock{all.mutex};
  RegisteredModule& module = all.modules.emplace_back();
  module.image = fat_binary;
  module.first = module.last = all.functions.size();
  return reinterpret_cast<void**>(static_cast<rank::Module*>(&module));
}

PHANTORA_EXPORT void __cudaRegisterFatBinaryEnd(void**) {}

PHANTORA_EXPORT void __cudaUnregisterFatBinary(void** handle) {
  // The module's image is unmapped after this, so its kernels must not be found any more.
  const RegisteredModule& module = module_of(handle);
  Registry& all = registry();
  const std::scoped_lock lock{all.mutex};
  for (std::size_t i = module.first; i < module.last; ++i) {
    Function& function = all.functions[i];
    if (function.module != &module) continue;
    all.by_stub.erase(function.host_stub);
    all.by_handle.erase(&function);
  }
  std::erase_if(all.variables, [&](const auto& entry) { return entry.second.module == &module; });
}

PHANTORA_EXPORT void __cudaRegisterFunction(void** handle, const char* host_stub, char*,
                                            const char* name, int, uint3*, uint3*, dim3*, dim3*,
                                            int*) {
  Registry& all = registry();
  const std::scoped_lock lock{all.mutex};
  Function& function = all.functions.emplace_back();
  function.module = &module_of(handle);
  function.mangled = name;
  function.host_stub = host_stub;
  module_of(handle).last = all.functions.size();
}

PHANTORA_EXPORT void __cudaRegisterVar(void** handle, char* host_variable, char*, const char* name,
                                       int, std::size_t size, int constant, int) {
  Registry& all = registry();
  const std::scoped_lock lock{all.mutex};
  all.variables[host_variable] = {&module_of(handle), name, size, constant != 0, {}, nullptr};
}

/// A __managed__ variable: the host code goes through a pointer, and knows the variable by what
/// that points to.
PHANTORA_EXPORT void __cudaRegisterManagedVar(void** handle, void** host_pointer, char*,
                                              const char* name, int, std::size_t size, int, int) {
  void* const memory = phantora::driver::allocate_host(
      size, phantora::driver::HostMemoryKind::managed, cudaMemAttachGlobal);
  if (!memory) return;
  *host_pointer = memory;
  Registry& all = registry();
  const std::scoped_lock lock{all.mutex};
  all.variables[memory] = {&module_of(handle), name, size, false, {}, memory};
  if (rank::settings() == nullptr) return;  // outside of a run there is no GPU that it is of
  if (const auto known = rank::variable(module_of(handle), name)) {
    std::memcpy(memory, known->value.data(), std::min(size, known->value.size()));
  }
}

PHANTORA_EXPORT char __cudaInitModule(void**) { return 1; }

PHANTORA_EXPORT cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host_stub) {
  return entry(Api::get_last_error, [&] {
    Function* const function = function_of(host_stub);
    if (!function) return cudaErrorInvalidDeviceFunction;
    *kernel = reinterpret_cast<cudaKernel_t>(function);
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* host_stub) {
  return __cudaGetKernel(kernel, host_stub);
}

PHANTORA_EXPORT cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* symbol) {
  return __cudaGetKernel(reinterpret_cast<cudaKernel_t*>(function), symbol);
}

PHANTORA_EXPORT cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  return device_entry(Api::pointer_attributes, [&] {
    const Variable variable = variable_of(symbol);
    if (!variable.size) return cudaErrorInvalidSymbol;
    if (!variable.address) return cudaErrorMemoryAllocation;
    *address = variable.address;
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaGetSymbolSize(std::size_t* size, const void* symbol) {
  return device_entry(Api::pointer_attributes, [&] {
    const Variable variable = variable_of(symbol);
    if (!variable.size) return cudaErrorInvalidSymbol;
    *size = variable.size;
    return cudaSuccess;
  });
}
