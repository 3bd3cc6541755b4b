#pragma once

#include "rank/kernels/families/tensor_info.hpp"
#include "rank/kernels/kernel_effect.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

namespace phantora::rank {

/// What a cub kernel reads from: a pointer, or one of thrust's or (with CUDA 12) cub's iterators
/// around a pointer or a number, read from its type's name.
struct InputIterator {
  enum class Source : std::uint8_t { memory, counting, constant };
  Source source = Source::memory;
  std::size_t element = 0;          ///< bytes in memory
  std::optional<ElementType> type;  ///< of the elements in memory; nullopt: only moved
  bool to_flag = false;             ///< yields 1 where the element is not zero, else 0
  std::size_t pointer_at = 0;       ///< bytes into the parameter

  static std::optional<InputIterator> named(std::string_view text) {
    InputIterator iterator;
    if (text.ends_with('*')) {
      std::string_view type = text.substr(0, text.size() - 1);
      if (type.ends_with(" const")) type.remove_suffix(std::string_view{" const"}.size());
      iterator.element = moved_bytes(type);
      iterator.type = element_type_named(type);
      return iterator.element == 0 ? std::nullopt : std::optional{iterator};
    }
    const TemplateName name = template_name(text);
    const std::string_view kind = unqualified(name.name);
    if (name.arguments.empty()) return std::nullopt;
    const bool counts = kind == "counting_iterator" || kind == "CountingInputIterator";
    if (counts || kind == "constant_iterator" || kind == "ConstantInputIterator") {
      iterator.source = counts ? Source::counting : Source::constant;
      iterator.type = element_type_named(name.arguments[0]);
      if (!iterator.type) return std::nullopt;
      iterator.element = size_of(*iterator.type);
      return iterator;
    }
    // <function, iterator, ...>, or cub's <value, function, iterator, ...>.
    const std::size_t at = kind == "TransformInputIterator" ? 1 : 0;
    if ((kind != "transform_iterator" && at == 0) || name.arguments.size() < at + 2) {
      return std::nullopt;
    }
    const std::string_view function = unqualified(template_name(name.arguments[at]).name);
    const auto inner = named(name.arguments[at + 1]);
    constexpr std::string_view flags[] = {"NonZeroOp", "CountMaskOp", "LoadBoolOp",
                                          "MapNumberOfTrueValues"};
    for (const std::string_view flag : flags) {
      if (inner && function == flag && inner->source == Source::memory) {
        iterator = *inner;
        iterator.to_flag = true;
        iterator.pointer_at = at == 1 ? sizeof(void*) : 0;  // cub's has the function before it
        return iterator;
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] std::byte* pointer(const Arguments& arguments, std::size_t parameter) const {
    return arguments.pointer(parameter, pointer_at);
  }
  /// Bytes read for `count` elements.
  [[nodiscard]] std::size_t extent(std::size_t count) const {
    return source == Source::memory ? count * element : 0;
  }
  /// Element `index`; `number` is what a counting or constant iterator holds.
  [[nodiscard]] std::optional<Value> load(const Image& image, std::size_t index,
                                          std::int64_t number) const {
    if (source == Source::counting) return Value{number + static_cast<std::int64_t>(index)};
    if (source == Source::constant) return Value{number};
    const auto kind = type ? type : opaque_type(element);
    if (!kind) return std::nullopt;
    auto value = image.load(index * element, *kind);
    if (value && to_flag) value = Value{value->to_bool() ? 1 : 0};
    return value;
  }
};

}  // namespace phantora::rank
