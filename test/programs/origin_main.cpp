// argv[1]: the library of origin_library.cpp, opened by its path.
#include <cstdio>

#include <dlfcn.h>

int main(int, char** argv) {
  void* library = dlopen(argv[1], RTLD_NOW);
  if (library == nullptr) {
    std::puts(dlerror());
    return 1;
  }
  auto* opens = reinterpret_cast<int (*)()>(dlsym(library, "opens_its_neighbour"));
  std::printf("answer %d\n", opens != nullptr ? opens() : -3);
}
