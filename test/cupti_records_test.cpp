#include "cuda/cupti/buffers.hpp"
#include "cuda/cupti/call_numbers.hpp"
#include "cuda/cupti/nccl_kernels.hpp"
#include "cuda/cupti/records.hpp"

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace phantora::cupti {
namespace {

using namespace std::chrono_literals;

std::uint64_t stamp(Time instant) {
  return 1000 + static_cast<std::uint64_t>(instant.time_since_epoch().count()) / 1000;
}

/// The records of an activity.
std::vector<std::vector<std::byte>> records(const rank::Activity& activity) {
  std::vector<std::vector<std::byte>> all;
  put(
      activity, stamp, [](CUpti_ActivityKind kind) { return kind != CUPTI_ACTIVITY_KIND_KERNEL; },
      [&](std::span<const std::byte> record) { all.emplace_back(record.begin(), record.end()); });
  return all;
}

template <class T>
T at(const std::vector<std::byte>& record, std::size_t offset) {
  T value;
  std::memcpy(&value, record.data() + offset, sizeof value);
  return value;
}

/// PyTorch 2.10 was built with CUDA 12: offsets are those of its headers
/// (nvidia-cuda-cupti-cu12 12.6.80: CUpti_ActivityKernel9, Memcpy5, Memset4, API ...).
TEST(CuptiRecords, ProgramsOfOlderHeadersReadTheBeginning) {
  rank::Stream legacy;
  legacy.device = 2;
  legacy.legacy = true;
  KernelQuery query;
  query.name = "void fill<float>(float*)";
  query.grid = KernelQuery::Dim3{3, 1, 1};
  query.block = {64, 1, 2};
  query.shared_bytes = 512;
  const auto kernel = records(
      rank::LaunchActivity{.query = &query,
                           .code = {.name = "_Z4fillIfEvPT_", .registers = 40, .static_shared = 16},
                           .stream = &legacy,
                           .call = 77,
                           .start = Time{5us},
                           .end = Time{7us}});
  ASSERT_EQ(kernel.size(), 1U);
  ASSERT_EQ(kernel[0].size(), size_of(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
  EXPECT_EQ(at<CUpti_ActivityKind>(kernel[0], 0), CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  EXPECT_EQ(at<std::uint16_t>(kernel[0], 6), 40);      // registersPerThread
  EXPECT_EQ(at<std::uint64_t>(kernel[0], 16), 6000U);  // start
  EXPECT_EQ(at<std::uint64_t>(kernel[0], 24), 8000U);  // end
  EXPECT_EQ(at<std::uint32_t>(kernel[0], 40), 2U);     // deviceId
  EXPECT_EQ(at<std::uint32_t>(kernel[0], 44), 3U);     // contextId
  EXPECT_EQ(at<std::uint32_t>(kernel[0], 48), 7U);     // streamId
  EXPECT_EQ(at<std::int32_t>(kernel[0], 52), 3);       // gridX
  EXPECT_EQ(at<std::int32_t>(kernel[0], 72), 2);       // blockZ
  EXPECT_EQ(at<std::int32_t>(kernel[0], 76), 16);      // staticSharedMemory
  EXPECT_EQ(at<std::int32_t>(kernel[0], 80), 512);     // dynamicSharedMemory
  EXPECT_EQ(at<std::uint32_t>(kernel[0], 92), 77U);    // correlationId
  EXPECT_STREQ(at<const char*>(kernel[0], 104), "_Z4fillIfEvPT_");
  EXPECT_EQ(at<std::uint64_t>(kernel[0], 144), 0U);  // graphNodeId

  rank::Stream side;
  side.id = 4;
  query = {};
  query.name = "memcpy_d2h_pinned";
  query.bytes = 4096;
  const auto copy = records(rank::LaunchActivity{
      .query = &query, .code = {}, .stream = &side, .call = 78, .start = Time{1us}, .end = Time{}});
  ASSERT_EQ(copy.size(), 1U);
  EXPECT_EQ(at<CUpti_ActivityKind>(copy[0], 0), CUPTI_ACTIVITY_KIND_MEMCPY);
  EXPECT_EQ(at<std::uint8_t>(copy[0], 4), CUPTI_ACTIVITY_MEMCPY_KIND_DTOH);
  EXPECT_EQ(at<std::uint8_t>(copy[0], 6), CUPTI_ACTIVITY_MEMORY_KIND_PINNED);
  EXPECT_EQ(at<std::uint64_t>(copy[0], 8), 4096U);
  EXPECT_EQ(at<std::uint64_t>(copy[0], 16), 2000U);
  EXPECT_EQ(at<std::uint32_t>(copy[0], 40), 16U);  // streamId: the fourth of the process
  EXPECT_EQ(at<std::uint32_t>(copy[0], 44), 78U);  // correlationId

  const auto call =
      records(rank::CallActivity{.function = {rank::Interface::runtime, "cudaMemcpyAsync"},
                                 .thread = 9,
                                 .call = 78,
                                 .start = Time{},
                                 .end = Time{1us}});
  ASSERT_EQ(call.size(), 1U);
  EXPECT_EQ(at<CUpti_ActivityKind>(call[0], 0), CUPTI_ACTIVITY_KIND_RUNTIME);
  EXPECT_EQ(at<std::uint32_t>(call[0], 4), 41U);
  EXPECT_EQ(at<std::uint64_t>(call[0], 8), 1000U);
  EXPECT_EQ(at<std::uint32_t>(call[0], 28), 9U);
  EXPECT_EQ(at<std::uint32_t>(call[0], 32), 78U);
}

TEST(CuptiRecords, CallsHaveTheNumbersOfTheirFunctions) {
  using rank::Interface;
  // As in a trace of PyTorch 2.11 on an H200.
  EXPECT_EQ(number_of({Interface::runtime, "cudaLaunchKernel"}), 211U);
  EXPECT_EQ(number_of({Interface::runtime, "__cudaLaunchKernel"}), 211U);
  EXPECT_EQ(number_of({Interface::runtime, "__cudaPushCallConfiguration"}), std::nullopt);
  EXPECT_EQ(number_of({Interface::runtime, "cudaDeviceSynchronize"}), 165U);
  EXPECT_EQ(number_of({Interface::runtime, "cudaStreamIsCapturing"}), 317U);
  EXPECT_EQ(number_of({Interface::driver, "cuLaunchKernelEx"}), 652U);
  EXPECT_EQ(number_of({Interface::driver, "notThere"}), std::nullopt);
  EXPECT_EQ(number_of({Interface::library, "cudaLaunchKernel"}), std::nullopt);
  EXPECT_STREQ(name_of(Interface::runtime, 211), "cudaLaunchKernel_v7000");
  EXPECT_STREQ(name_of(Interface::driver, 652), "cuLaunchKernelEx");
  EXPECT_EQ(name_of(Interface::driver, 1'000'000), nullptr);
}

TEST(CuptiRecords, CollectivesHaveTheNamesOfNcclsKernels) {
  using channel::Collective;
  using channel::DataType;
  // Of libnccl.so.2 2.28.
  EXPECT_STREQ(nccl_kernel(Collective::all_reduce, DataType::bfloat16, false),
               "_Z40ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE");
  EXPECT_STREQ(nccl_kernel(Collective::all_reduce, DataType::float16, true),
               "_Z39ncclDevKernel_AllReduce_Sum_f16_TREE_LL24ncclDevKernelArgsStorageILm4096EE");
  EXPECT_STREQ(nccl_kernel(Collective::reduce, DataType::int64, false),
               "_Z36ncclDevKernel_Reduce_Sum_u64_RING_LL24ncclDevKernelArgsStorageILm4096EE");
  EXPECT_STREQ(nccl_kernel(Collective::all_gather, DataType::int64, false),
               "_Z31ncclDevKernel_AllGather_RING_LL24ncclDevKernelArgsStorageILm4096EE");
  EXPECT_STREQ(nccl_kernel(Collective::recv, DataType::int8, false),
               "_Z22ncclDevKernel_SendRecv24ncclDevKernelArgsStorageILm4096EE");
}

// --- Buffers, of a program that has two of 100 bytes ---

std::vector<std::uint8_t*> given;
std::vector<std::pair<std::uint8_t*, std::size_t>> returned;
void request(std::uint8_t** buffer, std::size_t* size, std::size_t* most) {
  static std::uint8_t memory[2][100];
  *buffer = given.size() < 2 ? memory[given.size()] : nullptr;
  *size = given.size() < 2 ? 100 : 0;
  *most = 0;
  given.push_back(*buffer);
}
void complete(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t used) {
  returned.emplace_back(buffer, used);
}

TEST(CuptiBuffers, AreHandedBackWhenTheyAreFullAndWhatFitsNowhereIsCounted) {
  Buffers buffers;
  const std::vector<std::byte> record(40);
  buffers.put(record);
  EXPECT_EQ(buffers.take_dropped(), 1U);  // nobody has given any
  buffers.use(request, complete);
  buffers.have_one();
  buffers.have_one();
  EXPECT_EQ(given.size(), 1U);
  for (int i = 0; i < 6; ++i) buffers.put(record);
  EXPECT_EQ(returned,
            (std::vector<std::pair<std::uint8_t*, std::size_t>>{{given[0], 80}, {given[1], 80}}));
  EXPECT_EQ(buffers.take_dropped(), 2U);
  EXPECT_EQ(buffers.take_dropped(), 0U);
}

}  // namespace
}  // namespace phantora::cupti
