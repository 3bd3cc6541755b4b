#!/usr/bin/env python3
"""Writes, or with --check compares, the table of every entry point of the libraries that we stand in for.

    entry_points.py [--check] HOOKS [--imports FOLDER]

HOOKS is a finished build's lib/phantora. Of each name in the export lists the table says whether it is real, described
(takes its time, but its result is unknown) or refused, and why: entry_points.txt. A stub is a weak symbol, what somebody
wrote a strong one; entry_points.rules has what symbols do not tell. --imports checks that what the libraries of that
folder (torch/lib of a wheel) import of NVIDIA's libraries is in the lists: nothing may be missing.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import textwrap

import collect

HERE = pathlib.Path(__file__).parent
TABLE = HERE / "entry_points.txt"


def rules():
    """Yields (kind, compiled pattern, reason)."""
    for line in (HERE / "entry_points.rules").read_text().splitlines():
        if line and line[0] != "#":
            kind, pattern, reason = line.split("\t")
            yield kind, re.compile(pattern), reason


def written(library):
    """The names that the library at `library` defines by more than a stub."""
    lines = collect.nm("--defined-only", library).splitlines()
    return {line.split()[-1].partition("@")[0] for line in lines if line.split()[-2] in "TDBRi"}


def kind_of(name, is_written, all_rules):
    plain = name.removeprefix("p") if name.startswith("pnccl") else name
    wanted = ("real", "described", "refuses") if is_written else ("refused",)
    for kind, pattern, reason in all_rules:
        if kind in wanted and pattern.fullmatch(plain):
            return ("refused" if kind == "refuses" else kind), reason
    return "real", ""


def table(hooks):
    """The table's text."""
    all_rules = list(rules())
    found = {}
    for soname in collect.LIBRARIES:
        library = next(iter(sorted(hooks.rglob(soname))), None)
        if library is None:
            sys.exit(f"{hooks} has no {soname}")
        _, names = collect.read(HERE / f"{soname}.txt")
        strong = written(library)
        if soname in collect.SAME_AS:  # its names jump there
            whole = next(iter(sorted(hooks.rglob(collect.SAME_AS[soname]))))
            strong = (strong - collect.read(HERE / f"{collect.SAME_AS[soname]}.txt")[1]) | written(whole)
        kinds = {}
        for name in sorted(names):
            # NCCL's profiling names are the same functions under a second name.
            plain = name.removeprefix("p") if name.startswith("pnccl") else name
            kinds.setdefault(kind_of(name, plain in strong, all_rules), []).append(name)
        found[soname] = kinds
    lines = ["Made by entry_points.py of a finished build; do not edit. real: does what the documentation says, with data;",
             "described: takes its time, and what it writes is unknown (or known in small cases); refused: returns the",
             "library's own \"not supported\", and says its name once.", "",
             f"{'library':40}{'real':>8}{'described':>11}{'refused':>9}"]
    for soname, kinds in found.items():
        count = {kind: sum(len(names) for (k, _), names in kinds.items() if k == kind)
                 for kind in ("real", "described", "refused")}
        lines.append(f"{soname:40}{count['real']:8}{count['described']:11}{count['refused']:9}")
    for soname, kinds in found.items():
        lines += ["", soname]
        for (kind, reason), names in sorted(kinds.items(), key=lambda one: ("real described refused".index(one[0][0]), one[0][1])):
            lines.append(f"  {kind}" + (f": {reason}" if reason else ""))
            lines += textwrap.wrap(" ".join(names), 116, initial_indent="    ", subsequent_indent="    ",
                                   break_on_hyphens=False, break_long_words=False)
    return "\n".join(lines) + "\n"


def missing_imports(folder):
    """Yields what the libraries in `folder` import of NVIDIA's and no list has."""
    lists = {soname: collect.read(HERE / f"{soname}.txt")[1] for soname in collect.LIBRARIES}
    for name, version in sorted(set(collect.imported(collect.import_text(folder)))):
        if not re.fullmatch(r"lib[\w-]+\.so\.\d+", version) or version not in lists:
            continue
        if name not in lists[version]:
            yield f"{name}, of {version}"


def hidden(hooks):
    """Yields the functions that somebody wrote and nobody can call, since no library's list has them."""
    listed = set().union(*(collect.read(HERE / f"{soname}.txt")[1] for soname in collect.LIBRARIES))
    for soname, (_, pattern) in collect.LIBRARIES.items():
        library = hooks / soname
        if not library.exists():
            continue
        symbols = subprocess.run(["nm", "--defined-only", library], check=True, capture_output=True, text=True).stdout
        for kind, name in re.findall(r"^\w+ (\w) (\w+)$", symbols, re.MULTILINE):
            # One source has both names of cuBLAS's functions, of which some have one only.
            plain = re.sub(r"_v2(?=(_64)?$)", "", name)
            if kind == "t" and re.fullmatch(pattern, name) and not {name, plain} & listed:
                yield f"{name}, of {soname}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("hooks", type=pathlib.Path)
    parser.add_argument("--imports", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    wrong = 0
    text = table(options.hooks)
    if not options.check:
        TABLE.write_text(text)
    elif not TABLE.exists() or TABLE.read_text() != text:
        print(f"{TABLE} is not what {options.hooks} holds: run entry_points.py {options.hooks}")
        before = set(TABLE.read_text().splitlines()) if TABLE.exists() else set()
        for line in [line for line in text.splitlines() if line not in before][:20]:
            print("  " + line.strip())
        wrong = 1
    for name in hidden(options.hooks):
        print(f"written, but in no list: {name}")
        wrong = 1
    if options.imports:
        for name in missing_imports(options.imports):
            print(f"imported, but in no list: {name}")
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
