#include "rank/code/device_code.hpp"
#include "rank/code/fat_binary.hpp"
#include "rank/kernels/contrast.hpp"
#include "rank/kernels/families/element_type.hpp"
#include "rank/kernels/families/elementwise_function.hpp"
#include "rank/kernels/families/philox.hpp"
#include "rank/kernels/kernel_effect.hpp"
#include "rank/kernels/kernel_launch.hpp"
#include "rank/kernels/kernel_name.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/small_data.hpp"
#include "rank_fakes.hpp"

#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <map>
#include <random>

#include <elf.h>
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
  for (const char* name :
       {"softmax_warp_backward", "lpnorm_cleanup", "lpmax_cleanup", "GatherTopK",
        "sbtopk::gatherTopK", "nll_loss_backward_reduce_cuda_kernel_1d", "indexSelectSmallIndex",
        "max_pool_forward_nchw", "upsample_nearest2d_out_frame", "tensor_kernel_scan_innermost_dim",
        "batch_norm_collect_statistics_channels_last_kernel", "conv_depthwise2d_forward_kernel"}) {
    const Signature parts = signature(std::string_view{name});
    EXPECT_EQ(read_rowwise(parts, {}), nullptr) << name;
    EXPECT_EQ(read_multi_tensor(parts, {}), nullptr) << name;
    EXPECT_EQ(read_indexing(parts, {}), nullptr) << name;
    EXPECT_EQ(read_pooling(parts, {}), nullptr) << name;
    EXPECT_EQ(read_depthwise(parts, {}), nullptr) << name;
    EXPECT_EQ(read_batch_norm(parts, {}), nullptr) << name;
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

// Which lambda is whose differs between versions of PyTorch.
TEST(KernelEffect, WhatKindOfFloat8IsMeantIsNotGuessed) {
  const auto function = elementwise_function(
      "at::native::float8_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}");
  ASSERT_TRUE(function);
  EXPECT_EQ(size_of(function->result), 1u);
  EXPECT_FALSE(function->evaluate);
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

TEST(ElementType, EightBitFloatsRoundToNearestEven) {
  for (const ElementType type : {ElementType::float8_e4m3, ElementType::float8_e5m2}) {
    for (int bits = 0; bits < 0x7f; ++bits) {
      const auto at = [&](int b) {
        const auto byte = static_cast<std::byte>(b);
        return load(type, &byte).real;
      };
      const auto back = [&](double value) {
        std::byte byte{};
        store(type, Value{value}, &byte);
        return static_cast<int>(byte);
      };
      const double a = at(bits), b = at(bits + 1);
      if (std::isnan(a)) continue;
      ASSERT_EQ(back(a), bits);
      ASSERT_EQ(back(-a), bits | 0x80);
      if (!std::isfinite(b)) continue;
      ASSERT_EQ(back((a + b) / 2), bits + bits % 2) << bits;
      ASSERT_EQ(back(a + (b - a) * 0.75), bits + 1) << bits;
    }
  }
  EXPECT_EQ(converted(ElementType::float8_e4m3, Value{463.0}).real, 448.0);
  EXPECT_TRUE(std::isnan(converted(ElementType::float8_e4m3, Value{465.0}).real));
  EXPECT_EQ(converted(ElementType::float8_e5m2, Value{61439.0}).real, 57344.0);
  EXPECT_TRUE(std::isinf(converted(ElementType::float8_e5m2, Value{61440.0}).real));
}

TEST(ElementType, ComplexNumbersKeepBothParts) {
  for (const ElementType type :
       {ElementType::complex32, ElementType::complex64, ElementType::complex128}) {
    const Value kept = converted(type, std::complex{1.5, -2.25});
    EXPECT_EQ(kept.to_complex(), (std::complex{1.5, -2.25}));
    EXPECT_EQ(converted(type, Value{3}).to_complex(), std::complex{3.0});
  }
  // Only the real part becomes real; either makes it true.
  EXPECT_EQ(converted(ElementType::float32, std::complex{1.5, -2.25}).to_complex(),
            std::complex{1.5});
  EXPECT_EQ(converted(ElementType::boolean, std::complex{0.0, 2.0}).integer, 1);
  EXPECT_FALSE(element_type_named("c10::complex<float>"));  // most families need an order
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

/// A cubin's file: an ELF header, and sections of which the last has their names.
class Sections {
 public:
  template <class T>
  void add(std::uint32_t type, const T& part, std::uint32_t name = 0, std::uint32_t link = 0) {
    const auto bytes = std::as_bytes(std::span{&part, 1});
    Elf64_Shdr& header = headers_.emplace_back();
    header.sh_type = type;
    header.sh_name = name;
    header.sh_link = link;
    header.sh_offset = parts_.size();
    header.sh_size = bytes.size();
    // GCC 12 warns of an insertion here, without reason, where it has inlined enough.
    for (const std::byte byte : bytes) parts_.push_back(byte);
  }
  [[nodiscard]] std::vector<std::byte> file() const {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_shoff = sizeof header;
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = static_cast<std::uint16_t>(headers_.size());
    header.e_shstrndx = static_cast<std::uint16_t>(headers_.size() - 1);
    const std::size_t first_part = sizeof header + headers_.size() * sizeof(Elf64_Shdr);
    std::vector<std::byte> bytes(first_part + parts_.size());
    std::memcpy(bytes.data(), &header, sizeof header);
    std::byte* at = bytes.data() + sizeof header;
    for (Elf64_Shdr section : headers_) {
      section.sh_offset += first_part;
      std::memcpy(at, &section, sizeof section);
      at += sizeof section;
    }
    std::copy(parts_.begin(), parts_.end(), at);
    return bytes;
  }

 private:
  std::vector<Elf64_Shdr> headers_;
  std::vector<std::byte> parts_;
};

// As ptxas 13.0 writes them (nvcc -cubin of a kernel with an int and a double[3], and of one whose
// first parameter has 25,000 bytes): beyond 4 KiB an attribute has the size alone.
TEST(Cubin, ReadsParametersOfBothKinds) {
  struct Parameter {
    std::uint8_t format = 4, attribute = 0;
    std::uint16_t bytes = 12;
    std::uint32_t index = 0;
    std::uint16_t ordinal = 0, offset = 0;
    std::uint32_t size = 0;
  };
  const std::array<Parameter, 3> small{
      {{.attribute = 0x17, .ordinal = 1, .offset = 8, .size = 0x61f000},
       {.attribute = 0x17, .ordinal = 0, .size = 0x11f000},
       // Of __cluster_dims__(4, 2, 1): three numbers of 32 bits.
       {.attribute = 0x3d, .index = 4, .ordinal = 2, .size = 1}}};
  const std::array<Parameter, 2> large{
      {{.attribute = 0x45, .ordinal = 1, .offset = 0x61a8, .size = 4},
       {.attribute = 0x45, .ordinal = 0, .size = 25000}}};
  Sections sections;
  sections.add(SHT_PROGBITS, small, 1);
  sections.add(SHT_PROGBITS, large, 16);
  sections.add(SHT_PROGBITS, "\0.nv.info.small\0.nv.info.large\0.shstrtab", 31);
  const std::vector<std::byte> file = sections.file();
  const Cubin cubin{file};
  using Sizes = std::vector<std::uint32_t>;
  ASSERT_NE(cubin.find("small"), nullptr);
  ASSERT_NE(cubin.find("large"), nullptr);
  EXPECT_EQ(cubin.find("small")->parameter_sizes, (Sizes{4, 24}));
  EXPECT_EQ(cubin.find("large")->parameter_sizes, (Sizes{25000, 4}));
  EXPECT_EQ(cubin.find("small")->parameter_offsets, (Sizes{0, 8}));
  EXPECT_EQ(cubin.find("large")->parameter_offsets, (Sizes{0, 0x61a8}));
  EXPECT_EQ(cubin.find("small")->cluster, (phantora::KernelQuery::Dim3{4, 2, 1}));
  EXPECT_EQ(cubin.find("large")->cluster, (phantora::KernelQuery::Dim3{0, 0, 0}));
}

// __device__ int given[2] = {5, 6} and __device__ char zeros[3], as ptxas lays them out: the first
// in .nv.global.init, the second in .nv.global, which has no bytes in the file.
TEST(Cubin, ReadsInitialValuesOfVariables) {
  const std::array<std::int32_t, 4> values{1, 2, 5, 6};
  std::array<Elf64_Sym, 3> symbols{};
  const auto object = [&](std::size_t i, std::uint32_t name, std::uint16_t section,
                          std::uint64_t offset, std::uint64_t size) {
    symbols[i].st_name = name;
    symbols[i].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
    symbols[i].st_shndx = section;
    symbols[i].st_value = offset;
    symbols[i].st_size = size;
  };
  object(1, 1, 0, 8, 8);
  object(2, 7, 1, 0, 3);
  Sections sections;
  sections.add(SHT_PROGBITS, values);
  sections.add(SHT_NOBITS, values);
  sections.add(SHT_SYMTAB, symbols, 0, 3);
  sections.add(SHT_STRTAB, "\0given\0zeros");
  sections.add(SHT_STRTAB, "");
  const std::vector<std::byte> file = sections.file();
  const Cubin cubin{file};
  const auto* const given = cubin.variable("given");
  ASSERT_NE(given, nullptr);
  ASSERT_EQ(given->value.size(), 8u);
  std::array<std::int32_t, 2> read{};
  std::memcpy(read.data(), given->value.data(), sizeof read);
  EXPECT_EQ(read, (std::array<std::int32_t, 2>{5, 6}));
  const auto* const zeros = cubin.variable("zeros");
  ASSERT_NE(zeros, nullptr);
  EXPECT_EQ(zeros->size, 3u);
  EXPECT_EQ(zeros->value, std::vector<std::byte>(3));
  EXPECT_EQ(cubin.variable("other"), nullptr);
}

/// A file with the kernel "loud", whose externals are __assertfail and vprintf, as ptxas 13.0 lists
/// them: numbers of symbols in an attribute of its own.
struct LoudFile {
  Elf64_Ehdr header{};
  struct {
    std::uint8_t format = 4, attribute = 0x0f;
    std::uint16_t bytes = 8;
    std::uint32_t first = 2, second = 1;
  } externals;
  std::array<Elf64_Sym, 3> symbols{};
  char strings[24] = "\0vprintf\0__assertfail";
  char names[24] = "\0.nv.info.loud";
  std::array<Elf64_Shdr, 4> sections{};  // last, as in what ptxas writes

  LoudFile() {
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_shoff = offset(sections);
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = 4;
    header.e_shstrndx = 3;
    place(0, SHT_PROGBITS, externals);
    sections[0].sh_name = 1;
    place(1, SHT_SYMTAB, symbols);
    sections[1].sh_link = 2;
    place(2, SHT_STRTAB, strings);
    place(3, SHT_STRTAB, names);
    symbols[1].st_name = 1;
    symbols[2].st_name = 9;
  }
  template <class T>
  [[nodiscard]] std::uint64_t offset(const T& part) const {
    return static_cast<std::uint64_t>(reinterpret_cast<const char*>(&part) -
                                      reinterpret_cast<const char*>(this));
  }
  template <class T>
  void place(std::size_t section, std::uint32_t type, const T& part) {
    sections[section].sh_type = type;
    sections[section].sh_offset = offset(part);
    sections[section].sh_size = sizeof part;
  }
};

TEST(Cubin, ReadsWhatKernelsAskOfTheDriver) {
  const LoudFile file;
  const Cubin cubin{std::as_bytes(std::span{&file, 1})};
  ASSERT_NE(cubin.find("loud"), nullptr);
  EXPECT_EQ(cubin.find("loud")->externals, (std::vector<std::string>{"__assertfail", "vprintf"}));
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
  EXPECT_EQ(effect->features, (Features{{"numel", 5.0}}));
  apply(*effect);
  std::uint16_t result = 0;
  EXPECT_TRUE(read(&result, memory + 6, 2));
  EXPECT_EQ(result, 0x40e0);  // 1 + 2 * 3 = 7
  // The fifth element's operands are unknown, so it is, and nothing behind it was touched.
  EXPECT_FALSE(known(memory + 8, 2));
  deallocate(memory);
}

/// The effect of one block's launch; nothing where the kernel is not read.
std::optional<Effect> effect_of(const Meaning* meaning, const Launched& launch) {
  if (meaning == nullptr) return std::nullopt;
  return meaning->effect({launch.pointers.data(), launch.sizes, {{1, 1, 1}, {128, 1, 1}, 0}});
}

/// A PackedTensorAccessor32<T, 4>.
struct Accessor {
  std::byte* data;
  std::array<std::int32_t, 4> sizes, strides{};
};

// 6 rows of 8 channels in bfloat16.
TEST(KernelEffect, BatchNormOfInnermostChannels) {
  const std::string collects =
      "void at::native::batch_norm_collect_statistics_channels_last_kernel<at::native::Var, "
      "c10::BFloat16, float, 4>(c10::BFloat16 const*, float*, float*, float volatile*, int*, int, "
      "int, float)";
  auto* memory = static_cast<std::byte*>(allocate(0, 4096));
  fill(memory, 1, 4096);
  const Signature collecting = signature(collects);
  Launched launch;
  for (int i = 0; i < 5; ++i) launch.add(memory + 512 * i);
  launch.add(6);
  launch.add(8);
  launch.add(1e-5f);
  const auto statistics = effect_of(read_batch_norm(collecting, {}).get(), launch);
  ASSERT_TRUE(statistics);
  EXPECT_EQ(statistics->bytes, 6 * 8 * 2.0);
  apply(*statistics);
  EXPECT_TRUE(known(memory, 512));                  // the input
  EXPECT_FALSE(known(memory + 512, 1));             // the means
  EXPECT_TRUE(known(memory + 512 + 32, 512 - 32));  // and nothing behind them
  EXPECT_FALSE(known(memory + 1024 + 31, 1));

  const std::string transforms =
      "void at::native::batch_norm_transform_input_channels_last_kernel<c10::BFloat16, float, "
      "float, 4>(c10::BFloat16 const*, c10::BFloat16 const*, float const*, float const*, float "
      "const*, float const*, c10::BFloat16*, int, int, bool)";
  const Signature transforming = signature(transforms);
  for (const bool adds : {false, true}) {
    Launched other;
    other.add(memory);
    other.add(adds ? memory + 512 : nullptr);
    for (int i = 2; i < 7; ++i) other.add(memory + 512 * i);
    other.add(6);
    other.add(8);
    other.add(false);
    const auto effect = effect_of(read_batch_norm(transforming, {}).get(), other);
    ASSERT_TRUE(effect);
    EXPECT_EQ(effect->bytes, (adds ? 3 : 2) * 6 * 8 * 2.0);
  }
  deallocate(memory);
}

// SyncBatchNorm's gradient has two parameters more than batch norm's around its result.
TEST(KernelEffect, GradientOfBatchNormOfInnermostChannels) {
  const std::string begins =
      "void at::native::batch_norm_backward_elemt_channels_last_kernel<4, c10::BFloat16, float, "
      "float>(c10::BFloat16 const*, c10::BFloat16 const*, float const*, float const*, float "
      "const*, float const*, float const*, ";
  auto* memory = static_cast<std::byte*>(allocate(0, 8192));
  for (const bool of_ranks : {false, true}) {
    const std::string name = begins + (of_ranks ? "int const*, c10::BFloat16*, long, int, int)"
                                                : "c10::BFloat16*, float, int, int)");
    const Signature parts = signature(name);
    Launched launch;
    const int pointers = of_ranks ? 9 : 8;
    for (int i = 0; i < pointers; ++i) launch.add(memory + 512 * i);
    if (of_ranks) {
      launch.add(std::int64_t{2});
    } else {
      launch.add(1.0f);
    }
    launch.add(6);
    launch.add(8);
    const auto effect = effect_of(read_batch_norm(parts, {}).get(), launch);
    ASSERT_TRUE(effect);
    EXPECT_EQ(effect->bytes, 3 * 6 * 8 * 2.0);
    fill(memory, 1, 8192);
    apply(*effect);
    const std::byte* const result = memory + 512 * (pointers - 1);
    EXPECT_FALSE(known(result, 1));
    EXPECT_TRUE(known(result + 96, 512 - 96));
    EXPECT_TRUE(known(memory, 512 * static_cast<std::size_t>(pointers - 1)));
  }
  deallocate(memory);
}

// Two images of 3 channels of 5 x 4, in bfloat16: the image and its result's gradient are read.
TEST(KernelEffect, GradientOfBatchNormOfPlanes) {
  const std::string name =
      "void at::native::batch_norm_backward_kernel<c10::BFloat16, float, float, int>(int)";
  auto* memory = static_cast<std::byte*>(allocate(0, 4096));
  Launched launch;
  struct Planes {
    std::byte* data;
    std::array<std::int32_t, 3> sizes{2, 3, 20}, strides{60, 20, 1};
  };
  struct Channels {
    std::byte* data;
    std::array<std::int32_t, 1> sizes{3}, strides{1};
  };
  for (int i = 0; i < 3; ++i) launch.add(Planes{memory + 512 * i});
  for (int i = 3; i < 5; ++i) launch.add(Channels{memory + 512 * i});
  const Signature parts = signature(name);
  const auto effect = effect_of(read_batch_norm(parts, {}).get(), launch);
  ASSERT_TRUE(effect);
  EXPECT_EQ(effect->bytes, 3 * 120 * 2.0);
  EXPECT_EQ(effect->features, (Features{{"numel", 120.0}}));
  ASSERT_EQ(effect->operands.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(effect->operands[i].address, memory + 512 * i);
    EXPECT_EQ(effect->operands[i].read, i < 2);
    EXPECT_EQ(effect->operands[i].written, i >= 2);
  }
  deallocate(memory);
}

// Tensors of 70,000 and 10 elements, in three blocks.
TEST(KernelEffect, ListsOfTensorsTellTheirLongestChunk) {
  const std::string name =
      "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
      "namespace)::TensorListMetadata<1>, at::native::(anonymous namespace)::BinaryOpScalarFunctor<"
      "float, 1, 1, 0>, std::multiplies<float>, float>(at::native::(anonymous "
      "namespace)::TensorListMetadata<1>, at::native::(anonymous namespace)::BinaryOpScalarFunctor<"
      "float, 1, 1, 0>, std::multiplies<float>, float)";
  auto* memory = static_cast<std::byte*>(allocate(0, 320'000));
  struct Lists {
    std::array<std::byte*, 110> addresses{};
    std::array<std::int64_t, 110> numel{};
    std::array<std::uint8_t, 320> tensor_of_block{};
    std::array<std::int32_t, 320> chunk_of_block{};
    std::int32_t start = 0;
  } lists;
  lists.addresses[0] = memory;
  lists.addresses[1] = memory + 280'064;
  lists.numel[0] = 70'000;
  lists.numel[1] = 10;
  lists.tensor_of_block[2] = 1;
  lists.chunk_of_block[1] = 1;
  Launched launch;
  launch.add(lists);
  launch.add(0);     // the functor
  launch.add(0);     // the operation
  launch.add(2.0F);  // the scalar
  const Signature parts = signature(name);
  const auto meaning = read_multi_tensor(parts, {});
  ASSERT_NE(meaning, nullptr);
  const auto effect =
      meaning->effect({launch.pointers.data(), launch.sizes, {{3, 1, 1}, {512, 1, 1}, 0}});
  ASSERT_TRUE(effect);
  EXPECT_EQ(effect->features, (Features{{"numel", 70'010.0}, {"cols", 65'536.0}}));
  EXPECT_EQ(effect->bytes, 2 * 4 * 70'010.0);
  deallocate(memory);
}

// Two images of 3 channels, 8x8, filtered by 5x5 to 8x8, in bfloat16.
TEST(KernelEffect, DepthwiseConvolutions) {
  auto* memory = static_cast<std::byte*>(allocate(0, 4096));
  const Accessor images{memory, {2, 3, 8, 8}}, others{memory + 1024, {2, 3, 8, 8}},
      filters{memory + 2048, {3, 1, 5, 5}};
  const double bytes = 2.0 * (384 + 384 + 75);
  for (const std::string name :
       {"conv_depthwise2d_forward_kernel_generic<c10::BFloat16, int>",
        "conv_depthwise2d_backward_kernel<0, 1, c10::BFloat16, int>",
        "conv_depthwise2d_grad_weight_kernel<c10::BFloat16, unsigned int>"}) {
    const std::string text = "void at::native::(anonymous namespace)::" + name + "(int)";
    const Signature parts = signature(text);
    Launched launch;
    for (const Accessor& one : {images, others, filters}) launch.add(one);
    const auto effect = effect_of(read_depthwise(parts, {}).get(), launch);
    ASSERT_TRUE(effect) << name;
    EXPECT_EQ(effect->bytes, bytes);
    EXPECT_EQ(effect->features, (Features{{"numel", 384.0}, {"rows", 6.0}, {"cols", 25.0}}));
    const bool of_weight = name.find("grad_weight") != std::string::npos;
    fill(memory, 1, 4096);
    apply(*effect);
    EXPECT_EQ(known(memory + 1024, 768), of_weight);
    EXPECT_EQ(known(memory + 2048, 150), !of_weight);
    launch.sizes[2] = 56;
    EXPECT_FALSE(effect_of(read_depthwise(parts, {}).get(), launch));
  }
  deallocate(memory);
}

// 2 images of 4 channels, 6x6, pooled to 3x3 by windows of 2x2, in float.
TEST(KernelEffect, MaximumPoolingOfInnermostChannels) {
  const std::string name =
      "void at::native::(anonymous namespace)::max_pool_forward_nhwc<float, int>(float const*, "
      "int, int, int, int, int, int, int, int, float*, long*)";
  const Signature parts = signature(name);
  auto* memory = static_cast<std::byte*>(allocate(0, 8192));
  Launched launch;
  launch.add(memory);
  for (const int number : {2, 4, 6, 6, 3, 3, 2, 2}) launch.add(number);
  launch.add(memory + 4096);
  launch.add(memory + 6144);
  const auto effect = effect_of(read_pooling(parts, {}).get(), launch);
  ASSERT_TRUE(effect);
  EXPECT_EQ(effect->bytes, 2 * 4 * (36 * 4.0 + 9 * 4.0 + 9 * 8.0));
  EXPECT_EQ(effect->features, (Features{{"numel", 72.0}, {"cols", 4.0}}));
  deallocate(memory);
}

// 2 images of 4 channels, 6x5, averaged by a window of 2560x3 to 1x3: no more is read than there
// is.
TEST(KernelEffect, WindowsLargerThanTheirImages) {
  const std::string name =
      "void at::native::(anonymous namespace)::avg_pool2d_out_cuda_frame<float, float>(int, float "
      "const*, long, long, long, long, long, int, int, int, int, int, int, float*, int, bool, "
      "bool)";
  const Signature parts = signature(name);
  auto* memory = static_cast<std::byte*>(allocate(0, 8192));
  Launched launch;
  launch.add(2 * 4 * 1 * 3);
  launch.add(memory);
  for (const std::int64_t number : {4, 6, 5, 1, 3}) launch.add(number);
  for (const int number : {2560, 3, 2560, 1, 0, 0}) launch.add(number);
  launch.add(memory + 4096);
  launch.add(0);
  launch.add(true);
  launch.add(true);
  const auto effect = effect_of(read_pooling(parts, {}).get(), launch);
  ASSERT_TRUE(effect);
  EXPECT_EQ(effect->bytes, 2 * 4 * (30 * 4.0 + 3 * 4.0));
  EXPECT_EQ(effect->features, (Features{{"numel", 24.0}, {"cols", 18.0}}));
  deallocate(memory);
}

// 2 volumes of 3 channels, 4x8x8, pooled to 2x4x4 by windows of 3x3x3, in bfloat16. A first launch
// of five of the twelve pooled planes, as if a grid could be no deeper, where channels do not come
// last.
TEST(KernelEffect, MaximumPoolingOfVolumes) {
  auto* memory = static_cast<std::byte*>(allocate(0, 16384));
  for (const bool backward : {false, true}) {
    const std::string name =
        std::string{
            "void at::native::(anonymous namespace)::max_pool3d_with_"
            "indices_"} +
        (backward ? "backward_" : "") + "single_out_frame<c10::BFloat16>(int)";
    const Signature parts = signature(name);
    for (const bool channels_last : {false, true}) {
      Launched launch;
      for (int i = 0; i < 3; ++i) launch.add(memory + 4096 * i);
      for (const int number : {3, 4, 8, 8, 2, 2, 4, 4}) launch.add(number);
      for (int i = 0; !backward && i < 12; ++i) launch.add(i < 3 ? 3 : 1);
      launch.add(0);
      launch.add(channels_last);
      const auto effect = read_pooling(parts, {})->effect(
          {launch.pointers.data(), launch.sizes, {{1, 1, 5}, {32, 8, 1}, 0}});
      ASSERT_TRUE(effect);
      const double outputs = channels_last ? 2 * 3 * 2 * 16 : 5 * 16;
      // Eight elements of the input for each maximum; back, its gradient is read and added.
      EXPECT_EQ(effect->bytes, outputs * ((backward ? 2 : 1 + 8) * 2 + 8));
      EXPECT_EQ(effect->features, (Features{{"numel", outputs}, {"cols", backward ? 8.0 : 27.0}}));
      fill(memory, 1, 16384);
      apply(*effect);
      EXPECT_EQ(known(memory, 2 * 6 * 256), !backward);
      EXPECT_EQ(known(memory + 8192, 8 * 192), backward);
    }
  }
  deallocate(memory);
}

// 2 images of 3 channels, 7x7, averaged to 3x3, in bfloat16: windows have up to nine pixels.
TEST(KernelEffect, AdaptiveAverages) {
  auto* memory = static_cast<std::byte*>(allocate(0, 8192));
  for (const std::string base : {"adaptive_average_pool", "atomic_adaptive_average_gradinput",
                                 "adaptive_average_gradinput_nhwc"}) {
    const bool channels_last = base.ends_with("_nhwc");
    const std::string text = "void at::native::(anonymous namespace)::" + base +
                             (channels_last ? "<int, c10::BFloat16>(int)" : "<c10::BFloat16>(int)");
    const Signature parts = signature(text);
    Launched launch;
    launch.add(memory);
    launch.add(memory + 4096);
    for (const int number : {2, 3}) {
      if (channels_last) launch.add(number);
    }
    for (const int number : {7, 7, 3, 3}) launch.add(number);
    const auto effect = read_pooling(parts, {})->effect(
        {launch.pointers.data(), launch.sizes, {{6, 1, 1}, {32, 8, 1}, 0}});
    ASSERT_TRUE(effect) << base;
    EXPECT_EQ(effect->bytes, 6 * (49 + 9) * 2.0) << base;
    EXPECT_EQ(effect->features, (Features{{"numel", 54.0}, {"cols", 9.0}})) << base;
    fill(memory, 1, 8192);
    apply(*effect);
    const bool backward = base != "adaptive_average_pool";
    EXPECT_EQ(known(memory, 6 * 49 * 2), !backward) << base;
    EXPECT_EQ(known(memory + 4096, 6 * 9 * 2), backward) << base;
  }
  deallocate(memory);
}

// 8 rows of 1,024 bytes, drawn of 8: 8 (1 - (7 / 8)^8) = 5.251 are others in the mean. Of 2^40 all
// are.
TEST(KernelEffect, RowsThatSeveralIndicesAskForAreReadOnce) {
  const Signature parts = signature(
      "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, long, "
      "long, long, bool)");
  auto* memory = static_cast<std::byte*>(allocate(0, 32768));
  const auto bytes = [&](std::int64_t places) {
    Launched launch;
    launch.add(memory);
    launch.add(memory + 8192);
    launch.add(memory + 16384);
    launch.add(8);
    for (const std::int64_t number :
         {std::int64_t{1024}, places, std::int64_t{1024}, std::int64_t{1024}})
      launch.add(number);
    launch.add(true);
    return effect_of(read_indexing(parts, {}).get(), launch).value().bytes;
  };
  EXPECT_NEAR(bytes(8), 8 * (1024 + 8) + 5.251 * 1024, 1);
  EXPECT_NEAR(bytes(std::int64_t{1} << 40), 8 * (2 * 1024 + 8), 1);
  EXPECT_NEAR(bytes(1), 8 * (1024 + 8) + 1024, 1);
  deallocate(memory);
}

// 2 images of 3 channels, 4x5, made 8x10, in float: each resized element is written or read once.
TEST(KernelEffect, ResizedImages) {
  auto* memory = static_cast<std::byte*>(allocate(0, 16384));
  const std::uint64_t images = 2, channels = 3, in = 2 * 3 * 20, out = 2 * 3 * 80;
  std::byte* const image = memory;
  std::byte* const resized = memory + 8192;
  const auto expect = [&](const std::string& base, bool backward, const auto&... parameters) {
    const std::string text =
        "void at::native::(anonymous namespace)::upsample_" + base + "<float, float>(int)";
    const Signature parts = signature(text);
    Launched launch;
    (launch.add(parameters), ...);
    const auto effect = effect_of(read_pooling(parts, {}).get(), launch);
    ASSERT_TRUE(effect) << base;
    EXPECT_EQ(effect->bytes, (in + out) * 4.0) << base;
    Features features{{"numel", static_cast<double>(backward ? in : out)},
                      {"cols", backward ? 4.0 : 1.0}};
    if (base == "bilinear2d_out_frame") features.emplace_back("rows", 2.0 * 3);
    EXPECT_EQ(effect->features, features) << base;
    fill(memory, 1, 16384);
    apply(*effect);
    EXPECT_EQ(known(image, 4 * in), !backward) << base;
    EXPECT_EQ(known(resized, 4 * out), backward) << base;
  };
  const std::uint64_t h = 4, w = 5, tall = 8, wide = 10;
  const int height = 4, width = 5, taller = 8, wider = 10, depth = 3;
  const float scale = 0.5f;
  const std::uint64_t one = 1;
  expect("nearest2d_out_frame", false, image, resized, images * channels, h, w, tall, wide, scale,
         scale);
  expect("nearest2d_nhwc_out_frame", false, image, resized, channels, h, w, tall, wide, scale,
         scale, out);
  expect("nearest2d_backward_out_frame", true, resized, images, channels, tall, wide, h, w, image,
         scale, scale);
  expect("nearest2d_backward_nhwc_out_frame", true, resized, image, tall, wide, h, w, channels,
         scale, scale, in);
  expect("nearest3d_out_frame", false, image, images, channels, one, h, w, one, tall, wide, resized,
         scale, scale, scale);
  expect("nearest3d_backward_out_frame", true, resized, images, channels, one, tall, wide, one, h,
         w, image, scale, scale, scale);
  expect("bilinear2d_out_frame", false, 80, scale, scale, false, Accessor{image, {2, 3, 4, 5}},
         Accessor{resized, {2, 3, 8, 10}});
  expect("bilinear2d_nhwc_out_frame", false, scale, scale, false, depth, height, width, taller,
         wider, image, resized, static_cast<int>(out));
  expect("bilinear2d_backward_out_frame", true, images * channels, height, width, taller, wider,
         scale, scale, false, image, resized);
  expect("bilinear2d_backward_nhwc_out_frame", true, height, width, taller, wider, scale, scale,
         false, image, resized, depth, out, in);
  deallocate(memory);
}

// torch.add: (int numel, functor with alpha, {result, one, other}).
const std::string sum_of_floats =
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)";

// Large operands are not computed: what was known of the output is not kept.
TEST(KernelEffect, LargeOutputsBecomeUnknown) {
  const Signature parts = signature(sum_of_floats);
  const auto meaning = read_elementwise(parts, {});
  ASSERT_NE(meaning, nullptr);
  constexpr int count = small_bytes / 4 + 1;
  auto* memory = static_cast<std::byte*>(allocate(0, 4 * count + 4));
  fill(memory, 1, 16);
  fill(memory + 4 * count, 1, 4);
  Launched launch;
  launch.add(count);
  launch.add(2.0f);
  launch.add(std::array<std::byte*, 3>{memory, memory, memory});
  const auto effect =
      meaning->effect({launch.pointers.data(), launch.sizes, {{1, 1, 1}, {128, 1, 1}, 0}});
  ASSERT_TRUE(effect);
  apply(*effect);
  EXPECT_FALSE(known(memory, 1));
  EXPECT_TRUE(known(memory + 4 * count, 4));  // behind the output
  deallocate(memory);
}

// What a strided kernel touches is told by its calculator, whatever its lambda computes.
TEST(KernelEffect, StridedKernelsOfUnknownMeaningAreDescribed) {
  const std::string lambda =
      "at::native::new_kernel_cuda(at::TensorIterator&)::{lambda(float, c10::complex<float>)#1}";
  const std::string loop = "at::native::gpu_kernel_impl_nocast<" + lambda +
                           ">(at::TensorIteratorBase&, " + lambda + " const&)::{lambda(int)#1}";
  const std::string name =
      "void at::native::elementwise_kernel<128, 2, " + loop + ">(int, " + loop + ")";
  const Signature parts = signature(name);
  const auto meaning = read_elementwise(parts, {});
  ASSERT_NE(meaning, nullptr);
  auto* memory = static_cast<std::byte*>(allocate(0, 4096));
  fill(memory, 1, 4096);
  // One dimension of 6 elements: result, real and complex operand, strides in bytes.
  std::array<std::uint32_t, 1 + 75 + 75> calculator{1, 6};
  calculator[76] = 8, calculator[77] = 16, calculator[78] = 8;
  struct {
    decltype(calculator) offsets;
    std::array<std::byte*, 3> data;
    std::byte* host;
  } closure{calculator, {memory, memory + 1024, memory + 2048}, nullptr};
  Launched launch;
  launch.add(6);
  launch.add(closure);
  const auto effect =
      meaning->effect({launch.pointers.data(), launch.sizes, {{1, 1, 1}, {128, 1, 1}, 0}});
  ASSERT_TRUE(effect);
  // The result is taken to be as wide as the widest argument.
  EXPECT_EQ(effect->bytes, 6 * (8 + 4 + 8));
  apply(*effect);
  EXPECT_FALSE(known(memory, 1));
  EXPECT_TRUE(known(memory + 6 * 8, 1));
  EXPECT_TRUE(known(memory + 1024, 512));
  deallocate(memory);
}

// A copy of 64 x 48 floats: its price depends on how far apart what neighbouring threads read is.
TEST(KernelEffect, TransposedOperandsAreToldByTheirLines) {
  const std::string lambda =
      "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}";
  const std::string loop = "at::native::gpu_kernel_impl_nocast<" + lambda +
                           ">(at::TensorIteratorBase&, " + lambda + " const&)::{lambda(int)#1}";
  const std::string name =
      "void at::native::elementwise_kernel<128, 2, " + loop + ">(int, " + loop + ")";
  const Signature parts = signature(name);  // it has parts of the text
  const auto meaning = read_elementwise(parts, {});
  ASSERT_NE(meaning, nullptr);
  auto* memory = static_cast<std::byte*>(allocate(0, 1 << 16));
  /// Strides in bytes of the input's two dimensions, fastest first, of 48 and 64 elements.
  const auto lines = [&](std::uint32_t inner, std::uint32_t outer, std::uint32_t columns = 48) {
    struct {
      std::array<std::uint32_t, 1 + 75 + 50> offsets{2};
      std::array<std::byte*, 2> data{};
      std::byte* host = nullptr;
    } closure;
    closure.offsets[1] = columns, closure.offsets[4] = 64 * 48 / columns;
    closure.offsets[76] = 4, closure.offsets[77] = inner;
    closure.offsets[78] = 4 * columns, closure.offsets[79] = outer;
    closure.data = {memory, memory + (1 << 15)};
    Launched launch;
    launch.add(64 * 48);
    launch.add(closure);
    const auto effect =
        meaning->effect({launch.pointers.data(), launch.sizes, {{12, 1, 1}, {128, 1, 1}, 0}});
    return effect ? effect->features : Features{};
  };
  const auto told = [](double value) {
    return Features{{"numel", 64.0 * 48}, {"lines", value}, {"dims", 2.0}};
  };
  // 512 elements fill 32 lines of two operands; up to twice as many are told as none.
  EXPECT_EQ(lines(128, 4, 192), told(192));  // transposed: a line for each column
  EXPECT_EQ(lines(4 * 64, 4), told(0));      // 48 columns, whose lines 11 rows share
  EXPECT_EQ(lines(4, 8 * 48), told(0));      // rows of a wider matrix
  EXPECT_EQ(lines(0, 4), told(0));           // broadcast
  EXPECT_EQ(lines(8, 8 * 48), told(0));      // every other element
  EXPECT_EQ(lines(16, 16 * 48), told(66));   // 11 rows of 6 lines
  // Channels first, three of them: neighbouring threads read from three rows, side by side.
  EXPECT_EQ(lines(4 * 1024, 4, 3), told(0));
  deallocate(memory);
}

// Their loops end by the indices, which are not known: how often is told by how many there are.
TEST(KernelEffect, SumsByIndexMoveWhatTheirIndicesName) {
  auto* memory = static_cast<std::byte*>(allocate(0, 1 << 20));
  const auto bytes = [&](const std::string& name, auto read, const auto&... arguments) {
    const Signature parts = signature(name);
    const auto meaning = read(parts, {});
    if (!meaning) return 0.0;
    Launched launch;
    (launch.add(arguments), ...);
    const auto effect =
        meaning->effect({launch.pointers.data(), launch.sizes, {{4, 1, 1}, {32, 4, 1}, 0}});
    return effect ? effect->bytes : 0.0;
  };
  const std::size_t zero = 0, one = 1, indices = 100, columns = 192, bags = 25;
  for (const std::string kernel :
       {"indexing_backward_kernel<float, 4>", "indexing_backward_kernel_small_stride<float>"}) {
    EXPECT_EQ(
        bytes("void (anonymous namespace)::" + kernel +
                  "(long const*, long const*, float const*, float*, long, long, long, long, bool)",
              read_lookup, memory, memory, memory, memory, indices, columns, zero, one, true),
        3.0 * 100 * 192 * 4);
  }
  EXPECT_EQ(
      bytes("void at::native::(anonymous namespace)::EmbeddingBag_updateOutputKernel_sum_mean<"
            "float, long>(long const*, long const*, float const*, float*, long*, long, long, "
            "long, long, long, int, long*, float const*, long, long, long)",
            read_embedding, memory, memory, memory, memory, memory, indices, bags, columns, columns,
            one, 0, memory, memory, zero, zero, zero),
      (100.0 + 25) * 192 * 4 + 2 * (100 + 25) * 8);
  deallocate(memory);
}

// An empty part, which a cache's first keys are appended to, leaves its threads without work.
TEST(KernelEffect, ConcatenationTellsItsLongestPart) {
  constexpr std::size_t batch = 64;
  struct Metadata {
    std::array<std::byte*, batch> inputs{};
    std::array<std::uint32_t, batch> offsets{}, sizes{}, elements{};
    std::array<bool, batch> contiguous{};
    std::array<std::array<std::uint32_t, 8>, batch> shapes{};
  } metadata;
  auto* memory = static_cast<std::byte*>(allocate(0, 1 << 20));
  metadata.inputs[0] = metadata.inputs[1] = memory;
  metadata.elements[1] = 2 * 3 * 5 * 64;
  metadata.sizes[1] = 5;
  metadata.contiguous[0] = metadata.contiguous[1] = true;
  const std::array<std::uint32_t, 8> shape{2, 3, 5, 64, 960, 320, 64, 1};
  const int dimension = 2;
  const std::uint32_t stride = 64;
  const Signature parts = signature(
      "void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::(anonymous "
      "namespace)::OpaqueType<2u>, unsigned int, 4, 64, 64>(at::native::(anonymous "
      "namespace)::OpaqueType<2u>*, m, s, int, unsigned int)");
  const auto meaning = read_concatenation(parts, {});
  ASSERT_NE(meaning, nullptr);
  Launched launch;
  launch.add(memory);
  launch.add(metadata);
  launch.add(shape);
  launch.add(dimension);
  launch.add(stride);
  const auto effect =
      meaning->effect({launch.pointers.data(), launch.sizes, {{264, 2, 1}, {512, 1, 1}, 0}});
  ASSERT_TRUE(effect);
  EXPECT_EQ(effect->bytes, 2.0 * 2 * 1920);
  const std::vector<std::pair<std::string, double>> told{{"numel", 1920.0}, {"cols", 1920.0}};
  ASSERT_EQ(effect->features.size(), told.size());
  for (std::size_t i = 0; i < told.size(); ++i) {
    EXPECT_EQ(effect->features[i].first, told[i].first);
    EXPECT_EQ(effect->features[i].second, told[i].second);
  }
  deallocate(memory);
}

TEST(KernelEffect, GroupedProductsHaveTheShapesThatTheirTableWasFilledWith) {
  const std::string prepare =
      "void at::cuda::detail::prepare_grouped_gemm_data<cutlass::bfloat16_t, cutlass::bfloat16_t, "
      "cutlass::bfloat16_t, float, cute::tuple<int, int, int>, long, long, long>("
      "cutlass::bfloat16_t*)";
  const std::string multiply =
      "_ZN7cutlass13device_kernelIN2at4cuda6detail25enable_3x_kernel_for_sm9xINS_4gemm6kernel13Gemm"
      "UniversalINS5_17GroupProblemShapeIN4cute5tupleIJiiiEEEEE";
  auto* memory = static_cast<std::byte*>(allocate(0, 1 << 16));
  std::byte* const shapes = memory + 4096;
  const auto launch = [&](std::int32_t m, std::int32_t n, std::int32_t k,
                          std::array<std::int64_t, 3> a, std::array<std::int64_t, 3> b) {
    Launched launched;
    for (int i = 0; i < 5; ++i) launched.add(memory);
    for (int i = 0; i < 5; ++i) launched.add(memory + 512 * i);
    launched.add(shapes);
    for (int i = 0; i < 3; ++i) launched.add(memory + 8192 + 512 * i);
    launched.add(memory + 16384);
    launched.add(m);
    launched.add(n);
    launched.add(k);
    for (int i = 0; i < 3; ++i) launched.add(std::array<std::int64_t, 3>{});
    launched.add(a);
    launched.add(b);
    const Signature parts = signature(prepare);
    const auto meaning = read_grouped_product(parts, {});
    ASSERT_NE(meaning, nullptr);
    ASSERT_TRUE(
        meaning->effect({launched.pointers.data(), launched.sizes, {{1, 1, 1}, {16, 1, 1}, 0}}));
  };
  const auto features = [&](std::byte* table) {
    Launched launched;
    launched.add(std::array<std::byte*, 8>{memory, nullptr, nullptr, table});
    const Signature parts = signature(multiply);
    const auto meaning = read_grouped_product(parts, {});
    EXPECT_NE(meaning, nullptr);
    const auto effect =
        meaning->effect({launched.pointers.data(), launched.sizes, {{132, 1, 1}, {384, 1, 1}, 0}});
    std::map<std::string, double> told;
    if (!effect) return told;
    for (const auto& [key, value] : effect->features) told[std::string{key}] = value;
    told["bytes"] = effect->bytes;
    return told;
  };
  using Told = std::map<std::string, double>;
  // 8,192 rows of 16 experts with matrices of 1,024 x 2,816: 512 rows each.
  launch(-1, 2816, 1024, {8192, 1024, 1}, {16, 1024, 2816});
  const double rows = 512.0 * 1024 + 1024.0 * 2816 + 512.0 * 2816;
  EXPECT_EQ(features(shapes),
            (Told{{"m", 2816}, {"n", 512}, {"k", 1024}, {"batch", 16}, {"bytes", 32 * rows}}));
  EXPECT_EQ(features(shapes + 8), Told{});  // another table
  // The gradients of those matrices: the groups divide what is summed over.
  launch(1024, 2816, -1, {1024, 8192, 1}, {8192, 2816, 1});
  EXPECT_EQ(features(shapes),
            (Told{{"m", 2816}, {"n", 1024}, {"k", 512}, {"batch", 16}, {"bytes", 32 * rows}}));
  launch(1024, -1, 64, {16, 1024, 64}, {64, 8192, 1});
  EXPECT_EQ(features(shapes)["m"], 512);
  deallocate(memory);
}

TEST(KernelEffect, AllReducesOverMappedMemoryLeaveTheirResultUnknown) {
  const auto effect_of = [](const std::string& name, Launched& launch) {
    const Signature parts = signature(name);
    const auto meaning = read_symmetric_memory(parts, {});
    EXPECT_NE(meaning, nullptr) << name;
    return meaning ? meaning->effect(
                         {launch.pointers.data(), launch.sizes, {{4, 1, 1}, {512, 1, 1}, 0}})
                   : std::nullopt;
  };
  auto* memory = static_cast<std::byte*>(allocate(0, 1 << 16));
  auto* buffer = static_cast<std::byte*>(allocate(0, 4096));
  auto* peer = static_cast<std::byte*>(allocate(0, 4096));
  fill(memory, 0, 1 << 16);
  fill(buffer, 1, 4096);
  const std::array<std::byte*, 2> buffers{buffer, peer};
  write(memory, buffers.data(), sizeof buffers);
  std::byte* const output = memory + 8192;
  Launched one;
  one.add(memory);
  one.add(output);
  one.add(static_cast<std::byte*>(nullptr));
  one.add(std::uint64_t{0});
  one.add(std::uint64_t{256});
  one.add(memory + 4096);
  one.add(std::uint64_t{0});
  one.add(std::uint64_t{2});
  auto effect = effect_of(
      "void (anonymous namespace)::one_shot_all_reduce_kernel<c10::BFloat16, 16, 2>("
      "c10::BFloat16**, c10::BFloat16*, c10::BFloat16*, unsigned long, unsigned long, unsigned "
      "int**, unsigned long, unsigned long)",
      one);
  ASSERT_TRUE(effect);
  EXPECT_EQ(effect->bytes, (2 + 1) * 256 * 2);
  apply(*effect);
  EXPECT_FALSE(known(output, 1));
  EXPECT_TRUE(known(output + 512, 1));
  EXPECT_TRUE(known(buffer, 4096));
  Launched two;
  two.add(memory);
  two.add(std::uint64_t{0});
  two.add(std::uint64_t{256});
  two.add(memory + 4096);
  two.add(std::uint64_t{0});
  two.add(std::uint64_t{2});
  effect = effect_of(
      "void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<float, 16, 2>(float**, "
      "unsigned long, unsigned long, unsigned int**, unsigned long, unsigned long)",
      two);
  ASSERT_TRUE(effect);
  EXPECT_EQ(effect->bytes, 2 * 256 * 4);
  apply(*effect);
  EXPECT_FALSE(known(buffer, 1));
  Launched barrier;
  barrier.add(memory + 4096);
  for (const int number : {0, 1, 2}) barrier.add(number);
  barrier.add(std::uint64_t{0});
  effect = effect_of(
      "c10d::symmetric_memory::barrier_kernel(unsigned int**, int, int, int, unsigned long)",
      barrier);
  ASSERT_TRUE(effect);
  EXPECT_EQ(effect->bytes, 2 * 2 * 4);
  apply(*effect);
  EXPECT_TRUE(known(memory + 4096, 4096));  // the signals are as they were
  for (std::byte* const allocation : {memory, buffer, peer}) deallocate(allocation);
}

// torch.full of 4 GiB: what reads a part of it sees the value.
TEST(KernelEffect, FillsOfAnySizeAreKnown) {
  const std::string name =
      "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, "
      "std::array<char*, 1ul> >(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)";
  const Signature parts = signature(name);
  const auto meaning = read_elementwise(parts, {});
  ASSERT_NE(meaning, nullptr);
  constexpr std::uint32_t count = std::uint32_t{1} << 30;
  auto* memory = static_cast<std::byte*>(allocate(0, 4 * std::size_t{count} + 4));
  Launched launch;
  launch.add(count);
  launch.add(2.5f);
  launch.add(std::array<std::byte*, 1>{memory});
  const auto effect =
      meaning->effect({launch.pointers.data(), launch.sizes, {{1, 1, 1}, {128, 1, 1}, 0}});
  ASSERT_TRUE(effect);
  apply(*effect);
  float back = 0;
  EXPECT_TRUE(read(&back, memory + 4 * std::size_t{count - 7}, 4));
  EXPECT_EQ(back, 2.5f);
  EXPECT_FALSE(known(memory + 4 * std::size_t{count}, 1));
  deallocate(memory);
}

// The same kernel again and again, on values of which some come back: what it made of them before
// is found, and only of them. 400 launches of 120 kinds keep more than the 4 MiB that are kept.
TEST(KernelEffect, ResultsOfTheSameValuesAreFound) {
  const Signature parts = signature(sum_of_floats);
  const auto meaning = read_elementwise(parts, {});
  ASSERT_NE(meaning, nullptr);
  constexpr std::size_t most = 2048;
  auto* memory = static_cast<std::byte*>(allocate(0, 3 * 4 * most));
  std::byte *const sum = memory, *const one = memory + 4 * most, *const other = one + 4 * most;
  std::mt19937 draw{7};
  for (int round = 0; round < 400; ++round) {
    const auto kind = static_cast<std::uint32_t>(draw() % 120);
    const std::uint32_t count = kind % 2 == 0 ? most : 1500;
    const float alpha = kind % 3 == 0 ? 2.0f : -1.0f;
    const std::uint32_t hidden = kind % 5 == 0 ? kind : count;  // an element that is not known
    std::vector<float> a(count), b(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      // Of some kinds only the last element differs.
      a[i] = i + 1 < count ? static_cast<float>(i) : static_cast<float>(kind / 6);
      b[i] = static_cast<float>(kind % 6);
    }
    write(one, a.data(), 4 * std::size_t{count});
    write(other, b.data(), 4 * std::size_t{count});
    if (hidden < count) forget(one + 4 * std::size_t{hidden}, 4);
    Launched launch;
    launch.add(count);
    launch.add(alpha);
    launch.add(std::array<std::byte*, 3>{sum, one, other});
    const auto effect =
        meaning->effect({launch.pointers.data(), launch.sizes, {{1, 1, 1}, {128, 1, 1}, 0}});
    ASSERT_TRUE(effect);
    forget(sum, 4 * most);
    apply(*effect);
    for (std::uint32_t i = 0; i < count; ++i) {
      float back = 0;
      ASSERT_EQ(read(&back, sum + 4 * std::size_t{i}, 4), i != hidden) << kind << " " << i;
      if (i != hidden) {
        ASSERT_EQ(back, a[i] + alpha * b[i]) << kind << " " << i;
      }
    }
    if (count < most) {
      ASSERT_FALSE(known(sum + 4 * std::size_t{count}, 1));
    }
  }
  deallocate(memory);
}

constexpr std::optional<Value> unknown = std::nullopt;
const double infinity = std::numeric_limits<double>::infinity();
const double nan_value = std::nan("");

/// What one element of a contiguous elementwise kernel becomes.
/// @param state  the functor's bytes
template <class State>
std::optional<Value> element(const std::string& functor, const State& state,
                             const std::vector<std::optional<Value>>& operands) {
  const auto function = elementwise_function(functor);
  if (!function) {
    ADD_FAILURE() << "not read: " << functor;
    return std::nullopt;
  }
  const std::string count = std::to_string(operands.size() + 1);
  const std::string name = "void at::native::vectorized_elementwise_kernel<4, " + functor +
                           ", std::array<char*, " + count + "ul> >(int, " + functor +
                           ", std::array<char*, " + count + "ul>)";
  const Signature parts = signature(name);
  const auto meaning = read_elementwise(parts, {});
  if (!meaning) {
    ADD_FAILURE() << "no meaning: " << name;
    return std::nullopt;
  }
  auto* memory = static_cast<std::byte*>(allocate(0, 4096));
  fill(memory, 0x5a, 4096);  // stale bytes, which must not show
  std::array<std::byte*, 4> addresses{};
  addresses[0] = memory;
  for (std::size_t o = 0; o < operands.size(); ++o) {
    addresses[o + 1] = memory + 512 * (o + 1);
    forget(addresses[o + 1], 512);
    if (!operands[o]) continue;
    std::byte bytes[8];
    store(function->arguments[o], *operands[o], bytes);
    write(addresses[o + 1], bytes, size_of(function->arguments[o]));
  }
  Launched launch;
  launch.add(1);
  launch.add(state);
  std::vector<std::byte> array((operands.size() + 1) * 8);
  std::memcpy(array.data(), addresses.data(), array.size());
  launch.values.push_back(array);
  launch.sizes.push_back(static_cast<std::uint32_t>(array.size()));
  launch.pointers.clear();
  for (auto& v : launch.values) launch.pointers.push_back(v.data());
  const auto effect =
      meaning->effect({launch.pointers.data(), launch.sizes, {{1, 1, 1}, {128, 1, 1}, 0}});
  std::optional<Value> result;
  if (!effect) {
    ADD_FAILURE() << "no effect: " << name;
  } else {
    apply(*effect);
    const std::size_t size = size_of(function->result);
    std::byte bytes[16];
    if (known(memory, size)) {
      read(bytes, memory, size);
      result = load(function->result, bytes);
    }
  }
  deallocate(memory);
  return result;
}

std::string binary(const std::string& type, const std::string& result, const std::string& inner) {
  return "at::native::BinaryFunctor<" + type + ", " + type + ", " + result + ", " + inner + " >";
}
std::string lambda(const std::string& function, const std::string& parameters) {
  return "at::native::" + function +
         "(at::TensorIteratorBase&)::{lambda()#1}::operator()() const::" +
         "{lambda()#1}::operator()() const::{lambda(" + parameters + ")#1}";
}
void expect(const std::optional<Value>& got, const std::optional<Value>& wanted, const char* what) {
  ASSERT_EQ(got.has_value(), wanted.has_value()) << what;
  if (wanted) {
    EXPECT_TRUE(same_result(*got, *wanted)) << what;
  }
}

TEST(PartlyKnown, LogicIsDecidedByOneOperand) {
  const char none = 0;
  const std::string bit_or = binary("bool", "bool", "at::native::BitwiseOrFunctor<bool>");
  const std::string bit_and = binary("bool", "bool", "at::native::BitwiseAndFunctor<bool>");
  expect(element(bit_or, none, {true, unknown}), true, "true | unknown");
  expect(element(bit_or, none, {unknown, true}), true, "unknown | true");
  expect(element(bit_or, none, {false, unknown}), unknown, "false | unknown");
  expect(element(bit_and, none, {false, unknown}), false, "false & unknown");
  expect(element(bit_and, none, {true, unknown}), unknown, "true & unknown");
  expect(element(bit_and, none, {unknown, unknown}), unknown, "unknown & unknown");
  const std::string bits = binary("int", "int", "at::native::BitwiseAndFunctor<int>");
  expect(element(bits, none, {0, unknown}), 0, "0 & unknown");
  expect(element(bits, none, {5, unknown}), unknown, "5 & unknown");
  const std::string ors = binary("int", "int", "at::native::BitwiseOrFunctor<int>");
  expect(element(ors, none, {-1, unknown}), -1, "-1 | unknown");
}

TEST(PartlyKnown, ProductsWithZeroAreZero) {
  const char none = 0;
  const std::string longs = binary("long", "long", "at::native::binary_internal::MulFunctor<long>");
  expect(element(longs, none, {0, unknown}), 0, "0 * unknown");
  expect(element(longs, none, {3, unknown}), unknown, "3 * unknown");
  const std::string floats =
      binary("float", "float", "at::native::binary_internal::MulFunctor<float>");
  expect(element(floats, none, {unknown, 0.0}), 0.0, "unknown * 0.0");
  expect(element(floats, none, {unknown, nan_value}), nan_value, "unknown * NaN");
  expect(element(floats, none, {unknown, infinity}), unknown, "unknown * inf");
  const std::string scaled =
      "at::native::AUnaryFunctor<float, float, float, "
      "at::native::binary_internal::MulFunctor<float> >";
  struct {
    char functor = 0;
    float scalar = 0;
  } state;
  expect(element(scaled, state, {unknown}), 0.0, "unknown * scalar 0");
  state.scalar = 2;
  expect(element(scaled, state, {unknown}), unknown, "unknown * scalar 2");
  const std::string sum = "at::native::CUDAFunctor_add<float>";
  expect(element(sum, 1.0f, {1e30, unknown}), unknown, "1e30 + unknown");
}

TEST(PartlyKnown, ComplexProductsAndEqualityAreDecidedByBothParts) {
  const char none = 0;
  const std::string type = "c10::complex<float>";
  const std::string product =
      binary(type, type, "at::native::binary_internal::MulFunctor<" + type + ">");
  const Value i = std::complex{0.0, 1.0};
  expect(element(product, none, {i, i}), Value{-1.0}, "i * i");
  expect(element(product, none, {Value{0.0}, unknown}), Value{0.0}, "0 * unknown");
  expect(element(product, none, {i, unknown}), unknown, "i * unknown");
  const std::string equal =
      binary(type, "bool", "at::native::(anonymous namespace)::CompareEqFunctor<" + type + ">");
  expect(element(equal, 0, {i, i}), true, "i == i");
  expect(element(equal, 0, {i, Value{0.0}}), false, "i == 0");
  expect(element(equal, 0, {i, unknown}), unknown, "i == unknown");
  const Value half_nan = std::complex{0.0, nan_value};
  expect(element(equal, 0, {half_nan, unknown}), false, "0 + NaN i == unknown");
}

TEST(PartlyKnown, OrderIsDecidedAtItsEndsAndByNan) {
  const char none = 0;
  const std::string less = "at::native::(anonymous namespace)::CompareFunctor<float>";
  constexpr int lt = 3;
  expect(element(less, lt, {unknown, nan_value}), false, "unknown < NaN");
  expect(element(less, lt, {unknown, 0.0}), unknown, "unknown < 0");
  // No score is as low as what stands for none.
  expect(element(less, lt, {unknown, infinity}), true, "unknown < inf");
  expect(element(less, lt, {unknown, -1e9}), false, "unknown < -1e9");
  expect(element(less, lt, {unknown, 65504.0}), unknown, "unknown < the greatest of fp16");
  const std::string less_int = "at::native::(anonymous namespace)::CompareFunctor<unsigned char>";
  expect(element(less_int, lt, {unknown, 0}), false, "unknown byte < 0");
  const std::string equal = binary("float", "bool", "at::native::CompareEqFunctor<float>");
  constexpr int eq = 0, ne = 1;
  expect(element(equal, eq, {unknown, nan_value}), false, "unknown == NaN");
  expect(element(equal, ne, {unknown, nan_value}), true, "unknown != NaN");
  expect(element(equal, eq, {unknown, 2.0}), unknown, "unknown == 2");
  const std::string maximum = lambda("maximum_kernel_cuda", "int, int");
  expect(element(maximum, none, {unknown, std::int64_t{2147483647}}), std::int64_t{2147483647},
         "max(unknown, INT_MAX)");
  expect(element(maximum, none, {unknown, 0}), unknown, "max(unknown, 0)");
  const std::string maximums = lambda("maximum_kernel_cuda", "float, float");
  expect(element(maximums, none, {unknown, nan_value}), nan_value, "max(unknown, NaN)");
  expect(element(maximums, none, {unknown, infinity}), unknown, "max(unknown, inf)");
}

TEST(PartlyKnown, ChoicesTakeTheChosenSide) {
  const char none = 0;
  const std::string where = lambda("where_kernel_impl", "bool, float, float");
  expect(element(where, none, {true, 1.0, unknown}), 1.0, "where(true, 1, unknown)");
  expect(element(where, none, {false, 1.0, unknown}), unknown, "where(false, 1, unknown)");
  expect(element(where, none, {unknown, 1.0, 2.0}), unknown, "where(unknown, 1, 2)");
  expect(element(where, none, {unknown, 2.0, 2.0}), 2.0, "where(unknown, 2, 2)");
  const std::string masked = lambda("masked_fill_kernel", "float, bool");
  struct {
    float value = 7;
    std::int64_t twin = 0;
  } state;
  expect(element(masked, state, {unknown, true}), 7.0, "masked_fill(unknown, true)");
  expect(element(masked, state, {3.0, false}), 3.0, "masked_fill(3, false)");
  expect(element(masked, state, {unknown, false}), unknown, "masked_fill(unknown, false)");
  expect(element(masked, state, {7.0, unknown}), 7.0, "masked_fill(7, unknown)");
}

TEST(PartlyKnown, FunctionsOfUnknownValuesAreUnknown) {
  const char none = 0;
  for (const char* function : {"log_kernel_cuda", "exp_kernel_cuda", "sqrt_kernel_cuda"}) {
    expect(element(lambda(function, "float"), none, {unknown}), unknown, function);
  }
  expect(element(lambda("log_kernel_cuda", "float"), none, {1.0}), 0.0, "log(1)");
}

// Whatever is decided holds for every value of what is unknown: tried with many.
TEST(PartlyKnown, WhatIsDecidedHoldsForEveryValue) {
  const std::string functors[] = {
      binary("float", "float", "at::native::binary_internal::MulFunctor<float>"),
      binary("signed char", "signed char", "at::native::binary_internal::MulFunctor<signed char>"),
      binary("signed char", "signed char", "at::native::BitwiseAndFunctor<signed char>"),
      binary("signed char", "signed char", "at::native::BitwiseOrFunctor<signed char>"),
      binary("signed char", "signed char", "at::native::BitwiseXorFunctor<signed char>"),
      binary("signed char", "bool", "at::native::CompareEqFunctor<signed char>"),
      binary("float", "bool", "at::native::CompareEqFunctor<float>"),
      "at::native::(anonymous namespace)::CompareFunctor<float>",
      "at::native::(anonymous namespace)::CompareFunctor<signed char>",
      lambda("maximum_kernel_cuda", "float, float"),
      lambda("minimum_kernel_cuda", "signed char, signed char"),
      lambda("fmax_kernel_cuda", "float, float"),
      lambda("logical_and_kernel_cuda", "float, float"),
      lambda("logical_or_kernel_cuda", "signed char, signed char"),
      lambda("where_kernel_impl", "bool, float, float"),
      lambda("where_kernel_impl", "bool, signed char, signed char"),
      lambda("clamp_kernel_impl", "float, float, float"),
      lambda("clamp_kernel_impl", "signed char, signed char, signed char"),
  };
  std::mt19937 random{11};
  int found = 0;
  for (const std::string& text : functors) {
    const auto function = elementwise_function(text);
    ASSERT_TRUE(function) << text;
    ASSERT_NE(function->contrast, Contrast::none) << text;
    const auto any = [&](ElementType type) {
      const double reals[] = {0, -0.0, 1, -1, 2, 0.1, 1e-38, 3e38, infinity, -infinity, nan_value};
      // Products with 0 leave out what is not finite, by choice, and so do comparisons what no 16
      // bits hold.
      const auto count = function->contrast == Contrast::order     ? 7U
                         : function->contrast == Contrast::product ? 8U
                                                                   : 11U;
      if (is_floating(type)) return Value{reals[random() % count]};
      const int integers[] = {0, 1, -1, 2, 127, -128};
      return converted(type, random() % 2 == 0 ? Value{integers[random() % 6]}
                                               : Value{static_cast<int>(random() % 256) - 128});
    };
    for (int round = 0; round < 400; ++round) {
      const int operation = static_cast<int>(random() % 4);
      std::array<std::byte, 64> state{};
      std::memcpy(state.data(), &operation, sizeof operation);
      const auto evaluate = [&](const Value* v) { return function->evaluate(v, state.data()); };
      std::vector<std::optional<Value>> arguments;
      for (const ElementType type : function->arguments) {
        arguments.push_back(random() % 2 == 0 ? std::optional{any(type)} : std::nullopt);
      }
      const auto result = Decider{function->contrast, function->arguments}(arguments, evaluate);
      if (!result) continue;
      ++found;
      for (int i = 0; i < 200; ++i) {
        std::vector<Value> values;
        for (std::size_t a = 0; a < arguments.size(); ++a) {
          values.push_back(arguments[a] ? *arguments[a] : any(function->arguments[a]));
        }
        ASSERT_TRUE(same_result(evaluate(values.data()), *result)) << text;
      }
    }
  }
  EXPECT_GT(found, 500);
}

/// Tables of pointers and structs in device memory: what they lead to is written as well.
TEST(KernelEffect, UnreadKernelsWriteThroughTables) {
  auto* table = static_cast<std::byte*>(allocate(0, 64));
  auto* data = static_cast<std::byte*>(allocate(0, 4096));
  auto* other = static_cast<std::byte*>(allocate(0, 4096));
  fill(data, 1, 4096);
  fill(other, 1, 4096);
  std::byte* const inside = data + 1024;
  write(table, &inside, sizeof inside);
  Effect effect;
  effect.follows_pointers = true;
  effect.operands.push_back({table, 64, true, false});
  apply(effect, "scaled(float* const*, int)");
  EXPECT_TRUE(known(data, 1024));
  EXPECT_FALSE(may_know(data + 1024, 4096 - 1024) && known(data + 1024, 1));
  EXPECT_TRUE(known(other, 4096));
  EXPECT_TRUE(known(table, 8));
  const Writer writer = small_data().writers.last(data + 2048);
  EXPECT_STREQ(writer.name, "scaled(float* const*, int)");
  EXPECT_TRUE(writer.unread);
  for (auto* p : {table, data, other}) deallocate(p);
}

// What lies behind an output of a kernel that is described and not computed stays known.
// The parameters are those of a launch by vLLM 0.33: two prompts of 3 and 61 tokens, whose keys lie
// in pages of 16, with 16 heads of which two share keys.
TEST(KernelEffect, FlashAttentionForHopperHasItsShapeFromLengthsInMemory) {
  const std::string text =
      "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<"
      "flash::CollectiveMainloopFwdSm90<2, a, b, 64, cutlass::bfloat16_t, float, c, true>, d, e> > "
      ">(flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<f, d, e> >::Params)";
  const Signature parts = signature(text);
  const auto meaning = read_attention(parts, {});
  ASSERT_NE(meaning, nullptr);
  std::vector<std::byte> structure(2688);
  const auto numbers = [&](std::size_t at, std::initializer_list<std::uint32_t> values) {
    for (const std::uint32_t value : values) {
      std::memcpy(structure.data() + at, &value, sizeof value);
      at += sizeof value;
    }
  };
  const auto strides = [&](std::size_t at, std::initializer_list<std::size_t> values) {
    for (const std::size_t value : values) {
      std::memcpy(structure.data() + at, &value, sizeof value);
      at += sizeof value;
    }
  };
  std::vector<void*> tensors;
  const auto tensor = [&](std::size_t bytes, std::initializer_list<std::size_t> places) {
    auto* const address = static_cast<std::byte*>(allocate(0, bytes));
    const std::vector<std::byte> zeros(bytes);
    write(address, zeros.data(), bytes);
    for (const std::size_t at : places)
      std::memcpy(structure.data() + at, &address, sizeof address);
    tensors.push_back(address);
    return address;
  };
  tensor(64 * 2048 * 2, {0});
  numbers(8, {64, 64, 16, 1});
  strides(24, {2048, 64, 0});
  numbers(48, {2, 64, 64, 8, 1});
  tensor(1 << 18, {104, 152});
  numbers(112, {16, 64, 8, 100});
  numbers(160, {64});
  tensor(2 * 128 * 4, {408});
  numbers(416, {2, 6, 128, 0});
  auto* const starts = tensor(12, {1904, 2432, 2536});
  auto* const used = tensor(8, {1936});
  const std::byte* const out = tensor(64 * 1024 * 2, {2048});
  numbers(2056, {64, 64, 16, 1, 1});
  strides(2080, {1024, 64, 0, 0});
  numbers(2112, {2, 64, 64, 8, 1, 1});
  const std::byte* const sums = tensor(4096, {2256});
  strides(2264, {64, 0, 0});
  numbers(2488, {8, 2, 2, 61});
  const std::byte* const counter = tensor(64, {2528});
  const std::array<std::int32_t, 3> first{0, 3, 64};
  const std::array<std::int32_t, 2> keys{20, 80};
  write(starts, first.data(), sizeof first);
  write(used, keys.data(), sizeof keys);

  std::array<void*, 1> parameters{structure.data()};
  const std::array<std::uint32_t, 1> sizes{2688};
  const auto effect_now = [&] {
    return meaning->effect({parameters.data(), sizes, {{132, 1, 1}, {384, 1, 1}, 0}});
  };
  const auto effect = effect_now();
  ASSERT_TRUE(effect);
  const auto told = [](const Effect& of, std::string_view name) {
    for (const Feature& feature : of.features) {
      if (feature.first == name) return feature.second;
    }
    return 0.0;
  };
  // (3 * 20 + 61 * 80) products of queries and keys of 100.
  EXPECT_EQ(told(*effect, "b"), 2);
  EXPECT_EQ(told(*effect, "s_q"), 49);
  EXPECT_EQ(told(*effect, "s_kv"), 50);
  EXPECT_EQ(told(*effect, "h"), 16);
  EXPECT_EQ(told(*effect, "h_kv"), 8);
  EXPECT_EQ(told(*effect, "d"), 64);
  apply(*effect);
  EXPECT_FALSE(known(out, 1));
  EXPECT_FALSE(known(out + 64 * 1024 * 2 - 1, 1));
  EXPECT_FALSE(known(sums, 1));
  EXPECT_FALSE(known(sums + 4095, 1));
  EXPECT_FALSE(known(counter, 4));
  EXPECT_TRUE(known(counter + 4, 60));
  EXPECT_TRUE(known(starts, 12));
  EXPECT_TRUE(known(used, 8));

  // How many heads share keys is part of the type where the kernel was compiled for that.
  numbers(2112, {64, 64, 8, 1, 1, 0});
  const auto of_type = effect_now();
  ASSERT_TRUE(of_type);
  EXPECT_EQ(of_type->features, effect->features);
  numbers(2112, {2, 64, 64, 8, 1, 1});

  // Without the lengths all are as long as the pages allow.
  forget(used, 8);
  const auto longest = effect_now();
  ASSERT_TRUE(longest);
  EXPECT_EQ(told(*longest, "s_q"), 32);
  EXPECT_EQ(told(*longest, "s_kv"), 112);

  // What it does not understand, it does not describe: here tensors that do not fit.
  numbers(8, {65, 64, 16, 1});
  EXPECT_FALSE(effect_now());
  for (void* const address : tensors) deallocate(address);
}

TEST(KernelEffect, SplitsOfFlashAttentionAreSummedUpIntoItsOutputsAlone) {
  const std::string text =
      "void cutlass::device_kernel<flash::FlashAttnFwdCombine<a, 5, 256> "
      ">(flash::FlashAttnFwdCombine<a, 5, 256>::Params)";
  const Signature parts = signature(text);
  const auto meaning = read_attention(parts, {});
  ASSERT_NE(meaning, nullptr);
  auto* const memory = static_cast<std::byte*>(allocate(0, 1 << 16));
  fill(memory, 1, 1 << 16);
  std::vector<std::byte> structure(288);
  const auto put = [&](std::size_t at, const auto&... values) {
    ((std::memcpy(structure.data() + at, &values, sizeof values), at += sizeof values), ...);
  };
  // 3 rows of 4 heads of 64 numbers, in 2 parts: (rows, depth, splits, heads, batches).
  put(0, std::size_t{3}, memory);
  put(16, 3, 64, 2, 4, 1);
  put(72, memory + 8192);
  put(80, 3, 2, 4, 1);
  put(120, memory + 16384, std::size_t{256}, std::size_t{64}, std::size_t{0});
  put(152, memory + 24576, std::size_t{3}, std::size_t{0});
  put(216, memory + 32768, nullptr, memory + 32772);
  put(256, memory + 40960);  // lengths, only read
  std::array<void*, 1> parameters{structure.data()};
  const std::array<std::uint32_t, 1> sizes{288};
  const auto effect_now = [&] {
    return meaning->effect({parameters.data(), sizes, {{4, 1, 1}, {256, 1, 1}, 0}});
  };
  const auto effect = effect_now();
  ASSERT_TRUE(effect);
  apply(*effect);
  const auto forgotten = [&](std::size_t first, std::size_t bytes) {
    for (std::size_t at = first; at < first + bytes; ++at) {
      if (known(memory + at, 1)) return false;
    }
    return true;
  };
  EXPECT_TRUE(known(memory, 16384));
  EXPECT_TRUE(forgotten(16384, 3 * 256 * 2));
  EXPECT_TRUE(known(memory + 16384 + 3 * 256 * 2, 8192 - 3 * 256 * 2));
  EXPECT_TRUE(forgotten(24576, 12 * 4));
  EXPECT_TRUE(known(memory + 24576 + 12 * 4, 8192 - 12 * 4 + 4));
  EXPECT_TRUE(forgotten(32772, 4));
  EXPECT_TRUE(known(memory + 32776, 16384));
  put(84, 3);  // not as many parts: these are other parameters
  EXPECT_FALSE(effect_now());
  deallocate(memory);
}

// Names and parameters of vLLM 0.25's and SGLang's routers. Where a number is not where it should
// be, the kernel is none of them.
TEST(KernelEffect, RoutersChooseWhatIsAssumed) {
  const auto reads = [](const std::string& text) {
    const Signature parts = signature(text);
    return read_router(parts, {}) != nullptr;
  };
  EXPECT_TRUE(
      reads("void vllm::moe::topkGating<8, 128, 4, 16, 32, int, __nv_bfloat16, "
            "(vllm::moe::ScoringFunc)0>(__nv_bfloat16 const*, bool const*, float*, int, int*, "
            "int*, int, int, int, bool, float const*)"));
  EXPECT_TRUE(
      reads("void topkGatingSoftmax<float, 4, 64, 4, 16>(float const*, bool const*, float*, int, "
            "int*, int, int, int, bool, float, float const*)"));
  EXPECT_TRUE(
      reads("void vllm::moe::moeTopK<256, long>(float const*, bool const*, float*, long*, int*, "
            "int, int, int, int, bool, float const*)"));
  EXPECT_TRUE(
      reads("void vllm::moe::grouped_topk_fused_kernel<float, float, int, "
            "(vllm::moe::ScoringFunc)0>(float*, float*, int*, float const*, long, long, long, "
            "long, long, bool, double)"));
  EXPECT_FALSE(reads("void topkGating<8, 128>(float const*, bool const*, float*, int, int)"));
  EXPECT_FALSE(reads("void topkGating<8>(float const*, float*, int, int*, int)"));
}

TEST(KernelEffect, BlockwiseTopKWritesItsOutputsAlone) {
  const std::string name =
      "void at::native::mbtopk::computeBlockwiseWithinKCounts<unsigned int, float>(unsigned int*, "
      "short*, unsigned int*, unsigned int*, unsigned int, int, bool, unsigned int*, float*, "
      "unsigned int*, unsigned int*, unsigned int)";
  const Signature parts = signature(name);
  const auto meaning = read_block_top_k(parts, {});
  ASSERT_NE(meaning, nullptr);
  auto* memory = static_cast<std::byte*>(allocate(0, 8192));
  fill(memory, 1, 8192);
  Launched launch;
  for (int i = 0; i < 4; ++i) launch.add(memory + 4096 + 512 * i);  // inputs
  launch.add(std::uint32_t{3});                                     // blocks per slice
  launch.add(24);
  launch.add(true);
  for (int i = 0; i < 4; ++i) launch.add(memory + 512 * i);
  launch.add(std::uint32_t{6});  // blocks
  const auto effect =
      meaning->effect({launch.pointers.data(), launch.sizes, {{6, 1, 1}, {256, 1, 1}, 0}});
  ASSERT_TRUE(effect);
  apply(*effect);
  const std::size_t written[] = {6 * 4, 2 * 4, 2 * 4, 2 * 4};
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t at = 0; at < 512; ++at) {
      ASSERT_EQ(known(memory + 512 * i + at, 1), at >= written[i]) << i << " " << at;
    }
  }
  EXPECT_TRUE(known(memory + 2048, 8192 - 2048));
  launch.sizes[8] = 4;  // not a pointer: the kernel is not what its name says
  EXPECT_FALSE(
      meaning->effect({launch.pointers.data(), launch.sizes, {{6, 1, 1}, {256, 1, 1}, 0}}));
  deallocate(memory);
}

// Nothing is executed, so that a program which waits for a failed assertion has to be told.
TEST(KernelLaunch, AssertionsAndPrintsOfKernelsThatNobodyReadsAreMissed) {
  static const LoudFile file;
  static Module module;
  module.image = &file;
  static Kernel kernel;
  kernel.module = &module;
  kernel.mangled = "loud";
  auto& warnings = fakes::process().warnings;
  warnings.clear();
  for (int i = 0; i < 2; ++i) {
    launch_kernel(kernel, {{1, 1, 1}, {32, 1, 1}, 0}, nullptr, legacy_stream(0));
  }
  EXPECT_EQ(warnings,
            (std::vector<std::string>{
                "kernel loud checks assertions; it is not executed, so that none of them fails "
                "(said once)",
                "kernel loud prints; it is not executed, so that nothing is printed (said once)"}));
}

TEST(KernelLaunch, KernelsThatNobodyReadsMakeUnknownWhatTheyMayWrite) {
  static Module module;
  static Kernel kernel;
  kernel.module = nullptr;  // no code: the signature tells which parameters are pointers
  kernel.mangled = "_Z9vectorAddPfPKfi";
  auto* out = static_cast<std::byte*>(allocate(0, 4096));
  auto* in = static_cast<std::byte*>(allocate(0, 4096));
  fill(out, 1, 4096);
  fill(in, 1, 4096);
  auto* middle = out + 1024;
  int count = 5;
  void* arguments[] = {&middle, &in, &count};
  auto& counters = fakes::process().counters;
  const auto before = counters["unread_kernels"];
  launch_kernel(kernel, {{1, 1, 1}, {32, 1, 1}, 0}, arguments, legacy_stream(0));
  EXPECT_EQ(counters["unread_kernels"], before + 1);
  EXPECT_EQ(counters["unread_kernel vectorAdd(float*, float const*, int)"], 1u);
  EXPECT_TRUE(known(out, 1024));
  EXPECT_FALSE(known(out + 1024, 1) || known(out + 4095, 1));
  EXPECT_TRUE(known(in, 4096));
  // The host reads it: zeros, and a word on why.
  int back = 7;
  auto& warnings = fakes::process().warnings;
  warnings.clear();
  EXPECT_FALSE(read(&back, out + 2048, sizeof back));
  EXPECT_EQ(back, 0);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0],
            "a copy to the host reads what kernel vectorAdd wrote; user kernels are not executed, "
            "the host sees zeros (said once; unknown_reads counts them)");

  // Variables of its module may be written as well, those of the launch's device.
  static Kernel counts;
  counts.module = &module;
  counts.mangled = "not_mangled";
  auto* variable = static_cast<std::byte*>(allocate(0, 4));
  auto* elsewhere = static_cast<std::byte*>(allocate(1, 4));
  for (auto* v : {variable, elsewhere}) {
    fill(v, 0, 4);
    add_variable(module, v, 4);
  }
  std::array<std::byte, 64> no_code{};
  module.image = no_code.data();
  launch_kernel(counts, {{1, 1, 1}, {32, 1, 1}, 0}, nullptr, legacy_stream(0));
  EXPECT_FALSE(known(variable, 1));
  EXPECT_TRUE(known(elsewhere, 4));
  // And those that the host asks for only then.
  auto* later = static_cast<std::byte*>(allocate(0, 4));
  fill(later, 0, 4);
  add_variable(module, later, 4);
  EXPECT_FALSE(known(later, 1));
  for (auto* p : {out, in, variable, elsewhere, later}) deallocate(p);
}

// Instructions as nvdisasm -hex prints them for Triton's kernels for sm_90.
namespace sass {
using Instruction = std::array<std::uint64_t, 2>;
constexpr Instruction load_8{0x0000000418187981, 0x000ea2000c0e1b00};     // LDG.E.EF.64
constexpr Instruction load_16{0x0000000404047981, 0x000ea2000c0e1d00};    // LDG.E.EF.128
constexpr Instruction store_4{0x0000000702007986, 0x000fe2000c101904};    // STG.E
constexpr Instruction other{0x0000000214187825, 0x000fe200078e020c};      // IMAD.WIDE
constexpr Instruction to_itself{0xfffffffc00fc7947, 0x000fc0000383ffff};  // BRA
constexpr Instruction back_by_64{0xfffffffc00f07947, 0x000fc0000383ffff};
constexpr Instruction matrix_product{0x000000040808723c, 0x000fe20000001800};  // HMMA
Accesses read(std::initializer_list<Instruction> code) {
  return accesses(std::as_bytes(std::span{code.begin(), code.size()}), 90);
}
}  // namespace sass

TEST(DeviceCode, CountsAccessesInAndOutOfLoops) {
  const Accesses straight =
      sass::read({sass::load_8, sass::other, sass::load_16, sass::store_4, sass::to_itself});
  EXPECT_EQ(straight.once, 3);
  EXPECT_EQ(straight.once_bytes, 8 + 16 + 4);
  EXPECT_EQ(straight.repeated, 0);
  EXPECT_FALSE(straight.multiplies_matrices);
  const Accesses looping = sass::read(
      {sass::load_8, sass::load_16, sass::load_8, sass::other, sass::back_by_64, sass::store_4});
  EXPECT_EQ(looping.once_bytes, 8 + 4);
  EXPECT_EQ(looping.repeated, 2);
  EXPECT_EQ(looping.repeated_bytes, 16 + 8);
  EXPECT_EQ(looping.widest, 16);
  EXPECT_TRUE(sass::read({sass::load_8, sass::matrix_product}).multiplies_matrices);
  EXPECT_EQ(accesses({}, 90).once, 0);
}

TEST(DeviceCode, GridAndIntegersTellElements) {
  const auto of = [](std::vector<int> integers, KernelQuery::Dim3 grid) {
    Launched launch;
    for (const int i : integers) launch.add(i);
    return elements({launch.pointers.data(), launch.sizes, {grid, {128, 1, 1}, 0}});
  };
  EXPECT_EQ(of({1000000}, {977, 1, 1}), 1000000);            // blocks of 1024
  EXPECT_EQ(of({300, 700}, {22, 5, 1}), 300 * 700);          // blocks of 64 and of 32
  EXPECT_EQ(of({16384, 128}, {256, 1, 1}), 16384 * 128);     // a reduction
  EXPECT_EQ(of({768, 768, 1}, {4096, 1, 1}), 4096.0 * 768);  // a row to a block, and its stride
  EXPECT_EQ(of({}, {7, 1, 1}), std::nullopt);
}

TEST(DeviceCode, NoLaunchMovesMoreThanItsPointersReach) {
  auto* data = static_cast<std::byte*>(allocate(0, 1 << 20));
  const auto moved = [&](const Accesses& code, std::uint32_t blocks, int count) {
    Launched launch;
    launch.add(data);
    launch.add(count);
    KernelResources resources;
    resources.accesses = code;
    return moved_bytes({launch.pointers.data(), launch.sizes, {{blocks, 1, 1}, {128, 1, 1}, 0}},
                       resources);
  };
  const double reach = static_cast<double>(allocation_of(data)->size);
  const Accesses straight = sass::read({sass::load_8, sass::store_4});
  EXPECT_EQ(moved(straight, 10, 1280), 10 * 128 * (8 + 4));
  EXPECT_EQ(moved(straight, 1 << 20, 1280), 2 * reach);
  const Accesses looping =
      sass::read({sass::load_16, sass::load_16, sass::other, sass::other, sass::back_by_64});
  EXPECT_EQ(looping.once, 1);
  // One of two accesses is in the loop: half of the pointers, 4 bytes an element.
  EXPECT_EQ(moved(looping, 4, 4096), 4 * 128 * 16 + 4096 * 4 * 0.5);
  EXPECT_EQ(moved({}, 10, 1280), std::nullopt);
  EXPECT_EQ(moved(sass::read({sass::load_8, sass::matrix_product}), 10, 1280), std::nullopt);
  // Pointers that lie in a structure count too.
  Launched structure;
  structure.add(std::array<std::byte*, 2>{data, data});
  KernelResources resources;
  resources.accesses = straight;
  EXPECT_EQ(moved_bytes({structure.pointers.data(), structure.sizes, {{1, 1, 1}, {32, 1, 1}, 0}},
                        resources),
            32 * (8 + 4));
  deallocate(data);
}

TEST(LastWriter, IsFoundThroughCopies) {
  auto* memory = static_cast<std::byte*>(allocate(0, 4096));
  forget(memory, 64, {.name = "first", .type = ElementType::float32});
  forget(memory + 16, 16, {.name = "second"});
  rank::copy(memory + 1024, memory, 64);
  EXPECT_STREQ(small_data().writers.last(memory + 1024).name, "first");
  EXPECT_EQ(small_data().writers.last(memory + 1024).type, ElementType::float32);
  EXPECT_STREQ(small_data().writers.last(memory + 1024 + 20).name, "second");
  EXPECT_EQ(small_data().writers.last(memory + 3000).name, nullptr);
  deallocate(memory);
}

// Another version of a kernel may have a pointer where a number was, or fewer parameters.
TEST(Arguments, SayWhenTheyAreMisread) {
  Launched launch;
  launch.add(static_cast<std::byte*>(nullptr));
  launch.add(7);
  launch.add(std::array<float, 2>{1, 2});
  const std::array kinds{ParameterKind::pointer, ParameterKind::number, ParameterKind::other};
  const auto misread = [&](auto read) {
    const Arguments arguments{launch.pointers.data(), launch.sizes, {}, kinds};
    read(arguments);
    return arguments.misread;
  };
  EXPECT_FALSE(misread([](const Arguments& a) { return a.pointer(0); }));
  EXPECT_FALSE(misread([](const Arguments& a) { return a.get<int>(1); }));
  EXPECT_FALSE(misread([](const Arguments& a) { return a.get<float>(2, 4); }));
  EXPECT_TRUE(misread([](const Arguments& a) { return a.get<int>(0); }));
  EXPECT_TRUE(misread([](const Arguments& a) { return a.pointer(1); }));
  EXPECT_TRUE(misread([](const Arguments& a) { return a.get<float>(2, 8); }));
  EXPECT_TRUE(misread([](const Arguments& a) { return a.get<int>(3); }));
}

}  // namespace
}  // namespace phantora::rank
