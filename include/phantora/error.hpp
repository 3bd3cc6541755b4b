#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

/// What the library throws: an Error, whatever the caller did.
namespace phantora {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
/// A malformed topology: unreachable GPU, zero bandwidth, duplicate name.
class TopologyError : public Error {
 public:
  using Error::Error;
};
/// No path joins two nodes.
class RouteError : public Error {
 public:
  using Error::Error;
};
/// A kernel that no cost model answers for.
class CostError : public Error {
 public:
  using Error::Error;
};
/// Bad configuration or option text; the message names the place and what was expected.
class ConfigError : public Error {
 public:
  using Error::Error;
};
/// A change to a part of the simulated past that has been committed.
class CommitError : public Error {
 public:
  using Error::Error;
};

/// An argument that its function does not take; the message says what it does take, and then where
/// that was checked.
class ArgumentError : public Error {
 public:
  using Error::Error;
};

namespace detail {
// No std::source_location: clang has it from version 16 on only.
[[noreturn]] inline void precondition_failed(const char* condition, const std::string& message,
                                             std::string_view file, int line) {
  // The path is of the machine that built the library, and says nothing to whoever uses it.
  file.remove_prefix(file.rfind('/') + 1);
  throw ArgumentError{message + " (" + std::string{file} + ":" + std::to_string(line) +
                      ": expected " + condition + ")"};
}
}  // namespace detail

}  // namespace phantora

/// Checks a precondition; throws ArgumentError with the message and the place.
#define PHANTORA_EXPECTS(condition, message) \
  ((condition) ? void(0)                     \
               : ::phantora::detail::precondition_failed(#condition, message, __FILE__, __LINE__))
