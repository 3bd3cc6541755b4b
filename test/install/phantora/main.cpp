#include <phantora/phantora.hpp>

#include <cassert>
#include <string_view>
#include <vector>

using namespace phantora;

int main() {
#ifdef FOUND_VERSION  // by find_package
  static_assert(std::string_view{FOUND_VERSION} == PHANTORA_VERSION_STRING);
#endif
  static_assert(PHANTORA_VERSION >= 100);

  // The kernel data came along, wherever this program lies.
  const Cluster cluster = parse_cluster("h200:1x2");
  const GpuModel gpu = gpu_model("h200");
  const KernelCostModel costs = builtin_cost_model(gpu);
  const KernelQuery gemm{
      .name = "gemm",
      .features = {{"m", 4096}, {"n", 4096}, {"k", 4096}},
      .attributes = {{"a_type", "bf16"}, {"b_type", "bf16"}, {"c_type", "bf16"}}};
  const auto price = costs.estimate(gemm);
  assert(price && price->source != CostSource::roofline);

  // An all-reduce after it takes two GPUs as long as the plan says.
  Session session{cluster, gpu, costs};
  const CommunicatorId world = session.add_communicator({0, 1});
  const QueryIndex query = session.add_query(gemm);
  for (const std::uint32_t rank : {0U, 1U}) {
    session.add_stream(StreamId{rank}, rank, rank);
    session.launch(StreamId{rank}, Time{}, query);
    session.collective(StreamId{rank}, Time{}, world, static_cast<int>(rank),
                       CollectiveOp::all_reduce, 64_MiB, 0);
    session.record(StreamId{rank}, Time{}, MarkerId{rank});
    session.synchronize(rank, 0, Time{}, MarkerId{rank});
  }
  const auto answers = session.advance(std::vector<Time>(2, never));
  assert(answers.size() == 2 && answers[0].clock > Time{price->duration});
}
