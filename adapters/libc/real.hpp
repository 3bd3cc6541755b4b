#pragma once

#include <atomic>

#include <dlfcn.h>

/// The C library's own function behind a hook, found at the first call.
///
/// A few have several versions, of which an unversioned look-up returns the oldest: those name
/// theirs.
namespace phantora::libc {

template <class Function>
class Real {
 public:
  constexpr explicit Real(const char* name, const char* version = nullptr)
      : name_{name}, version_{version} {}

  template <class... Arguments>
  auto operator()(Arguments... arguments) noexcept {
    return get()(arguments...);
  }
  Function get() noexcept {
    Function found = function_.load(std::memory_order_relaxed);
    if (found == nullptr) {
      void* symbol = version_ != nullptr ? dlvsym(RTLD_NEXT, name_, version_) : nullptr;
      if (symbol == nullptr) symbol = dlsym(RTLD_NEXT, name_);
      found = reinterpret_cast<Function>(symbol);
      function_.store(found, std::memory_order_relaxed);
    }
    return found;
  }

 private:
  const char* name_;
  const char* version_;
  std::atomic<Function> function_{nullptr};
};

}  // namespace phantora::libc
