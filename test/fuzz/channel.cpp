#include "channel_fake.hpp"
#include "fuzz.hpp"

#include <phantora/kernels/roofline.hpp>

#include <string>

#include <unistd.h>

// What two ranks write for the engine. Each piece: who, how many bytes, and those, a Record and its
// payload; or, of no bytes, a change to the shared memory beside the ring.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace phantora;
  static const Cluster cluster = parse_cluster("h200:1x2");
  static const GpuModel gpu = gpu_model("h200");
  static const KernelCostModel costs = Roofline{gpu};
  static const std::string name = "phantora-fuzz-" + std::to_string(getpid());
  Session session{cluster, gpu, costs};
  run::Engine engine{cluster, session, {.socket_name = name, .runnable = 2}};
  run::FakeRank first{engine, name, 0}, second{engine, name, 1};
  fuzz::accepts<Error>("", [&] {
    for (fuzz::Input input{data, size}; !input.empty();) {
      run::FakeRank& rank = input.take<std::uint8_t>() % 2 == 0 ? first : second;
      const std::size_t bytes = input.take<std::uint16_t>() % 8192;
      if (bytes > 0) {
        rank.append(std::as_bytes(std::span{input.take(bytes)}));
      } else {
        const auto what = input.take<std::uint32_t>();
        rank.shared().thread_count = what;
        auto& slot = rank.shared().threads.at(what % channel::max_threads);
        slot.state = static_cast<channel::ThreadState>(input.take<std::uint32_t>());
        slot.clock_ps = input.take<std::int64_t>();
      }
      engine.step(std::chrono::milliseconds{0});
    }
    engine.finish();
  });
  return 0;
}
