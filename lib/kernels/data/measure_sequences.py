#!/usr/bin/env python3
"""Measures, on a machine with a GPU, convolutions over sequences and those of wide filters.

Usage: measure_sequences.py OUT.jsonl [SECONDS [WORKERS]]

Sound, speech and time series are convolved along one dimension, in which earlier sweeps have 174 convolutions, none of
them with groups and a filter of more than 31. Drawn are the layers that are usual there, at lengths that are no powers of two,
too. Lines are like measure_architectures.py's. A third of the cases judges and is never fitted: those whose digest leaves 1
when it is divided by 3 (make_table.py's is_judge()).
"""
import sys

import measure_h200
from measure_architectures import a_convolution
from measure_h200 import draw, pick

draw.seed(91)
TYPES = ("bf16", "bf16", "bf16", "fp16", "tf32", "tf32", "fp32")
ELEMENTS = 1e8


def length(least, most):
    """A power of two or, twice as often, any number."""
    drawn = pick(least, most)
    return drawn if draw.random() < 0.33 else max(2, round(drawn * draw.uniform(0.7, 1.4)))


def along(n, c, k, size, r, stride=1, padding=None, dilation=1, groups=1, transposed=False):
    """One of one dimension, if neither its tensors nor its work are too large for the time at hand."""
    dtype = draw.choice(TYPES)
    flop = 2.0 * n * size * (stride if transposed else 1 / stride) * c * k * r / groups
    reach = dilation * (r - 1) + 1
    padding = dilation * (r // 2) if padding is None else padding
    if n * max(c * size, k * size * (stride if transposed else 1 / stride)) > ELEMENTS or size + 2 * padding < reach:
        return ()
    if flop > (1e11 if dtype == "fp32" or groups > 1 else 1e12):
        return ()
    return a_convolution(n, c, k, (size,), r, stride, padding, dilation, groups, dtype, False, transposed, "conv1d")


def positions():
    """Positional embeddings of speech encoders (wav2vec 2.0, HuBERT, data2vec), and groups of other widths and reaches."""
    for _ in range(110):
        groups, width = draw.choice((2, 4, 8, 16, 16, 16, 32)), draw.choice((8, 16, 24, 32, 48, 48, 64, 64, 80, 128))
        r = draw.choice((3, 5, 9, 19, 31, 64, 95, 128, 128, 128))
        yield from along(pick(0, 6), groups * width, groups * width, length(5, 11), r, groups=groups)


def depthwise():
    """Conformers, state-space and separable networks: a filter for each channel."""
    for _ in range(150):
        c = draw.choice((80, 144, 176, 256, 256, 384, 512, 512, 768, 1024, 1536, 2048, 4096))
        r = draw.choice((3, 4, 4, 5, 7, 9, 15, 15, 31, 31, 33, 51, 65, 87, 128))
        padding = r - 1 if r == 4 else None  # causal: too long by that, and cut
        yield from along(pick(0, 7), c, c, length(5, 12), r, draw.choice((1, 1, 1, 1, 2)), padding, groups=c)


def dense():
    """Temporal and dilated networks, encoders of spectra, vocoders."""
    for _ in range(260):
        c = draw.choice((32, 64, 80, 128, 192, 256, 256, 384, 512, 512, 768, 1024))
        k = draw.choice((c, c, c, 2 * c, c // 2, 256, 512))
        r, dilation = draw.choice((1, 2, 3, 3, 3, 5, 5, 7, 7, 9, 11, 15, 41)), draw.choice((1, 1, 1, 1, 2, 3, 5, 8, 16, 64))
        yield from along(pick(0, 7), c, k, length(5, 14), r, dilation=dilation)


def resampling():
    """Encoders of waves, and decoders that turn them back."""
    for _ in range(160):
        stride = draw.choice((2, 2, 2, 3, 4, 5, 8, 10))
        r = draw.choice((stride, 2 * stride, 2 * stride, 2 * stride + 1, 3))
        c = draw.choice((1, 2, 16, 32, 48, 64, 128, 256, 512, 512))
        k = draw.choice((c, 2 * c, 2 * c, 512, 64))
        transposed = c > 2 and draw.random() < 0.4
        if transposed:
            c, k = k, c
        yield from along(pick(0, 6), c, k, length(6, 15), max(r, stride), stride, (max(r, stride) - stride) // 2, transposed=transposed)


def wide():
    """Filters of 7 x 7 and more, of each channel and of all."""
    for _ in range(150):
        n, hw, r = pick(1, 6), draw.choice((7, 14, 16, 28, 32, 56, 64)), draw.choice((7, 7, 9, 11, 13, 15, 21, 27, 31))
        c = draw.choice((3, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768))
        groups = draw.choice((1, 1, c, c, 8, 16)) if c % 16 == 0 else 1
        dtype = draw.choice(TYPES)
        flop = 2.0 * n * hw * hw * c * c * r * r / groups
        if n * c * hw * hw > 5e7 or flop > (1e11 if dtype == "fp32" or groups > 1 else 1e12):
            continue
        yield from a_convolution(n, c, c if c > 3 else 64, (hw, hw), r, groups=groups, dtype=dtype, last=draw.random() < 0.4)


def main():
    arguments = sys.argv[2:] + ["220", "6"][len(sys.argv) - 2:]
    measure_h200.main(sys.argv[1], float(arguments[0]), (positions, depthwise, dense, resampling, wide), int(arguments[1]))


if __name__ == "__main__":
    main()
