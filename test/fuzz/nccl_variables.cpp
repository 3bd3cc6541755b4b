#include "fuzz.hpp"

#include <phantora/cluster/cluster.hpp>
#include <phantora/collectives/communicator.hpp>
#include <phantora/error.hpp>

// Lines such as NCCL_ALGO=allreduce:tree;broadcast:ring, and what NCCL then chooses.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace phantora;
  using fuzz::expect;
  static const Cluster cluster = parse_cluster("h200:2x8");
  NcclVariables variables;
  for (fuzz::Input input{data, size}; !input.empty();) {
    const std::string_view line = input.line();
    const std::size_t equals = line.find('=');
    if (equals != line.npos)
      variables.insert_or_assign(std::string{line.substr(0, equals)},
                                 std::string{line.substr(equals + 1)});
  }
  fuzz::accepts<ConfigError>("NCCL_", [&] {
    const Communicator communicator{cluster, cluster.gpus, variables};
    for (const CollectiveOp op : {CollectiveOp::all_reduce, CollectiveOp::all_gather,
                                  CollectiveOp::broadcast, CollectiveOp::all_to_all}) {
      for (const std::int64_t bytes : {std::int64_t{8}, std::int64_t{1} << 30}) {
        const auto plan = communicator.plan(op, Bytes{bytes});
        expect(plan.latency >= Duration{}, "collectives do not go back in time");
        expect(plan.channels >= 1 && plan.channels <= 64, "NCCL has up to 64 channels");
      }
    }
  });
  return 0;
}
