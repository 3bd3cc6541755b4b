#include "cuda/nvrtc/source.hpp"
#include "fuzz.hpp"
#include "rank/code/ptx.hpp"
#include "rank/kernels/kernel_effect.hpp"
#include "rank/kernels/kernel_name.hpp"

#include <string>

// A CUDA C++ source, whose first line is a name expression; then the same bytes as PTX.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace phantora;
  const std::string text{fuzz::text_of(data, size)};
  const auto kernels = nvrtc::read_kernels(text, {text.substr(0, text.find('\n'))});
  const auto variables = nvrtc::read_variables(text);
  const rank::Ptx made{nvrtc::to_ptx(kernels, "sm_90", variables)};
  for (const auto& variable : variables) {
    const auto* const found = made.variable(variable.name);
    fuzz::expect(found != nullptr && found->size == variable.size, "variables have their sizes");
  }
  for (const auto& kernel : kernels) {
    const rank::Signature parts = rank::signature(kernel.signature);
    (void)rank::read_jiterated(parts, {});
    (void)rank::read_reduction(parts, {});
    (void)made.find(nvrtc::entry_name(kernel.name));
  }
  const rank::Ptx read{text};
  for (const auto& [name, kernel] : read.kernels()) {
    for (const std::uint32_t bytes : kernel.parameter_sizes) {
      fuzz::expect(bytes <= 32764, "parameters are as large as a launch can pass");
    }
  }
  return 0;
}
