#include "cuda/cudnn/plan_text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace phantora::cudnn {
namespace {

using Json = nlohmann::json;

/// Says that a text is ours, and in which form.
constexpr int version = 1;

/// Descriptors by the number under which the text names them: each behind those that it refers to.
class Writer {
 public:
  std::size_t number_of(const Reference& descriptor) {
    if (const auto found = numbers_.find(descriptor.get()); found != numbers_.end())
      return found->second;
    Json attributes = Json::array();
    for (const auto& [name, attribute] : descriptor->attributes) {
      if (attribute.type == CUDNN_TYPE_HANDLE) continue;  // of this process
      attributes.push_back(written(name, attribute));
    }
    written_.push_back({{"type", static_cast<int>(descriptor->type)},
                        {"tried", descriptor->tried},
                        {"attributes", std::move(attributes)}});
    const std::size_t number = written_.size() - 1;
    numbers_.emplace(descriptor.get(), number);
    return number;
  }
  Json descriptors() && { return std::move(written_); }

 private:
  Json written(cudnnBackendAttributeName_t name, const Attribute& attribute) {
    Json values = Json::array();
    for (const std::byte byte : attribute.bytes) values.push_back(std::to_integer<int>(byte));
    for (const Reference& referred : attribute.descriptors) {
      values.push_back(number_of(referred));
    }
    return {{"name", static_cast<int>(name)},
            {"type", static_cast<int>(attribute.type)},
            {"count", attribute.count},
            {"values", std::move(values)}};
  }

  Json written_ = Json::array();
  std::map<const Descriptor*, std::size_t> numbers_{};
};

/// nullopt if it refers to a descriptor that has not come yet, or is not as long as it says.
std::optional<Attribute> attribute_of(const Json& text, const std::vector<Reference>& before) {
  Attribute attribute{static_cast<cudnnBackendAttributeType_t>(text.at("type").get<int>()),
                      text.at("count").get<std::int64_t>(),
                      {},
                      {}};
  const bool refers = attribute.type == CUDNN_TYPE_BACKEND_DESCRIPTOR;
  for (const std::size_t value : text.at("values").get<std::vector<std::size_t>>()) {
    if (value >= (refers ? before.size() : 256)) return std::nullopt;
    if (refers) {
      attribute.descriptors.push_back(before[value]);
    } else {
      attribute.bytes.push_back(static_cast<std::byte>(value));
    }
  }
  const std::size_t length =
      refers ? attribute.descriptors.size()
             : attribute.bytes.size() / std::max<std::size_t>(1, size_of(attribute.type));
  if (attribute.count < 0 || length != static_cast<std::size_t>(attribute.count)) {
    return std::nullopt;
  }
  return attribute;
}

}  // namespace

std::string text_of(const Reference& configuration) {
  Writer writer;
  const std::size_t number = writer.number_of(configuration);
  return Json{{"phantora_plan", version},
              {"configuration", number},
              {"descriptors", std::move(writer).descriptors()}}
      .dump();
}

Reference configuration_of(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return nullptr;
  try {
    if (json.at("phantora_plan") != version) return nullptr;
    std::vector<Reference> descriptors;
    for (const Json& one : json.at("descriptors")) {
      auto made = std::make_shared<Descriptor>();
      made->type = static_cast<cudnnBackendDescriptorType_t>(one.at("type").get<int>());
      made->tried = one.at("tried").get<bool>();
      made->finalized = true;
      for (const Json& text_of_one : one.at("attributes")) {
        const auto attribute = attribute_of(text_of_one, descriptors);
        if (!attribute) return nullptr;
        const auto name =
            static_cast<cudnnBackendAttributeName_t>(text_of_one.at("name").get<int>());
        made->attributes[name] = *attribute;
      }
      descriptors.push_back(std::move(made));
    }
    const auto number = json.at("configuration").get<std::size_t>();
    return number < descriptors.size() ? descriptors[number] : nullptr;
  } catch (const Json::exception&) {
    return nullptr;
  }
}

}  // namespace phantora::cudnn
