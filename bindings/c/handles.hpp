#pragma once

#include "c/call.hpp"

#include <phantora/simulation/simulation.hpp>

#include <memory>

// What the handles of phantora.h are.
struct phantora_kernel {
  phantora::Kernel kernel;
};
struct phantora_workload {
  phantora::Workload workload;
};
struct phantora_simulation {
  phantora::Simulation simulation;
};
struct phantora_report {
  phantora::Report report;
  phantora::Simulation simulation;  ///< copies share one: it has the names of links
};
struct phantora_jobs {
  phantora::Simulation simulation;
  phantora::Jobs jobs;
};

namespace phantora::bindings {

/// Gives the caller a handle of its own.
template <class Handle, class... Parts>
void create(Handle** out, Parts&&... parts) {
  expect(out, "out");
  *out = new Handle{std::forward<Parts>(parts)...};
}
template <class Handle>
void destroy(Handle** handle) noexcept {
  if (handle == nullptr) return;
  delete *handle;
  *handle = nullptr;
}

/// A list of ours from an array of the caller's, which is NULL only if it is empty.
template <class T>
std::span<const T> list(const T* first, std::size_t count, std::string_view name) {
  if (count > 0) expect(first, name);
  return {first, count};
}

}  // namespace phantora::bindings
