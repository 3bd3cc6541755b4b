#include "simulation/transformer_places.hpp"

namespace phantora::detail::transformer {

Place place_of(int number, const Parallelism& p) {
  const int part = number % p.tensor, slice = number / p.tensor % p.context;
  const int replica = number / (p.tensor * p.context) % p.data;
  const int stage = number / (p.tensor * p.context * p.data);
  const auto rank = [&](int s, int r, int c, int t) {
    return static_cast<Rank>(((s * p.data + r) * p.context + c) * p.tensor + t);
  };
  Place it{.stage = stage, .rank = static_cast<Rank>(number), .slice = slice};
  it.before = rank((stage + p.pipeline - 1) % p.pipeline, replica, slice, part);
  it.next = rank((stage + 1) % p.pipeline, replica, slice, part);
  for (int s = 0; s < p.pipeline; ++s) it.stages.push_back(rank(s, replica, slice, part));
  for (int t = 0; t < p.tensor; ++t) it.tensor.push_back(rank(stage, replica, slice, t));
  for (int c = 0; c < p.context; ++c) it.context.push_back(rank(stage, replica, c, part));
  for (int r = 0; r < p.data; ++r) {
    for (int c = 0; c < p.context; ++c) {
      it.replicas.push_back(rank(stage, r, c, part));
      if (r % p.expert == replica % p.expert) it.expert_replicas.push_back(rank(stage, r, c, part));
    }
    if (r / p.expert == replica / p.expert) it.experts.push_back(rank(stage, r, slice, part));
  }
  return it;
}

}  // namespace phantora::detail::transformer
