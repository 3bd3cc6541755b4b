#!/usr/bin/env python3
"""Turns an export list into the source of a stand-in library and its linker version script.

    generate.py LIST OUTPUT_DIRECTORY

Writes stubs.c and exports.map. Every symbol gets a weak definition that says its name once and
returns the library's own not-supported status; a hand-written, strong definition of the same name
replaces it at link time. Three families of names are another function under a second name and jump
there: NCCL's pnccl*, the names that parts of cuDNN share with the whole (collect.SAME_AS), and
NVBLAS's, which are those of the BLAS behind it.
"""
import pathlib
import re
import sys

import collect

# Status that an unimplemented function returns, by library.
NOT_SUPPORTED = dict(re.findall(r'^PHANTORA_NOT_SUPPORTED\("(.+)", (\d+)\)',
                                pathlib.Path(__file__).with_name("not_supported.inc").read_text(),
                                re.MULTILINE))

# Functions that return a string rather than a status: a null pointer would crash callers that print.
STRING = re.compile(r"\w*(ErrorString|ErrorName|StatusString|StatusName|GetErrorText|GetLastError)\w*")
# Functions that return a pointer or an opaque object: null is their "none".
NULL = re.compile(r"nvshmem(x?)_(malloc|calloc|align|ptr|mc_ptr|\w*buffer_register\w*)|cusparseGetMatIndexBase")


def assembly(name, lines):
    text = "\\n".join([f".globl {name}", f".type {name},@function", f"{name}:", *lines, f".size {name},.-{name}"])
    return f'__asm__("{text}");'


def stub(soname, name, of_whole):
    if re.fullmatch(r"pnccl\w+", name):  # the profiling name of the same function
        return assembly(name, [f"jmp {name[1:]}"])
    if name in of_whole:
        return assembly(name, [f".symver whole_{name}, {name}@{collect.SAME_AS[soname]}", f"jmp whole_{name}@PLT"])
    library = soname.partition(".so")[0]
    if library == "libnvblas":  # its arguments are pointers, so that six registers have them
        saved = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")
        return assembly(name, [*(f"push %{register}" for register in saved), "sub $8, %rsp",
                               "lea 1f(%rip), %rdi", "call phantora_blas_behind@PLT", "add $8, %rsp",
                               *(f"pop %{register}" for register in reversed(saved)), "jmp *%rax",
                               f'1: .asciz \\"{name}\\"'])
    value = NOT_SUPPORTED[library]
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
    whole = collect.SAME_AS.get(soname)
    of_whole = collect.read(collect.HERE / f"{whole}.txt")[1] if whole else set()
    stubs = {name: stub(soname, name, of_whole) for name in symbols}
    output.mkdir(parents=True, exist_ok=True)
    (output / "stubs.c").write_text("\n".join([
        f"/* Made from {path.name} by generate.py. */",
        "void phantora_unsupported(const char* entry_point);",
        "#pragma GCC visibility push(default)",
        "#pragma GCC diagnostic ignored \"-Wmissing-prototypes\"",
        *(f"#pragma weak {name}" for name, text in stubs.items() if not text.startswith("__asm__")),
        *stubs.values()]) + "\n")
    (output / "exports.map").write_text(
        f"{node} {{\n  global:\n" + "".join(f"    {name};\n" for name in symbols) +
        "  local: *;\n};\n")


if __name__ == "__main__":
    main()
