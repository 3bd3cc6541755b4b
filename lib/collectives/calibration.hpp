#pragma once

#include <phantora/units.hpp>

#include <array>

/// NCCL's tuner is made to choose, not to predict. These constants turn its table into time. Fitted
/// over all operations and sizes at once, on timings of 2, 3, 4 and 8 H200 with NCCL 2.28.9 (GPU
/// side, from CUDA graphs: bench/accuracy/h200_collectives.jsonl); bench/accuracy/README.md has the
/// differences that remain.
namespace phantora::calibration {

/// Achieved over nominal ring bandwidth, by protocol.
inline constexpr std::array<double, 3> ring_efficiency{1.26, 0.988, 1.041};
/// The same between hosts, also of NVLSTree: 330 GB/s of 360 on H100 nodes with 8 x 400 Gb/s
/// (NVIDIA/nccl#1221).
inline constexpr double ring_efficiency_between_hosts = 330.0 / 360.0;
/// Microseconds that a ring operation takes before data flows, by protocol: `ring_base_us`, in
/// place of NCCL's `nccl_ring_base_us`, and `ring_hop_scale` times what NCCL counts for hops.
inline constexpr std::array<double, 3> ring_base_us{6.4, 19.1, 11.5};
inline constexpr std::array<double, 3> nccl_ring_base_us{6.6, 14.0, 8.4};
inline constexpr std::array<double, 3> ring_hop_scale{1.52, 0.26, 1.174};
/// Further microseconds of LL once every thread of a channel has something to send: 8 bytes for
/// each of 512 threads.
inline constexpr double ll_pass_us = 0.7, ll_pass_bytes = 512 * 8;
/// LL hops of all_gather and reduce_scatter, whose ranks do not wait for one another at the end.
inline constexpr double one_way_ll_hop_scale = 2.3;
/// Each rank handles one block of the tensor without sending it on. That takes a time that is
/// linear for small blocks and approaches `block_us`, in microseconds, for large ones.
inline constexpr double block_us = 1014.7, block_half_bytes = 547e6;
/// A rooted reduction fills a deeper pipeline. Each doubling of ranks beyond two adds this many
/// hops with LL, and with Simple this part of a chunk (NCCL's step of 512 KiB, or less), which
/// ranks do not hide where reductions follow one another. A chunk moves at the rate of a channel.
inline constexpr double reduce_hops_per_doubling = 2, reduce_chunks_per_doubling = 0.39;
/// NCCL's step of Simple: a rooted operation's chunk, and a message's.
inline constexpr double step_bytes = 512.0 * (1 << 10);
/// Bytes per second that a channel moves of shards that are not aligned to 16 bytes, which NCCL
/// copies element by element: bytes for all_gather and messages, numbers for reduce_scatter; and of
/// all messages of a GPU.
inline constexpr double unaligned_gather_rate = 8.9e9, unaligned_scatter_rate = 12.0e9,
                        unaligned_message_rate = 7.6e9, unaligned_messages_rate = 165e9;
/// Part of the base latency that is paid once per kernel, in microseconds, by protocol; the rest is
/// paid again by each operation that queues on the same channel.
inline constexpr std::array<double, 3> kernel_us{5.9, 14, 3.5};
/// NVLS fills its pipeline for a time that approaches `nvls_fill_us`: from all_reduces of 16 and
/// 32 MiB on 8 H100, 121 and 195 us (Mooncake, pull request 3484).
inline constexpr double nvls_fill_us = 71, nvls_fill_half_bytes = 17.0 * (1 << 20);
/// What NCCL does with messages (src/enqueue.cc): LL up to 16 KiB for each channel that a peer may
/// have, else Simple; parts of at least an eighth of a step, and of at most 32 steps while there
/// are channels; LL has an eighth of Simple's step.
inline constexpr double message_ll_bytes = 16.0 * (1 << 10);
inline constexpr std::array<double, 3> message_step_bytes{step_bytes / 8, 0, step_bytes};
/// Microseconds that messages take before data flows, by protocol; then for each further peer of a
/// GPU; and for the last step, which the receiver copies when all of that step has come.
inline constexpr std::array<double, 3> message_base_us{10.7, 0, 14.7};
inline constexpr double message_peer_us = 0.4, message_step_us = 5.3;
/// The base where the receiver sends nothing, and so copies no last step while sending. A receiver
/// that sends less than it gets lies in between.
inline constexpr std::array<double, 3> one_way_base_us{9.5, 0, 11.5};
/// Part of a message's base that is paid once per kernel; the rest is paid again by each message
/// that follows another to the same peer.
inline constexpr double message_kernel_us = 6.5;
/// A channel moves a message at this rate, by protocol (Simple, on H200: 19 to 21 GB/s); all LL
/// messages of a GPU together move at `messages_ll_rate` at most.
inline constexpr std::array<double, 3> message_channel_rate{5.1e9, 0, 20.5e9};
inline constexpr double messages_ll_rate = 120e9;
/// The rate of a channel whose block only sends or only receives. NCCL pairs the message that a GPU
/// sends d ranks on with the one that it gets from d ranks before, and gives each message half of a
/// block's threads. This rate and the one-way base are from direct calls on 2 to 4 H200
/// (bench/accuracy/h200_small_collectives.jsonl).
inline constexpr std::array<double, 3> unpaired_channel_rate{8.2e9, 0, 34e9};
/// Large messages that fill a GPU's NVLinks get out of step. That costs a time that approaches
/// `message_crowd_us`, times the square of the share of the links that the channels could use.
inline constexpr double message_crowd_us = 55, message_crowd_half_bytes = 44e6;
/// Line rate over achieved rate of one GPU's NVLinks: for rings, for a lone message, for many.
inline constexpr double nvlink_ring = 450 / 374.8, nvlink_message = 450.0 / 362,
                        nvlink_messages = 450.0 / 340;
/// The same where NVSwitches reduce. A GPU gives and takes 1 + 1/n of the tensor, so that 308.6
/// GB/s are bus bandwidths of 411, 441, 463 and 480 GB/s on 5 to 8 H100; nccl-tests#212 has 420,
/// 440, 460 and 480. Blackwell by NCCL's own efficiencies of NVLS, .74 and .85.
inline constexpr double nvlink_nvls = 450 / 308.6,
                        nvlink_nvls_blackwell = nvlink_nvls * 0.85 / 0.74;
/// Line rate over achieved rate of a NIC: 48.5 of 50 GB/s (CX7, as SimAI and nccl-tests#290 find).
inline constexpr double nic_overhead = 50 / 48.5;
/// Bytes on the wire per byte of data, by protocol: flags.
inline constexpr std::array<double, 3> protocol_overhead{2.0, 128.0 / 120.0, 1.0};

[[nodiscard]] inline Duration microseconds(double us) { return duration_from_seconds(us * 1e-6); }

}  // namespace phantora::calibration
