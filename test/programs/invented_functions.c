/* What the libraries of a later release define, to link with. */
long cudaInventedCall(int a) { return a; }
long ncclInventedCall(void* a) { return a == 0; }
const char* ncclInventedGetErrorString(int a) { return a ? "a" : "b"; }
int nvrtcInventedCall(int a) { return a; }
