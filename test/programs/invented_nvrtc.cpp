// Calls a function of a library that stands in for nobody's: NVIDIA's NVRTC is used where it is.
extern "C" int nvrtcInventedCall(int);

extern "C" __attribute__((visibility("default"))) int call_nvrtc(int a) {
  return nvrtcInventedCall(a);
}
