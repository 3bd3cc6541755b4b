#!/usr/bin/env python3
"""Prints what convolutions that were tried out first take, of what those take that cuDNN's heuristics chose.

Usage: compare_trials.py GPU     # h200 or h100: what measure_trials.py measured, and the sweeps that have the same convolutions
"""
import gzip
import json
import pathlib
import statistics
import sys

from make_table import case_of, total

SWEEPS = {"h200": ((8, 17, 18), 19), "h100": ((7, 16, 17), 18)}


def rows_of(gpu, sweep):
    with gzip.open(pathlib.Path(__file__).parent / f"{gpu}_sweep{sweep}.jsonl.gz", "rt") as lines:
        return [row for row in map(json.loads, lines) if row["op"].startswith("conv") and row["kernels"]]


def main(gpu):
    sweeps, trials = SWEEPS[gpu]
    chosen = {case_of(row): row["kernels"] for sweep in sweeps for row in rows_of(gpu, sweep)}
    pairs = [(chosen[case_of(row)], row["kernels"]) for row in rows_of(gpu, trials)]
    times = [(total(first), total(tried)) for first, tried in pairs]
    ratios = sorted(tried / first for first, tried in times)
    same = sum([kernel["name"] for kernel in first] == [kernel["name"] for kernel in tried] for first, tried in pairs)
    print(f"{len(pairs)} convolutions, {same} of them by the same kernels: together {sum(t for _, t in times) / sum(f for f, _ in times):.3f}, "
          f"median {statistics.median(ratios):.3f}, a tenth below {ratios[len(ratios) // 10]:.2f}, a tenth above {ratios[-1 - len(ratios) // 10]:.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
