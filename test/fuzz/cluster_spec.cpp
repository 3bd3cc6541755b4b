#include "check_cluster.hpp"
#include "fuzz.hpp"

#include <phantora/error.hpp>

// "h200:2x8/fat_tree,k=8": what phantora run --cluster takes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace phantora;
  const std::string_view text = fuzz::text_of(data, size);
  if (text.ends_with(".toml") || fuzz::may_be_large(text, 2)) return -1;
  fuzz::accepts<ConfigError>(text.substr(0, text.find('\0')), [&] {
    const Cluster cluster = parse_cluster(text);
    fuzz::expect(cluster.name == text, "the cluster is called as it was asked for");
    fuzz::check(cluster);
  });
  return 0;
}
