// The libraries that take the place of NVIDIA's, beside those of an installed toolkit.
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <gtest/gtest.h>

namespace {

void* open_stand_in(const std::string& soname) {
  void* handle =
      dlopen((std::string{PHANTORA_HOOKS} + "/" + soname).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) ADD_FAILURE() << dlerror();
  return handle;
}

/// A library of the installed toolkit, in a linker namespace of its own: by its SONAME it would be
/// taken for the stand-in.
void* open_real(const std::string& soname) {
  void* handle = dlmopen(
      LM_ID_NEWLM, (std::string{PHANTORA_TOOLKIT_LIBRARIES} + "/" + soname).c_str(), RTLD_NOW);
  if (!handle) ADD_FAILURE() << dlerror();
  return handle;
}

/// Asks both libraries for a text per code.
void expect_equal_texts(const std::string& soname, const char* function, int codes) {
  using Text = const char*(int);
  auto* const ours = reinterpret_cast<Text*>(dlsym(open_stand_in(soname), function));
  void* const real_library = open_real(soname);
  ASSERT_NE(real_library, nullptr);
  auto* const real = reinterpret_cast<Text*>(dlsym(real_library, function));
  ASSERT_TRUE(ours && real);
  for (int code = 0; code < codes; ++code) {
    EXPECT_STREQ(ours(code), real(code)) << function << '(' << code << ')';
  }
  dlclose(real_library);
}

TEST(RealLibrary, HasTheSameCudaErrors) {
  expect_equal_texts("libcudart.so.13", "cudaGetErrorName", 1100);
  expect_equal_texts("libcudart.so.13", "cudaGetErrorString", 1100);
}

TEST(RealLibrary, HasTheSameCublasStatuses) {
  expect_equal_texts("libcublas.so.13", "cublasGetStatusName", 64);
  expect_equal_texts("libcublas.so.13", "cublasGetStatusString", 64);
}

TEST(RealLibrary, HasTheSameCublasLtStatuses) {
  expect_equal_texts("libcublasLt.so.13", "cublasLtGetStatusName", 64);
}

TEST(RealLibrary, HasTheSameCudnnStatuses) {
  expect_equal_texts("libcudnn.so.9", "cudnnGetErrorString", 6000);
}

TEST(RealLibrary, HasTheSameNcclResults) {
  expect_equal_texts("libnccl.so.2", "ncclGetErrorString", 9);
}

/// cuBLASLt's descriptors work without a GPU: the same calls must answer the same.
TEST(RealLibrary, HasTheSameMatmulDescriptors) {
  struct Answers {
    std::vector<int> statuses;
    std::vector<std::uint64_t> values;
    bool operator==(const Answers&) const = default;
  };
  const auto ask = [](void* library) {
    Answers answers;
    const auto function = [&](const char* name) { return dlsym(library, name); };
    const auto create =
        reinterpret_cast<int (*)(void**, int, int)>(function("cublasLtMatmulDescCreate"));
    const auto get = reinterpret_cast<int (*)(void*, int, void*, std::size_t, std::size_t*)>(
        function("cublasLtMatmulDescGetAttribute"));
    const auto set = reinterpret_cast<int (*)(void*, int, const void*, std::size_t)>(
        function("cublasLtMatmulDescSetAttribute"));
    const auto destroy = reinterpret_cast<int (*)(void*)>(function("cublasLtMatmulDescDestroy"));
    void* descriptor = nullptr;
    answers.statuses.push_back(create(&descriptor, 68, 0));  // CUBLAS_COMPUTE_32F, CUDA_R_32F
    for (int attribute = 0; attribute < 27; ++attribute) {
      if (attribute == 9 || attribute == 16) continue;  // numbers that were never given out
      std::uint64_t value = 0;
      std::size_t size = 0, written = 0;
      answers.statuses.push_back(get(descriptor, attribute, nullptr, 0, &size));
      answers.statuses.push_back(get(descriptor, attribute, &value, size, &written));
      answers.values.push_back(value);
      answers.values.push_back(size);
      answers.values.push_back(written);
      answers.statuses.push_back(get(descriptor, attribute, &value, size + 1, &written));
      answers.statuses.push_back(get(descriptor, attribute, &value, size / 2, &written));
    }
    const std::int32_t transpose = 1;
    answers.statuses.push_back(set(descriptor, 3, &transpose, sizeof transpose));
    std::int32_t back = 0;
    answers.statuses.push_back(get(descriptor, 3, &back, sizeof back, nullptr));
    answers.values.push_back(static_cast<std::uint64_t>(back));
    answers.statuses.push_back(set(descriptor, 3, &transpose, 1));    // too small
    answers.statuses.push_back(set(descriptor, 3, &transpose, 8));    // too large
    answers.statuses.push_back(set(descriptor, 999, &transpose, 4));  // unknown
    answers.statuses.push_back(destroy(descriptor));
    return answers;
  };
  void* const real_library = open_real("libcublasLt.so.13");
  ASSERT_NE(real_library, nullptr);
  const Answers ours = ask(open_stand_in("libcublasLt.so.13")), real = ask(real_library);
  EXPECT_EQ(ours.statuses, real.statuses);
  EXPECT_EQ(ours.values, real.values);
  dlclose(real_library);
}

}  // namespace
