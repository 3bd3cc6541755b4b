// A native program that was linked with a later release of CUDA.
#include <cstdio>

extern "C" long call_versioned();
extern "C" long call_unversioned();
extern "C" const char* call_text();

int main() { std::printf("%ld %ld %s\n", call_versioned(), call_unversioned(), call_text()); }
