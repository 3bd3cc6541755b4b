#include "rank/memory/data_queue.hpp"

#include "fuzz.hpp"
#include "rank_fakes.hpp"

#include <array>
#include <vector>

// A program over three streams, two bytes a step: operations of a stream run in its order, none is
// lost, whatever order results arrive in.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace phantora;
  using namespace phantora::rank;
  static const std::array<Stream*, 3> streams{&create_stream(0, 0, 0), &create_stream(0, 1, 0),
                                              &create_stream(0, 1, 0)};
  static DataQueue::Ticket ticket = 0;
  static Marker marker = 0;
  std::array<std::size_t, 3> issued{}, run{};
  std::vector<DataQueue::Ticket> sent;
  std::vector<Marker> markers;
  const auto deliver = [&](std::size_t which) {
    const DataQueue::Ticket next = sent[which % sent.size()];
    std::erase(sent, next);
    fakes::data().deliver(next, {});
  };
  for (fuzz::Input input{bytes, size}; !input.empty();) {
    const auto action = input.take<std::uint8_t>(), which = input.take<std::uint8_t>();
    const std::size_t s = which % streams.size();
    const auto runs = [&run, s, number = issued[s]] {
      fuzz::expect(run[s]++ == number, "a stream keeps its order");
    };
    switch (action % 5) {
      case 0:
        ++issued[s];
        data::enqueue(*streams[s], runs);
        break;
      case 1:
        ++issued[s];
        ++ticket;
        fakes::exchange(
            *streams[s], ticket, [&sent, now = ticket] { sent.push_back(now); },
            [runs](std::span<const std::byte>) { runs(); });
        break;
      case 2:
        fakes::data().record(*streams[s], ++marker);
        markers.push_back(marker);
        break;
      case 3:
        if (!markers.empty()) fakes::data().wait(*streams[s], markers[which % markers.size()]);
        break;
      default:
        if (!sent.empty()) deliver(which);
    }
  }
  while (!sent.empty()) deliver(0);
  fuzz::expect(!data::pending(), "nothing stays behind");
  fuzz::expect(run == issued, "everything has run");
  return 0;
}
