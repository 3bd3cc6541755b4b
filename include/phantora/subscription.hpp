#pragma once

#include <memory>
#include <utility>

namespace phantora {

/// Ends a subscription when destroyed, also while the observer is being told. The observer has to
/// outlive it; what is observed need not.
class Subscription {
 public:
  Subscription() = default;
  Subscription(Subscription&&) noexcept = default;
  Subscription& operator=(Subscription&&) noexcept = default;
  /// @param token  what keeps the observer on the list of those who are told.
  explicit Subscription(std::shared_ptr<void> token) : token_{std::move(token)} {}

 private:
  std::shared_ptr<void> token_;
};

}  // namespace phantora
