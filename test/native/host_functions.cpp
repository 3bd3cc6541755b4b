// Host functions take the time that they take, one after another, and may not call CUDA
// (h200/hostfunc.txt).
#include "expect.hpp"

#include <chrono>
#include <thread>

namespace {

int refused = 0;

void sleeps(void*) { std::this_thread::sleep_for(std::chrono::milliseconds{20}); }
void calls(void*) {
  void* memory = nullptr;
  refused = cudaMalloc(&memory, 16);
}

}  // namespace

int main() {
  cudaStream_t one = nullptr, other = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  WORKS(cudaStreamCreate(&one));
  WORKS(cudaStreamCreate(&other));
  WORKS(cudaEventCreate(&begin));
  WORKS(cudaEventCreate(&end));
  WORKS(cudaEventRecord(begin, one));
  WORKS(cudaLaunchHostFunc(one, sleeps, nullptr));
  WORKS(cudaLaunchHostFunc(other, sleeps, nullptr));
  WORKS(cudaStreamSynchronize(one));
  WORKS(cudaEventRecord(end, other));
  const auto before = std::chrono::steady_clock::now();
  WORKS(cudaStreamSynchronize(other));
  const std::chrono::duration<double, std::milli> waited =
      std::chrono::steady_clock::now() - before;
  EXPECT(waited.count() > 19.9 && waited.count() < 20.5);
  float ms = 0;
  WORKS(cudaEventElapsedTime(&ms, begin, end));
  EXPECT(ms > 39.9 && ms < 40.5);

  WORKS(cudaLaunchHostFunc(one, calls, nullptr));
  WORKS(cudaStreamSynchronize(one));
  EXPECT(refused == cudaErrorNotPermitted);
  return failures != 0;
}
