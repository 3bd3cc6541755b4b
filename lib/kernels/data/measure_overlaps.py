#!/usr/bin/env python3
"""Measures again, on a machine with a GPU, the calls of sweeps whose kernels may run beside one another.

Usage: measure_overlaps.py OUT.jsonl SECONDS conv|rnn|all SWEEP.jsonl.gz...

cuDNN runs the groups of a convolution, and the layers and directions of a recurrent network, on streams of its own, so that a
call is over long before the sum of its kernels' times. Sweeps up to h200_sweep11 and h100_sweep10 tell the kernels' times alone.
Written are the cases of which some kernels do overlap, with the time at which each began, `at`, in microseconds:
GPU_overlaps.jsonl.gz, which make_table.py takes in place of the sweep's own line. Of a recurrent network, whose kernels are
thousands, it holds the passes alone: what they took as a whole, `us`, and the sum of their kernels' times, `apart`. A case that
was not measured again, for want of time, has no kernels there.
"""
import gzip
import json
import sys

import torch

import make_table
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


def lean(row):
    """What make_table.py needs of a row."""
    if row["op"].startswith("rnn_"):
        return dict(row, kernels=[dict(name=name, us=round(make_table.total(part), 3), apart=round(sum(k["us"] for k in part), 3), count=len(part))
                                  for name, part in make_table.passes(row["kernels"])])
    return dict(row, kernels=[kernel if make_table.is_torch(kernel) else {key: kernel[key] for key in ("name", "us", "grid", "at")}
                              for kernel in row["kernels"]])


def kept(measured, sweeps):
    """Of rows that were measured those that overlap, and the cases of which there are none."""
    again = {make_table.case_of(row) for row in measured}
    yield from (lean(row) for row in measured if any("at" in kernel for kernel in row["kernels"]))
    for case, _ in cases("all", sweeps):
        if make_table.case_of(case) not in again:
            yield dict(case, kernels=[])


def main(path, seconds, what, *sweeps):
    torch.set_num_threads(1)
    measure_h200.main(path, float(seconds), (lambda: cases(what, sweeps),), WORKERS)
    with open(path) as all_of_them:
        measured = [json.loads(line) for line in all_of_them]
    with open(path, "w") as some:
        some.writelines(json.dumps(row) + "\n" for row in kept(measured, sweeps))


if __name__ == "__main__":
    main(*sys.argv[1:])
