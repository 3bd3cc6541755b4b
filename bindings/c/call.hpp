#pragma once

#include "c/phantora.h"

#include <phantora/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

/// What every function of the C interface does: no exception leaves it, and structs of other
/// versions are understood.
namespace phantora::bindings {

/// The status of the exception that is being handled, whose text phantora_last_error() then gives.
phantora_status note_exception() noexcept;

template <class Body>
phantora_status call(Body&& body) noexcept {
  try {
    body();
    return PHANTORA_OK;
  } catch (...) {
    return note_exception();
  }
}

/// @throws ArgumentError if a pointer that has to lead somewhere is NULL.
template <class T>
T& expect(T* pointer, std::string_view name) {
  PHANTORA_EXPECTS(pointer != nullptr, std::string{name} + " is NULL");
  return *pointer;
}

/// A struct that the caller gives, of whatever version: fields that it lacks are zero.
/// @throws ArgumentError if it says something in fields that we lack.
template <class T>
T read(const T* given, std::string_view name) {
  const std::size_t size = expect(given, name).struct_size;
  PHANTORA_EXPECTS(size >= sizeof(std::size_t), std::string{name} + ": struct_size is not set");
  const auto* bytes = reinterpret_cast<const std::byte*>(given);
  PHANTORA_EXPECTS(size <= sizeof(T) || std::all_of(bytes + sizeof(T), bytes + size,
                                                    [](std::byte b) { return b == std::byte{}; }),
                   std::string{name} + " has fields of a newer version than this library");
  T ours{};
  std::memcpy(&ours, given, std::min(size, sizeof(T)));
  return ours;
}

/// Fills a struct of the caller's, of whatever version; it keeps its size.
template <class T>
void write(T* out, T value) {
  const std::size_t size = expect(out, "out").struct_size;
  PHANTORA_EXPECTS(size >= sizeof(std::size_t), "out: struct_size is not set");
  value.struct_size = size;
  std::memcpy(out, &value, std::min(size, sizeof(T)));
}

/// Memory that phantora_free() releases, with a zero behind what it holds.
char* copy_of(std::string_view text);

/// One of the values of an enum that are named, counted from 0.
template <class To, class From>
To enumerator(From value, int count, std::string_view name) {
  const auto number = static_cast<long long>(value);  // C lets it be any
  PHANTORA_EXPECTS(number >= 0 && number < count,
                   std::string{name} + " is " + std::to_string(number));
  return static_cast<To>(number);
}

}  // namespace phantora::bindings
