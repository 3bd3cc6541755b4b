#include "fuzz.hpp"

#include <phantora/error.hpp>
#include <phantora/simulation/traces.hpp>

#include <string>

// An execution trace of two ranks, of which the second file is known. What is read can be written
// down and read again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace phantora;
  const std::string other{
      "\x07\x0a\x05"
      "0.0.4",
      8};
  const ChakraTrace trace{{std::string{fuzz::text_of(data, size)}, other}, R"({"1": [0, 1]})"};
  Workload workload;
  if (fuzz::accepts<ConfigError>("input", [&] { workload = from_chakra(trace, "input").workload; }))
    fuzz::expect(Workload::from_binary(workload.to_binary()) == workload,
                 "it is read back as it was written");
  return 0;
}
