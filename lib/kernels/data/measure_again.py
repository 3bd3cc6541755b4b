#!/usr/bin/env python3
"""Measures, on a machine with a GPU, more of what libraries choose kernels for: convolutions, attention, recurrent networks.

Usage: measure_again.py OUT.jsonl [SECONDS [WORKERS]]

No formula tells which of its kernels cuDNN takes, so that a price is known as well as a neighbour was measured. These are
the families of earlier sweeps, drawn from another seed, and filters that do not overlap (patches), of which there were 200.
Lines are like measure_architectures.py's. A quarter of the cases judges and is never fitted (make_table.py's is_judge()).
"""
import sys

import torch

import measure_architectures
import measure_convolutions
import measure_h200
import measure_libraries
import measure_rest
from measure_architectures import a_convolution
from measure_h200 import draw


def patches():
    for _ in range(420):
        n, k = draw.choice((1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256)), draw.choice((64, 96, 128, 192, 192, 256, 384, 512, 768, 768, 1024, 1024, 1152, 1280, 1408))
        c, r = draw.choice((1, 3, 3, 3, 3, 4, 16)), draw.choice((2, 4, 4, 8, 14, 14, 16, 16, 16, 32))
        hw = draw.choice((32, 64, 128, 192, 224, 224, 224, 256, 336, 384)) // r * r
        if hw == 0 or n * max(c, k / r**2) * hw * hw > 2e8:
            continue
        yield from a_convolution(n, c, k, (hw, hw), r, r, 0, dtype=draw.choice(("bf16", "bf16", "bf16", "fp16", "tf32", "tf32", "fp32")), last=draw.random() < 0.3)


def again(family, times=1):
    return lambda: (case for _ in range(times) for case in family())


def main():
    # Threads of OpenMP do not outlive a fork: a child that waits for them would wait for ever.
    torch.set_num_threads(1)
    layers = [sorted(found) for _, found in measure_convolutions.models() if found]
    several = [kept for found in layers if (kept := [layer for layer in found if layer[7] > 1])]
    draw.seed(91)
    families = (lambda: measure_convolutions.drawn(layers, 1300), lambda: measure_convolutions.drawn(several, 700),
                lambda: measure_convolutions.drawn([sorted(measure_convolutions.diffusion())], 250), patches,
                again(measure_libraries.network_convolution), again(measure_libraries.depthwise_convolution),
                again(measure_libraries.grouped_convolution, 2), again(measure_architectures.dilated_and_transposed, 2),
                again(measure_rest.strided_convolution, 2), again(measure_architectures.other_dimensions, 2),
                again(measure_architectures.recurrent, 4), again(measure_libraries.attention, 2), again(measure_architectures.odd_attention, 2))
    arguments = sys.argv[2:] + ["300", "6"][len(sys.argv) - 2:]
    measure_h200.main(sys.argv[1], float(arguments[0]), families, int(arguments[1]))


if __name__ == "__main__":
    main()
