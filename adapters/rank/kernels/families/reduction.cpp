#include "rank/kernels/assumed_test.hpp"
#include "rank/kernels/contrast.hpp"
#include "rank/kernels/executed_before.hpp"
#include "rank/kernels/families/arithmetic.hpp"
#include "rank/kernels/families/offset_calculator.hpp"
#include "rank/kernels/kernel_effect.hpp"
#include "rank/memory/device_memory.hpp"

#include <cmath>
#include <complex>
#include <limits>

/// PyTorch's reduce_kernel (ATen/native/cuda/Reduce.cuh, ATen/native/SharedReduceOps.h).
namespace phantora::rank {

namespace {

enum class Kind : std::uint8_t {
  sum,
  mean,
  product,
  maximum,  ///< propagates NaN
  minimum,
  all,
  any,
  max_with_index,
  min_with_index,
  arg_max,
  arg_min,
  norm,
  norm_zero,
  norm_one,
  norm_two,
  abs_max,
  abs_min,
  nan_sum,
  min_max,
  variance
};

struct Operation {
  Kind kind{};
  bool root = true;  ///< of norms
  ElementType input{}, accumulator{}, output{};
};

/// Complex numbers have no order, and PyTorch's variance of them is that of their parts.
bool folds_complex(Kind kind) {
  return kind == Kind::sum || kind == Kind::product || kind == Kind::mean || kind == Kind::any ||
         kind == Kind::all;
}

std::optional<Operation> operation(std::string_view text, ElementType input, ElementType output) {
  const TemplateName ops = template_name(text);
  std::string_view key = unqualified(ops.name);
  Operation result{Kind::sum, true, input, input, output};
  if (key == "func_wrapper_t" && ops.arguments.size() == 2) {
    // The accumulator is what the function takes: its lambda's parameter or template argument.
    const std::string_view function = ops.arguments[1];
    const LambdaName lambda = lambda_name(function);
    std::vector<std::string_view> types;
    if (!lambda.function.name.empty()) {
      types = lambda.parameters;
      key = lambda.function.name;
    } else {
      const TemplateName name = template_name(function);
      types = name.arguments;
      key = unqualified(name.name);
    }
    if (types.empty()) return std::nullopt;
    const auto accumulator = number_type_named(types[0]);
    if (!accumulator) return std::nullopt;
    result.accumulator = *accumulator;
    const auto contains = [&](std::string_view part) {
      return key.find(part) != std::string_view::npos;
    };
    if (contains("xor_sum")) return std::nullopt;
    if (contains("sum_functor") || key == "ReductionAddOp") {
      result.kind = Kind::sum;
    } else if (contains("prod_functor") || key == "ReductionMulOp") {
      result.kind = Kind::product;
    } else if (key == "MaxNanFunctor") {
      result.kind = Kind::maximum;
    } else if (key == "MinNanFunctor") {
      result.kind = Kind::minimum;
    } else if (contains("or_kernel_cuda")) {
      result.kind = Kind::any;
    } else if (contains("and_kernel_cuda")) {
      result.kind = Kind::all;
    } else {
      return std::nullopt;
    }
    if (is_complex(*accumulator) && !folds_complex(result.kind)) return std::nullopt;
    return result;
  }
  constexpr std::pair<std::string_view, Kind> kinds[] = {
      {"MeanOps", Kind::mean},          {"NormOps", Kind::norm},
      {"NormZeroOps", Kind::norm_zero}, {"NormOneOps", Kind::norm_one},
      {"NormTwoOps", Kind::norm_two},   {"AbsMaxOps", Kind::abs_max},
      {"AbsMinOps", Kind::abs_min},     {"MaxOps", Kind::max_with_index},
      {"MinOps", Kind::min_with_index}, {"ArgMaxOps", Kind::arg_max},
      {"ArgMinOps", Kind::arg_min},     {"NanSumOps", Kind::nan_sum},
      {"MinMaxOps", Kind::min_max},     {"WelfordOps", Kind::variance},
  };
  for (const auto& [name, kind] : kinds) {
    if (key != name) continue;
    result.kind = kind;
    // <input, accumulator, ...>, but NanSumOps<accumulator, input>, MaxOps<type>.
    const std::size_t at = kind == Kind::nan_sum || ops.arguments.size() == 1 ? 0 : 1;
    const auto accumulator = number_type_named(ops.arguments[at]);
    if (!accumulator) return std::nullopt;
    if (is_complex(*accumulator) && !folds_complex(kind)) return std::nullopt;
    result.accumulator = *accumulator;
    result.root = ops.arguments.empty() || ops.arguments.back() != "false";
    return result;
  }
  return std::nullopt;
}

bool has_index(Kind kind) {
  return kind == Kind::max_with_index || kind == Kind::min_with_index || kind == Kind::arg_max ||
         kind == Kind::arg_min;
}

/// Whether the known inputs can decide the result alone: all with a known false, a maximum with a
/// known NaN. In these reductions the result moves with each input in one direction, so that it is
/// enough to try the same contrasting value for all unknown inputs at once.
Contrast contrast(Kind kind) {
  switch (kind) {
    case Kind::all:
    case Kind::any:
      return Contrast::choice;
    case Kind::product:
      return Contrast::product;
    case Kind::maximum:
    case Kind::minimum:
    case Kind::min_max:
    case Kind::max_with_index:
    case Kind::min_with_index:
    case Kind::arg_max:
    case Kind::arg_min:
      return Contrast::monotone;
    default:
      return Contrast::none;
  }
}

/// Folds one output's inputs, in the accumulator's type.
class Fold {
 public:
  Fold(const Operation& op, std::span<const std::byte> state) : op_{op} {
    switch (op.kind) {
      case Kind::product:
        real_ = 1;
        integer_ = 1;
        break;
      case Kind::all:
        integer_ = 1;
        break;
      case Kind::mean:
      case Kind::norm:
        parameter_ = load(op.accumulator, state.data()).to_real();
        break;
      case Kind::variance:
        parameter_ = load(op.accumulator, state.data()).to_real();
        root_ = load(ElementType::boolean, state.data() + size_of(op.accumulator)).to_bool();
        break;
      default:
        break;
    }
  }

  void add(const Value& raw, std::int64_t index) {
    // Norms of complex numbers are those of their magnitudes.
    const bool magnitude = is_complex(op_.input) && !is_complex(op_.accumulator);
    const Value value =
        converted(op_.accumulator, magnitude ? Value{std::abs(raw.to_complex())} : raw);
    const double x = value.to_real();
    switch (op_.kind) {
      case Kind::sum:
      case Kind::mean:
        // Sums are kept in double and rounded once: the device's own order gives an error of a few
        // units in the last place of the accumulator.
        real_ += x;
        imaginary_ += value.imaginary;
        integer_ = static_cast<std::int64_t>(static_cast<std::uint64_t>(integer_) +
                                             static_cast<std::uint64_t>(value.integer));
        break;
      case Kind::nan_sum:
        if (!std::isnan(x)) real_ += x;
        break;
      case Kind::product:
        if (is_complex(op_.accumulator)) {
          const Value product =
              arithmetic::multiply(ElementType::complex128, std::complex{real_, imaginary_}, value);
          real_ = product.real;
          imaginary_ = product.imaginary;
          break;
        }
        real_ *= x;
        integer_ = static_cast<std::int64_t>(static_cast<std::uint64_t>(integer_) *
                                             static_cast<std::uint64_t>(value.integer));
        break;
      case Kind::all:
        integer_ = integer_ != 0 && value.to_bool();
        break;
      case Kind::any:
        integer_ = integer_ != 0 || value.to_bool();
        break;
      case Kind::norm:
        real_ += std::pow(std::fabs(x), parameter_);
        break;
      case Kind::norm_zero:
        real_ += raw.to_bool() ? 1 : 0;
        break;
      case Kind::norm_one:
        real_ += std::fabs(x);
        break;
      case Kind::norm_two:
        real_ += x * x;
        break;
      case Kind::abs_max:
        choose(Value{std::fabs(x)}, index, true);
        break;
      case Kind::abs_min:
        choose(Value{std::fabs(x)}, index, false);
        break;
      case Kind::maximum:
      case Kind::max_with_index:
      case Kind::arg_max:
        choose(value, index, true);
        break;
      case Kind::minimum:
      case Kind::min_with_index:
      case Kind::arg_min:
        choose(value, index, false);
        break;
      case Kind::min_max:
        choose(value, index, false);
        if (count_ == 0 || (!std::isnan(second_.to_real()) && !(second_.to_real() >= x))) {
          second_ = value;
        }
        break;
      case Kind::variance: {
        const double delta = x - real_;
        real_ += delta / static_cast<double>(count_ + 1);
        squares_ += delta * (x - real_);
        break;
      }
    }
    ++count_;
  }

  [[nodiscard]] Value first() const {
    const bool is_real = is_floating(op_.accumulator);
    const bool complex = is_complex(op_.accumulator);
    switch (op_.kind) {
      case Kind::mean:
        if (complex) return std::complex{real_, imaginary_} * parameter_;
        return real_ * parameter_;
      case Kind::sum:
      case Kind::product:
        if (complex) return std::complex{real_, imaginary_};
        return is_real ? Value{real_} : Value{integer_};
      case Kind::all:
      case Kind::any:
        return integer_;
      case Kind::norm:
        return op_.root ? std::pow(real_, 1.0 / parameter_) : real_;
      case Kind::norm_two:
        return op_.root ? std::sqrt(real_) : real_;
      case Kind::arg_max:
      case Kind::arg_min:
        return index_;
      case Kind::variance: {
        const double n = static_cast<double>(count_);
        const double variance = squares_ / (n > parameter_ ? n - parameter_ : 0.0);
        return root_ ? std::sqrt(variance) : variance;
      }
      case Kind::nan_sum:
      case Kind::norm_zero:
      case Kind::norm_one:
        return real_;
      default:
        return best_;
    }
  }
  /// The second output: the index of the extremum, the maximum, the mean.
  [[nodiscard]] Value second() const {
    if (op_.kind == Kind::min_max) return second_;
    if (op_.kind == Kind::variance) return real_;
    return index_;
  }

 private:
  /// NaN wins; of equals the lower index.
  void choose(const Value& value, std::int64_t index, bool greater) {
    if (count_ > 0) {
      const double x = value.to_real(), best = best_.to_real();
      if (std::isnan(best)) return;
      if (!std::isnan(x)) {
        const bool better = value.floating ? (greater ? x > best : x < best)
                                           : (greater ? value.integer > best_.integer
                                                      : value.integer < best_.integer);
        if (!better) return;
      }
    }
    best_ = value;
    index_ = index;
  }

  Operation op_;
  double real_ = 0, imaginary_ = 0, squares_ = 0, parameter_ = 0;
  std::int64_t integer_ = 0, index_ = 0, count_ = 0;
  bool root_ = false;
  Value best_, second_;
};

/// Offsets of ReduceOp's members: functor, identity, ReduceConfig, calculators, pointers. The sizes
/// of the first two vary, so the rest is found from the end of the struct.
struct Layout {
  std::size_t config = 0, input = 0, output = 0, source = 0;
};
constexpr std::size_t config_bytes = 64;
constexpr std::size_t tail_bytes = 64;  // src, dst[2], acc_buf, cta_buf, semaphores, base_idx, ...

std::optional<Layout> layout(const Arguments& arguments) {
  const std::size_t size = arguments.bytes(0).size();
  const std::size_t head = config_bytes + OffsetCalculator::bytes(1) + OffsetCalculator::bytes(2);
  if (size < tail_bytes + head) return std::nullopt;
  // An accumulator of 16 bytes aligns the struct to as much; the config is aligned to 4 only.
  for (const std::size_t padding : {std::size_t{0}, std::size_t{8}}) {
    const std::size_t source = size - tail_bytes - padding;
    for (const std::size_t gap : {std::size_t{0}, std::size_t{4}}) {
      if (source < head + gap) continue;
      const std::size_t config = source - head - gap;
      // ReduceConfig repeats the launch's shape: of the two places, the one where it does is right.
      constexpr std::size_t block_width = 44, block_height = 48, threads = 52;
      const KernelQuery::Dim3& block = arguments.shape.block;
      if (arguments.get<std::uint32_t>(0, config + block_width) != block.x ||
          arguments.get<std::uint32_t>(0, config + block_height) != block.y ||
          arguments.get<std::uint32_t>(0, config + threads) != block.x * block.y) {
        continue;
      }
      const std::size_t input = config + config_bytes;
      return Layout{config, input, input + OffsetCalculator::bytes(1), source};
    }
  }
  return std::nullopt;
}

class TensorReduction final : public Meaning {
 public:
  TensorReduction(ElementType input, ElementType output, std::optional<Operation> op)
      : input_{input}, output_{output}, operation_{op} {}

  [[nodiscard]] std::optional<Effect> effect(const Arguments& arguments) const override {
    const auto at = layout(arguments);
    if (!at) return std::nullopt;
    const auto inputs = arguments.get<std::uint32_t>(0, at->config + 4);
    const auto outputs = arguments.get<std::uint32_t>(0, at->config + 8);
    const auto input = OffsetCalculator::read(arguments, 0, at->input, 1);
    const auto output = OffsetCalculator::read(arguments, 0, at->output, 2);
    if (!input.valid || !output.valid) return std::nullopt;
    std::byte* const source = arguments.pointer(0, at->source);
    std::byte* const first = arguments.pointer(0, at->source + 8);
    std::byte* const second = arguments.pointer(0, at->source + 16);
    std::byte* const partial = arguments.pointer(0, at->source + 24);
    std::byte* const staging = arguments.pointer(0, at->source + 32);
    std::byte* const semaphores = arguments.pointer(0, at->source + 40);
    const auto base_index = arguments.get<std::int64_t>(0, at->source + 48);
    const bool accumulate = arguments.get<std::uint8_t>(0, at->source + 56) != 0;
    const bool final_output = arguments.get<std::uint8_t>(0, at->source + 57) != 0;
    const auto output_count = arguments.get<std::int32_t>(0, at->source + 60);

    Effect effect;
    const std::size_t in_size = size_of(input_), out_size = size_of(output_);
    const bool indexed = operation_ && has_index(operation_->kind);
    const bool index_first =
        operation_ && (operation_->kind == Kind::arg_max || operation_->kind == Kind::arg_min);
    const ElementType first_type = index_first ? ElementType::int64 : output_;
    const ElementType second_type = indexed ? ElementType::int64 : output_;
    const std::size_t read_extent = input.last(0) + output.last(1) + in_size;
    // The calculator's strides are those of the first output.
    const std::size_t first_extent = output.last(0) + size_of(first_type);
    effect.operands.push_back({source, read_extent, true, false});
    effect.operands.push_back({first, first_extent, accumulate, true, first_type});
    if (output_count > 1 && second != nullptr) {
      effect.operands.push_back(
          {second, output.last(0) / out_size * size_of(second_type) + size_of(second_type),
           accumulate, true, second_type});
    }
    const bool one_pass = partial == nullptr;
    if (partial != nullptr) effect.operands.push_back({partial, first_extent * 2, true, true});
    if (staging != nullptr) {
      // What each block has of each output; of threads side by side that do not share an output,
      // what each has of several.
      const auto element = arguments.get<std::uint32_t>(0, at->config);
      const auto blocks = arguments.get<std::uint32_t>(0, at->config + 20);
      const bool shares = arguments.get<std::uint32_t>(0, at->config + 24) != 0;
      const auto outputs_of_thread = arguments.get<std::uint32_t>(0, at->config + 60);
      const std::size_t apart =
          shares ? 1 : std::size_t{arguments.shape.block.x} * outputs_of_thread;
      effect.operands.push_back(
          {staging, std::size_t{element} * outputs * blocks * apart, false, true});
    }
    if (semaphores != nullptr) {
      effect.operands.push_back({semaphores, arguments.shape.grid.x * 4, false, true});
    }
    effect.bytes = static_cast<double>(inputs) * outputs * static_cast<double>(in_size) +
                   static_cast<double>(outputs) * static_cast<double>(size_of(first_type));
    effect.features = {
        {"numel", static_cast<double>(inputs) * outputs}, {"rows", outputs}, {"cols", inputs}};
    // Where they lie in one dimension, no offset is calculated.
    if (input.sizes.size() > 1)
      effect.features.emplace_back("dims", static_cast<double>(input.sizes.size()));
    if (operation_ && outputs == 1 && final_output &&
        (operation_->kind == Kind::all || operation_->kind == Kind::any)) {
      effect.assumption = Assumption::test;
      effect.assumed.push_back(
          {1, assumed_outcome(operation_->kind == Kind::all ? Test::holds : Test::finds, output_)});
    }
    // As many integers as flags: what a program counts (lengths of bags, of sequences) it decides
    // by.
    if (!is_floating(input_) && !is_complex(input_)) {
      effect.limit *= in_size;
      effect.reads_deferred = true;
    }
    const bool small =
        (read_extent <= effect.limit || effect.reads_deferred) && first_extent <= effect.limit;
    if (!operation_ || !small || !one_pass || accumulate || !final_output) return effect;

    const auto state = arguments.bytes(0).first(at->config);
    const auto reduce =
        [op = *operation_, input, output, inputs, outputs, first_type, second_type, base_index,
         out_size, in_type = input_, output_count,
         state = std::vector<std::byte>{state.begin(), state.end()}](std::span<Image> images) {
          // Asked once: each answer looks at the whole input.
          const bool all_inputs = images[0].knows_all();
          for (std::uint32_t o = 0; o < outputs; ++o) {
            const std::size_t base = output.offset(o, 1);
            const auto load = [&](std::uint32_t i) {
              return images[0].load(base + input.offset(i, 0), in_type);
            };
            const auto each_known = [&] {
              for (std::uint32_t i = 0; i < inputs; ++i)
                if (!load(i)) return false;
              return true;
            };
            const bool all = all_inputs || each_known();
            std::vector<Value> tries = {Value{}};  // nothing to stand for
            if (!all) tries = contrasting(contrast(op.kind), in_type, {});
            std::optional<Value> one, other;
            for (std::size_t t = 0; t < tries.size() && (t == 0 || one || other); ++t) {
              Fold fold{op, state};
              for (std::uint32_t i = 0; i < inputs; ++i) {
                fold.add(load(i).value_or(tries[t]), i + base_index);
              }
              if (t == 0) {
                one = fold.first();
                other = fold.second();
              } else {
                if (one && !same_result(*one, fold.first())) one.reset();
                if (other && !same_result(*other, fold.second())) other.reset();
              }
            }
            // Which of several unknown inputs is the greatest is never decided.
            if (!all && has_index(op.kind)) {
              auto& index = first_type == ElementType::int64 && output_count == 1 ? one : other;
              const bool of_known =
                  index && load(static_cast<std::uint32_t>(index->integer - base_index));
              if (!of_known) index.reset();
            }
            const std::size_t to = output.offset(o, 0);
            images[1].store(to, first_type, one);
            if (output_count > 1) {
              images[2].store(to / out_size * size_of(second_type), second_type, other);
            }
          }
        };
    if (read_extent <= effect.limit || output_count > 1) {
      effect.compute = reduce;
      return effect;
    }
    // Of deferred elements: the same mask in each step is the same millions of them.
    std::vector<std::uint32_t> launch{inputs, outputs, static_cast<std::uint32_t>(base_index)};
    for (const auto* words : {&input.strides, &output.strides})
      launch.insert(launch.end(), words->begin(), words->end());
    for (const auto* words : {&input.sizes, &output.sizes})
      launch.insert(launch.end(), words->begin(), words->end());
    for (const std::byte byte : state) launch.push_back(std::to_integer<std::uint32_t>(byte));
    effect.compute = [reduce, launch, &before = before_](std::span<Image> images) {
      std::swap(images[0], images[1]);  // the result is first there
      before.run(launch, images, [&] {
        std::swap(images[0], images[1]);
        reduce(images);
        std::swap(images[0], images[1]);
      });
      std::swap(images[0], images[1]);
    };
    return effect;
  }

 private:
  ElementType input_, output_;
  std::optional<Operation> operation_;
  mutable ExecutedBefore before_{};
};

}  // namespace

std::unique_ptr<Meaning> read_reduction(const Signature& signature, const KernelResources&) {
  if (signature.parameters.size() == 1 && signature.parameters[0] == "ReduceJitOp") {
    // Compiled at run time (reduction_template.cuh): <input, accumulator, output, formula>.
    const auto& told = signature.kernel.arguments;
    const auto input = number_type_named(told[0]), accumulator = number_type_named(told[1]),
               output = number_type_named(told[2]);
    if (!input || !accumulator || !output) return nullptr;
    std::optional<Operation> known;
    if (told[3] == "a*b") known = {Kind::product, true, *input, *accumulator, *output};
    if (told[3] == "a+b") known = {Kind::sum, true, *input, *accumulator, *output};
    return std::make_unique<TensorReduction>(*input, *output, known);
  }
  if (unqualified(signature.kernel.name) != "reduce_kernel") return nullptr;
  if (signature.kernel.arguments.size() != 3) return nullptr;
  // ReduceOp<input, operation, index, output, ...>
  const TemplateName reduce = template_name(signature.kernel.arguments[2]);
  if (unqualified(reduce.name) != "ReduceOp" || reduce.arguments.size() < 4) return nullptr;
  const auto input = number_type_named(reduce.arguments[0]);
  const auto output = number_type_named(reduce.arguments[3]);
  if (!input || !output) return nullptr;
  return std::make_unique<TensorReduction>(*input, *output,
                                           operation(reduce.arguments[1], *input, *output));
}

}  // namespace phantora::rank
