#!/usr/bin/env python3
"""How far simulated kernels are from real ones: kernel_errors.py FILE [--without WORD] [--part fitted|judges]

FILE has a line of JSON for each: kernel, real_us (a list), simulated_us, and simulated_before_us where that is known
(h100_cute_kernels.jsonl, h100_triton_kernels.jsonl). Prints a table by what stands before the sizes in the
kernels' names; a --without WORD is left out of the last row, which is of all, and of the line below, which says how
much too long all are in the mean. --part is a half of the cases: those whose digest is odd judge.
"""
import argparse
import hashlib
import json
import pathlib
import re
import statistics


def judges(name):
    return hashlib.sha256(name.encode()).digest()[0] % 2 == 1


def excess(row, key):
    return row[key] / statistics.mean(row["real_us"]) - 1


def error(row, key):
    return abs(excess(row, key))


def cells(errors):
    return [f"{100 * f:.1f}%" for f in (statistics.mean(errors), statistics.median(errors), max(errors))]


def line(title, rows):
    before = [error(row, "simulated_before_us") for row in rows if "simulated_before_us" in row]
    was = [cells(before)[0], cells(before)[2]] if before else ["", ""]
    print("|", " | ".join([title, str(len(rows)), *cells([error(row, "simulated_us") for row in rows]), *was]), "|")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--without", default=None)
    parser.add_argument("--part", choices=("fitted", "judges"))
    options = parser.parse_args()
    rows = [json.loads(text) for text in options.file.read_text().splitlines()]
    if options.part:
        rows = [row for row in rows if judges(row["kernel"]) == (options.part == "judges")]
    families = {}
    for row in rows:
        families.setdefault(re.split(r"\s\d", row["kernel"])[0].strip(" ,"), []).append(row)
    print("| | cases | mean error | median | worst | mean before | worst before |\n| --- | --- | --- | --- | --- | --- | --- |")
    for title, members in families.items():
        line(title, members)
    kept = [row for row in rows if not (options.without and row["kernel"].startswith(options.without))]
    line(f"all but {options.without}" if options.without else "all", kept)
    told = [(f", {when}" if when else "", [excess(row, key) for row in kept if key in row])
            for when, key in (("", "simulated_us"), ("before", "simulated_before_us"))]
    print("\nlonger than real in the mean: " + "".join(f"{when} {statistics.mean(values):+.1%}" for when, values in told if values).strip())


if __name__ == "__main__":
    main()
