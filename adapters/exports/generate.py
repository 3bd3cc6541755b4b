#!/usr/bin/env python3
"""Turns an export list into the source of a stand-in library and its linker version script.

    generate.py LIST OUTPUT_DIRECTORY

Writes stubs.c and exports.map. Every symbol gets a weak definition that says its name once and
returns the library's own not-supported status; a hand-written, strong definition of the same name
replaces it at link time. Two families of names are the same function under a second name and jump
there: NCCL's pnccl* and NVSHMEM-free others are listed in SECOND_NAMES.
"""
import pathlib
import re
import sys

# Status that an unimplemented function returns, by library; names and values are those of
# its public header.
NOT_SUPPORTED = {
    "libcudart": 801,  # cudaErrorNotSupported
    "libcublas": 15,  # CUBLAS_STATUS_NOT_SUPPORTED
    "libcublasLt": 15,  # CUBLAS_STATUS_NOT_SUPPORTED
    "libcudnn": 3000,  # CUDNN_STATUS_NOT_SUPPORTED
    "libcufft": 16,  # CUFFT_NOT_SUPPORTED
    "libcusparse": 10,  # CUSPARSE_STATUS_NOT_SUPPORTED
    "libcusparseLt": 10,  # CUSPARSE_STATUS_NOT_SUPPORTED
    "libcusolver": 9,  # CUSOLVER_STATUS_NOT_SUPPORTED
    "libcurand": 999,  # CURAND_STATUS_INTERNAL_ERROR: cuRAND has no not-supported status
    "libcupti": 27,  # CUPTI_ERROR_NOT_SUPPORTED
    "libcufile": 5011,  # CU_FILE_DEVICE_NOT_SUPPORTED, low half of CUfileError_t
    "libnccl": 5,  # ncclInvalidUsage
    "libnvshmem_host": 7,  # NVSHMEMX_ERROR_INTERNAL
    "libcuda": 801,  # CUDA_ERROR_NOT_SUPPORTED
    "libnvidia-ml": 3,  # NVML_ERROR_NOT_SUPPORTED
    "libnvrtc": 11,  # NVRTC_ERROR_INTERNAL_ERROR: NVRTC has no not-available status
}

# Functions that return a string rather than a status: a null pointer would crash callers that print.
STRING = re.compile(r"\w*(ErrorString|ErrorName|StatusString|StatusName|GetErrorText|GetLastError)\w*")
# Functions that return a pointer or an opaque object: null is their "none".
NULL = re.compile(r"nvshmem(x?)_(malloc|calloc|align|ptr|mc_ptr|\w*buffer_register\w*)|cusparseGetMatIndexBase")


def stub(soname, name):
    if re.fullmatch(r"pnccl\w+", name):  # the profiling name of the same function
        return (f'__asm__(".globl {name}\\n.type {name},@function\\n'
                f'{name}: jmp {name[1:]}\\n.size {name},.-{name}");')
    library = soname.partition(".so")[0]
    value = str(NOT_SUPPORTED[library])
    result = "long"
    if STRING.fullmatch(name) and library not in ("libcudart", "libcuda"):
        result, value = "const char*", '"not supported by Phantora"'
    elif NULL.fullmatch(name):
        value = "0"
    return (f'{result} {name}(void) {{ phantora_unsupported("{name}"); return {value}; }}')


def main():
    path, output = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    soname = path.name.removesuffix(".txt")
    lines = path.read_text().splitlines()
    node = lines[0].partition("node:")[2].strip()
    symbols = [l for l in lines if l and l[0] != "#"]
    output.mkdir(parents=True, exist_ok=True)
    (output / "stubs.c").write_text("\n".join([
        f"/* Made from {path.name} by generate.py. */",
        "void phantora_unsupported(const char* entry_point);",
        "#pragma GCC visibility push(default)",
        "#pragma GCC diagnostic ignored \"-Wmissing-prototypes\"",
        *(f"#pragma weak {name}" for name in symbols if not name.startswith("pnccl")),
        *(stub(soname, name) for name in symbols)]) + "\n")
    (output / "exports.map").write_text(
        f"{node} {{\n  global:\n" + "".join(f"    {name};\n" for name in symbols) +
        "  local: *;\n};\n")


if __name__ == "__main__":
    main()
