#include <phantora/phantora.hpp>

#include <cassert>
using namespace phantora;
using namespace std::chrono_literals;

int main() {
  TopologyBuilder builder;
  const auto a = builder.add_gpu("a"), b = builder.add_gpu("b"), sw = builder.add_switch("sw");
  for (const auto node : {a, b}) builder.add_duplex_link(node, sw, {400_Gbps, 500ns});
  FlowNetwork net{std::move(builder).build().view()};
  const FlowId f = net.start({.src = a, .dst = b, .size = 50'000'000_B});
  net.advance_to(never);
  assert(net.completion(f) == Time{1ms + 2 * 500ns});  // 50 MB at 50 GB/s, plus two hops
}
