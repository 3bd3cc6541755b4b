#include "cuda/driver/stream_attributes.hpp"

#include <map>
#include <mutex>

namespace phantora::driver {
namespace {

using Values = std::map<CUlaunchAttributeID, CUlaunchAttributeValue>;
struct Attributes {
  std::mutex mutex{};
  std::map<std::uint64_t, Values> by_stream{};  ///< by id, which no other stream ever gets
};
Attributes& attributes() {
  static auto* const instance = new Attributes;
  return *instance;
}

/// Those of CUstreamAttrID.
bool of_streams(CUlaunchAttributeID id) {
  return id == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW ||
         id == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY || id == CU_LAUNCH_ATTRIBUTE_PRIORITY ||
         id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP || id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN;
}

}  // namespace

bool set_attribute(const rank::Stream& stream, CUlaunchAttributeID id,
                   const CUlaunchAttributeValue& value) {
  if (!of_streams(id)) return false;
  const std::scoped_lock lock{attributes().mutex};
  attributes().by_stream[stream.id][id] = value;
  return true;
}

bool get_attribute(const rank::Stream& stream, CUlaunchAttributeID id,
                   CUlaunchAttributeValue& value) {
  if (!of_streams(id)) return false;
  value = {};
  if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY) value.priority = stream.priority;
  if (id == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY) value.syncPolicy = CU_SYNC_POLICY_AUTO;
  const std::scoped_lock lock{attributes().mutex};
  const auto stream_values = attributes().by_stream.find(stream.id);
  if (stream_values == attributes().by_stream.end()) return true;
  const auto found = stream_values->second.find(id);
  if (found != stream_values->second.end()) value = found->second;
  return true;
}

void copy_attributes(const rank::Stream& destination, const rank::Stream& source) {
  const std::scoped_lock lock{attributes().mutex};
  const auto found = attributes().by_stream.find(source.id);
  if (found == attributes().by_stream.end()) {
    attributes().by_stream.erase(destination.id);
  } else {
    attributes().by_stream[destination.id] = Values{found->second};
  }
}

}  // namespace phantora::driver
