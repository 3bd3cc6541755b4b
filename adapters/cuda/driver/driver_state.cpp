#include "cuda/driver/driver_state.hpp"

#include "rank/runtime/process.hpp"

namespace phantora::driver {
namespace {

std::size_t context_bytes() { return static_cast<std::size_t>(rank::gpu().context_memory.count()); }

}  // namespace

DriverState::DriverState()
    : contexts{{.reserve =
                    [](int device) noexcept {
                      return rank::reserve_context(device, context_bytes());
                    },
                .release =
                    [](int device) noexcept { rank::release_context(device, context_bytes()); }}},
      virtual_memory{rank::device_memory(), {rank::reserve_memory, rank::release_memory}} {}

DriverState& driver_state() noexcept {
  static auto* const made = new DriverState;
  return *made;
}

}  // namespace phantora::driver
