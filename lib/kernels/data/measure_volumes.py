#!/usr/bin/env python3
"""Runs, on a machine with a GPU, convolutions over three dimensions, forward and both gradients: of clips and scans as networks have them, in groups, of one channel each, transposed, with channels last.

Usage: phantora measure --kernels FITTED.db -- python3 measure_volumes.py fitted SECONDS [usual]
       phantora measure --kernels JUDGES.db -- python3 measure_volumes.py judges SECONDS [usual]
       phantora kernels export FITTED.db FITTED.csv

`usual`: of numbers of channels and sizes that networks have, where else any multiple of 8 is as likely as another.

A third of the cases judges and is never fitted, as in measure_sorting.py. Kinds of cases take turns, so that an end after so many SECONDS leaves out some of each.
"""
import itertools
import math
import sys
import time

import torch.nn.functional as F
from torch import channels_last_3d

import measure_sorting
from measure_h200 import draw, pick
from measure_operations import there_and_back
from measure_products import convolved, operand

KINDS = ("bf16", "bf16", "fp16", "tf32", "fp32")
TAPS = ((3, 3, 3),) * 6 + ((1, 3, 3), (3, 1, 1), (1, 1, 1), (2, 2, 2), (5, 5, 5), (1, 7, 7), (7, 7, 7), (3, 5, 5))
STRIDES = ((1, 1, 1),) * 6 + ((2, 2, 2), (2, 2, 2), (1, 2, 2), (2, 1, 1))
WIDTHS = (16, 24, 32, 32, 48, 64, 64, 64, 96, 96, 128, 128, 128, 144, 160, 192, 192, 256, 256, 256, 288, 320, 384, 384, 512, 512, 640, 768, 1024)
DEPTHS = (1, 2, 3, 4, 4, 5, 6, 7, 8, 8, 9, 10, 12, 16, 16, 17, 18, 24, 32, 34, 48, 64, 96, 128)
SIDES = (4, 6, 7, 8, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 224, 256)
MOST, MOST_FLOP = 1 << 26, 4e11  # elements of a tensor, operations of a call


def case(op, kind, n, groups, c, k, depth, size, taps, stride, pad, transposed=False, last=False):
    """A call, or nothing where it is too large or its filter does not fit; c and k are the channels of all groups."""
    shape = (depth, size, size)
    if any(length + 2 * p < t for length, p, t in zip(shape, pad, taps)):
        return None
    scale = math.prod(stride) if transposed else 1 / math.prod(stride)
    flop = 2.0 * n * depth * size**2 * c * k / groups * math.prod(taps) / (1 if transposed else math.prod(stride))
    if n * max(c, k * scale) * depth * size**2 > MOST or flop > MOST_FLOP / (8 if kind == "fp32" else 1):
        return None

    def make():
        x, w = operand(kind, n, c, *shape), operand(kind, *((c, k // groups) if transposed else (k, c // groups)), *taps)
        x, w = ((t.to(memory_format=channels_last_3d) if last else t).requires_grad_() for t in (x, w))
        run = F.conv_transpose3d if transposed else F.conv3d
        more = dict(stride=stride, padding=pad, groups=groups)
        return convolved(kind, there_and_back(lambda: run(x, w, None, **more)))
    return dict(op=op, kind=kind, n=n, groups=groups, c=c, k=k, depth=depth, size=size, taps=taps, stride=stride, pad=pad, last=last), make


def around(taps):
    """Padding: as many planes as keep the size, or none, as causal filters have it that pad before."""
    return draw.choice(([t // 2 for t in taps], [t // 2 for t in taps], [0, taps[1] // 2, taps[2] // 2], [0, 0, 0]))


def channels(usual):
    return draw.choice(WIDTHS) if usual else pick(2, 9.3, 8)


def lengths(usual):
    """Depth and side of an image."""
    return (draw.choice(DEPTHS), draw.choice(SIDES)) if usual else (pick(0, 5.5), pick(2, 8))


def dense(usual, transposed=False):
    while True:
        c, k = channels(usual), channels(usual)
        c, k = draw.choice((c, c, c, c, c, 1, 3, 4, 16)), draw.choice((k, k, c, c, c, 2 * c, 16, 3))
        depth, side = lengths(usual)
        taps, stride = draw.choice(TAPS), draw.choice(STRIDES)
        pad = around(taps)
        if transposed:
            taps, stride, pad = draw.choice((((2, 2, 2), (2, 2, 2), [0, 0, 0]), ((4, 4, 4), (2, 2, 2), [1, 1, 1]), ((3, 3, 3), (1, 1, 1), [1, 1, 1]), ((1, 2, 2), (1, 2, 2), [0, 0, 0]),
                                             ((3, 3, 3), (2, 2, 2), [1, 1, 1])))
        made = case("transposed" if transposed else "dense", draw.choice(KINDS), pick(0, 3), 1, c, k, depth, side, taps, stride, pad, transposed, draw.random() < 0.2)
        if made:
            yield made


def grouped(usual, transposed=False):
    while True:
        depth, side = lengths(usual)
        groups, one = pick(1, 8.5), draw.random() < 0.5
        width = 1 if one else draw.choice((2, 4, 8, 8, 16, 32))
        times = draw.choice((1, 1, 1, 2))
        taps = draw.choice(((2, 2, 2), (4, 4, 4), (3, 3, 3))) if transposed else draw.choice(TAPS)
        stride = (2, 2, 2) if transposed else draw.choice(STRIDES)
        if groups * width * times > 1024:
            continue
        made = case("grouped_transposed" if transposed else "grouped", draw.choice(KINDS), pick(0, 3), groups, groups * width, groups * width * times, depth, side, taps, stride,
                    [0, 0, 0] if transposed else around(taps), transposed, draw.random() < 0.2)
        if made:
            yield made


def in_turn(seconds, usual):
    until = time.monotonic() + seconds
    for cases in itertools.cycle((dense(usual), dense(usual), grouped(usual), dense(usual), dense(usual, True), dense(usual), grouped(usual), dense(usual), grouped(usual, True))):
        if time.monotonic() > until:
            return
        yield next(cases)


if __name__ == "__main__":
    measure_sorting.main(sys.argv[1], (lambda: in_turn(float(sys.argv[2]), sys.argv[3:] == ["usual"]),), seed=1401)
