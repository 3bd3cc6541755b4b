#include "cuda/driver/stream_attributes.hpp"

#include "cuda/driver/driver_state.hpp"

namespace phantora::driver {
namespace {

/// Those of CUstreamAttrID.
bool of_streams(CUlaunchAttributeID id) {
  return id == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW ||
         id == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY || id == CU_LAUNCH_ATTRIBUTE_PRIORITY ||
         id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP || id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN;
}

}  // namespace

bool StreamAttributes::set(const rank::Stream& stream, CUlaunchAttributeID id,
                           const CUlaunchAttributeValue& value) {
  if (!of_streams(id)) return false;
  const std::scoped_lock lock{mutex_};
  by_stream_[stream.id][id] = value;
  return true;
}

bool StreamAttributes::get(const rank::Stream& stream, CUlaunchAttributeID id,
                           CUlaunchAttributeValue& value) const {
  if (!of_streams(id)) return false;
  value = {};
  if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY) value.priority = stream.priority;
  if (id == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY) value.syncPolicy = CU_SYNC_POLICY_AUTO;
  const std::scoped_lock lock{mutex_};
  const auto stream_values = by_stream_.find(stream.id);
  if (stream_values == by_stream_.end()) return true;
  const auto found = stream_values->second.find(id);
  if (found != stream_values->second.end()) value = found->second;
  return true;
}

void StreamAttributes::copy(const rank::Stream& destination, const rank::Stream& source) {
  const std::scoped_lock lock{mutex_};
  const auto found = by_stream_.find(source.id);
  if (found == by_stream_.end()) {
    by_stream_.erase(destination.id);
  } else {
    by_stream_[destination.id] = Values{found->second};
  }
}

bool set_attribute(const rank::Stream& stream, CUlaunchAttributeID id,
                   const CUlaunchAttributeValue& value) {
  return driver_state().stream_attributes.set(stream, id, value);
}
bool get_attribute(const rank::Stream& stream, CUlaunchAttributeID id,
                   CUlaunchAttributeValue& value) {
  return driver_state().stream_attributes.get(stream, id, value);
}
void copy_attributes(const rank::Stream& destination, const rank::Stream& source) {
  driver_state().stream_attributes.copy(destination, source);
}

}  // namespace phantora::driver
