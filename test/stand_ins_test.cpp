// The libraries that take the place of NVIDIA's, as the dynamic linker sees them. They are opened
// by path, so that nothing of a real CUDA installation takes part.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <elf.h>
#include <gtest/gtest.h>
#include <link.h>

namespace {

/// A committed export list.
struct ExportList {
  std::string soname;
  std::string node;  ///< ELF version node; empty if the library has none
  std::vector<std::string> symbols;
};

ExportList read_list(const std::string& soname) {
  std::ifstream file{std::string{PHANTORA_EXPORTS} + "/" + soname + ".txt"};
  ExportList list{soname, {}, {}};
  std::string line;
  std::getline(file, line);
  const auto at = line.find("node:");
  if (at != std::string::npos && at + 6 < line.size()) list.node = line.substr(at + 6);
  while (std::getline(file, line)) {
    if (!line.empty() && line[0] != '#') list.symbols.push_back(line);
  }
  return list;
}

/// NVRTC lies apart: programs find it only where no real one is.
std::string path_of(const std::string& soname) {
  const std::string folder = soname.starts_with("libnvrtc") ? "/unless_real/" : "/";
  return PHANTORA_HOOKS + folder + soname;
}

void* open_stand_in(const std::string& soname) {
  void* handle = dlopen(path_of(soname).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) ADD_FAILURE() << dlerror();
  return handle;
}

class StandIn : public testing::TestWithParam<const char*> {};

TEST_P(StandIn, ExportsEverySymbolOfTheRealLibrary) {
  const ExportList list = read_list(GetParam());
  ASSERT_FALSE(list.symbols.empty());
  void* const handle = open_stand_in(list.soname);
  ASSERT_NE(handle, nullptr);
  for (const std::string& symbol : list.symbols) {
    // With a version node the linker asks for the symbol in that node, and finds no other.
    void* const found = list.node.empty() ? dlsym(handle, symbol.c_str())
                                          : dlvsym(handle, symbol.c_str(), list.node.c_str());
    Dl_info where{};
    ASSERT_TRUE(found && dladdr(found, &where)) << symbol;
    EXPECT_EQ(std::string{where.dli_fname}, path_of(list.soname))
        << symbol << " comes from another library";
  }
}

TEST_P(StandIn, HasTheRealSoname) {
  void* const handle = open_stand_in(GetParam());
  ASSERT_NE(handle, nullptr);
  struct link_map* map = nullptr;
  ASSERT_EQ(dlinfo(handle, RTLD_DI_LINKMAP, static_cast<void*>(&map)), 0);
  const char* strings = nullptr;
  std::size_t soname = 0;
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_SONAME) soname = entry->d_un.d_val;
  }
  ASSERT_NE(strings, nullptr);
  EXPECT_STREQ(strings + soname, GetParam());
}

// The names are those in the NEEDED entries of torch 2.11's libraries, and what it opens by name.
INSTANTIATE_TEST_SUITE_P(All, StandIn,
                         testing::Values("libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13",
                                         "libcudnn.so.9", "libcufft.so.12", "libcusparse.so.12",
                                         "libcusparseLt.so.0", "libcusolver.so.12",
                                         "libcurand.so.10", "libcupti.so.13", "libcufile.so.0",
                                         "libnccl.so.2", "libnvshmem_host.so.3", "libcuda.so.1",
                                         "libnvidia-ml.so.1", "libnvrtc.so.13"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !std::isalnum(c); },
                               '_');
                           return name;
                         });

TEST(StandIns, AnswerNotSupportedForWhatIsNotWritten) {
  // cusolverDnCCgels is generated: 9 is CUSOLVER_STATUS_NOT_SUPPORTED.
  void* const handle = open_stand_in("libcusolver.so.12");
  auto* const function = reinterpret_cast<int (*)()>(dlsym(handle, "cusolverDnCCgels"));
  ASSERT_NE(function, nullptr);
  EXPECT_EQ(function(), 9);
}

TEST(StandIns, SayNoDeviceOutsideOfASimulation) {
  void* const handle = open_stand_in("libcudart.so.13");
  auto* const count = reinterpret_cast<int (*)(int*)>(dlsym(handle, "cudaGetDeviceCount"));
  int devices = -1;
  EXPECT_EQ(count(&devices), 100);  // cudaErrorNoDevice
}

#ifdef PHANTORA_TOOLKIT_LIBRARIES
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
#endif

}  // namespace
