#!/usr/bin/env python3
"""Runs, on a machine with a GPU, products as layers and experts have them forward and backward, most in fp32, which earlier sweeps
have few of, and many at once: `phantora measure` times them under the keys that the interception has for them.

Usage: phantora measure --kernels FITTED.db -- python3 measure_products.py fitted
       phantora measure --kernels JUDGES.db -- python3 measure_products.py judges
       phantora kernels export FITTED.db FITTED.csv

A third of the cases judges and is never fitted, as in measure_sorting.py.
"""
import sys

import torch
import torch.nn.functional as F

import measure_sorting
from measure_h200 import draw, pick
from measure_sorting import TYPES

# What multiplies: fp32 by the plain units, and by tensor cores.
KINDS = ("fp32", "fp32", "fp32", "tf32", "tf32", "bf16")
WIDTHS = (256, 384, 512, 640, 768, 1024, 1280, 1536, 2048, 2560, 2880, 3072, 4096, 5120, 6144, 8192, 11008, 14336)
MOST = {"fp32": 3e11, "tf32": 1e12, "bf16": 2e12}  # operations of a call


def operand(kind, *shape):
    return torch.randn(*shape, device="cuda", dtype=TYPES["fp32" if kind == "tf32" else kind])


def times(kind, product):
    def run():
        torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
        product()
    return run


def convolved(kind, step):
    """`step` with cuDNN's products of fp32 rounded to tf32, or not."""
    def run():
        torch.backends.cudnn.allow_tf32 = kind == "tf32"
        step()
    return run


def width():
    return draw.choice(WIDTHS) if draw.random() < 0.8 else pick(5, 13.5, draw.choice((8, 16, 64)))


def layers():
    """A linear layer of so many tokens: forward, its input's gradient, its weight's; experts keep weights either way about."""
    for _ in range(2400):
        kind, way = draw.choice(KINDS), draw.choice(("forward", "transposed", "input", "weight"))
        tokens, inner, outer = pick(3, 14, draw.choice((1, 8, 64, 128))), width(), width()
        if 2.0 * tokens * inner * outer > MOST[kind]:
            continue

        def make(kind=kind, way=way, tokens=tokens, inner=inner, outer=outer):
            x, w, b = operand(kind, tokens, inner), operand(kind, outer, inner), operand(kind, outer)
            g, v = operand(kind, tokens, outer), w.t().contiguous()
            return times(kind, {"forward": lambda: F.linear(x, w, b), "transposed": lambda: x @ v, "input": lambda: g @ w, "weight": lambda: g.t() @ x}[way])
        yield dict(op="layer_" + way, kind=kind, tokens=tokens, inner=inner, outer=outer), make


def heads():
    """Scores of attention, what they select, and both gradients; and experts side by side."""
    for _ in range(1000):
        kind, way = draw.choice(KINDS + ("bf16",)), draw.choice(("scores", "selected", "first", "second"))
        if draw.random() < 0.7:
            batch, rows, inner = pick(2, 10), pick(4, 11, draw.choice((1, 8, 64))), draw.choice((16, 32, 40, 64, 80, 96, 128, 256))
            outer = rows if draw.random() < 0.7 else pick(4, 11, draw.choice((1, 8, 64)))
        else:
            batch, rows, inner, outer = draw.choice((2, 4, 8, 16, 32, 64)), pick(3, 11, draw.choice((1, 8, 64))), width(), width()
        if 2.0 * batch * rows * inner * outer > MOST[kind] or batch * (rows * inner + inner * outer + rows * outer) > 1 << 30:
            continue

        def make(kind=kind, way=way, batch=batch, rows=rows, inner=inner, outer=outer):
            a, b, c = operand(kind, batch, rows, inner), operand(kind, batch, outer, inner), operand(kind, batch, rows, outer)
            d = b.transpose(1, 2).contiguous()
            return times(kind, {"scores": lambda: a @ b.transpose(1, 2), "selected": lambda: a @ d, "first": lambda: c @ b, "second": lambda: c.transpose(1, 2) @ a}[way])
        yield dict(op="heads_" + way, kind=kind, batch=batch, rows=rows, inner=inner, outer=outer), make


if __name__ == "__main__":
    measure_sorting.main(sys.argv[1], (layers, heads), seed=1129)
