extern "C" int call_static_runtime(int megabytes);
int main() { return call_static_runtime(1); }
