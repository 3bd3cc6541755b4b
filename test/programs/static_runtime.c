/* What a CUDA runtime that is linked into a program looks like to the dynamic linker: functions that no
 * other file can call, which look for the driver by themselves. Here they return what no runtime does. */
#include <dlfcn.h>
#include <stddef.h>

#pragma GCC visibility push(hidden)

enum { answer_of_its_own = 4711 };
/* NVIDIA's are seldom as short as these would be. */
#define LONG_ENOUGH __asm__ volatile(".skip 16, 0x90")

int cudaRuntimeGetVersion(int* version) {
  LONG_ENOUGH;
  *version = dlsym(NULL, "no such driver") ? 0 : answer_of_its_own;
  return answer_of_its_own;
}
int cudaMalloc(void** pointer, size_t size) {
  LONG_ENOUGH;
  *pointer = NULL;
  return size ? answer_of_its_own : 0;
}
int cudaFree(void* pointer) {
  LONG_ENOUGH;
  return pointer ? 0 : answer_of_its_own;
}
void** __cudaRegisterFatBinary(void* binary) { return binary; }
#ifdef CUDA_12
int cudaGetDeviceProperties_v2(void* properties, int device) { return properties ? device : 0; }
#endif
#ifdef CUDA_11
int cudaBindTexture(void) { return 0; }
#endif
