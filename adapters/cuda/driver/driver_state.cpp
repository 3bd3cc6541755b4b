#include "cuda/driver/driver_state.hpp"

namespace phantora::driver {

DriverState& driver_state() noexcept {
  static auto* const made = new DriverState;
  return *made;
}

}  // namespace phantora::driver
