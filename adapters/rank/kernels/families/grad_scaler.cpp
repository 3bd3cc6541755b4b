#include "rank/kernels/families/grad_scaler.hpp"

#include "rank/kernels/families/arithmetic.hpp"

#include <cmath>
#include <cstdint>

namespace phantora::rank {

Effect unscale(const TensorLists& lists, ElementType type, const Arguments& arguments) {
  std::byte* const found = arguments.pointer(2, 0);
  std::byte* const inverse_scale = arguments.pointer(2, 8);
  Effect effect;
  add_operands(effect, lists, {size_of(type)}, 1, {true});
  effect.operands.push_back({found, 4, true, true});
  effect.operands.push_back({inverse_scale, 4, true, false});
  effect.compute = [lists, type](std::span<Image> images) {
    const auto first = first_elements(lists);
    Image& flag = images[images.size() - 2];
    const auto scale = images[images.size() - 1].load(0, ElementType::float32);
    for (const Chunk& chunk : lists.chunks) {
      Image& tensor = images[chunk.tensor];
      if (tensor.extent() == 0) continue;  // large: taken to be finite
      for (std::size_t i = chunk.first - first[chunk.tensor], end = i + chunk.count; i < end; ++i) {
        const std::size_t at = i * size_of(type);
        const auto value = tensor.load(at, type);
        if (value && !std::isfinite(value->to_real()))
          flag.store(0, ElementType::float32, Value{1.0f});
        if (!value || !scale) {
          tensor.store(at, type, std::nullopt);
        } else if (scale->real != 1.0) {
          tensor.store(at, type, arithmetic::multiply(compute_type(type), *value, *scale));
        }
      }
    }
  };
  return effect;
}

std::unique_ptr<Meaning> read_update_scale() {
  return meaning([](const Arguments& arguments) -> std::optional<Effect> {
    Effect effect;
    effect.operands = {{arguments.pointer(0), 4, true, true},
                       {arguments.pointer(1), 4, true, true},
                       {arguments.pointer(2), 4, true, false}};
    effect.bytes = 20;
    const auto growth = arguments.get<double>(3), backoff = arguments.get<double>(4);
    const auto interval = arguments.get<std::int32_t>(5);
    effect.compute = [growth, backoff, interval](std::span<Image> images) {
      const auto scale = images[0].load(0, ElementType::float32);
      const auto tracker = images[1].load(0, ElementType::int32);
      const auto found = images[2].load(0, ElementType::float32);
      if (!scale || !tracker || !found) {
        images[0].forget();
        images[1].forget();
        return;
      }
      if (found->to_bool()) {
        images[0].store(0, ElementType::float32, Value{scale->real * backoff});
        images[1].store(0, ElementType::int32, Value{0});
        return;
      }
      const std::int64_t successes = tracker->integer + 1;
      if (successes != interval) {
        images[1].store(0, ElementType::int32, Value{successes});
        return;
      }
      // Never grows to infinity.
      const auto grown = static_cast<float>(scale->real * growth);
      if (std::isfinite(grown)) images[0].store(0, ElementType::float32, Value{grown});
      images[1].store(0, ElementType::int32, Value{0});
    };
    return effect;
  });
}

}  // namespace phantora::rank
