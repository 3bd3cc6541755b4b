// A library whose neighbour is found only through its own $ORIGIN, as PyTorch's extensions find
// theirs: the hook on dlopen must not come between.
#include <dlfcn.h>

extern "C" int opens_its_neighbour() {
  void* neighbour = dlopen("libphantora_test_neighbour.so", RTLD_NOW);
  if (neighbour == nullptr) return -1;
  auto* answer = reinterpret_cast<int (*)()>(dlsym(neighbour, "neighbour_answer"));
  return answer != nullptr ? answer() : -2;
}
