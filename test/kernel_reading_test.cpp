#include "rank/element_type.hpp"
#include "rank/elementwise_function.hpp"
#include "rank/fat_binary.hpp"
#include "rank/kernel_effect.hpp"
#include "rank/kernel_name.hpp"
#include "rank/philox.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include <gtest/gtest.h>
#include <zstd.h>

namespace phantora::rank {
namespace {

TEST(KernelName, IsDemangledAsCuptiPrintsIt) {
  // Both names are in the CUPTI trace of two GPT-2 steps on an H200.
  EXPECT_EQ(
      demangled(
          "_ZN2at6native29vectorized_elementwise_kernelILi8ENS0_15CUDAFunctor_addIN3c108BFloat"
          "16EEESt5arrayIPcLm3EEEEviT0_T1_"),
      "void at::native::vectorized_elementwise_kernel<8, "
      "at::native::CUDAFunctor_add<c10::BFloat16>, "
      "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, "
      "3ul>)");
  EXPECT_EQ(demangled("not_mangled"), "not_mangled");
}

TEST(KernelName, SignaturesAreTakenApart) {
  const std::string text =
      "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, float, float, 10, false, "
      "false>(float*, c10::BFloat16 const*, int, bool const*)";
  const Signature s = signature(text);
  EXPECT_EQ(s.kernel.name, "(anonymous namespace)::softmax_warp_forward");
  EXPECT_EQ(unqualified(s.kernel.name), "softmax_warp_forward");
  ASSERT_EQ(s.kernel.arguments.size(), 6u);
  EXPECT_EQ(s.kernel.arguments[0], "c10::BFloat16");
  EXPECT_EQ(s.kernel.arguments[5], "false");
  ASSERT_EQ(s.parameters.size(), 4u);
  EXPECT_EQ(s.parameters[1], "c10::BFloat16 const*");
}

// Any program may have kernels of these names, with no arguments or others.
TEST(KernelEffect, NamesWeKnowWithoutTheirArgumentsAreUnknownKernels) {
  for (const char* name : {"softmax_warp_backward", "lpnorm_cleanup", "lpmax_cleanup", "GatherTopK",
                           "sbtopk::gatherTopK", "nll_loss_backward_reduce_cuda_kernel_1d",
                           "indexSelectSmallIndex", "max_pool_forward_nchw",
                           "upsample_nearest2d_out_frame", "tensor_kernel_scan_innermost_dim"}) {
    const Signature parts = signature(std::string_view{name});
    EXPECT_EQ(read_rowwise(parts, {}), nullptr) << name;
    EXPECT_EQ(read_multi_tensor(parts, {}), nullptr) << name;
    EXPECT_EQ(read_indexing(parts, {}), nullptr) << name;
    EXPECT_EQ(read_pooling(parts, {}), nullptr) << name;
    EXPECT_EQ(read_lookup(parts, {}), nullptr) << name;
    EXPECT_EQ(read_sort(parts, {}), nullptr) << name;
    EXPECT_EQ(read_scan(parts, {}), nullptr) << name;
  }
}

TEST(KernelEffect, NumbersInNamesAreBelievedWithinReason) {
  const Signature parts =
      signature(std::string_view{"at::native::vectorized_elementwise_kernel<4, "
                                 "at::native::(anonymous namespace)::f()::{lambda(float)#1}, "
                                 "std::array<char*, 9999999999999999999ul> >(int)"});
  EXPECT_EQ(read_elementwise(parts, {}), nullptr);
}

TEST(KernelName, LambdasNameTheirFunction) {
  const LambdaName lambda = lambda_name(
      "at::native::(anonymous namespace)::pow_tensor_scalar_kernel_impl<float, long>(at::"
      "TensorIteratorBase&, long)::{lambda()#2}::operator()() const::{lambda(float)#4}");
  EXPECT_EQ(unqualified(lambda.function.name), "pow_tensor_scalar_kernel_impl");
  ASSERT_EQ(lambda.function.arguments.size(), 2u);
  EXPECT_EQ(lambda.function.arguments[1], "long");
  EXPECT_EQ(lambda.path, (std::vector<int>{2, 4}));
  EXPECT_EQ(lambda.parameters, (std::vector<std::string_view>{"float"}));
  EXPECT_TRUE(lambda_name("at::native::FillFunctor<float>").function.name.empty());
}

// Every value of the 16-bit types survives; numbers between two neighbours go to the nearer one,
// and halfway to the even one.
TEST(ElementType, SixteenBitFloatsRoundToNearestEven) {
  for (const ElementType type : {ElementType::float16, ElementType::bfloat16}) {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      const auto half = static_cast<std::uint16_t>(bits);
      std::byte in[2], out[2];
      std::memcpy(in, &half, 2);
      const Value value = load(type, in);
      if (std::isnan(value.real)) continue;
      store(type, value, out);
      ASSERT_EQ(std::memcmp(in, out, 2), 0) << bits;
      const std::uint16_t magnitude = half & 0x7fff;
      const std::uint16_t next = static_cast<std::uint16_t>(magnitude + 1);
      std::byte low[2], high[2];
      std::memcpy(low, &magnitude, 2);
      std::memcpy(high, &next, 2);
      const double a = load(type, low).real, b = load(type, high).real;
      if (!std::isfinite(b)) continue;
      store(type, Value{(a + b) / 2}, out);
      std::uint16_t rounded = 0;
      std::memcpy(&rounded, out, 2);
      ASSERT_EQ(rounded, magnitude % 2 == 0 ? magnitude : next) << bits;
      store(type, Value{a + (b - a) * 0.75}, out);
      std::memcpy(&rounded, out, 2);
      ASSERT_EQ(rounded, next) << bits;
    }
  }
}

TEST(ElementType, ConvertsAsTheDeviceDoes) {
  EXPECT_EQ(converted(ElementType::int64, Value{-2.5}).integer, -2);
  EXPECT_EQ(converted(ElementType::uint8, Value{-1}).integer, 255);
  EXPECT_EQ(converted(ElementType::int64, Value{1e30}).integer,
            std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(converted(ElementType::boolean, Value{0.5}).integer, 1);
  EXPECT_EQ(converted(ElementType::float16, Value{65519.0}).real, 65504.0);
  EXPECT_TRUE(std::isinf(converted(ElementType::float16, Value{65520.0}).real));
}

// Key and counter zero: the first of the authors' test vectors for Philox 4x32-10 (Random123,
// kat_vectors). Offsets count numbers, four to a block.
TEST(Philox, MatchesThePublishedVectors) {
  Philox zero{0, 0, 0};
  EXPECT_EQ(zero.four(),
            (std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  Philox stepped{7, 9, 0}, skipped{7, 9, 4};
  stepped.four();
  EXPECT_EQ(stepped.four(), skipped.four());
  Philox single{7, 9, 1}, block{7, 9, 0};
  const auto four = block.four();
  EXPECT_EQ(single.one(), four[1]);
}

TEST(FatBinary, DecompressesLz4) {
  // Token 0x32: three literals "abc", then a match of 2 + 4 bytes at distance 3: "abcabcabc".
  // Token 0x10: one literal "!", the last sequence.
  const std::uint8_t block[] = {0x32, 'a', 'b', 'c', 3, 0, 0x10, '!'};
  FatBinary::Entry entry;
  entry.payload = std::as_bytes(std::span{block});
  entry.compressed = sizeof block;
  entry.decompressed = 10;
  const auto out = decompress(entry);
  ASSERT_EQ(out.size(), 10u);
  EXPECT_EQ(std::memcmp(out.data(), "abcabcabc!", 10), 0);
  entry.decompressed = 5;  // more comes out than was announced
  EXPECT_TRUE(decompress(entry).empty());
}

TEST(FatBinary, DecompressesZstandard) {
  std::vector<std::byte> code(300'000);
  std::mt19937 random{3};
  for (std::size_t i = 0; i < code.size(); ++i) {
    code[i] = static_cast<std::byte>(i % 5000 < 100 ? random() : 0);
  }
  std::vector<std::byte> frame(ZSTD_compressBound(code.size()));
  frame.resize(ZSTD_compress(frame.data(), frame.size(), code.data(), code.size(), 3));
  FatBinary::Entry entry;
  entry.payload = frame;
  entry.compressed = frame.size();
  entry.decompressed = code.size();
  EXPECT_EQ(decompress(entry), code);
  entry.decompressed = code.size() - 1;  // more comes out than was announced
  EXPECT_TRUE(decompress(entry).empty());
  entry.decompressed = code.size();
  entry.compressed = frame.size() - 1;
  EXPECT_TRUE(decompress(entry).empty());
}

TEST(FatBinary, AnAnnouncedSizeIsNotBelieved) {
  const std::uint8_t lz4[] = {0x10, '!'};
  FatBinary::Entry entry;
  entry.payload = std::as_bytes(std::span{lz4});
  entry.compressed = sizeof lz4;
  entry.decompressed = std::size_t{1} << 62;  // no such memory
  EXPECT_TRUE(decompress(entry).empty());
  std::vector<std::byte> frame(ZSTD_compressBound(5));
  frame.resize(ZSTD_compress(frame.data(), frame.size(), "hello", 5, 3));
  entry.payload = frame;
  entry.compressed = frame.size();
  EXPECT_EQ(decompress(entry).size(), 5u);
}

/// A container with one entry for `architecture`, of this many bytes as it says.
std::vector<std::byte> container(std::uint32_t architecture, std::uint64_t payload_size) {
  struct {
    std::uint32_t magic = 0xba55ed50;
    std::uint16_t version = 1, header_size = 16;
    std::uint64_t size = 128;
    struct Entry {
      std::uint16_t kind = 2, version = 1;
      std::uint32_t header_size = 64;
      std::uint64_t payload_size = 0;
      std::uint32_t compressed_size = 0, unknown = 0, version_of_isa = 0, architecture = 90;
      std::array<std::uint64_t, 4> rest{};
    } first, second;
  } file;
  file.first.architecture = architecture;
  file.first.payload_size = payload_size;
  const auto bytes = std::as_bytes(std::span{&file, 1});
  return {bytes.begin(), bytes.end()};
}

TEST(FatBinary, EntriesEndWithTheContainer) {
  EXPECT_EQ(FatBinary{container(90, 0).data()}.entries().size(), 2u);
  // One that takes the place of the next back to this one was read for ever.
  EXPECT_TRUE(FatBinary{container(90, std::uint64_t{0} - 64).data()}.entries().empty());
  EXPECT_TRUE(FatBinary{container(90, 65).data()}.entries().empty());
}

TEST(FatBinary, ArchitecturesAreAnyNumber) {
  FatBinary code{container(0x80000000, 0).data()};
  EXPECT_FALSE(code.find("kernel", 90));
}

TEST(FatBinary, MalformedInputGivesNothing) {
  std::mt19937 random{5};
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::byte> bytes(64 + random() % 512);
    for (auto& b : bytes) b = static_cast<std::byte>(random());
    std::memcpy(bytes.data(),
                "\x7f"
                "ELF",
                4);
    const Cubin cubin{bytes};
    EXPECT_EQ(cubin.find("kernel"), nullptr);
  }
}

struct Launched {
  std::vector<std::vector<std::byte>> values;
  std::vector<void*> pointers;
  std::vector<std::uint32_t> sizes;
  template <class T>
  void add(const T& value) {
    const auto* first = reinterpret_cast<const std::byte*>(&value);
    values.emplace_back(first, first + sizeof value);
    sizes.push_back(sizeof value);
    pointers.clear();
    for (auto& v : values) pointers.push_back(v.data());
  }
};

// a + alpha * b on three bfloat16 arrays, as torch.add(x, y, alpha=2) launches it.
TEST(KernelEffect, AddsAndKnowsItsTraffic) {
  const std::string name =
      "void at::native::vectorized_elementwise_kernel<8, "
      "at::native::CUDAFunctor_add<c10::BFloat16>, "
      "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, "
      "3ul>)";
  const Signature parts = signature(name);
  const auto meaning = read_elementwise(parts, {});
  ASSERT_NE(meaning, nullptr);
  auto* memory = static_cast<std::byte*>(allocate(0, 4096));
  const std::uint16_t one = 0x3f80, three = 0x4040;  // 1.0 and 3.0
  for (int i = 0; i < 4; ++i) {
    write(memory + 1024 + 2 * i, &one, 2);
    write(memory + 2048 + 2 * i, &three, 2);
  }
  Launched launch;
  launch.add(5);
  launch.add(2.0f);
  launch.add(std::array<std::byte*, 3>{memory, memory + 1024, memory + 2048});
  const Arguments arguments{launch.pointers.data(), launch.sizes, {{1, 1, 1}, {128, 1, 1}, 0}};
  const auto effect = meaning->effect(arguments);
  ASSERT_TRUE(effect);
  EXPECT_EQ(effect->bytes, 3 * 5 * 2.0);
  EXPECT_EQ(effect->features, (std::vector<Feature>{{"numel", 5.0}}));
  apply(*effect);
  std::uint16_t result = 0;
  EXPECT_TRUE(read(&result, memory + 6, 2));
  EXPECT_EQ(result, 0x40e0);  // 1 + 2 * 3 = 7
  // The fifth element's operands are unknown, so it is, and nothing behind it was touched.
  EXPECT_FALSE(known(memory + 8, 2));
  deallocate(memory);
}

// Large operands are not computed: what was known of the output is not kept.
TEST(KernelEffect, LargeOutputsBecomeUnknown) {
  const std::string name =
      "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, "
      "std::array<char*, 1ul> >(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)";
  const Signature parts = signature(name);
  const auto meaning = read_elementwise(parts, {});
  ASSERT_NE(meaning, nullptr);
  constexpr int count = small_bytes / 4 + 1;
  auto* memory = static_cast<std::byte*>(allocate(0, 4 * count + 4));
  fill(memory, 1, 16);
  fill(memory + 4 * count, 1, 4);
  Launched launch;
  launch.add(count);
  launch.add(2.0f);
  launch.add(std::array<std::byte*, 1>{memory});
  const auto effect =
      meaning->effect({launch.pointers.data(), launch.sizes, {{1, 1, 1}, {128, 1, 1}, 0}});
  ASSERT_TRUE(effect);
  apply(*effect);
  EXPECT_FALSE(known(memory, 1));
  EXPECT_TRUE(known(memory + 4 * count, 4));  // behind the output
  deallocate(memory);
}

}  // namespace
}  // namespace phantora::rank
