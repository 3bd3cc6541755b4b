#pragma once

#include <exception>

namespace phantora::rank {

/// A call that CUDA refuses: thrown where that is found out, returned as the status of its number
/// by the entry point. The runtime's and the driver's numbers are the same since CUDA 10.1.
class Refusal final : public std::exception {
 public:
  enum Status : int {
    invalid_value = 1,
    out_of_memory = 2,
    invalid_symbol = 13,
    invalid_function = 98,
    invalid_device = 101,
    operating_system = 304,
    invalid_handle = 400,
    illegal_state = 401,
    not_supported = 801,
    capture_unsupported = 900,   ///< not allowed while the stream is captured
    capture_invalidated = 901,   ///< an earlier error has ended the capture
    capture_merge = 902,         ///< would join two captures
    capture_unmatched = 903,     ///< not begun in this stream
    capture_unjoined = 904,      ///< a forked stream was not joined
    capture_isolation = 905,     ///< would depend on what is not captured
    capture_implicit = 906,      ///< would depend on a capture by way of the legacy stream
    captured_event = 907,        ///< an event that a captured stream recorded last
    capture_wrong_thread = 908,  ///< not the thread that began it
    graph_update_failure = 910,
  };

  explicit Refusal(Status number) noexcept : status{number} {}
  [[nodiscard]] const char* what() const noexcept override { return "a call that CUDA refuses"; }

  const Status status;
};

}  // namespace phantora::rank
