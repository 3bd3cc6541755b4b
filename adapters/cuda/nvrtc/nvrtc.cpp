// NVRTC where no real one is installed (run/launcher.cpp decides). A program is "compiled" to PTX
// that says what its kernels' parameters are: enough to launch them, and to price what is known.

#include "cuda/nvrtc/source.hpp"
#include "rank/runtime/process.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace nvrtc = phantora::nvrtc;

namespace {

/// nvrtc.h's, which a machine without a toolkit does not have. The order is theirs.
enum Result : int {
  success,
  out_of_memory,
  program_creation_failure,
  invalid_input,
  invalid_program,
  invalid_option,
  compilation,
  builtin_operation_failure,
  no_name_expressions_after_compilation,
  no_lowered_names_before_compilation,
  name_expression_not_valid,
  internal_error
};
constexpr std::array<const char*, 12> result_names = {
    "NVRTC_SUCCESS",
    "NVRTC_ERROR_OUT_OF_MEMORY",
    "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
    "NVRTC_ERROR_INVALID_INPUT",
    "NVRTC_ERROR_INVALID_PROGRAM",
    "NVRTC_ERROR_INVALID_OPTION",
    "NVRTC_ERROR_COMPILATION",
    "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE",
    "NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION",
    "NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION",
    "NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID",
    "NVRTC_ERROR_INTERNAL_ERROR"};

/// A version that no real NVRTC has: programs keep what it compiled in caches by its version
/// (PyTorch's is in the home folder), where a real one must not find what this one made.
constexpr int version_major = PHANTORA_NVRTC_MAJOR, version_minor = 999;

/// Those of `nvcc --list-gpu-code` (CUDA 13.0).
constexpr std::array<int, 12> architectures = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};

struct Program {
  std::string source;
  std::vector<std::string> expressions{};
  std::map<std::string, std::string, std::less<>> lowered{};
  bool compiled = false;
  std::string log{}, ptx{};
};
Program* program_of(void* handle) { return static_cast<Program*>(handle); }

/// "sm_90" of "--gpu-architecture=compute_90", "-arch=sm_90a".
std::string target(int count, const char* const* options) {
  std::string found = "sm_90";
  for (int i = 0; i < count; ++i) {
    std::string_view option = options[i];
    if ((option == "-arch" || option == "--gpu-architecture") && i + 1 < count) {
      option = options[i + 1];
    } else if (!option.starts_with("-arch=") && !option.starts_with("--gpu-architecture=")) {
      continue;
    }
    found = "sm_" + std::string{option.substr(option.rfind('_') + 1)};
  }
  return found;
}

void compile(Program& program, std::string_view target) {
  const auto kernels = nvrtc::read_kernels(program.source, program.expressions);
  for (const auto& kernel : kernels) {
    program.lowered[kernel.name] = nvrtc::entry_name(kernel.name);
    if (kernel.unknown_type.empty()) continue;
    phantora::rank::warn_once(
        kernel.signature.c_str(),
        "kernel " + kernel.name + " takes a " + kernel.unknown_type +
            ", whose size only a compiler knows: what the kernel writes through it and the "
            "parameters behind it keeps its old values; with NVIDIA's NVRTC installed it does not");
    program.log += kernel.name + ": the size of " + kernel.unknown_type + " is not known\n";
  }
  program.ptx = nvrtc::to_ptx(kernels, target, nvrtc::read_variables(program.source));
  program.compiled = true;
}

template <class Body>
int guarded(Body&& body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return out_of_memory;
  } catch (const std::exception&) {
    return internal_error;
  }
}

int text_size(void* handle, std::string Program::*text, std::size_t* size) {
  if (!handle) return invalid_program;
  if (!size) return invalid_input;
  *size = (program_of(handle)->*text).size() + 1;
  return success;
}

int copy_text(void* handle, std::string Program::*text, char* out) {
  if (!handle) return invalid_program;
  if (!out) return invalid_input;
  const std::string& from = program_of(handle)->*text;
  std::memcpy(out, from.c_str(), from.size() + 1);
  return success;
}

/// PTX and CUBIN exist once the program is compiled.
int image_size(void* handle, std::size_t* size) {
  if (handle && !program_of(handle)->compiled) return invalid_program;
  return text_size(handle, &Program::ptx, size);
}

int copy_image(void* handle, char* out) {
  if (handle && !program_of(handle)->compiled) return invalid_program;
  return copy_text(handle, &Program::ptx, out);
}

}  // namespace

#define PHANTORA_EXPORT extern "C" __attribute__((visibility("default")))

PHANTORA_EXPORT const char* nvrtcGetErrorString(int result) {
  const auto index = static_cast<std::size_t>(result);
  return index < result_names.size() ? result_names[index] : "NVRTC_ERROR unknown";
}

PHANTORA_EXPORT int nvrtcVersion(int* major, int* minor) {
  if (!major || !minor) return invalid_input;
  *major = version_major;
  *minor = version_minor;
  return success;
}

PHANTORA_EXPORT int nvrtcGetNumSupportedArchs(int* count) {
  if (!count) return invalid_input;
  *count = static_cast<int>(architectures.size());
  return success;
}

PHANTORA_EXPORT int nvrtcGetSupportedArchs(int* out) {
  if (!out) return invalid_input;
  std::copy(architectures.begin(), architectures.end(), out);
  return success;
}

PHANTORA_EXPORT int nvrtcCreateProgram(void** program, const char* source, const char* name,
                                       int headers, const char* const* header_texts,
                                       const char* const* header_names) {
  return guarded([&] {
    (void)name, (void)header_names;
    if (!program || !source || headers < 0) return invalid_input;
    auto* const made = new Program{source};
    // A kernel may be in a header that the program brings along.
    for (int i = 0; i < headers && header_texts; ++i)
      made->source.append("\n").append(header_texts[i]);
    *program = made;
    return success;
  });
}

PHANTORA_EXPORT int nvrtcDestroyProgram(void** program) {
  if (!program || !*program) return invalid_program;
  delete program_of(std::exchange(*program, nullptr));
  return success;
}

PHANTORA_EXPORT int nvrtcAddNameExpression(void* program, const char* expression) {
  return guarded([&] {
    if (!program) return invalid_program;
    if (!expression) return invalid_input;
    if (program_of(program)->compiled) return no_name_expressions_after_compilation;
    program_of(program)->expressions.emplace_back(expression);
    return success;
  });
}

PHANTORA_EXPORT int nvrtcCompileProgram(void* program, int options, const char* const* texts) {
  return guarded([&] {
    if (!program) return invalid_program;
    if (options < 0 || (options > 0 && !texts)) return invalid_input;
    compile(*program_of(program), target(options, texts));
    return success;
  });
}

PHANTORA_EXPORT int nvrtcGetLoweredName(void* program, const char* expression, const char** name) {
  return guarded([&] {
    if (!program) return invalid_program;
    if (!expression || !name) return invalid_input;
    Program& known = *program_of(program);
    if (!known.compiled) return no_lowered_names_before_compilation;
    const auto added = std::find(known.expressions.begin(), known.expressions.end(), expression);
    if (added == known.expressions.end()) return name_expression_not_valid;
    std::string_view plain = expression;
    while (plain.starts_with(' ') || plain.starts_with('&')) plain.remove_prefix(1);
    while (plain.ends_with(' ')) plain.remove_suffix(1);
    // What is no kernel of the source is a variable, or one of a header on disk.
    const auto entry =
        known.lowered.try_emplace(std::string{plain}, nvrtc::entry_name(plain)).first;
    *name = entry->second.c_str();
    return success;
  });
}

PHANTORA_EXPORT int nvrtcGetProgramLogSize(void* program, std::size_t* size) {
  return text_size(program, &Program::log, size);
}
PHANTORA_EXPORT int nvrtcGetProgramLog(void* program, char* out) {
  return copy_text(program, &Program::log, out);
}
PHANTORA_EXPORT int nvrtcGetPTXSize(void* program, std::size_t* size) {
  return image_size(program, size);
}
PHANTORA_EXPORT int nvrtcGetPTX(void* program, char* out) { return copy_image(program, out); }
// The driver takes either; there is no other code than the text.
PHANTORA_EXPORT int nvrtcGetCUBINSize(void* program, std::size_t* size) {
  return image_size(program, size);
}
PHANTORA_EXPORT int nvrtcGetCUBIN(void* program, char* out) { return copy_image(program, out); }
