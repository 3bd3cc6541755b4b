#!/usr/bin/env python3
"""Makes the committed export lists: what each NVIDIA library exports, one symbol a line.

    collect.py [--check] LIBRARY_DIRECTORY... [--imports FILE_OR_DIRECTORY...] [--nvml-header FILE]
               [--driver-headers FILE...] [--typedefs FILE...]

A list is the union of what it held before, what the library of that SONAME in the given directories
exports (a toolkit's lib folder, its stubs folder, an unpacked wheel), and what the programs in
--imports ask of it: libraries (a wheel's torch/lib), or text of `nm -D --undefined-only`. Lists only
grow: they cover several releases.
With --check nothing is written; the exit status is 1 if a list lacks a symbol.
"""
import argparse
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent

# SONAME: (file names that may hold it, pattern of its C symbols). Symbols of other libraries that a
# library happens to re-export (C++ templates, cuSOLVER's private cublas*) are kept or dropped by it.
LIBRARIES = {
    # CUDA 13, and where its SONAME is another one, CUDA 12.
    **{f"libcudart.so.{n}": ([f"libcudart.so.{n}"], r"(__)?cuda\w+") for n in (12, 13)},
    **{f"libcublas.so.{n}": ([f"libcublas.so.{n}"], r"cublas(?!Lt)\w+") for n in (12, 13)},
    **{f"libcublasLt.so.{n}": ([f"libcublasLt.so.{n}"], r"cublasLt\w+") for n in (12, 13)},
    "libcudnn.so.9": (["libcudnn.so.9"], r"cudnn\w+"),
    # The parts of cuDNN, some of which have next to nothing for others.
    **{f"libcudnn_{part}.so.9": ([f"libcudnn_{part}.so.9"], r"(cudnn|dummy)\w+") for part in
       ("ops", "cnn", "adv", "graph", "heuristic", "engines_precompiled", "engines_runtime_compiled")},
    **{f"libcufft.so.{n}": ([f"libcufft.so.{n}"], r"(cufft|__cufft)\w+") for n in (11, 12)},
    "libcufftw.so.12": (["libcufftw.so.12"], r"fftwf?_\w+"),
    "libcusparse.so.12": (["libcusparse.so.12"], r"cusparse(?!Lt)\w+"),
    "libcusparseLt.so.0": (["libcusparseLt.so.0"], r"cusparseLt\w+"),
    **{f"libcusolver.so.{n}": ([f"libcusolver.so.{n}"], r"cusolver\w+") for n in (11, 12)},
    "libcusolverMg.so.12": (["libcusolverMg.so.12"], r"cusolverMg\w+"),
    "libnvblas.so.13": (["libnvblas.so.13"], r"[sdcz]\w+"),
    "libcurand.so.10": (["libcurand.so.10"], r"curand\w+"),
    **{f"libcupti.so.{n}": ([f"libcupti.so.{n}"], r"(cupti|InitializeInjection)\w+") for n in (12, 13)},
    "libcufile.so.0": (["libcufile.so.0"], r"cuFile\w+"),
    "libnccl.so.2": (["libnccl.so.2"], r"p?nccl\w+"),
    "libnvshmem_host.so.3": (["libnvshmem_host.so.3"], r"nvshmem\w+"),
    "libcuda.so.1": (["libcuda.so", "libcuda.so.1"], r"cu(?!da|blas|dnn|fft|sparse|solver|rand|pti|File)[A-Z]\w+|cuda\w+"),
    "libnvidia-ml.so.1": (["libnvidia-ml.so.1"], r"nvml\w+"),
    **{f"libnvrtc.so.{n}": ([f"libnvrtc.so.{n}"], r"nvrtc\w+") for n in (12, 13)},
}

# A name that both libraries have does in the first what it does in the second.
SAME_AS = {f"libcudnn_{part}.so.9": "libcudnn.so.9" for part in ("ops", "cnn", "adv", "graph")}


def nm(which, path):
    return subprocess.run(["nm", "-D", which, path], check=True, capture_output=True, text=True).stdout


def defined(path):
    """Yields (name, version node or "") of each dynamic symbol that the library at `path` defines."""
    for line in nm("--defined-only", path).splitlines():
        kind, symbol = line.split()[-2:]
        if kind in "TtWwVvBDRi":
            name, _, node = symbol.partition("@")
            yield name, node.lstrip("@")


def imported(text):
    """Yields (name, version node or "") of each undefined symbol in `nm` output."""
    for kind, name, node in re.findall(r"^\s+([UwV]) ([^\s@]+)(?:@+(\S+))?$", text, re.MULTILINE):
        yield name, node


def import_text(path):
    """`nm`'s text of what a library imports, or of what a folder of libraries or of texts does."""
    if path.is_dir():
        return "\n".join(import_text(file) for file in sorted(path.iterdir())
                         if ".so" in file.suffixes or file.suffix == ".txt")
    return path.read_text() if path.suffix == ".txt" else nm("--undefined-only", path)


def declared_by_driver(header):
    """The symbols that cuda.h declares; a name may stand for a newer revision of itself."""
    return {name for name in re.findall(r"CUDAAPI\s+(cu[A-Z]\w+)\s*\(|#define cu\w+\s+(cu[A-Z]\w+_v\d+)",
                                        header) for name in name if name}


def versioned_entry_points(header, exports):
    """Yields (name, CUDA version, symbol) of what cuGetProcAddress finds, from cudaTypedefs.h.

    The header has a type PFN_<name>_v<version> per revision of an entry point; the revisions are the
    symbols name, name_v2, name_v3, ... in that order. Version 7000 stands for the per-thread twins.
    """
    versions = {}
    for name, version in re.findall(r"PFN_(cu\w+?)_v(\d+)(?:_ptsz|_ptds)?\)", header):
        versions.setdefault(name, set()).add(int(version))
    for name, known in sorted(versions.items()):
        symbols = [s for s in [name, *(f"{name}_v{i}" for i in range(2, 9))] if s in exports]
        ordered = sorted(known)
        if len(ordered) > len(symbols) and 7000 in ordered:
            ordered.remove(7000)
        for version, symbol in zip(ordered, symbols):
            yield name, version, symbol


def read(path):
    """Returns the version node and the symbols of a committed list."""
    if not path.exists():
        return "", set()
    lines = path.read_text().splitlines()
    return lines[0].partition("node:")[2].strip(), {l for l in lines if l and l[0] != "#"}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directories", nargs="*", type=pathlib.Path)
    parser.add_argument("--imports", nargs="*", type=pathlib.Path, default=[])
    parser.add_argument("--nvml-header", type=pathlib.Path)
    parser.add_argument("--driver-headers", nargs="*", type=pathlib.Path, default=[],
                        help="the toolkit's cuda.h, cudaProfiler.h, cudaGL.h ...")
    parser.add_argument("--typedefs", nargs="*", type=pathlib.Path, default=[],
                        help="the toolkit's cudaTypedefs.h, cudaProfilerTypedefs.h, cudaGLTypedefs.h ...")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()

    wanted = set()
    for path in options.imports:
        wanted.update(imported(import_text(path)))

    missing = 0
    for soname, (files, pattern) in LIBRARIES.items():
        node, before = read(HERE / f"{soname}.txt")
        symbols = set(before)
        for directory in options.directories:
            for file in (directory / f for f in files):
                if file.exists():
                    for name, version in defined(file):
                        if re.fullmatch(pattern, name):
                            symbols.add(name)
                            node = version or node
                    break
        for name, version in wanted:
            if re.fullmatch(pattern, name) and version in ("", node):
                symbols.add(name)
        if soname == "libnvidia-ml.so.1" and options.nvml_header:
            symbols.update(re.findall(r"DECLDIR\s+(?:char\s*\*\s*)?(nvml\w+)", options.nvml_header.read_text()))
        if soname == "libcuda.so.1":
            for header in options.driver_headers:
                symbols.update(declared_by_driver(header.read_text()))
        if options.check:
            for name in sorted(symbols - before):
                print(f"{soname}.txt lacks {name}")
                missing += 1
        else:
            head = f"# exports of {soname}; version node: {node}".rstrip()
            (HERE / f"{soname}.txt").write_text("\n".join([head, *sorted(symbols)]) + "\n")
    if options.typedefs:
        _, exports = read(HERE / "libcuda.so.1.txt")
        text = "// What cuGetProcAddress finds: name, CUDA version from which on, symbol.\n" + "".join(
            f'PHANTORA_ENTRY_POINT("{name}", {version}, "{symbol}")\n' for name, version, symbol in
            versioned_entry_points("".join(file.read_text() for file in options.typedefs), exports))
        path = HERE / "libcuda_entry_points.inc"
        if not options.check:
            path.write_text(text)
        else:
            for line in sorted(set(text.splitlines()) - set(path.read_text().splitlines())):
                print(f"{path.name} lacks {line}")
                missing += 1
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
