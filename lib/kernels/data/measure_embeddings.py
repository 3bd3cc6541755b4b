#!/usr/bin/env python3
"""Measures, on a machine with a GPU, the convolutions that embed: places in sound, and patches of images.

Usage: measure_embeddings.py OUT.jsonl [SECONDS [WORKERS]]

Speech encoders add to each place what a convolution in groups tells of its surroundings, by filters of up to 128 taps; which kernels
cuDNN has for these hangs on their width. Vision transformers and latent diffusion cut images into patches, a convolution whose stride
is its filter, of few channels. Earlier sweeps have 46 of the former and 225 of the latter, which are off by 43 % and more for a third.
Lines are like measure_architectures.py's. A third of the cases judges and is never fitted: those whose digest leaves 1
when it is divided by 3 (make_table.py's is_judge()).
"""
import sys

import measure_h200
from measure_architectures import a_convolution
from measure_h200 import draw, pick
from measure_sequences import along, length

draw.seed(131)
TYPES = ("bf16", "bf16", "bf16", "fp16", "tf32")


def places():
    """Those of wav2vec 2.0, HuBERT, WavLM, XLS-R (widths of 48, 64, 80 and 120 channels in 16 groups), and their like."""
    for _ in range(330):
        groups = draw.choice((2, 4, 8, 12, 16, 16, 16, 32))
        width = draw.choice((8, 16, 24, 32, 40, 48, 48, 48, 56, 64, 64, 72, 80, 96, 112, 120, 128, 160))
        r = draw.choice((19, 31, 41, 48, 63, 64, 65, 80, 95, 96, 112, 127, 128, 128, 128, 128, 160, 192, 255))
        yield from along(pick(0, 6), groups * width, groups * width, length(5, 11), r, groups=groups)


def patches():
    for _ in range(170):
        r, grid = draw.choice((2, 2, 4, 4, 7, 8, 14, 14, 16, 16, 16, 32)), draw.choice((7, 8, 14, 14, 16, 16, 24, 27, 28, 32, 37, 56, 64))
        c = draw.choice((1, 3, 3, 3, 3, 3, 4, 4, 8, 16))
        k = draw.choice((32, 64, 96, 128, 192, 320, 384, 512, 640, 768, 768, 1024, 1152, 1280, 1408))
        n = pick(0, 7)
        if n * grid * grid * max(c * r * r, k) > 1e8:
            continue
        yield from a_convolution(n, c, k, (grid * r, grid * r), r, r, 0, dtype=draw.choice(TYPES), last=draw.random() < 0.25)


def main():
    arguments = sys.argv[2:] + ["220", "6"][len(sys.argv) - 2:]
    measure_h200.main(sys.argv[1], float(arguments[0]), (places, patches), int(arguments[1]))


if __name__ == "__main__":
    main()
