#!/usr/bin/env python3
"""Runs, on a machine with a GPU, what vision models need and earlier sweeps have little of (bench/accuracy/families.py --timm): convolutions of any
number of channels, with several filters for each channel, in one direction, over whole images, most with channels last; averages, joined parts and resized planes there;
products of few columns, windows' and heads'; recurrent networks of many short sequences. `phantora measure` times them under the interception's keys.

Usage: phantora measure --kernels FITTED.db -- python3 measure_channels.py fitted SECONDS
       phantora measure --kernels JUDGES.db -- python3 measure_channels.py judges SECONDS
       phantora kernels export FITTED.db FITTED.csv

A third of the cases judges and is never fitted, as in measure_sorting.py. Kinds of cases take turns, so that an end after so many SECONDS leaves out some of each.
"""
import itertools
import sys
import time

import torch
import torch.nn.functional as F

import measure_sorting
from measure_h200 import draw, pick
from measure_operations import there_and_back
from measure_products import convolved, operand, times

KINDS = ("bf16", "bf16", "bf16", "bf16", "fp16", "fp16", "tf32", "fp32")
HALVES = ("bf16", "bf16", "fp16")
MOST, MOST_FLOP = 1 << 26, 4e11  # elements of a tensor, operations of a call


def images(kind, n, c, h, w, last):
    x = operand(kind, n, c, h, w)
    return (x.contiguous(memory_format=torch.channels_last) if last else x).requires_grad_()


def convolution(n, c, k, size, taps, stride, padding, groups, share=0.65):
    """A case with its gradients, or nothing if it is larger than the others."""
    kind, last = draw.choice(KINDS), draw.random() < share
    flop = 2.0 * n * size * size / stride**2 * c * k * taps[0] * taps[1] / groups
    slow = 100 if groups == c else 8 if kind == "fp32" else 1
    if n * max(c, k / stride**2) * size * size > MOST or flop > MOST_FLOP / slow or min(size + 2 * p - t for p, t in zip(padding, taps)) < 0:
        return

    def make():
        x, w = images(kind, n, c, size, size, last), operand(kind, k, c // groups, *taps)
        w = (w.contiguous(memory_format=torch.channels_last) if last else w).requires_grad_()
        return convolved(kind, there_and_back(lambda: F.conv2d(x, w, None, stride, padding, 1, groups)))
    yield dict(op="convolution", kind=kind, last=last, n=n, c=c, k=k, size=size, taps=list(taps), stride=stride, padding=list(padding), groups=groups), make


def channels(most=1024):
    return min(most, pick(3, 10, draw.choice((1, 2, 4, 4, 8, 8)) * 8 if draw.random() < 0.93 else 2))


def square(taps):
    return (taps, taps), (taps // 2, taps // 2)


def one_way(taps):
    return draw.choice((((1, taps), (0, taps // 2)), ((taps, 1), (taps // 2, 0))))


def dense():
    while True:
        taps, padding = square(draw.choice((1, 1, 3, 3, 3, 3, 5, 7))) if draw.random() < 0.85 else one_way(draw.choice((3, 3, 5, 7, 11)))
        if draw.random() < 0.1:
            padding = (0, 0)
        yield from convolution(pick(0, 7), channels(), channels(), pick(2, 8), taps, draw.choice((1, 1, 1, 2)), padding, 1)


def first():
    """What pictures go through first: steps, patches, two steps of three."""
    while True:
        taps, stride = draw.choice(((3, 2), (3, 2), (3, 1), (7, 2), (4, 4), (7, 4), (2, 2), (14, 14), (16, 16), (6, 2)))
        padding = 0 if stride >= taps else taps // 2
        yield from convolution(pick(0, 7), draw.choice((3, 3, 3, 1, 4)), pick(4, 8, 8), draw.choice((160, 192, 224, 224, 224, 256, 256, 288, 320, 384)), (taps, taps), stride, (padding, padding), 1)


def depthwise():
    while True:
        c, each = channels(1536), draw.choice((1, 1, 1, 1, 2, 2, 2, 3, 4))
        taps, padding = square(draw.choice((3, 3, 3, 5, 5, 7, 7, 9, 11, 13))) if draw.random() < 0.8 else one_way(draw.choice((3, 7, 11, 21)))
        yield from convolution(pick(0, 7), c, c * each, pick(2, 7.5), taps, draw.choice((1, 1, 1, 2)), padding, c, 0.75)


def grouped():
    while True:
        groups, each, out = pick(1, 7), draw.choice((2, 4, 8, 8, 16, 16, 24, 32, 40, 64)), draw.choice((1, 1, 1, 2))
        taps, padding = square(draw.choice((1, 3, 3, 3, 5)))
        if groups * each <= 2048:
            yield from convolution(pick(0, 6), groups * each, groups * each * out, pick(2, 7), taps, draw.choice((1, 1, 2)), padding, groups)


def whole():
    """Filters that cover their image: what classifies, a plane's weighted mean."""
    while True:
        size, c = draw.choice((2, 3, 4, 4, 5, 6, 7, 7, 8)), channels()
        groups = draw.choice((1, 1, c))
        yield from convolution(pick(0, 7), c, c if groups > 1 else pick(3, 12, 8), size, (size, size), 1, (0, 0), groups)


def few_columns():
    """Layers from a few heads to as many, for each pair of tokens, and both gradients."""
    while True:
        kind, inner, outer, rows, way = draw.choice(KINDS), pick(1, 6), pick(1, 6), pick(10, 22.5), draw.choice(("forward", "input", "weight"))
        if rows * max(inner, outer) > MOST:
            continue

        def make(kind=kind, inner=inner, outer=outer, rows=rows, way=way):
            x, w, b, g = operand(kind, rows, inner), operand(kind, outer, inner), operand(kind, outer), operand(kind, rows, outer)
            return times(kind, {"forward": lambda: F.linear(x, w, b), "input": lambda: g @ w, "weight": lambda: g.t() @ x}[way])
        yield dict(op="few_columns_" + way, kind=kind, inner=inner, outer=outer, rows=rows), make


def windows():
    """Scores within windows, or of all tokens with each other, of any number of tokens, and both gradients."""
    while True:
        kind, tokens, size = draw.choice(HALVES), draw.choice((49, 49, 64, 100, 144, 196, 196, 197, 197, 256, 257, 577, pick(4, 10))), draw.choice((16, 24, 32, 32, 32, 48, 64, 64, 80))
        many = pick(3, 13.5)
        if many * tokens * max(tokens, size) > MOST:
            continue
        transposed = draw.random() < 0.5

        def make(kind=kind, tokens=tokens, size=size, many=many, transposed=transposed):
            q, k, v = (operand(kind, many, tokens, size) for _ in range(3))
            if transposed:
                q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v))
            scores, out = operand(kind, many, tokens, tokens), operand(kind, many, tokens, size)
            return lambda: (q @ k.mT, scores @ v, scores.mT @ out, out @ v.mT, scores @ k)
        yield dict(op="windows", kind=kind, tokens=tokens, size=size, many=many, transposed=transposed), make


def recurrent():
    """Rows and columns of images as sequences."""
    while True:
        kind, batch, steps, width, hidden = draw.choice(HALVES + ("fp32",)), pick(4, 11), pick(2, 6), pick(5, 9.5, 8), pick(5, 8.6, 16)
        both, cell, train = draw.random() < 0.6, draw.choice((torch.nn.LSTM, torch.nn.LSTM, torch.nn.GRU)), draw.random() < 0.5
        if batch * steps * max(width, 4 * hidden) > MOST:
            continue

        def make(kind=kind, batch=batch, steps=steps, width=width, hidden=hidden, both=both, cell=cell, train=train):
            x = operand(kind, batch, steps, width)
            net = cell(width, hidden, batch_first=True, bidirectional=both).to(x)
            net.flatten_parameters()
            if train:
                return there_and_back(lambda: net(x))
            net.eval().requires_grad_(False)
            return lambda: net(x)
        yield dict(op="recurrent", kind=kind, batch=batch, steps=steps, width=width, hidden=hidden, both=both, cell=cell.__name__, train=train), make


def planes():
    """Averages, maxima, joined parts, sizes and norms of images."""
    while True:
        kind, n, c, size, last = draw.choice(HALVES + ("fp32",)), pick(0, 6.5), channels(), pick(2, 7.5), draw.random() < 0.7
        way = draw.choice(("average", "average", "maximum", "resized", "resized", "joined", "joined", "joined", "norm", "norm"))
        to, parts = draw.choice((1, 2, 3, 4, 6, 7, 7, 14)), draw.choice((2, 2, 3, 4, 8, 12, 24, 40))
        if n * c * size * size > MOST / 2 or (way == "average" and to > size) or (way == "resized" and n * c > 20000):
            continue

        def make(kind=kind, n=n, c=c, size=size, last=last, way=way, to=to, parts=parts):
            x = images(kind, n, c, size, size, last)
            if way == "joined":
                each = max(1, c // parts // 4) * 4
                pieces = [images(kind, n, each * (1 + 3 * (i == 0)), size, size, last).detach() for i in range(parts)]
                return lambda: torch.cat(pieces, 1)
            if way == "norm":
                net = torch.nn.BatchNorm2d(c, device="cuda")
                return lambda: (net.train()(x), net.eval()(x))
            return there_and_back({"average": lambda: F.adaptive_avg_pool2d(x, to), "maximum": lambda: F.max_pool2d(x, 3, 2, 1) if size > 3 else x * 1,
                                   "resized": lambda: F.interpolate(x, size=(2 * to, 2 * to), mode="bilinear")}[way])
        yield dict(op="planes_" + way, kind=kind, n=n, c=c, size=size, last=last, to=to, parts=parts), make


def in_turn(seconds):
    until = time.monotonic() + seconds
    kinds = [dense(), depthwise(), dense(), few_columns(), grouped(), dense(), planes(), first(), depthwise(), windows(), dense(), planes(), whole(), recurrent()]
    for cases in itertools.cycle(kinds):
        if time.monotonic() > until:
            return
        yield next(cases)


if __name__ == "__main__":
    measure_sorting.main(sys.argv[1], (lambda: in_turn(float(sys.argv[2])),), seed=1201)
