#pragma once

#include <phantora/units.hpp>

#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace phantora {

/// What a launch says about a kernel: identity and features, never data.
///
/// Two kinds of operation come here:
/// - Library operations, `name` = "gemm", "conv_fwd", "conv_bwd_data", "conv_bwd_filter",
///   "sdpa_fwd", "sdpa_bwd", "batch_norm_fwd_train", ..., "memcpy_h2d_pinned", "memset"; their
///   shape is in `features` and `attributes` (the keys are listed in lib/README.md).
/// - Device kernels: `name` is the demangled C++ signature as cu++filt or CUPTI print it.
struct KernelQuery {
  struct Dim3 {
    std::uint32_t x = 1, y = 1, z = 1;
    auto operator<=>(const Dim3&) const = default;
    [[nodiscard]] double count() const noexcept {
      return static_cast<double>(x) * static_cast<double>(y) * static_cast<double>(z);
    }
  };
  std::string name;
  Dim3 grid{};
  Dim3 block{};
  std::uint32_t shared_bytes = 0;  ///< dynamic shared memory per block
  double bytes = 0;                ///< device memory read + written; 0 = unknown
  double flops = 0;                ///< 0 = unknown
  std::map<std::string, double, std::less<>> features{};         ///< "m", "n", "k", "numel", ...
  std::map<std::string, std::string, std::less<>> attributes{};  ///< "a_type", "layout", ...

  auto operator<=>(const KernelQuery&) const = default;
};

/// Which link of the cost chain answered.
enum class CostSource : std::uint8_t { measured, fitted, roofline, unknown };
std::string_view to_string(CostSource source) noexcept;

struct CostEstimate {
  Duration duration{};
  Duration stddev{};
  CostSource source = CostSource::unknown;
};

/// Anything that may know a kernel's time; nullopt means "not mine, ask the next".
template <class M>
concept CostModel = std::copyable<M> && requires(const M& m, const KernelQuery& q) {
  { m.estimate(q) } -> std::same_as<std::optional<CostEstimate>>;
};

/// An owning, copyable, type-erased CostModel. Copies share one immutable model.
class KernelCostModel {
 public:
  template <class M>
  requires(!std::same_as<M, KernelCostModel> && CostModel<M>) KernelCostModel(
      M model)  // NOLINT(google-explicit-constructor): any model is a KernelCostModel
      : model_{std::make_shared<const Holder<M>>(std::move(model))} {}

  [[nodiscard]] std::optional<CostEstimate> estimate(const KernelQuery& query) const {
    return model_->estimate(query);
  }

 private:
  struct Concept {
    virtual ~Concept() = default;
    [[nodiscard]] virtual std::optional<CostEstimate> estimate(const KernelQuery&) const = 0;
  };
  template <class M>
  struct Holder final : Concept {
    explicit Holder(M m) : model{std::move(m)} {}
    [[nodiscard]] std::optional<CostEstimate> estimate(const KernelQuery& q) const override {
      return model.estimate(q);
    }
    M model;
  };
  std::shared_ptr<const Concept> model_;
};

/// Asks each link in order; the first answer wins.
KernelCostModel first_of(std::vector<KernelCostModel> links);
template <class... Ms>
KernelCostModel first_of(Ms... links) {
  return first_of(std::vector<KernelCostModel>{KernelCostModel{std::move(links)}...});
}

/// Multiplies every duration of `model` by `factor` (> 0).
KernelCostModel scale(KernelCostModel model, double factor);

}  // namespace phantora
