#pragma once

#include <source_location>
#include <stdexcept>
#include <string>

/// What the library throws. Input errors derive from Error; broken preconditions are logic_errors.
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

namespace detail {
[[noreturn]] inline void precondition_failed(const char* condition, const std::string& message,
                                             std::source_location where) {
  throw std::logic_error{std::string{where.file_name()} + ":" + std::to_string(where.line()) +
                         ": expected " + condition + ": " + message};
}
}  // namespace detail

}  // namespace phantora

/// Checks a precondition; throws std::logic_error naming the place.
#define PHANTORA_EXPECTS(condition, message)                                  \
  ((condition) ? void(0)                                                      \
               : ::phantora::detail::precondition_failed(#condition, message, \
                                                         std::source_location::current()))
