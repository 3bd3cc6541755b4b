#!/usr/bin/env python3
"""Runs, on a machine with a GPU, what Diffusers' models and others in fp16, tf32 and fp32 need, and earlier sweeps have little of (bench/accuracy/families.py --diffusers, --numbers):
norms of a few groups of clips, softmax over thousands of keys, sums over any dimensions, volumes' convolutions, speech's filters over positions, pictures that are
made far larger, products of an expert's few rows in tf32.

Usage: phantora measure --kernels FITTED.db -- python3 measure_diffusion.py fitted SECONDS
       phantora measure --kernels JUDGES.db -- python3 measure_diffusion.py judges SECONDS
       phantora kernels export FITTED.db FITTED.csv

A third of the cases judges and is never fitted, as in measure_sorting.py. Kinds of cases take turns, so that an end after so many SECONDS leaves out some of each.
"""
import itertools
import math
import sys
import time

import torch
import torch.nn.functional as F

import measure_sorting
from measure_h200 import draw, pick
from measure_operations import there_and_back
from measure_products import convolved, operand, times

KINDS = ("fp32", "fp32", "bf16", "fp16")
MOST, MOST_FLOP = 1 << 28, 4e11  # elements of a tensor, operations of a call


def norms():
    """Of groups that are planes or clips of several channels."""
    while True:
        kind, n, groups, each, size = draw.choice(KINDS), pick(0, 4), draw.choice((1, 1, 2, 4, 8, 16, 32, 32, 32)), draw.choice((1, 2, 4, 8, 16, 32)), pick(8, 20)
        if n * groups * each * size > MOST / 4:
            continue

        def make(kind=kind, n=n, groups=groups, each=each, size=size):
            x, net = operand(kind, n, groups * each, size).requires_grad_(), torch.nn.GroupNorm(groups, groups * each, device="cuda", dtype=operand(kind, 1).dtype)
            return there_and_back(lambda: net(x))
        yield dict(op="norms", kind=kind, n=n, groups=groups, each=each, size=size), make


def softmaxes():
    while True:
        kind, rows, cols, log = draw.choice(KINDS), pick(4, 17.5), pick(10, 17, draw.choice((1, 4, 256, 1024))), draw.random() < 0.3
        if rows * cols > MOST:
            continue

        def make(kind=kind, rows=rows, cols=cols, log=log):
            x = operand(kind, rows, cols).requires_grad_()
            return there_and_back(lambda: (F.log_softmax if log else F.softmax)(x, -1))
        yield dict(op="softmaxes", kind=kind, rows=rows, cols=cols, log=log), make


def sums():
    """Over some dimensions of a product that was broadcast, or of a tensor that lies in any order."""
    while True:
        kind, rank, mean = draw.choice(KINDS), draw.choice((3, 4, 4, 5, 6)), draw.random() < 0.2
        sizes = [draw.choice((1, 2, 4, 5, 8, 16, 24, 32, 64, 64, 80, 128, 256, 256, 1024)) for _ in range(rank)]
        order, over = draw.sample(range(rank), rank) if draw.random() < 0.5 else list(range(rank)), sorted(draw.sample(range(rank), draw.choice((1, 1, 1, 2))))
        if not 1 << 14 < math.prod(sizes) < MOST:
            continue

        def make(kind=kind, sizes=sizes, order=order, over=over, mean=mean):
            x = operand(kind, *sizes).permute(order)
            return lambda: x.mean(over) if mean else x.sum(over)
        yield dict(op="sums", kind=kind, sizes=sizes, order=order, over=over, mean=mean), make


def volumes():
    """Clips' convolutions, padded before or by cuDNN, with their gradients or without."""
    while True:
        kind, n, c, k = draw.choice(("bf16", "bf16", "fp16", "tf32", "fp32")), pick(0, 2), pick(2, 9.3, 8), pick(2, 9.3, 8)
        c, k = draw.choice((c, c, c, c, 3, 16)), draw.choice((k, c, c, 16, 3))
        depth, size, taps = pick(0, 4.2), pick(3, 8), draw.choice(((3, 3, 3), (3, 3, 3), (1, 3, 3), (3, 1, 1), (1, 1, 1)))
        stride = draw.choice((1, 1, 1, 2))
        padded = draw.random() < 0.5
        flop = 2.0 * n * depth * size**2 * c * k * math.prod(taps) / stride**3
        if n * max(c, k) * depth * size**2 > MOST / 4 or flop > MOST_FLOP / (8 if kind == "fp32" else 1) or depth < taps[0] or size < taps[1]:
            continue

        def make(kind=kind, n=n, c=c, k=k, depth=depth, size=size, taps=taps, stride=stride, padded=padded):
            x, w = operand(kind, n, c, depth, size, size).requires_grad_(), operand(kind, k, c, *taps).requires_grad_()
            return convolved(kind, there_and_back(lambda: F.conv3d(x, w, None, stride, [t // 2 for t in taps] if padded else 0)))
        yield dict(op="volumes", kind=kind, n=n, c=c, k=k, depth=depth, size=size, taps=taps, stride=stride, padded=padded), make


def positions():
    """Long filters over a sequence, in groups."""
    while True:
        kind, n, groups, each = draw.choice(("bf16", "fp16", "fp16", "tf32")), pick(0, 4.5), draw.choice((4, 8, 16, 16, 16, 32)), draw.choice((8, 16, 24, 32, 48, 48, 64, 64, 80, 96))
        taps, stride, length = draw.choice((15, 19, 31, 31, 64, 95, 128, 128, 128)), draw.choice((1, 1, 2, 2)), pick(5, 11)
        flop = 2.0 * n * length * groups * each**2 * taps
        if flop > MOST_FLOP / 4:
            continue

        def make(kind=kind, n=n, groups=groups, each=each, taps=taps, stride=stride, length=length):
            x, w = operand(kind, n, groups * each, length).requires_grad_(), operand(kind, groups * each, each, taps).requires_grad_()
            return convolved(kind, there_and_back(lambda: F.conv1d(x, w, None, stride, taps // 2, 1, groups)))
        yield dict(op="positions", kind=kind, n=n, groups=groups, each=each, taps=taps, stride=stride, length=length), make


def enlarged():
    """Tables of positions for a larger picture, and pictures for labels."""
    while True:
        kind, n, c, size, times_, way = draw.choice(KINDS), draw.choice((1, 1, 2, 8)), pick(2, 10), pick(2, 6.5), draw.choice((2, 2, 3, 4, 8, 16, 32)), draw.choice(("bicubic", "bicubic", "bilinear", "nearest"))
        if n * c * (size * times_)**2 > MOST / 8:
            continue

        def make(kind=kind, n=n, c=c, size=size, times_=times_, way=way):
            x = operand(kind, n, c, size, size).requires_grad_()
            return there_and_back(lambda: F.interpolate(x, scale_factor=times_, mode=way))
        yield dict(op="enlarged", kind=kind, n=n, c=c, size=size, times=times_, way=way), make


def experts():
    """Layers of an expert's rows, and both gradients."""
    while True:
        kind, rows, inner, outer, way = draw.choice(("tf32", "tf32", "tf32", "fp32", "fp16")), pick(3, 12.5), pick(8, 13, 64), pick(8, 13, 64), draw.choice(("forward", "input", "weight"))
        if 2.0 * rows * inner * outer > MOST_FLOP / (8 if kind == "fp32" else 1):
            continue

        def make(kind=kind, rows=rows, inner=inner, outer=outer, way=way):
            x, w, g = operand(kind, rows, inner), operand(kind, outer, inner), operand(kind, rows, outer)
            return times(kind, {"forward": lambda: F.linear(x, w), "input": lambda: g @ w, "weight": lambda: g.t() @ x}[way])
        yield dict(op="experts_" + way, kind=kind, rows=rows, inner=inner, outer=outer), make


def in_turn(seconds):
    until = time.monotonic() + seconds
    for cases in itertools.cycle((norms(), sums(), volumes(), experts(), softmaxes(), sums(), volumes(), experts(), positions(), sums(), volumes(), enlarged())):
        if time.monotonic() > until:
            return
        yield next(cases)


if __name__ == "__main__":
    measure_sorting.main(sys.argv[1], (lambda: in_turn(float(sys.argv[2])),), seed=1301)
