#include "fuzz.hpp"

#include <phantora/error.hpp>
#include <phantora/simulation/traces.hpp>

#include <sstream>
#include <string>

// A profile of PyTorch. What is read can be written down and read again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace phantora;
  std::istringstream text{std::string{fuzz::text_of(data, size)}};
  Workload workload;
  if (fuzz::accepts<ConfigError>("input: ",
                                 [&] { workload = read_kineto(text, "input").workload; }))
    fuzz::expect(Workload::from_binary(workload.to_binary()) == workload,
                 "it is read back as it was written");
  return 0;
}
