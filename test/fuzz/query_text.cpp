#include "fuzz.hpp"

#include <phantora/error.hpp>
#include <phantora/kernels/query_text.hpp>

#include <nlohmann/json.hpp>

// A kernel query as it crosses the channel.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace phantora;
  fuzz::accepts<ConfigError>("malformed kernel query", [&] {
    const std::string_view text = fuzz::text_of(data, size);
    const KernelQuery query = query_from_text(text);
    const std::string written = to_text(query);
    fuzz::expect(query_from_text(written) == query, "it is read back as it was written");
    const auto given = nlohmann::json::parse(text);
    const auto taken = nlohmann::json::parse(written);
    for (const auto& [field, value] : taken.items())
      fuzz::expect(given.at(field) == value, "no field changes as it is read", field);
  });
  return 0;
}
