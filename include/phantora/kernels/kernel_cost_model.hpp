#pragma once

#include <phantora/units.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace phantora {

/// Which units do the arithmetic, and so which peak rate bounds it: tensor cores for fp8, half
/// (bf16 and fp16), tf32 and int8. `none` = not told; FLOP are then those of fp32.
enum class Arithmetic : std::uint8_t { none, fp8, half, tf32, fp32, fp64, int8 };
/// The name as the enumeration has it: "half".
std::string_view to_string(Arithmetic arithmetic) noexcept;

/// What a launch says about a kernel: identity and features, never data.
///
/// Three kinds of operation come here:
/// - Library operations, `name` = "gemm", "conv_fwd", "conv_bwd_data", "conv_bwd_filter",
///   "sdpa_fwd", "sdpa_bwd", "batch_norm_fwd_train", ..., "memcpy_h2d_pinned", "memset"; their
///   shape is in `features` and `attributes` (the keys are listed in lib/kernels/README.md).
/// - Launches: they tell a grid, and `name` is the demangled C++ signature as cu++filt or CUPTI
///   print it.
/// - Kernels of one's own, of any other name, that tell their bytes, FLOP or both: {.name =
///   "my_kernel", .bytes = 1e9}.
struct KernelQuery {
  /// CUDA's dim3.
  struct Dim3 {
    std::uint32_t x = 1, y = 1, z = 1;  ///< at least 1 each
    auto operator<=>(const Dim3&) const = default;
    /// Blocks of a grid, or threads of a block.
    [[nodiscard]] double count() const noexcept {
      return static_cast<double>(x) * static_cast<double>(y) * static_cast<double>(z);
    }
  };
  std::string name;                ///< of the operation, the launch or the kernel, as above
  std::optional<Dim3> grid{};      ///< unknown = enough blocks to fill the GPU
  Dim3 block{};                    ///< threads of each block
  std::uint32_t shared_bytes = 0;  ///< dynamic shared memory per block
  /// Device memory read + written, or the size of a copy or memset; 0 = unknown.
  double bytes = 0;
  double flops = 0;                          ///< 0 = unknown
  Arithmetic arithmetic = Arithmetic::none;  ///< that does the `flops` of a kernel of one's own
  std::map<std::string, double, std::less<>> features{};         ///< "m", "n", "k", "numel", ...
  std::map<std::string, std::string, std::less<>> attributes{};  ///< "a_type", "layout", ...
  /// What one launch of the kernel finds in the L2 cache (L2Cache), which no measurement's key
  /// holds.
  struct Operands {
    double read = 0;  ///< bytes that it reads, each once; 0 = not told: as if run again and again
    double written = 0;  ///< bytes that it writes, each once
    double cold = 0;     ///< of what it reads, what the cache does not hold
    auto operator<=>(const Operands&) const = default;
  };
  Operands operands{};  ///< of this launch
  /// Of a launch that is priced by its machine code, whose way hangs on what lies in memory:
  /// features, and "bytes", as far as that is known, in place of those above, which the parameters
  /// alone tell. No measurement's key holds them. Empty where no more is known.
  std::map<std::string, double, std::less<>> by_data{};

  auto operator<=>(const KernelQuery&) const = default;
};

/// Which link of the cost chain answered: `database` is one of the user's own (KernelDatabase),
/// `measured` are the measurements that come with the library. Of what nothing was measured, what
/// the chain had to go by: `roofline` = the bytes and arithmetic that the parameters tell, `code` =
/// the machine code, `grid` = the shape of the launch alone.
enum class CostSource : std::uint8_t { measured, fitted, roofline, unknown, code, grid, database };
inline constexpr std::size_t cost_sources = 7;  ///< how many there are
/// The name as the enumeration has it: "measured".
std::string_view to_string(CostSource source) noexcept;

/// What holds a kernel up, which decides how it fares beside others: the tensor cores, whose blocks
/// come in clusters and in whole waves; memory, or anything else on the SMs; a copy engine, which
/// needs no SM.
enum class KernelLimit : std::uint8_t { arithmetic, memory, copy_engine };

/// What a kernel costs, and how sure that is.
struct CostEstimate {
  Duration duration{};                      ///< of the kernel alone on its GPU
  Duration stddev{};                        ///< of what one kernel takes; 0 = not known
  CostSource source = CostSource::unknown;  ///< which link of the chain says so

  // What the kernel takes of its GPU while it runs, for those that run beside it. With what is not
  // told it counts as a kernel that fills the SMs and leaves the memory alone.
  std::optional<KernelLimit> limit{};    ///< what holds it up
  std::optional<double> demand{};        ///< share of the SMs that it can fill, in (0, 1]
  std::optional<double> memory_share{};  ///< of the peak bandwidth that it draws, in [0, 1]
  /// Power that it draws beyond an idle GPU's while the clock is at its highest, as a share of what
  /// the GPU's limit allows (>= 0; more than 1 cannot last). Not told = 0.
  std::optional<double> power_share{};
};

/// Anything that may know a kernel's time; nullopt means "not mine, ask the next".
template <class M>
concept CostModel = std::copyable<M> && requires(const M& m, const KernelQuery& q) {
  { m.estimate(q) } -> std::same_as<std::optional<CostEstimate>>;
};

/// An owning, copyable, type-erased CostModel. Copies share one immutable model.
class KernelCostModel {
 public:
  /// Any model becomes one.
  template <class M>
  requires(!std::same_as<M, KernelCostModel> && CostModel<M>) KernelCostModel(
      M model)  // NOLINT(google-explicit-constructor): any model is a KernelCostModel
      : model_{std::make_shared<const Holder<M>>(std::move(model))} {}

  /// What the model says; nothing: it does not know the kernel.
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
/// The same of models as they are.
KernelCostModel first_of(Ms... links) {
  return first_of(std::vector<KernelCostModel>{KernelCostModel{std::move(links)}...});
}

/// Multiplies every duration of `model` by `factor` (> 0).
KernelCostModel scale(KernelCostModel model, double factor);

}  // namespace phantora
