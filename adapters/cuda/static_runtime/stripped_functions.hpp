#pragma once

#include "libc/elf_file.hpp"

#include <vector>

namespace phantora {

/// The functions of a CUDA runtime in a file whose symbol table was stripped; empty where there is
/// no runtime.
///
/// Each of its functions tells profilers its own name (CUpti_CallbackData::functionName), and so
/// refers to that text; where functions begin and end is in the tables for unwinding, which
/// stripping leaves. Those that compilers call to register kernels tell nobody, and are found by
/// their sizes.
std::vector<libc::Function> stripped_functions(const libc::ElfFile& file);

}  // namespace phantora
