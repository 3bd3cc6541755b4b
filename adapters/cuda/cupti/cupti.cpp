// What CUPTI is, and its callbacks. What it records is in activity.cpp.
#include "cuda/cupti/call_numbers.hpp"

#include <cstdint>

#include <cupti.h>

using phantora::rank::Interface;

#define PHANTORA_EXPORT extern "C" __attribute__((visibility("default")))

PHANTORA_EXPORT CUptiResult cuptiGetVersion(std::uint32_t* version) {
  if (!version) return CUPTI_ERROR_INVALID_PARAMETER;
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}

PHANTORA_EXPORT CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  if (!text) return CUPTI_ERROR_INVALID_PARAMETER;
  switch (result) {
#define PHANTORA_RESULT(name) \
  case name:                  \
    *text = #name;            \
    return CUPTI_SUCCESS;
#include "cuda/cupti/results.inc"
#undef PHANTORA_RESULT
    default:
      return CUPTI_ERROR_INVALID_PARAMETER;
  }
}

PHANTORA_EXPORT CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, std::uint32_t id,
                                                 const char** name) {
  if (!name) return CUPTI_ERROR_INVALID_PARAMETER;
  if (domain != CUPTI_CB_DOMAIN_RUNTIME_API && domain != CUPTI_CB_DOMAIN_DRIVER_API) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  *name = phantora::cupti::name_of(
      domain == CUPTI_CB_DOMAIN_RUNTIME_API ? Interface::runtime : Interface::driver, id);
  return *name ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

// Whoever subscribes is not called, and enabling a callback says so: of calls, whose arguments we
// would have to hand over, and of synchronisations. What is told of resources, contexts and streams
// that come and go, is accepted and does not come: PyTorch 2.11 records nothing without it,
// and uses it for what counts the events of a GPU alone.

PHANTORA_EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc,
                                           void*) {
  if (!subscriber) return CUPTI_ERROR_INVALID_PARAMETER;
  static char only;
  *subscriber = reinterpret_cast<CUpti_SubscriberHandle>(&only);
  return CUPTI_SUCCESS;
}

PHANTORA_EXPORT CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) { return CUPTI_SUCCESS; }

PHANTORA_EXPORT CUptiResult cuptiFinalize() { return CUPTI_SUCCESS; }

PHANTORA_EXPORT CUptiResult cuptiEnableDomain(std::uint32_t enable, CUpti_SubscriberHandle,
                                              CUpti_CallbackDomain domain) {
  const bool possible = enable == 0 || domain == CUPTI_CB_DOMAIN_RESOURCE;
  return possible ? CUPTI_SUCCESS : CUPTI_ERROR_NOT_SUPPORTED;
}

PHANTORA_EXPORT CUptiResult cuptiEnableCallback(std::uint32_t enable,
                                                CUpti_SubscriberHandle subscriber,
                                                CUpti_CallbackDomain domain, CUpti_CallbackId) {
  return cuptiEnableDomain(enable, subscriber, domain);
}
