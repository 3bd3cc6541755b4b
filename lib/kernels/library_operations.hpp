#pragma once

#include <span>
#include <string_view>

/// The operations of NVIDIA's libraries that a query may name, and what it tells of them. Private
/// to the kernel models; README.md in this folder says what the keys mean.
namespace phantora::detail {

/// A feature, or an attribute, of an operation.
struct FeatureKey {
  std::string_view name;
  bool required = false;
  bool may_be_zero = false;
};
struct AttributeKey {
  std::string_view name;
  std::span<const std::string_view> values{};  ///< empty = any
};

struct LibraryOperation {
  std::string_view name;
  std::span<const FeatureKey> features;
  std::span<const AttributeKey> attributes;
  /// The attribute that says which units do the arithmetic; empty if there is none.
  std::string_view type_key{};
};

std::span<const LibraryOperation> library_operations();

/// Null if `name` is none of them.
const LibraryOperation* library_operation(std::string_view name);

}  // namespace phantora::detail
