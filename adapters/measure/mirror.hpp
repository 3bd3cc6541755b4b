#pragma once

#include "measure/handles.hpp"
#include "measure/inside.hpp"
#include "measure/libraries.hpp"
#include "measure/timer.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <type_traits>

/// Entry points in front of the real ones: each tells the keys what the program calls, and has the
/// real call timed under what the keys say of it.
namespace phantora::measure {

/// A name as a template's argument.
template <std::size_t N>
struct Name {
  char text[N];
  constexpr Name(const char (&literal)[N]) {  // NOLINT(google-explicit-constructor)
    std::copy_n(literal, N, text);
  }
};

template <Library library, Name name, class F>
F* real() {
  static F* const found = reinterpret_cast<F*>(real_function(library, name.text));
  return found;
}
/// nullptr if the keys know of no such function.
template <Name name, class F>
F* keyed() {
  static F* const found = reinterpret_cast<F*>(keys_function_named(name.text));
  return found;
}

/// Runs `call` and times it under what the keys were asked meanwhile by `describe`.
template <class Describe, class Call>
auto timed(Describe&& describe, Call&& call) {
  if (depth > 0 || keys() == nullptr) return call();
  const Inside inside;
  Asked asked[2];
  describe();
  const std::size_t queries = keys()->take(asked, std::size(asked));
  const Timed timing{queries, asked[0]};
  return call();
}

/// What an argument is for the keys: handles are theirs.
template <class T>
T translated(T argument) {
  if constexpr (is_handle<T>) {
    return from_address<T>(handle_for_keys(as_address(argument)));
  } else {
    return argument;
  }
}
template <class T>
inline constexpr bool makes_handle = std::is_pointer_v<T>&& is_handle<std::remove_pointer_t<T>>;

template <Library library, Name name, class F>
struct Mirror;

/// A call like any other.
template <Library library, Name name, class R, class... A>
struct Mirror<library, name, R(A...)> {
  static R call(A... arguments) {
    auto* const really = real<library, name, R(A...)>();
    auto* const for_keys = keyed<name, R(A...)>();
    if (depth > 0 || for_keys == nullptr || keys() == nullptr) return really(arguments...);
    if constexpr ((makes_handle<A> || ...)) {
      return make(really, for_keys, arguments...);
    } else {
      constexpr bool destroys =
          std::string_view{name.text}.find("Destroy") != std::string_view::npos;
      const R result =
          timed([&] { for_keys(translated(arguments)...); }, [&] { return really(arguments...); });
      if constexpr (destroys) (forget_handle(arguments), ...);
      return result;
    }
  }

 private:
  /// The handle that the program gets stands for the one that the keys made.
  static R make(R (*really)(A...), R (*for_keys)(A...), A... arguments) {
    const Inside inside;
    const R result = really(arguments...);
    if (result != R{}) return result;
    void* made = nullptr;
    const auto place = [&](auto argument) {
      using T = decltype(argument);
      if constexpr (makes_handle<T>) {
        return argument == nullptr ? argument : reinterpret_cast<T>(&made);
      } else {
        return translated(argument);
      }
    };
    for_keys(place(arguments)...);
    const auto keep = [&](auto argument) {
      if constexpr (makes_handle<decltype(argument)>) {
        if (argument != nullptr) stands_for(as_address(*argument), made);
      }
    };
    (keep(arguments), ...);
    return result;
  }
};

// The dynamic loader looks for a symbol of the version that the program was linked with, which is
// its library's name: an entry point has a name for each.
#define PHANTORA_ENTRY(library, node, name, type, function)                                        \
  extern "C" {                                                                                     \
  [[gnu::visibility("hidden")]] extern std::add_pointer_t<type> const phantora_##library##_##name; \
  [[gnu::used]] std::add_pointer_t<type> const phantora_##library##_##name = function;             \
  }                                                                                                \
  __asm__(                                                                                         \
      ".pushsection .text\n"                                                                       \
      ".globl " #name "_of_" #library                                                              \
      "\n"                                                                                         \
      ".type " #name "_of_" #library ", @function\n" #name "_of_" #library                         \
      ":\n"                                                                                        \
      "  jmp *phantora_" #library "_" #name                                                        \
      "(%rip)\n"                                                                                   \
      ".size " #name "_of_" #library ", .-" #name "_of_" #library                                  \
      "\n"                                                                                         \
      ".symver " #name "_of_" #library ", " #name "@" node                                         \
      "\n"                                                                                         \
      ".popsection");

#define PHANTORA_MIRROR_IN(library, node, name, type) \
  PHANTORA_ENTRY(                                     \
      library, node, name, type,                      \
      (&phantora::measure::Mirror<phantora::measure::Library::library, #name, type>::call))

// An entry point of the runtime, of either version: `function` is a template of its library.
#define PHANTORA_OF_RUNTIME(name, type, function)                                   \
  PHANTORA_ENTRY(cudart12, "libcudart.so.12", name, type,                           \
                 phantora::measure::function<phantora::measure::Library::cudart12>) \
  PHANTORA_ENTRY(cudart13, "libcudart.so.13", name, type,                           \
                 phantora::measure::function<phantora::measure::Library::cudart13>)

}  // namespace phantora::measure
