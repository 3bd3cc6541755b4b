#include "run/program_checks.hpp"

#include "run/child_output.hpp"
#include "run/launcher.hpp"
#include "run/stand_in_checks.hpp"
#include "run/starts.hpp"

#include <phantora/error.hpp>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <optional>
#include <span>
#include <sstream>

#include <elf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace phantora::run {
namespace {

namespace fs = std::filesystem;
using Status = Finding::Status;

/// What a program file says of itself in its first headers.
struct ElfHead {
  bool x86_64 = false;
  std::string loader{};  ///< the dynamic linker that it wants; empty: none
};
template <class T>
std::optional<T> read_at(std::ifstream& file, std::uint64_t offset) {
  T value{};
  file.seekg(static_cast<std::streamoff>(offset));
  if (!file.read(reinterpret_cast<char*>(&value), sizeof value)) return std::nullopt;
  return value;
}
/// Nothing for what is no ELF file.
std::optional<ElfHead> head_of(const fs::path& path) {
  std::ifstream file{path, std::ios::binary};
  const auto header = read_at<Elf64_Ehdr>(file, 0);
  if (!header || !std::ranges::equal(std::string_view{ELFMAG, SELFMAG},
                                     std::span{header->e_ident}.first<SELFMAG>()))
    return std::nullopt;
  ElfHead head{.x86_64 = header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_machine == EM_X86_64};
  if (!head.x86_64) return head;
  for (std::uint64_t i = 0; i < header->e_phnum; ++i) {
    const auto segment = read_at<Elf64_Phdr>(file, header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment || segment->p_type != PT_INTERP) continue;
    file.seekg(static_cast<std::streamoff>(segment->p_offset));
    std::getline(file, head.loader, '\0');
  }
  return head;
}

/// Of a script, the words of its first line after "#!".
std::vector<std::string> interpreter_of(const fs::path& path) {
  std::ifstream file{path};
  std::string line;
  if (!std::getline(file, line) || !line.starts_with("#!")) return {};
  std::istringstream text{line.substr(2)};
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

bool of_nvidia(std::string_view library) {
  constexpr std::array prefixes = {"libcu", "libnv", "libnccl", "libnpp"};
  return std::ranges::any_of(prefixes,
                             [&](std::string_view prefix) { return library.starts_with(prefix); });
}

/// The libraries that the loader finds for the program in a run, by name; "" for what it does not.
std::map<std::string, std::string> libraries_of(const fs::path& program,
                                                const std::string& loader) {
  // As ldd does it; but a loader that is named runs no program that would not listen to it.
  const ChildOutput listed = output_of({loader, program.string()},
                                       {{"LD_TRACE_LOADED_OBJECTS", "1"},
                                        {"LD_LIBRARY_PATH", library_path(hook_directory(), true)},
                                        {"LD_PRELOAD", ""}},
                                       30);
  std::map<std::string, std::string> found;
  std::istringstream lines{listed.text};
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view arrow = " => ";
    const std::size_t at = line.find(arrow);
    const std::size_t begin = line.find_first_not_of(" \t");
    if (at == line.npos || begin >= at) continue;
    const std::string path = line.substr(at + arrow.size());
    found[line.substr(begin, at - begin)] =
        path.starts_with("not found") ? "" : path.substr(0, path.rfind(" ("));
  }
  return found;
}

Finding libraries(const fs::path& program, const std::string& loader) {
  std::vector<std::string> answered, real, absent;
  for (const auto& [name, path] : libraries_of(program, loader)) {
    if (has_stand_in(name)) {
      answered.push_back(name);
    } else if (path.empty()) {
      absent.push_back(name);
    } else if (of_nvidia(name)) {
      real.push_back(name);
    }
  }
  if (!absent.empty())
    return {Status::missing, "libraries",
            fmt::format("{} needs {}, which nothing answers for", program.string(),
                        fmt::join(absent, ", ")),
            "install them, or add their folder to LD_LIBRARY_PATH"};
  if (!real.empty())
    return {Status::warning, "libraries",
            fmt::format("no stand-in for {}: NVIDIA's own is loaded, which the simulation does not "
                        "follow beyond its calls of CUDA",
                        fmt::join(real, ", ")),
            "see LIMITATIONS.md"};
  if (answered.empty())
    return {Status::ok, "libraries", "all are found; none of NVIDIA's is linked to it"};
  return {Status::ok, "libraries",
          fmt::format("all are found; stand-ins answer for {}", fmt::join(answered, ", "))};
}

/// The loader preloads nothing into a program that gives its user more rights.
bool gives_rights(const fs::path& program) {
  struct stat status {};
  if (stat(program.c_str(), &status) != 0) return false;
  const bool other_user = (status.st_mode & S_ISUID) != 0 && status.st_uid != getuid();
  const bool other_group = (status.st_mode & S_ISGID) != 0 && status.st_gid != getgid();
  const bool capable =
      getuid() != 0 && getxattr(program.c_str(), "security.capability", nullptr, 0) > 0;
  return other_user || other_group || capable;
}

}  // namespace

fs::path executable_of(const std::string& program) {
  fs::path path = check_program(program);
  // As the kernel does: an interpreter may be a script itself.
  for (int depth = 0; depth < 4; ++depth) {
    const std::vector<std::string> words = interpreter_of(path);
    if (words.empty()) break;
    std::string next = words.front();
    if (fs::path{next}.filename() == "env") {
      const auto named = std::find_if(words.begin() + 1, words.end(), [](const std::string& word) {
        return !word.starts_with("-") && word.find('=') == word.npos;
      });
      if (named == words.end()) break;
      next = *named;
    }
    path = check_program(next);
  }
  return path;
}

Findings check_program_file(const std::string& program) {
  fs::path named, path;
  try {
    named = check_program(program);
    path = executable_of(program);
  } catch (const CommandError& problem) {
    return {{Status::missing, "program", problem.what(), "name a program that can be run"}};
  }
  const std::string name = path == named
                               ? path.string()
                               : fmt::format("{} runs {}, which", named.string(), path.string());
  const auto found = [&](Status status, std::string text, std::string remedy = {}) {
    return Finding{status, "program", name + text, std::move(remedy)};
  };
  const auto head = head_of(path);
  if (!head)
    return {found(Status::missing, " is neither an ELF program nor a script with #!",
                  "name the program that runs it")};
  if (!head->x86_64) return {found(Status::missing, " is not for x86-64", "build it for x86-64")};
  if (head->loader.empty())
    return {found(Status::missing,
                  " is statically linked: no library can take the place of another in it",
                  "link it dynamically")};
  if (head->loader.find("ld-musl") != head->loader.npos)
    return {found(Status::missing, " is linked to musl: the stand-ins need glibc",
                  "use a program that is built for glibc")};
  if (gives_rights(path))
    return {
        found(Status::missing,
              " gives its user more rights (setuid or capabilities): the loader preloads nothing "
              "into it",
              "copy it: the copy does not")};
  Findings findings{found(Status::ok, fmt::format(" is dynamically linked, by {}", head->loader))};
  try {
    findings.push_back(libraries(path, head->loader));
  } catch (const ConfigError&) {  // there are no stand-ins, which is told
  }
  return findings;
}

}  // namespace phantora::run
