#include "kernels/library_operations.hpp"

#include <phantora/error.hpp>
#include <phantora/kernels/kernel_check.hpp>
#include <phantora/kernels/kernel_work.hpp>
#include <phantora/kernels/roofline.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace phantora {

namespace {

using detail::AttributeKey;
using detail::FeatureKey;
using detail::LibraryOperation;

/// What a launch, or a kernel of one's own, may tell.
constexpr std::array<FeatureKey, 52> kernel_features{{{"numel"},
                                                      {"lines"},
                                                      {"rows"},
                                                      {"cols"},
                                                      {"dims"},
                                                      {"table"},
                                                      {"run"},
                                                      {"m"},
                                                      {"n"},
                                                      {"k"},
                                                      {"batch"},
                                                      {"arrays"},
                                                      {"b"},
                                                      {"h"},
                                                      {"h_kv"},
                                                      {"s_q"},
                                                      {"s_kv"},
                                                      {"d"},
                                                      {"d_v"},
                                                      {"causal"},
                                                      {"bias"},
                                                      {"splits"},
                                                      {"warp_instructions"},
                                                      {"warp_cycles"},
                                                      {"longest_cycles"},
                                                      {"warm_cycles"},
                                                      {"stack_waits"},
                                                      {"uneven_ends"},
                                                      {"uneven_work"},
                                                      {"alu"},
                                                      {"fma"},
                                                      {"double"},
                                                      {"special"},
                                                      {"l1_passes"},
                                                      {"l2_bytes"},
                                                      {"tensor_half"},
                                                      {"tensor_tf32"},
                                                      {"tensor_8_bits"},
                                                      {"tensor_fp64"},
                                                      {"mma_sync"},
                                                      {"atomics"},
                                                      {"atomic_sectors"},
                                                      {"hot_atomics"},
                                                      {"local_bytes"},
                                                      {"partial_sectors"},
                                                      {"partial_lines"},
                                                      {"random_bytes"},
                                                      {"guessed"},
                                                      {"roles"},
                                                      {"registers"},
                                                      {"shared"},
                                                      {"local"}}};

[[noreturn]] void fail(const KernelQuery& query, const std::string& what) {
  throw CostError{"kernel '" + query.name.substr(0, 200) + "': " + what};
}

[[noreturn]] void fail(const KernelQuery& query, std::string_view kind, std::string_view key,
                       const std::string& expected, const std::string& got) {
  fail(query,
       std::string{kind} + " '" + std::string{key} + "': expected " + expected + ", got " + got);
}

template <class Range, class Name>
std::string listed(const Range& range, Name name) {
  std::string list;
  for (const auto& entry : range) {
    if (!list.empty()) list += ", ";
    list += name(entry);
  }
  return list.empty() ? "none" : list;
}

std::string text(double value) {
  std::array<char, 32> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return {digits.data(), end};
}

bool is_amount(double value) { return std::isfinite(value) && value >= 0.0; }

void check_features(const KernelQuery& query, std::span<const FeatureKey> keys) {
  for (const auto& [name, value] : query.features) {
    const auto key = std::ranges::find(keys, name, &FeatureKey::name);
    if (key == keys.end()) {
      fail(query, "feature", name, "one of " + listed(keys, [](auto& k) { return k.name; }),
           text(value));
    }
    if (!is_amount(value) || (value == 0.0 && !key->may_be_zero)) {
      fail(query, "feature", name, key->may_be_zero ? "a size >= 0" : "a size > 0", text(value));
    }
  }
  for (const FeatureKey& key : keys) {
    if (key.required && !query.features.contains(key.name)) {
      fail(query, "feature", key.name, "a size", "none");
    }
  }
}

void check_library_operation(const KernelQuery& query, const LibraryOperation& operation) {
  check_features(query, operation.features);
  for (const auto& [name, value] : query.attributes) {
    const auto key = std::ranges::find(operation.attributes, name, &AttributeKey::name);
    if (key == operation.attributes.end()) {
      fail(query, "attribute", name,
           "one of " + listed(operation.attributes, [](auto& k) { return k.name; }), value);
    }
    if (!key->values.empty() && std::ranges::find(key->values, value) == key->values.end()) {
      fail(query, "attribute", name,
           "one of " + listed(key->values, [](auto word) { return word; }), value);
    }
  }
  const bool sized = query.bytes > 0.0 || !query.features.empty();
  if (!sized) fail(query, "field", "bytes", "a size > 0", text(query.bytes));
  if (query.arithmetic != Arithmetic::none) {
    fail(query, "field", "arithmetic", "none, since the operation's types tell",
         std::string{to_string(query.arithmetic)});
  }
}

/// A launch, or a kernel of one's own.
void check_kernel(const KernelQuery& query) {
  const bool told = query.bytes > 0.0 || query.flops > 0.0;
  // Where the work is told and no launch's parameters were read, features are but a description.
  if (query.grid || !told) {
    const bool numbered = query.features.contains("numel") || query.features.contains("s_q") ||
                          (query.features.contains("rows") && query.features.contains("cols"));
    if (!query.grid && !numbered) {
      fail(query,
           "expected one of the operations " +
               listed(detail::library_operations(), [](auto& o) { return o.name; }) +
               ", or a kernel that tells its grid, bytes, flops, numel, or rows and cols; got the "
               "features " +
               listed(query.features, [](auto& feature) { return feature.first; }));
    }
    check_features(query, kernel_features);
  }
  if (query.arithmetic != Arithmetic::none && query.flops <= 0.0) {
    fail(query, "field", "flops", "how many the arithmetic does", text(query.flops));
  }
}

}  // namespace

void check(const KernelQuery& query, const GpuModel& gpu) {
  if (!query.grid && query.name.empty()) fail(query, "field", "name", "a kernel's name", "none");
  for (const auto& [field, value] : {std::pair{"bytes", query.bytes}, {"flops", query.flops}}) {
    if (!is_amount(value)) fail(query, "field", field, "a number >= 0", text(value));
  }
  for (const auto& [field, value] : {std::pair{"operands.read", query.operands.read},
                                     {"operands.written", query.operands.written},
                                     {"operands.cold", query.operands.cold}}) {
    if (!is_amount(value)) fail(query, "field", field, "a number >= 0", text(value));
  }
  if (query.operands.cold > query.operands.read)
    fail(query, "field", "operands.cold", "no more than operands.read", text(query.operands.cold));
  for (const auto& [name, value] : query.features) {
    if (!is_amount(value)) fail(query, "feature", name, "a number >= 0", text(value));
  }
  for (const auto& [name, value] : query.by_data) {
    if (name != "bytes" &&
        std::ranges::find(kernel_features, name, &FeatureKey::name) == kernel_features.end())
      fail(query, "field", "by_data." + name,
           "bytes or one of " + listed(kernel_features, [](auto& k) { return k.name; }),
           text(value));
    if (!is_amount(value)) fail(query, "field", "by_data." + name, "a number >= 0", text(value));
  }
  if (query.grid && query.grid->count() < 1.0) {
    fail(query, "field", "grid", "at least one block", text(query.grid->count()));
  }
  if (query.block.count() < 1.0) fail(query, "field", "block", "at least one thread", "0");

  const LibraryOperation* operation = query.grid ? nullptr : detail::library_operation(query.name);
  if (operation) {
    check_library_operation(query, *operation);
  } else {
    check_kernel(query);
  }
  const Arithmetic arithmetic = describe(query).arithmetic;
  if (peak_rate(gpu, arithmetic) <= FlopRate{}) {
    const bool told = query.arithmetic != Arithmetic::none;
    const std::string_view type_key = operation ? operation->type_key : "type";
    fail(query, told ? "field" : "attribute", told ? "arithmetic" : type_key,
         "a type that the " + gpu.name + " computes with", std::string{to_string(arithmetic)});
  }
}

}  // namespace phantora
