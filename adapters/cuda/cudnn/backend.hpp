#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <cudnn.h>

/// The descriptors of cuDNN's backend API: typed bags of attributes that refer to one another.
namespace phantora::cudnn {

struct Descriptor;
/// Shared: a graph stays alive in a plan after the program destroyed its descriptors.
using Reference = std::shared_ptr<Descriptor>;

struct Attribute {
  cudnnBackendAttributeType_t type{};
  std::int64_t count = 0;
  std::vector<std::byte> bytes{};        ///< of plain types
  std::vector<Reference> descriptors{};  ///< of CUDNN_TYPE_BACKEND_DESCRIPTOR
};

struct Descriptor {
  cudnnBackendDescriptorType_t type{};
  bool finalized = false;
  bool tried = false;  ///< of a graph: a program has tried its engines out (Engine::widest)
  std::map<cudnnBackendAttributeName_t, Attribute> attributes{};

  /// First element of a plain attribute; nullopt if it was not set.
  template <class T>
  std::optional<T> get(cudnnBackendAttributeName_t name) const;
  /// All elements of a plain attribute.
  template <class T>
  std::vector<T> list(cudnnBackendAttributeName_t name) const;
  /// The descriptor that an attribute refers to; null if it was not set.
  Reference reference(cudnnBackendAttributeName_t name) const;
  std::vector<Reference> references(cudnnBackendAttributeName_t name) const;

  template <class T>
  void put(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t element,
           const std::vector<T>& values);
  void put(cudnnBackendAttributeName_t name, std::vector<Reference> values);
};

/// Bytes of one element of an attribute type; 0 for one that we do not know.
std::size_t size_of(cudnnBackendAttributeType_t type) noexcept;

}  // namespace phantora::cudnn

#include <cstring>

namespace phantora::cudnn {

template <class T>
std::vector<T> Descriptor::list(cudnnBackendAttributeName_t name) const {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return {};
  std::vector<T> values(found->second.bytes.size() / sizeof(T));
  if (!values.empty()) {
    std::memcpy(values.data(), found->second.bytes.data(), values.size() * sizeof(T));
  }
  return values;
}

template <class T>
std::optional<T> Descriptor::get(cudnnBackendAttributeName_t name) const {
  const std::vector<T> values = list<T>(name);
  if (values.empty()) return std::nullopt;
  return values.front();
}

template <class T>
void Descriptor::put(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t element,
                     const std::vector<T>& values) {
  Attribute& attribute = attributes[name];
  attribute = {element, static_cast<std::int64_t>(values.size()), {}, {}};
  const std::span<const std::byte> bytes = std::as_bytes(std::span{values});
  attribute.bytes.assign(bytes.begin(), bytes.end());
}

}  // namespace phantora::cudnn
