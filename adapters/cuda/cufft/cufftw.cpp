// cuFFTW: FFTW's calls on data of the host. No plan is made, as FFTW makes none where it cannot
// (the generated stubs); memory is the host's.
#include <cstdlib>

#define PHANTORA_EXPORT extern "C" __attribute__((visibility("default")))

PHANTORA_EXPORT void* fftw_malloc(std::size_t size) { return std::malloc(size); }
PHANTORA_EXPORT void* fftwf_malloc(std::size_t size) { return std::malloc(size); }
PHANTORA_EXPORT void fftw_free(void* memory) { std::free(memory); }
PHANTORA_EXPORT void fftwf_free(void* memory) { std::free(memory); }
PHANTORA_EXPORT void fftw_cleanup() {}
PHANTORA_EXPORT void fftwf_cleanup() {}
PHANTORA_EXPORT void fftw_destroy_plan(void*) {}
PHANTORA_EXPORT void fftwf_destroy_plan(void*) {}
