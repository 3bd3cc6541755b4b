#pragma once

#include <phantora/kernels/kernel_cost_model.hpp>
#include <phantora/kernels/kernel_signature.hpp>
#include <phantora/kernels/kernel_work.hpp>

#include <string>
#include <string_view>

/// What every family of kernels reads off a query, and how it says where a kernel lies in its
/// group.
namespace phantora::detail {

/// A feature if it is told and positive.
double feature(const KernelQuery& query, std::string_view key, double otherwise);
std::string_view attribute(const KernelQuery& query, std::string_view key,
                           std::string_view otherwise);

/// Whether a convolution runs by the fastest of all that cuDNN offers.
bool is_tried(const KernelQuery& query);

/// Of an element of a library operation's type.
double type_bytes(std::string_view type);
bool is_complex(std::string_view type);
/// Which units multiply such elements, and add them up in `compute`.
Arithmetic arithmetic_of(std::string_view type, std::string_view compute);
/// The part of a group's name that tells the units, e.g. "/half".
std::string label(Arithmetic arithmetic);
/// The largest power of two, at most `most`, that divides a row of so many bytes.
double alignment_of(double bytes, double most = 16.0);

/// A coordinate along which efficiency changes over factors of e^`scale`.
float log_coordinate(double value, double scale);

/// The first template argument; nothing if there is none.
std::string_view first_argument(const KernelSignature& signature);
/// Thread blocks of a launch; 0 = not told.
double blocks_of(const KernelQuery& query);
/// Blocks of such a launch that an SM runs at once by their threads alone, of which the SMs of all
/// GPUs here but the L40S have room for 2048.
double resident_blocks(const KernelQuery& query);

/// Round trips to memory that take as long as a kernel that waits for the one before it: some 2 us
/// and the gap between them.
constexpr double launch_round_trips = 6.0;

}  // namespace phantora::detail
