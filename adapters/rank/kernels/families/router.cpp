#include "rank/kernels/assumed_choice.hpp"
#include "rank/kernels/kernel_effect.hpp"

#include <array>
#include <optional>
#include <string_view>
#include <vector>

/// Routers that serve models, each a kernel that goes from a token's scores to the k experts that
/// it is sent to: vLLM's and SGLang's topkGating... (after TensorRT-LLM's topkGatingSoftmax),
/// moeTopK, and DeepSeek's choice within groups. What they choose by scores that are not computed
/// is assumed, as what PyTorch's topk chooses is; where scores are known their code is executed.
namespace phantora::rank {
namespace {

/// Where a kernel has what among its parameters.
struct Router {
  std::size_t weights = 0, indices = 0;  ///< [rows, k], and the experts' numbers likewise
  std::optional<std::size_t> sources{};  ///< [rows, k] int: place * rows + row
  std::size_t chosen = 0;                ///< k
  std::optional<std::size_t> rows{};     ///< none: one for each block
  std::optional<std::size_t> experts_at{};
  std::size_t experts = 0;  ///< where no parameter says it
  ElementType index = ElementType::int32;
};

/// Of "int*", as PyTorch's types name it.
std::optional<ElementType> integer_behind(std::string_view pointer) {
  if (pointer == "int*" || pointer == "unsigned int*") return ElementType::int32;
  if (pointer == "long*" || pointer == "unsigned long*") return ElementType::int64;
  return std::nullopt;
}

bool is_number(std::string_view type) { return type == "int" || type == "long"; }

/// Which of a kernel's numbers, counted in the order of its parameters, says what.
struct Numbers {
  std::string_view kernel;  ///< what its name begins with
  std::optional<std::size_t> rows;
  std::size_t chosen;
  std::optional<std::size_t> experts;  ///< none: the second number of the template's arguments
};
constexpr std::array routers{
    Numbers{"topkGating", 0, 1, std::nullopt},
    Numbers{"moeTopK", std::nullopt, 1, 0},
    Numbers{"grouped_topk_fused_kernel", 0, 4, 1},
    Numbers{"grouped_topk_fused_small_expert_count_kernel", 0, 3, 4},
};

/// The scores come first; behind them, maybe with a mask between, the weights, the experts' numbers
/// and, in some, where in the order of the choices each row's lie.
std::optional<Router> router_of(const Signature& signature, const Numbers& numbers) {
  Router router;
  std::vector<std::size_t> found;
  const auto& types = signature.parameters;
  for (std::size_t i = 1; i < types.size(); ++i) {
    const auto integer = integer_behind(types[i]);
    if (router.weights == 0) {
      if (types[i] == "float*") router.weights = i;
    } else if (router.indices == 0) {
      if (integer) {
        router.indices = i;
        router.index = *integer;
      }
    } else if (i == router.indices + 1 && types[i] == "int*") {
      router.sources = i;
    }
    if (is_number(types[i])) found.push_back(i);
  }
  const auto at = [&](std::size_t number) { return number < found.size() ? found[number] : 0; };
  router.chosen = at(numbers.chosen);
  if (numbers.rows) router.rows = at(*numbers.rows);
  if (numbers.experts) router.experts_at = at(*numbers.experts);
  std::size_t read = 0;
  for (const std::string_view argument : signature.kernel.arguments) {
    const std::size_t number = number_in(argument);
    if (number > 0 && ++read == 2) router.experts = number;
  }
  const bool whole = router.indices != 0 && router.chosen != 0 && router.rows != std::size_t{0} &&
                     router.experts_at != std::size_t{0};
  return whole && (router.experts_at || router.experts > 0) ? std::optional{router} : std::nullopt;
}

}  // namespace

std::unique_ptr<Meaning> read_router(const Signature& signature, const KernelResources&) {
  const std::string_view kernel = unqualified(signature.kernel.name);
  for (const Numbers& numbers : routers) {
    if (!kernel.starts_with(numbers.kernel)) continue;
    const auto router = router_of(signature, numbers);
    if (!router) return nullptr;
    return meaning([router = *router](const Arguments& arguments) -> std::optional<Effect> {
      const std::size_t rows = router.rows ? arguments.count(*router.rows) : arguments.shape.grid.x;
      const std::size_t chosen = arguments.count(router.chosen);
      const std::size_t experts =
          router.experts_at ? arguments.count(*router.experts_at) : router.experts;
      if (rows == 0 || !assumes_choice(experts, chosen)) return std::nullopt;
      // Scores that are known decide. A byte for each of the first row's is looked at.
      std::byte* const scores = arguments.pointer(0);
      if (!allocation_of(scores) || (may_know(scores, experts) && known(scores, experts)))
        return std::nullopt;
      Effect effect;
      const auto writes = [&](std::size_t parameter, std::size_t element) {
        effect.operands.push_back(
            {arguments.pointer(parameter), rows * chosen * element, false, true});
      };
      const std::size_t index = size_of(router.index);
      writes(router.weights, sizeof(float));
      writes(router.indices, index);
      if (router.sources) writes(*router.sources, sizeof(std::int32_t));
      effect.priced_by_code = true;
      effect.needs = Effect::Needs::nothing;
      effect.limit = routed_bytes;
      effect.compute = [=, places = arguments.pointer(router.indices),
                        type = router.index](std::span<Image> images) {
        for (std::size_t row = 0; row < rows; ++row) {
          const auto choice = assumed_choice(row, experts, chosen);
          if (!choice) return;
          for (std::size_t place = 0; place < chosen; ++place) {
            const std::size_t at = row * chosen + place;
            images[1].store(at * index, type, Value{static_cast<std::int64_t>((*choice)[place])});
            if (images.size() > 2)
              images[2].store(at * sizeof(std::int32_t), ElementType::int32,
                              Value{static_cast<std::int64_t>(place * rows + row)});
          }
        }
        note_assumed_choice(places);
      };
      return effect;
    });
  }
  return nullptr;
}

}  // namespace phantora::rank
