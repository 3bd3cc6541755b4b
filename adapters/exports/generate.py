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

# Status that an unimplemented function returns, by library.
NOT_SUPPORTED = dict(re.findall(r'^PHANTORA_NOT_SUPPORTED\("(.+)", (\d+)\)',
                                pathlib.Path(__file__).with_name("not_supported.inc").read_text(),
                                re.MULTILINE))

# Functions that return a string rather than a status: a null pointer would crash callers that print.
STRING = re.compile(r"\w*(ErrorString|ErrorName|StatusString|StatusName|GetErrorText|GetLastError)\w*")
# Functions that return a pointer or an opaque object: null is their "none".
NULL = re.compile(r"nvshmem(x?)_(malloc|calloc|align|ptr|mc_ptr|\w*buffer_register\w*)|cusparseGetMatIndexBase")


def stub(soname, name):
    if re.fullmatch(r"pnccl\w+", name):  # the profiling name of the same function
        return (f'__asm__(".globl {name}\\n.type {name},@function\\n'
                f'{name}: jmp {name[1:]}\\n.size {name},.-{name}");')
    library = soname.partition(".so")[0]
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
