#!/usr/bin/env python3
"""Measures, on a machine with a GPU, what convolutions take that were tried out first (torch.backends.cudnn.benchmark), and without.

Usage: measure_trials.py OUT.jsonl [SECONDS]

Each case is measured twice: as cuDNN's heuristics choose its kernel, and as PyTorch chooses after it has tried what cuDNN offers.
h100_trials.jsonl.gz is what an H100 said, which compare_trials.py reads. Lines are like measure_architectures.py's, and tell `benchmark`.
One process at a time, so that nothing runs beside a trial.
"""
import pathlib
import sys

import torch

import measure_convolutions
import measure_h200
from measure_h200 import draw


def tried(case, make, benchmark):
    """The case with trials or without; the flag is read at each call."""
    def made():
        run = make()

        def runs():
            torch.backends.cudnn.benchmark = benchmark
            return run()
        return runs
    return case | dict(benchmark=benchmark), made


def main():
    layers = [sorted(found) for _, found in measure_convolutions.models() if found]
    measure_convolutions.TYPES = ("bf16", "fp16", "fp16", "tf32")
    measure_convolutions.BATCHES = (8, 16, 32, 64, 64, 128)
    out, seconds = sys.argv[1], float((sys.argv[2:] + ["240"])[0])
    for benchmark in (False, True):
        # The same cases, in a process of their own: PyTorch keeps what it has once chosen.
        draw.seed(194)
        cases = [tried(case, make, benchmark) for case, make in measure_convolutions.drawn(layers, 300)]
        measure_h200.main(f"{out}.{benchmark}", seconds / 2, (lambda: cases,), 1)
    pathlib.Path(out).write_text("".join(pathlib.Path(f"{out}.{benchmark}").read_text() for benchmark in (False, True)))


if __name__ == "__main__":
    main()
