#!/usr/bin/env python3
"""Measures, on a machine with a GPU, more of the families in which twice the measurements had left a third less error.

Usage: measure_thin.py OUT.jsonl [SECONDS [WORKERS]]

Products without 16 bits or of rows that no 16 bytes divide, batch norms, recurrent networks, depthwise, grouped and dilated
convolutions: with a half of the table's, the judges of these were 1.05 to 1.5 times as far off at p90, where products in 16
bits were no worse with a quarter. These are the families of earlier sweeps, drawn from another seed. Lines are like
measure_architectures.py's. None of them judges; what is a judge of another sweep is in no table (make_table.py).
"""
import itertools
import sys

import torch

import measure_architectures
import measure_convolutions
import measure_h200
import measure_libraries
import measure_rest
from measure_h200 import draw


def again(family, times=1):
    return lambda: (case for _ in range(times) for case in family())


def products():
    measure_libraries.TYPES = ("tf32", "fp32")
    return itertools.islice(measure_libraries.product(), 1300)


def main():
    # Threads of OpenMP do not outlive a fork: a child that waits for them would wait for ever.
    torch.set_num_threads(1)
    layers = [sorted(found) for _, found in measure_convolutions.models() if found]
    several = [kept for found in layers if (kept := [layer for layer in found if layer[7] > 1])]
    draw.seed(92)
    families = (products, again(measure_rest.odd_product, 2), again(measure_h200.batch_norm, 4), again(measure_architectures.recurrent, 8),
                again(measure_libraries.depthwise_convolution, 3), measure_rest.depthwise_convolution,
                again(measure_libraries.grouped_convolution, 2), measure_rest.grouped_convolution,
                lambda: measure_convolutions.drawn(several, 300), again(measure_architectures.dilated_and_transposed, 2))
    arguments = sys.argv[2:] + ["250", "6"][len(sys.argv) - 2:]
    measure_h200.main(sys.argv[1], float(arguments[0]), families, int(arguments[1]))


if __name__ == "__main__":
    main()
