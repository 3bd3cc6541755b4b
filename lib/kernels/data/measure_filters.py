#!/usr/bin/env python3
"""Measures, on a machine with a GPU, convolutions of waves in groups with strides, of images with few channels, of small images
in large batches, and elementwise kernels over strided elements of 8 bytes.

Usage: measure_filters.py OUT.jsonl [SECONDS [WORKERS]]

The discriminators of vocoders halve and quarter waves by filters of up to 41 taps in groups, of which earlier sweeps have none with a
stride; generators of images end in filters of 7 x 7 and 9 x 9 into three channels; and the gradients of filters over small images in
large batches are where cuDNN turns to Fourier transforms. Lines are like measure_architectures.py's and measure_strided.py's. A third
of the cases judges and is never fitted: those whose digest leaves 1 when it is divided by 3 (make_table.py's is_judge()).
"""
import math
import sys

import torch

import measure_h200
from measure_architectures import a_convolution
from measure_h200 import draw, pick
from measure_sequences import along, length

draw.seed(177)
TYPES = ("bf16", "bf16", "fp16", "tf32", "tf32", "fp32")
WIDE = {"fp64": torch.float64, "int64": torch.int64, "c64": torch.complex64}


def waves():
    """In groups with strides, as discriminators of vocoders have them (MelGAN, HiFi-GAN, EnCodec), and their like."""
    for _ in range(230):
        stride, width = draw.choice((1, 2, 2, 2, 4, 4, 4, 8)), draw.choice((4, 4, 4, 8, 16, 16, 32, 64))
        groups = draw.choice((2, 4, 4, 8, 16, 16, 32, 64, 64, 128, 256))
        c = groups * width
        k = draw.choice((c, c, 2 * c, 4 * c))
        r = draw.choice((5, 11, 15, 21, 31, 41, 41, 41, 41, 51))
        if max(c, k) > 2048:
            continue
        yield from along(pick(0, 5), c, k, length(7, 14), r, stride, groups=groups)


def periods():
    """Waves folded into images of a few columns, whose filters are of one column (HiFi-GAN)."""
    for _ in range(70):
        columns, rows = draw.choice((2, 3, 5, 7, 11)), length(4, 11)
        c = draw.choice((1, 32, 32, 64, 128, 256, 512, 1024))
        k = draw.choice((32, 64, 128, 256, 512, 1024)) if c == 1 else min(1024, c * draw.choice((1, 2, 4)))
        n, stride = pick(0, 6), draw.choice((1, 3, 3))
        if 2.0 * n * rows * columns * c * k * 5 / stride > 1e12 or n * rows * columns * max(c, k) > 1e8:
            continue
        yield from a_convolution(n, c, k, (rows, columns), 5, stride, 2, dtype=draw.choice(TYPES))


def ends():
    """Of generators of images and of networks for super-resolution: from few channels, and into few."""
    for _ in range(170):
        r, hw, n = draw.choice((3, 5, 7, 7, 9, 9, 9, 11)), draw.choice((32, 48, 64, 96, 128, 128, 160, 224, 256, 256, 384, 512)), pick(0, 5)
        few, many = draw.choice((1, 1, 2, 3, 3, 3, 3, 4, 6, 8, 12)), draw.choice((8, 16, 24, 32, 32, 48, 64, 64, 64, 96, 128))
        c, k = (few, many) if draw.random() < 0.4 else (many, few)
        if n * hw * hw * many > 1e8:
            continue
        yield from a_convolution(n, c, k, (hw, hw), r, dtype=draw.choice(TYPES), last=draw.random() < 0.25)


def small_images():
    """In large batches: networks for CIFAR and the like, differential equations, policies that see a board or a screen."""
    for _ in range(270):
        hw, n = draw.choice((4, 6, 7, 8, 8, 9, 11, 12, 14, 16, 16, 16, 19, 20, 24, 28, 32, 32)), draw.choice((32, 64, 64, 100, 128, 128, 128, 192, 256, 256, 512))
        c = draw.choice((16, 32, 48, 64, 64, 64, 65, 80, 96, 128, 128, 129, 160, 192, 256))
        k, r = draw.choice((c, c, c, 2 * c, 64, 128)), draw.choice((3, 3, 3, 3, 4, 5, 5))
        stride = draw.choice((1, 1, 1, 1, 2))
        if n * hw * hw * max(c, k) > 1e8:
            continue
        yield from a_convolution(n, c, k, (hw, hw), r, stride, dtype=draw.choice(("bf16", "fp16", "tf32", "tf32", "tf32", "fp32")), last=draw.random() < 0.2)


def wide_elements():
    """Of 8 bytes and strided: complex spectra, 64-bit places, double precision."""
    for _ in range(260):
        dims, kind, name = draw.choice((2, 3, 3, 4)), draw.choice(("copy", "copy", "add", "mul", "unary")), draw.choice(("c64", "c64", "int64", "fp64"))
        shape = [draw.choice((16, 24, 33, 64, 65, 80, 128, 129, 256)) for _ in range(dims)]
        goal = 2 ** draw.uniform(15, 25)
        shape[0] = max(1, round(shape[0] * goal / math.prod(shape)))
        order = list(range(dims))
        if draw.random() < 0.7:
            a, b = draw.sample(order, 2)
            order[a], order[b] = b, a
        ones = [draw.random() < 0.5 for _ in shape]
        if not 3e4 < math.prod(shape) < 5e7:
            continue

        def make(shape=shape, order=order, ones=ones, name=name, kind=kind):
            def tensor(*sizes):
                return torch.randn(*sizes, device="cuda").mul_(8).to(WIDE[name])
            x = tensor(*(shape[d] for d in order)).permute(order)
            y = tensor(*(1 if one else size for one, size in zip(ones, shape)))
            out = torch.empty(shape, dtype=WIDE[name], device="cuda")
            return {"copy": lambda: out.copy_(x), "add": lambda: torch.add(x, y, out=out), "mul": lambda: torch.mul(x, y, out=out),
                    "unary": lambda: torch.neg(x, out=out)}[kind]

        def strides(sizes):
            return [math.prod(sizes[i + 1:]) for i in range(len(sizes))]

        # Two dimensions change places, so that the order is its own inverse.
        first = [strides([shape[d] for d in order])[order[d]] for d in range(dims)]
        small = strides([1 if one else size for one, size in zip(ones, shape)])
        other = [0 if one else stride for one, stride in zip(ones, small)]
        yield dict(op="strided", kind=kind, dtype=name, shape=shape, strides=[strides(shape), first, *([other] if kind in ("add", "mul") else [])]), make


def main():
    arguments = sys.argv[2:] + ["260", "6"][len(sys.argv) - 2:]
    measure_h200.main(sys.argv[1], float(arguments[0]), (waves, periods, ends, small_images, wide_elements), int(arguments[1]))


if __name__ == "__main__":
    main()
