#include "cuda/cupti/call_numbers.hpp"

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <unordered_map>

namespace phantora::cupti {
namespace {

struct Numbered {
  const char* name;
  std::uint32_t number;
};
#define PHANTORA_CALL(name, number) {#name, number},
constexpr Numbered runtime_calls[] = {
#include "cupti_runtime_calls.inc"
};
constexpr Numbered driver_calls[] = {
#include "cupti_driver_calls.inc"
};
#undef PHANTORA_CALL

/// Without the version of CUDA at its end: "cudaLaunchKernel" of "cudaLaunchKernel_v7000".
std::string_view without_version(std::string_view name) {
  const std::size_t digits = name.find_last_not_of("0123456789");
  const bool versioned = digits != std::string_view::npos && digits > 0 && name[digits] == 'v' &&
                         name[digits - 1] == '_' && name.size() - digits > 4;
  return versioned ? name.substr(0, digits - 1) : name;
}

using Numbers = std::unordered_map<std::string_view, std::uint32_t>;
const Numbers& numbers_of(rank::Interface interface) {
  const auto made = [](const auto& calls) {
    auto* const numbers = new Numbers;
    for (const Numbered& call : calls) numbers->emplace(without_version(call.name), call.number);
    return numbers;
  };
  static const Numbers* const runtime = made(runtime_calls);
  static const Numbers* const driver = made(driver_calls);
  return interface == rank::Interface::runtime ? *runtime : *driver;
}

}  // namespace

std::optional<std::uint32_t> number_of(const rank::CalledFunction& function) {
  if (function.name == nullptr || function.interface == rank::Interface::library) {
    return std::nullopt;
  }
  const Numbers& numbers = numbers_of(function.interface);
  std::string_view name = function.name;
  // Of what nvcc puts around a launch CUPTI tells the launch alone, by its public name: so a trace
  // of PyTorch 2.11 on an H200.
  if (name.starts_with("__cudaLaunchKernel")) name.remove_prefix(2);
  if (name.starts_with("__")) return std::nullopt;
  auto found = numbers.find(name);
  // The functions of a default stream of its own are the same to those who look at a trace.
  for (const std::string_view suffix : {"_ptsz", "_ptds"}) {
    if (found == numbers.end() && name.ends_with(suffix)) {
      name.remove_suffix(suffix.size());
      found = numbers.find(name);
    }
  }
  if (found == numbers.end()) return std::nullopt;
  return found->second;
}

const char* name_of(rank::Interface interface, std::uint32_t number) {
  const auto find = [&](const auto& calls) -> const char* {
    const auto* const found =
        std::find_if(std::begin(calls), std::end(calls),
                     [&](const Numbered& call) { return call.number == number; });
    return found == std::end(calls) ? nullptr : found->name;
  };
  return interface == rank::Interface::runtime ? find(runtime_calls) : find(driver_calls);
}

}  // namespace phantora::cupti
