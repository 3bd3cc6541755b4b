#pragma once

#include <phantora/subscription.hpp>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace phantora {

/// Who watches something, in the order in which they came. Any of them may subscribe another or end
/// a subscription, its own too, while it is being told.
template <class Observer>
class ObserverList {
 public:
  ObserverList() : state_{std::make_shared<State>()} {}

  [[nodiscard]] Subscription subscribe(Observer& observer) {
    state_->entries.push_back(std::make_unique<Observer*>(&observer));
    return Subscription{
        std::shared_ptr<void>{nullptr, [list = std::weak_ptr{state_}, it = &observer](void*) {
                                if (const auto alive = list.lock()) alive->remove(it);
                              }}};
  }

  [[nodiscard]] bool empty() const noexcept { return state_->entries.empty(); }

  /// Calls tell(observer) for each, where observer is a pointer that becomes null when that one's
  /// subscription ends. Those who subscribe meanwhile are told from the next time on.
  template <class Tell>
  void for_each(Tell tell) {
    if (empty()) return;
    const std::shared_ptr<State> state = state_;
    const Telling telling{*state};
    const std::size_t count = state->entries.size();
    for (std::size_t i = 0; i < count; ++i) {
      Observer* const& observer = *state->entries[i];
      if (observer != nullptr) tell(observer);
    }
  }

 private:
  struct State {
    // Each at a place of its own: references stay valid when others are added.
    std::vector<std::unique_ptr<Observer*>> entries{};
    int telling = 0;
    bool any_gone = false;  ///< while they are being told

    void remove(Observer* observer) {
      const auto found = std::find_if(entries.begin(), entries.end(),
                                      [&](const auto& entry) { return *entry == observer; });
      if (found == entries.end()) return;
      if (telling > 0) {
        **found = nullptr;
        any_gone = true;
      } else {
        entries.erase(found);
      }
    }
  };
  struct Telling {
    explicit Telling(State& of) : state{of} { ++state.telling; }
    Telling(const Telling&) = delete;
    Telling& operator=(const Telling&) = delete;
    ~Telling() {
      if (--state.telling > 0 || !std::exchange(state.any_gone, false)) return;
      std::erase_if(state.entries, [](const auto& entry) { return *entry == nullptr; });
    }
    State& state;
  };
  std::shared_ptr<State> state_;
};

}  // namespace phantora
