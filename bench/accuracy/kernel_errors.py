#!/usr/bin/env python3
"""How far simulated kernels are from real ones: kernel_errors.py FILE [--without WORD]

FILE has a line of JSON for each: kernel, real_us (a list), simulated_us, and simulated_before_us where that is known
(h100_cute_kernels.jsonl, h100_triton_kernels.jsonl). Prints a table by what stands before the sizes in the
kernels' names; a --without WORD is left out of the last row, which is of all.
"""
import argparse
import json
import pathlib
import re
import statistics


def error(row, key):
    return abs(row[key] / statistics.mean(row["real_us"]) - 1)


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
    options = parser.parse_args()
    rows = [json.loads(text) for text in options.file.read_text().splitlines()]
    families = {}
    for row in rows:
        families.setdefault(re.split(r"\s\d", row["kernel"])[0].strip(" ,"), []).append(row)
    print("| | cases | mean error | median | worst | mean before | worst before |\n| --- | --- | --- | --- | --- | --- | --- |")
    for title, members in families.items():
        line(title, members)
    kept = [row for row in rows if not (options.without and row["kernel"].startswith(options.without))]
    line(f"all but {options.without}" if options.without else "all", kept)


if __name__ == "__main__":
    main()
