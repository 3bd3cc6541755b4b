#pragma once

#include <utility>

#include <unistd.h>

namespace phantora::run {

/// Closes its descriptor, if it has one.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int descriptor) noexcept : descriptor_{descriptor} {}
  UniqueFd(UniqueFd&& other) noexcept : descriptor_{std::exchange(other.descriptor_, -1)} {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~UniqueFd() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  [[nodiscard]] int get() const noexcept { return descriptor_; }

 private:
  int descriptor_ = -1;
};

}  // namespace phantora::run
