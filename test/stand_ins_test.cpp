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

/// NVRTC lies apart: programs find it only where no real one is. So does what is not preloaded.
std::string path_of(const std::string& soname) {
  std::string folder = "/";
  if (soname.starts_with("libnvrtc"))
    folder = "/unless_real_" + soname.substr(soname.size() - 2) + "/";
  for (const char* asked : {"libcudnn_", "libcufftw.", "libcusolverMg.", "libnvblas."})
    if (soname.starts_with(asked)) folder = "/when_asked/";
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

// The names are those in the NEEDED entries of torch's libraries (2.10 is built with CUDA 12), and
// what it opens by name.
INSTANTIATE_TEST_SUITE_P(
    All, StandIn,
    testing::Values("libcudart.so.12", "libcudart.so.13", "libcublas.so.12", "libcublas.so.13",
                    "libcublasLt.so.12", "libcublasLt.so.13", "libcudnn.so.9", "libcufft.so.11",
                    "libcufft.so.12", "libcusparse.so.12", "libcusparseLt.so.0",
                    "libcusolver.so.11", "libcusolver.so.12", "libcurand.so.10", "libcupti.so.12",
                    "libcupti.so.13", "libcufile.so.0", "libnccl.so.2", "libnvshmem_host.so.3",
                    "libcuda.so.1", "libnvidia-ml.so.1", "libnvrtc.so.12", "libnvrtc.so.13",
                    "libcudnn_ops.so.9", "libcudnn_cnn.so.9", "libcudnn_adv.so.9",
                    "libcudnn_graph.so.9", "libcudnn_heuristic.so.9",
                    "libcudnn_engines_precompiled.so.9", "libcudnn_engines_runtime_compiled.so.9",
                    "libcufftw.so.12", "libcusolverMg.so.12", "libnvblas.so.13"),
    [](const auto& parameter) {
      std::string name = parameter.param;
      std::replace_if(
          name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
      return name;
    });

TEST(StandIns, AnswerNotSupportedForWhatIsNotWritten) {
  // cusolverDnCCgels is generated: 9 is CUSOLVER_STATUS_NOT_SUPPORTED.
  void* const handle = open_stand_in("libcusolver.so.12");
  auto* const function = reinterpret_cast<int (*)()>(dlsym(handle, "cusolverDnCCgels"));
  ASSERT_NE(function, nullptr);
  EXPECT_EQ(function(), 9);
}

TEST(StandIns, PartsOfCudnnAreTheWhole) {
  const auto version = [](const char* soname) {
    void* const found = dlvsym(open_stand_in(soname), "cudnnGetVersion", soname);
    return found == nullptr ? 0 : reinterpret_cast<std::size_t (*)()>(found)();
  };
  EXPECT_GE(version("libcudnn.so.9"), 90000U);
  EXPECT_EQ(version("libcudnn_graph.so.9"), version("libcudnn.so.9"));
}

TEST(StandIns, FftwMakesNoPlan) {
  void* const handle = open_stand_in("libcufftw.so.12");
  auto* const plan = reinterpret_cast<void* (*)(int, void*, void*, int, unsigned)>(
      dlsym(handle, "fftw_plan_dft_1d"));
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan(8, nullptr, nullptr, -1, 1), nullptr);
}

TEST(StandIns, HaveTheirRelease) {
  for (const auto& [soname, least, most] :
       {std::tuple{"libcudart.so.12", 12000, 12999}, std::tuple{"libcudart.so.13", 13000, 13999}}) {
    auto* const version =
        reinterpret_cast<int (*)(int*)>(dlsym(open_stand_in(soname), "cudaRuntimeGetVersion"));
    int value = 0;
    EXPECT_EQ(version(&value), 0);
    EXPECT_GE(value, least);
    EXPECT_LE(value, most);
  }
}

TEST(StandIns, SayNoDeviceOutsideOfASimulation) {
  void* const handle = open_stand_in("libcudart.so.13");
  auto* const count = reinterpret_cast<int (*)(int*)>(dlsym(handle, "cudaGetDeviceCount"));
  int devices = -1;
  EXPECT_EQ(count(&devices), 100);  // cudaErrorNoDevice
}

}  // namespace
