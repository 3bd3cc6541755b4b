#!/usr/bin/env python3
"""Prints what convolutions that were tried out first take, of what those take that cuDNN's heuristics chose.

Usage: compare_trials.py [IN.jsonl.gz]     # by default what measure_trials.py measured on an H100
"""
import gzip
import json
import pathlib
import statistics
import sys


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "h100_trials.jsonl.gz"
    found = {}
    for row in map(json.loads, gzip.open(path, "rt")):
        case = json.dumps({key: row[key] for key in row if key not in ("kernels", "benchmark")}, sort_keys=True)
        found.setdefault(case, {})[row["benchmark"]] = row["kernels"]
    pairs = [(kernels[False], kernels[True]) for kernels in found.values() if len(kernels) == 2]
    times = [tuple(sum(kernel["us"] for kernel in kernels) for kernels in pair) for pair in pairs]
    ratios = sorted(tried / chosen for chosen, tried in times)
    same = sum([kernel["name"] for kernel in chosen] == [kernel["name"] for kernel in tried] for chosen, tried in pairs)
    print(f"{len(pairs)} convolutions, {same} of them by the same kernels: together {sum(t for _, t in times) / sum(c for c, _ in times):.3f}, "
          f"median {statistics.median(ratios):.3f}, a tenth below {ratios[len(ratios) // 10]:.2f}, a tenth above {ratios[-1 - len(ratios) // 10]:.2f}")


if __name__ == "__main__":
    main()
