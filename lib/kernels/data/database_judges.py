#!/usr/bin/env python3
"""Writes the judges of the databases alone, for kernel_cv --judges, or of an H100 --h100-judges.

Usage: database_judges.py GPU OUT.tsv [--by-code]

Those that are lines of test/data/GPU_judges.tsv, or with --by-code those that only their machine code tells, which are
in no table.
"""
import sys

from make_table import key_lines, lines_of, mean


def main(gpu, out, by_code):
    judges = {}
    for key, us in key_lines(gpu, judges=True, by_code=by_code):
        judges.setdefault(key, []).append(us)
    if not by_code:
        held_out, fitted = lines_of(gpu, judges=True), lines_of(gpu, judges=False)
        judges = {key: us for key, us in judges.items() if key in held_out and key not in fitted}
    with open(out, "w") as file:
        file.write("name\tgrid\tblock\tshared\tbytes\tus\tfeatures\tattributes\n")
        for key, us in judges.items():
            file.write("\t".join([*key[:5], f"{mean(us):.3f}", *key[5:]]) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:3], by_code="--by-code" in sys.argv)
