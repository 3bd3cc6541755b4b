#pragma once

#include <library_types.h>

namespace phantora::library {

/// What a library says of its release: that of CUDA 13.0, also where a program of CUDA 12 asks.
struct Version {
  int major, minor, patch;

  [[nodiscard]] constexpr int number() const { return 1000 * major + 100 * minor + patch; }

  /// @return `success`, or `invalid` if there is no place for the answer or no such part
  template <class Status>
  Status tell(int* number_at, Status success, Status invalid) const {
    if (!number_at) return invalid;
    *number_at = number();
    return success;
  }
  template <class Status>
  Status tell(libraryPropertyType part, int* value, Status success, Status invalid) const {
    if (!value || part < MAJOR_VERSION || part > PATCH_LEVEL) return invalid;
    *value = part == MAJOR_VERSION ? major : part == MINOR_VERSION ? minor : patch;
    return success;
  }
};

}  // namespace phantora::library
