#pragma once

#include "cuda/library/entry.hpp"

/// What cuSOLVER and cuSPARSE have alike: the numbers of their statuses, objects whose address is
/// what the program gets, and settings of these.
namespace phantora::library::algebra {

enum Status : int {  // cusolverStatus_t, cusparseStatus_t
  success = 0,
  not_initialized = 1,
  alloc_failed = 2,
  invalid_value = 3,
  internal_error = 7,
  not_supported = 10  // of cuSPARSE
};

inline constexpr Failures<Status> failures{not_initialized, alloc_failed, internal_error};

template <class T>
T& as(void* handle) {
  return *static_cast<T*>(handle);
}
template <class T>
const T& as(const void* handle) {
  return *static_cast<const T*>(handle);
}

template <class T, class... Arguments>
Status create(void** handle, Arguments... arguments) {
  return guarded(failures, Api::library_setup, [&] {
    if (!handle) return invalid_value;
    *handle = new T{arguments...};
    return success;
  });
}
template <class T>
Status destroy(const void* handle) {
  delete static_cast<const T*>(handle);
  return success;
}

template <class Object, class T>
Status set(void* handle, T Object::*setting, T value) {
  if (!handle) return not_initialized;
  as<Object>(handle).*setting = value;
  return success;
}
template <class Object, class T>
Status get(const void* handle, T Object::*setting, T* value) {
  if (!handle) return not_initialized;
  if (!value) return invalid_value;
  *value = as<Object>(handle).*setting;
  return success;
}

}  // namespace phantora::library::algebra
