#!/usr/bin/env python3
"""Measures, on a machine with a GPU, what training with fp16 and with fp8 runs that earlier sweeps lack.

Usage: measure_half.py OUT.jsonl [SECONDS [WORKERS]]

Batch norms of fp16 activations with fp32 weights, as autocast has them (timm, Lightning's "16-mixed"), are cuDNN's, of which the
sweeps before have fp32 alone; products in fp8 with a scale for each tensor, as float8 training has them forward and backward; and
products and convolutions in fp16, of which there were a fifth as many as in bf16. Lines are like measure_architectures.py's. A third
of the cases judges and is never fitted: those whose digest leaves 1 when it is divided by 3 (make_table.py's is_judge()).
"""
import itertools
import sys

import torch

import measure_convolutions
import measure_h200
import measure_libraries
from measure_h200 import batch_norm_case, draw, pick

# Channels and planes of networks for images, and odd ones.
CHANNELS = (16, 24, 32, 40, 48, 64, 64, 80, 96, 112, 128, 128, 160, 192, 256, 256, 320, 384, 512, 512, 672, 960, 1024, 1280, 1536, 2048)
PLANES = (4, 7, 7, 8, 14, 14, 16, 17, 28, 28, 32, 35, 56, 56, 64, 112, 128, 150)
WIDTHS = (512, 768, 1024, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 8192, 11008, 14336, 16384)


def batch_norm():
    for _ in range(420):
        n, hw, last = pick(0, 8.2), draw.choice(PLANES), draw.random() < 0.45
        c = draw.choice(CHANNELS) if draw.random() < 0.8 else pick(3, 11)
        dtype = draw.choice(("fp16", "fp16", "fp16", "fp16", "fp32", "bf16"))
        if not 1e4 < n * c * hw * hw < 2e8:
            continue
        yield batch_norm_case(n, c, hw, dtype, last)


def scaled_product():
    """The weight is fp8_e4m3, as are activations; gradients are fp8_e5m2 in some recipes."""
    for _ in range(260):
        m, n, k = pick(5, 15, 16), draw.choice(WIDTHS) if draw.random() < 0.7 else pick(5, 14, 16), draw.choice(WIDTHS) if draw.random() < 0.7 else pick(5, 14, 16)
        if 2.0 * m * n * k > 4e12 or m * n > 5e8:
            continue

        def make(m=m, n=n, k=k):
            a = torch.randn(m, k, device="cuda").to(torch.float8_e4m3fn)
            b = torch.randn(n, k, device="cuda").to(torch.float8_e4m3fn)
            one = torch.ones((), device="cuda")
            return lambda: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
        yield dict(op="scaled_mm", dtype="fp8", m=m, n=n, k=k), make


def products():
    measure_libraries.TYPES = ("fp16",)
    yield from itertools.islice(measure_libraries.product(), 330)
    yield from itertools.islice(measure_libraries.batched_product(), 100)


def main():
    # Threads of OpenMP do not outlive a fork: a child that waits for them would wait for ever.
    torch.set_num_threads(1)
    layers = [sorted(found) for _, found in measure_convolutions.models() if found]
    draw.seed(192)
    measure_convolutions.TYPES = ("fp16",)
    families = (batch_norm, scaled_product, products, lambda: measure_convolutions.drawn(layers, 260))
    arguments = sys.argv[2:] + ["250", "6"][len(sys.argv) - 2:]
    measure_h200.main(sys.argv[1], float(arguments[0]), families, int(arguments[1]))


if __name__ == "__main__":
    main()
