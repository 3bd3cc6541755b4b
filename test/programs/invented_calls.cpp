// Calls functions of NVIDIA's libraries that no release has: what a program built for a later one
// looks like. Linked with libraries of the same names that have them.
extern "C" long cudaInventedCall(int);
extern "C" long ncclInventedCall(void*);
extern "C" const char* ncclInventedGetErrorString(int);

extern "C" __attribute__((visibility("default"))) long call_versioned() {
  return cudaInventedCall(1);
}
extern "C" __attribute__((visibility("default"))) long call_unversioned() {
  return ncclInventedCall(nullptr);
}
extern "C" __attribute__((visibility("default"))) const char* call_text() {
  return ncclInventedGetErrorString(2);
}
