#include "fuzz.hpp"

#include <phantora/error.hpp>
#include <phantora/simulation/host_profile.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace phantora;
  const std::string_view text = fuzz::text_of(data, size);
  fuzz::accepts<ConfigError>("host.json", [&] {
    const HostProfile host = parse_host_profile(text, "host.json");
    fuzz::expect(parse_host_profile(to_json(host)) == host, "it is read as it is written");
    const HostSlowness slow = slowness(host, host_presets().front());
    fuzz::expect(slow.work > 0 && slow.calls > 0, "work takes time");
  });
  return 0;
}
