#include "kernels/round_trips.hpp"
#include "kernels/work/families.hpp"
#include "kernels/work/launch.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace phantora::detail {

namespace {

/// Size of the elements that a kernel of PyTorch's is instantiated for, in bytes.
double element_size(const KernelSignature& signature) {
  for (const std::string_view argument : signature.arguments) {
    const KernelSignature inner = parse_signature(argument);
    // Copies are instantiated for a size, OpaqueType<2u>; reductions for ReduceOp<input, ...>.
    if (inner.base == "OpaqueType") return leading_integer(first_argument(inner));
    const auto type = inner.base == "ReduceOp" ? first_argument(inner) : argument;
    if (const double size = last_type_bytes(type); size > 0.0) return size;
  }
  return 4.0;
}

/// How often a kernel of PyTorch's reads or writes each of its elements; 0 = not known to us.
double passes(std::string_view base) {
  static constexpr std::array<std::pair<std::string_view, double>, 18> known{{
      {"vectorized_layer_norm", 2.0},
      {"RowwiseMoments", 1.0},
      {"ComputeInternalGradients", 2.0},
      {"layer_norm_grad_input", 3.0},
      {"GammaBetaBackward", 2.0},
      {"cunn_SoftMaxForwardReg", 2.0},
      {"cunn_SoftMaxForwardSmem", 2.0},
      {"cunn_SoftMaxForward", 3.0},
      {"cunn_SoftMaxBackward", 3.0},
      {"softmax_warp_forward", 2.0},
      {"softmax_warp_backward", 3.0},
      {"nll_loss", 2.0},
      {"reduce_kernel", 1.0},
      {"fused_dropout", 2.0},
      {"batch_norm_collect_statistics", 1.0},
      {"batch_norm_transform_input", 2.0},
      {"batch_norm_backward_reduce", 2.0},
      {"batch_norm_backward", 3.0},
  }};
  const auto found =
      std::ranges::find_if(known, [&](const auto& entry) { return base.starts_with(entry.first); });
  return found != known.end() ? found->second : 0.0;
}

/// The likelihood loss looks one element up per row.
bool is_lookup(const KernelSignature& signature) { return signature.base.starts_with("nll_loss"); }

Launch read_launch(const KernelQuery& query, const KernelSignature& signature) {
  Launch launch{query, signature};
  launch.blocks = blocks_of(query);
  launch.threads = launch.blocks * query.block.count();
  double rows = feature(query, "rows", 0.0);
  double cols = feature(query, "cols", 0.0);
  // A reduction that was compiled at run time has a plain name: its inputs and results tell.
  const bool plain = launch.is_reduction() && signature.arguments.empty();
  launch.size = plain && rows > 0.0 ? query.bytes / (rows * cols + rows) : element_size(signature);
  const bool lookup = is_lookup(signature);
  if (lookup) cols = 1.0;
  if (query.grid && signature.base.starts_with("softmax_warp") && signature.arguments.size() > 3 &&
      cols == 0.0) {
    // <input, output, accumulator, log2 of the padded row, ...>; a warp has two rows of up to 128.
    cols = std::exp2(leading_integer(signature.arguments[3]));
    rows = launch.blocks * query.block.y * (cols <= 128.0 ? 2.0 : 1.0);
  }
  launch.rows = rows;
  launch.cols = cols;
  launch.numel = lookup ? rows : feature(query, "numel", rows * cols);
  return launch;
}

/// The bytes as told, or from the features, or what the threads can load. A kernel that is told by
/// its work alone has no threads to guess from, and fills the GPU.
void set_bytes(KernelWork& work, const Launch& launch) {
  const double times = passes(launch.base()), told = launch.query.bytes;
  if (launch.numel > 0.0 && times > 0.0) {
    // Not the bytes that the query tells, so that told and untold launches compare.
    work.bytes = times * launch.numel * launch.size;
  } else if (told > 0.0 || launch.numel > 0.0) {
    work.bytes = told > 0.0 ? told : 2.0 * launch.numel * launch.size;
  } else if (launch.query.grid) {
    // One 16-byte load and store per thread is what vectorised kernels do; reductions give each
    // thread some 64 elements (in GPT-2's bias gradients 64 to 93).
    work.bytes = launch.threads * (launch.is_reduction() ? 64.0 * launch.size : 32.0);
    work.exact = false;
  }
}

/// PyTorch's scans of a dimension that is not the last go down each column one element after the
/// other. The fourth sweep's 14 cumsum take 0.15 us for each where the matrix stays in the L2
/// cache, and 0.27 to 0.36 us where it does not: 0.18 us, their geometric mean, is so much of a
/// round trip.
constexpr double scan_step_round_trips = 0.36;

/// The gradient of a table by up to 3,072 indices has a block of 1,024 threads for each 32 columns,
/// which goes through 32 indices at a time: 1.3 to 1.7 us for each of the sweeps' 48 launches of up
/// to 116 blocks, and as long for a wave of them (two on each SM) in a step of Llama 3.2's, whose
/// table of two rows has 1.8 million columns.
constexpr double indices_at_a_time = 32.0, indices_us = 1.45, blocks_on_an_sm = 2.0;

/// CUB sorts what fits one block in passes over 6 bits of the keys at a time
/// (SingleTilePolicy in device_radix_sort.cuh). Eleven of them, for 64 bits, take 12.0 us for 66
/// keys on an H200 (data/measure_sorting.py): a microsecond each.
constexpr double bits_of_a_pass = 6.0, pass_round_trips = 2.0;

/// A pixel of a plane that is resized: 0.165 to 0.22 us in 18 launches of data/h200_keys8.csv.gz
/// and its judges, but for those that read 14 MB and more, 0.36 to 0.38, which wait for memory.
constexpr double plane_us = 0.18, planes_cached = 10e6;

/// Threads that load one element after the other.
void walk_rows(KernelWork& work, const Launch& launch) {
  if (launch.base() == "embedding_backward_feature_kernel" && launch.rows > 0.0) {
    work.resident = blocks_on_an_sm;
    work.round_trips =
        std::ceil(launch.rows / indices_at_a_time) * 1e-6 * indices_us / l2_trip_seconds;
  }
  // Its few threads load one row after the other: 636 rows by 32 of them take 11 us.
  if (is_lookup(launch.signature) && launch.threads > 0.0)
    work.round_trips = std::ceil(launch.rows / launch.threads);
  if (launch.base() == "DeviceRadixSortSingleTileKernel")
    work.round_trips = std::ceil(launch.cols / bits_of_a_pass) * pass_round_trips;
  // A block has a row, whose mean and variance its threads bring up to date with one element after
  // the other: 0.22 us for each of 48 to 392 in poolformer's norms on an H200, whose inputs are in
  // the L2 cache, 0.45 in mobilevitv2's.
  if (launch.base() == "RowwiseMomentsCUDAKernel")
    work.round_trips = std::ceil(launch.cols / launch.query.block.count());
  // A thread has a pixel, and goes through all planes of all images.
  if (launch.base() == "upsample_bilinear2d_out_frame" && launch.threads > 0.0) {
    const double planes = launch.rows > 0.0 ? launch.rows : launch.numel / launch.threads;
    if (launch.query.bytes - launch.numel * launch.size <= planes_cached)
      work.resident = resident_blocks(launch.query);
    work.round_trips = planes * plane_us * 1e-6 / l2_trip_seconds;
  }
  if (launch.base() == "tensor_kernel_scan_outer_dim")
    work.round_trips = launch.cols * scan_step_round_trips;
}

/// Says which kernels this one may be compared with.
void place(KernelWork& work, const Launch& launch) {
  const KernelQuery& query = launch.query;
  work.group = launch.base();
  // What launches took depends on their blocks, which are not known here.
  if (!query.grid) work.group += "/work";
  // Of the scalars that a launch of the aligned kernels makes one array of, nothing is told.
  if (places_parts(launch) && launch.cols > 0.0) work.group = "CatArrayBatchedCopy";
  const bool reduction = launch.is_reduction();
  if (reduction && query.grid && scattered_inputs(query)) work.group += "/scattered";
  // What a merge sort takes hangs on how it compares: numbers, or rows of a matrix (unique by dim).
  if (launch.base().starts_with("DeviceMergeSort"))
    (work.group += "/") += launch.signature.identity;
  // Guessed bytes must not be compared with told ones.
  if (!work.exact) work.group += "/grid";
  work.family = with_halves_alike(launch.signature.identity);
  work.coordinates = {log_coordinate(work.bytes, 1.0), log_coordinate(launch.blocks, 1.0),
                      log_coordinate(reduction ? 1.0 : launch.cols, 1.0),
                      log_coordinate(query.block.count(), 1.0), log_coordinate(launch.size, 1.0)};
  if (places_parts(launch) && query.grid) work.coordinates[5] = log_coordinate(query.grid->y, 1.0);
}

}  // namespace

KernelWork other_kernel(const KernelQuery& query, const KernelSignature& signature) {
  const Launch launch = read_launch(query, signature);
  KernelWork work;
  work.flops = query.flops;
  work.arithmetic = query.arithmetic;
  work.blocks = launch.blocks;
  set_bytes(work, launch);
  // Each knows kernels of its own.
  reduce(work, launch);
  go_through_channels(work, launch);
  find_addresses(work, launch);
  walk_rows(work, launch);
  place(work, launch);
  return work;
}

}  // namespace phantora::detail
