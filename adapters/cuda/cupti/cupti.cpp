// CUPTI answers what it is, and that it cannot subscribe: PyTorch's profiler then records the CPU
// side alone, without a word at start-up.
#include <cstdint>

#include <cupti.h>

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

PHANTORA_EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle*, CUpti_CallbackFunc, void*) {
  return CUPTI_ERROR_NOT_SUPPORTED;
}

PHANTORA_EXPORT CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) { return CUPTI_SUCCESS; }

PHANTORA_EXPORT CUptiResult cuptiFinalize() { return CUPTI_SUCCESS; }

PHANTORA_EXPORT CUptiResult cuptiActivityFlushAll(std::uint32_t) { return CUPTI_SUCCESS; }

PHANTORA_EXPORT CUptiResult cuptiEnableDomain(std::uint32_t, CUpti_SubscriberHandle,
                                              CUpti_CallbackDomain) {
  return CUPTI_ERROR_NOT_SUPPORTED;
}

PHANTORA_EXPORT CUptiResult cuptiEnableCallback(std::uint32_t, CUpti_SubscriberHandle,
                                                CUpti_CallbackDomain, CUpti_CallbackId) {
  return CUPTI_ERROR_NOT_SUPPORTED;
}
