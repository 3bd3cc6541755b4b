#!/usr/bin/env python3
"""Measures again, on a machine with a GPU, the calls of sweeps whose kernels may run beside one another.

Usage: measure_overlaps.py OUT.jsonl SECONDS conv|rnn|all SWEEP.jsonl.gz...

cuDNN runs the groups of a convolution, and the layers and directions of a recurrent network, on streams of its own, so that a
call is over long before the sum of its kernels' times. Sweeps up to h200_sweep11 and h100_sweep10 tell the kernels' times alone.
Written are the cases of which some kernels do overlap, with the time at which each began, `at`, in microseconds:
GPU_overlaps.jsonl.gz, which make_table.py takes in place of the sweep's own line.
"""
import gzip
import json
import os
import sys

import torch

import measure_h200
from measure_architectures import a_convolution, a_recurrent

WORKERS = 8


def may_overlap(row):
    if row["op"].startswith("rnn_"):
        return True
    return "part" in row and 1 < row["groups"] < row["cin"] and len(row["kernels"]) >= row["groups"]


def build(row):
    """The case that this row is of, and what makes it."""
    case = {key: value for key, value in row.items() if key != "kernels"}
    if row["op"].startswith("rnn_"):
        return a_recurrent(**case)
    parts = a_convolution(row["batch"], row["cin"], row["cout"], tuple(row["size"]), row["k"], row["stride"], row["padding"], row["dilation"],
                          row["groups"], row["dtype"], row["channels_last"], row["transposed"], row["op"])
    return next((shape, make) for shape, make in parts if shape == case)


def cases(what, sweeps):
    for sweep in sweeps:
        for line in gzip.open(sweep, "rt"):
            row = json.loads(line)
            if may_overlap(row) and (what == "all" or row["op"].startswith(what)):
                yield build(row)


def main(path, seconds, what, *sweeps):
    torch.set_num_threads(1)
    measure_h200.main(path, float(seconds), (lambda: cases(what, sweeps),), WORKERS)
    with open(path) as all_of_them, open(path + ".some", "w") as some:
        some.writelines(line for line in all_of_them if '"at"' in line)
    os.replace(path + ".some", path)


if __name__ == "__main__":
    main(*sys.argv[1:])
