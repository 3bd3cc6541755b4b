#include "fuzz.hpp"

#include <phantora/error.hpp>
#include <phantora/simulation/workload.hpp>

// A workload in either of its written forms.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace phantora;
  const std::string_view text = fuzz::text_of(data, size);
  Workload json, binary;
  if (fuzz::accepts<ConfigError>("input: ", [&] { json = Workload::from_json(text, "input"); }))
    fuzz::expect(Workload::from_json(json.to_json()) == json, "it is read back as it was written");
  if (fuzz::accepts<ConfigError>("input: ", [&] { binary = Workload::from_binary(text, "input"); }))
    fuzz::expect(Workload::from_binary(binary.to_binary()) == binary,
                 "it is read back as it was written");
  return 0;
}
