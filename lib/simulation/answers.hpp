#pragma once

#include "simulation/markers.hpp"

#include <phantora/simulation/session.hpp>

#include <algorithm>
#include <compare>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace phantora::detail {

/// A call that blocks until a marker has completed, or a query that asks whether it has.
struct Request {
  ProcessIndex process = 0;
  std::uint32_t thread = 0;
  Time clock{};
  MarkerId marker{};
  bool query = false;
  bool held_up = false;  ///< its marker knows of it
};

/// A query, in the order in which they are answered where nothing else can happen.
struct Asked {
  Time clock{};
  ProcessIndex process = 0;
  std::uint32_t thread = 0;
  std::uint64_t request = 0;
  auto operator<=>(const Asked&) const = default;
};

/// The calls that wait for an answer, and which of them have one.
class Answers {
 public:
  explicit Answers(Markers& markers) : markers_{markers} {}

  void ask(const Request& request) {
    requests_.emplace(++last_, request);
    if (request.query) queries_.insert({request.clock, request.process, request.thread, last_});
    answerable_.push_back(last_);
  }
  /// The marker that has held these up has completed.
  void look_again(const std::vector<std::uint64_t>& requests) {
    answerable_.insert(answerable_.end(), requests.begin(), requests.end());
  }

  /// By when they were made.
  [[nodiscard]] const std::map<std::uint64_t, Request>& requests() const { return requests_; }
  /// By clock.
  [[nodiscard]] const std::set<Asked>& queries() const { return queries_; }

  /// Takes out the requests whose marker is known.
  std::vector<Answer> collect() {
    return answer(std::exchange(answerable_, {}), [](const Request&) { return false; });
  }
  /// And queries about the rest whose device `settled` up to their clock.
  template <class Settled>
  std::vector<Answer> collect_settled(Settled settled) {
    std::vector<std::uint64_t> requests = std::exchange(answerable_, {});
    for (const Asked& query : queries_) requests.push_back(query.request);
    return answer(std::move(requests), settled);
  }
  /// Answers the first query: not yet.
  Answer deny_first() {
    const Asked query = *queries_.begin();
    forget(requests_.find(query.request));
    return {query.process, query.thread, query.clock, false};
  }
  /// Keeps all but the first answer for the next collection.
  void keep_all_but_first(std::vector<Answer>& answers) {
    for (std::size_t i = 1; i < answers.size(); ++i) kept_.push_back(answers[i]);
    if (answers.size() > 1) answers.resize(1);
  }

 private:
  /// In the order in which they were made.
  template <class Settled>
  std::vector<Answer> answer(std::vector<std::uint64_t> requests, Settled settled) {
    std::vector<Answer> answers = std::exchange(kept_, {});
    std::sort(requests.begin(), requests.end());
    requests.erase(std::unique(requests.begin(), requests.end()), requests.end());
    for (const std::uint64_t id : requests) {
      const auto found = requests_.find(id);
      if (found == requests_.end()) continue;  // deny_first() has answered it
      Request& request = found->second;
      MarkerState* const marker = markers_.find(request.marker);
      // Nobody recorded it, or it was dropped after completion: CUDA calls that done.
      const bool known = marker == nullptr || marker->completed.has_value();
      const Time completed = known && marker != nullptr ? *marker->completed : Time{};
      if (!known && !(request.query && settled(request))) {
        if (!std::exchange(request.held_up, true)) marker->requests.push_back(id);
        continue;
      }
      const bool done = known && (!request.query || completed <= request.clock);
      const Time clock = request.query ? request.clock : std::max(completed, request.clock);
      answers.push_back({request.process, request.thread, clock, done});
      forget(found);
    }
    return answers;
  }

  void forget(std::map<std::uint64_t, Request>::iterator found) {
    const auto& [id, request] = *found;
    if (request.query) queries_.erase({request.clock, request.process, request.thread, id});
    if (request.held_up)
      if (MarkerState* marker = markers_.find(request.marker)) std::erase(marker->requests, id);
    requests_.erase(found);
  }

  Markers& markers_;
  std::map<std::uint64_t, Request> requests_{};
  std::uint64_t last_ = 0;
  std::set<Asked> queries_{};                ///< those of the requests that ask only
  std::vector<std::uint64_t> answerable_{};  ///< of these: new, or their marker has completed
  std::vector<Answer> kept_{};
};

}  // namespace phantora::detail
