#!/usr/bin/env python3
"""Runs, on a machine with a GPU, what models of Transformers do when they answer and earlier sweeps have little of (bench/accuracy/families.py
--answers): products with vocabularies of odd sizes, rows of small tables, norms of few and of long groups, images that are resized,
products and sums of tensors that are spread along others, and few rows at once: `phantora measure` times them under the interception's keys.

Usage: phantora measure --kernels FITTED.db -- python3 measure_answers.py fitted
       phantora measure --kernels JUDGES.db -- python3 measure_answers.py judges
       phantora kernels export FITTED.db FITTED.csv

A third of the cases judges and is never fitted, as in measure_sorting.py.
"""
import sys

import torch
import torch.nn.functional as F

import measure_sorting
from measure_h200 import draw, pick
from measure_operations import there_and_back
from measure_products import operand, times

KINDS = ("bf16", "bf16", "bf16", "fp16", "fp32", "tf32")
HIDDEN = (256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120)
MOST = 1 << 29  # elements of a tensor


def vocabularies():
    """Scores of tokens, and both gradients; of the sizes that tokenizers have, most are odd."""
    sizes = (21128, 28996, 30522, 30527, 32000, 32001, 32100, 49408, 50257, 50265, 50280, 50304, 51865, 64001, 119547, 128001, 151643, 184622, 250002, 256102, 257024)
    for _ in range(600):
        kind, way = draw.choice(KINDS), draw.choice(("scores", "scores", "scores", "input", "weight"))
        tokens, hidden = pick(0, 13.5), draw.choice(HIDDEN)
        words = draw.choice(sizes) if draw.random() < 0.7 else pick(10, 17.5)
        if tokens * words > MOST or words * hidden > MOST or 2.0 * tokens * words * hidden > 1.5e12:
            continue

        def make(kind=kind, way=way, tokens=tokens, hidden=hidden, words=words):
            x, w, g = operand(kind, tokens, hidden), operand(kind, words, hidden), operand(kind, tokens, words)
            b = operand(kind, words)
            plain = tokens % 2 == 0
            return times(kind, {"scores": lambda: F.linear(x, w, None if plain else b), "input": lambda: g @ w, "weight": lambda: g.t() @ x}[way])
        yield dict(op="vocabulary_" + way, kind=kind, tokens=tokens, hidden=hidden, words=words), make


def gathered():
    """Rows of small tables, such as experts' weights, and of large ones."""
    for _ in range(260):
        kind, there, asked, size = draw.choice(("bf16", "fp32")), pick(1, 10), pick(1, 11), pick(8, 26, draw.choice((8, 64, 512)))
        if size * max(there, asked) > MOST:
            continue

        def make(kind=kind, there=there, asked=asked, size=size):
            table, at = operand(kind, there, size), torch.randint(0, there, (asked,), device="cuda")
            return lambda: table[at]
        yield dict(op="gathered", kind=kind, there=there, asked=asked, size=size), make


def norms():
    """Group norms of few long groups, forward and back, and layer norms of few rows."""
    for _ in range(160):
        kind, images, groups = draw.choice(("bf16", "fp16", "fp32")), pick(0, 5), draw.choice((1, 1, 1, 2, 4, 8, 32))
        channels, plane = groups * pick(2, 8), pick(4, 16)
        if images * channels * plane > 1 << 26:
            continue

        def make(kind=kind, images=images, groups=groups, channels=channels, plane=plane):
            x, w, b = operand(kind, images, channels, plane).requires_grad_(), operand(kind, channels).requires_grad_(), operand(kind, channels).requires_grad_()
            return there_and_back(lambda: F.group_norm(x, groups, w, b))
        yield dict(op="group_norm", kind=kind, images=images, groups=groups, channels=channels, plane=plane), make
    for _ in range(120):
        kind, rows, width = draw.choice(("bf16", "fp16", "fp32")), pick(0, 7), draw.choice(HIDDEN)

        def make(kind=kind, rows=rows, width=width):
            x, w, b = operand(kind, rows, width), operand(kind, width), operand(kind, width)
            return lambda: (F.layer_norm(x, (width,), w, b), F.rms_norm(x, (width,), w), x.float().pow(2).mean(-1, keepdim=True))
        yield dict(op="layer_norm", kind=kind, rows=rows, width=width), make


def resized():
    for _ in range(220):
        kind, mode = draw.choice(("bf16", "fp16", "fp32")), draw.choice(("bilinear", "bilinear", "bilinear", "bicubic", "nearest"))
        images, channels, side, last = pick(0, 5), draw.choice((1, 3, 16, 64, 150, 256, 512, 768)), pick(2, 8), draw.random() < 0.2
        to = int(side * draw.choice((0.5, 1.5, 2, 2, 2, 4, 4, 8)))
        if to < 1 or images * channels * max(side, to) ** 2 > 1 << 27:
            continue

        def make(kind=kind, mode=mode, images=images, channels=channels, side=side, to=to, last=last):
            x = operand(kind, images, channels, side, side)
            x = (x.contiguous(memory_format=torch.channels_last) if last else x).requires_grad_()
            corners = {} if mode == "nearest" else dict(align_corners=channels == 150)
            return there_and_back(lambda: F.interpolate(x, size=(to, to), mode=mode, **corners))
        yield dict(op="resized", kind=kind, mode=mode, images=images, channels=channels, side=side, to=to, last=last), make


def spread():
    """Products of tensors of which each lacks some of the dimensions, and sums along one: state spaces without kernels of their own."""
    for _ in range(360):
        kind, dims = draw.choice(("fp32", "fp32", "bf16")), draw.choice((3, 4, 5))
        most = draw.choice((16, 22, 26, 28, 29))
        shape = [1] * dims
        while True:
            longer = [max(1, pick(0, 2 * most / dims)) for _ in shape]
            total = torch.Size(longer).numel()
            if 1 << (most - 2) <= total <= 1 << most:
                shape = longer
                break
        left, right = ([size if draw.random() < 0.65 else 1 for size in shape] for _ in range(2))
        along = draw.randrange(dims)
        swapped = draw.random() < 0.25

        def make(kind=kind, shape=tuple(shape), left=tuple(left), right=tuple(right), along=along, swapped=swapped):
            a, b, c = operand(kind, *left), operand(kind, *right), operand(kind, *shape)
            if swapped and len(left) > 2:
                b = b.transpose(1, 2).contiguous().transpose(1, 2)
            return lambda: (c * a, a * b, c.sum(along), c.add_(b))
        yield dict(op="spread", kind=kind, shape=list(shape), left=left, right=right, along=along, swapped=swapped), make


def few():
    """Small tensors, one for each sequence: a token at a time."""
    for _ in range(160):
        kind, rows, width, heads = draw.choice(("bf16", "bf16", "fp32")), pick(0, 6), draw.choice((64, 96, 128, 256)), draw.choice((1, 2, 4, 8, 12, 16, 32))

        def make(kind=kind, rows=rows, width=width, heads=heads):
            x, y, state = operand(kind, rows, 1, heads * width), operand(kind, heads * width), operand("fp32", rows, heads, width, 5)
            q = x.view(rows, 1, heads, width).transpose(1, 2)
            cos, one = operand(kind, rows, 1, 1, width), operand("fp32", rows, 1, heads * width)

            def turned():
                first, second = q[..., :width // 2], q[..., width // 2:]
                return q * cos + torch.cat((-second, first), -1) * cos
            return lambda: (x * y, x + y, turned(), state[..., 0] + state[..., 1], torch.exp(state[..., 2]) * state[..., 3], one * y, x.float() + one, (one * one).to(x.dtype), F.silu(x) * x,
                            torch.maximum(state[..., 4], state[..., 1]), q.reshape(rows, -1))
        yield dict(op="few", kind=kind, rows=rows, width=width, heads=heads), make


if __name__ == "__main__":
    measure_sorting.main(sys.argv[1], (vocabularies, gathered, norms, resized, spread, few), seed=1131)
