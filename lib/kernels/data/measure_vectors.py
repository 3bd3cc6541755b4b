#!/usr/bin/env python3
"""Runs, on a machine with a GPU, products of many matrices with a vector each, or with few, as inference has them: attention of
one query for each head, and the weights that a token's experts have, gathered for each token (Transformers' `batched_mm`);
and that gathering, of rows that are asked for more than once. `phantora measure` times them under the keys of the interception.

Usage: phantora measure --kernels FITTED.db -- python3 measure_vectors.py fitted
       phantora measure --kernels JUDGES.db -- python3 measure_vectors.py judges
       phantora kernels export FITTED.db FITTED.csv

A third of the cases judges and is never fitted, as in measure_sorting.py.
"""
import sys

import torch

import measure_sorting
from measure_h200 import draw, pick
from measure_products import operand, times, width

KINDS = ("bf16", "bf16", "bf16", "fp32", "tf32", "fp16")
MOST = 3 << 30  # bytes of the matrices


def vectors():
    """Vectors of `inner` by matrices [inner, outer], kept either way about, from either side."""
    for _ in range(2400):
        kind, way = draw.choice(KINDS), draw.choice(("row", "row_transposed", "column", "column_transposed"))
        few = 1 if draw.random() < 0.7 else draw.choice((2, 3, 4, 5, 6, 8, 12, 16))
        if draw.random() < 0.5:  # heads: what one query asks of keys, and what it takes of values
            batch, inner, outer = pick(1, 12), pick(3, 13, draw.choice((1, 1, 8, 64))), draw.choice((16, 32, 64, 80, 96, 128, 192, 256))
            if draw.random() < 0.5:
                inner, outer = outer, inner
        else:  # experts
            batch, inner, outer = draw.choice((2, 4, 8, 16, 32, 48, 64, 128, 256)), width(), width()
        if 4 * batch * inner * outer > MOST:
            continue

        def make(kind=kind, way=way, few=few, batch=batch, inner=inner, outer=outer):
            x, w, v = operand(kind, batch, few, inner), operand(kind, batch, outer, inner), operand(kind, batch, inner, outer)
            y = x.transpose(1, 2).contiguous()
            return times(kind, {"row": lambda: x @ v, "row_transposed": lambda: x @ w.transpose(1, 2), "column": lambda: w @ y, "column_transposed": lambda: v.transpose(1, 2) @ y}[way])
        yield dict(op="vectors_" + way, kind=kind, few=few, batch=batch, inner=inner, outer=outer), make


if __name__ == "__main__":
    measure_sorting.main(sys.argv[1], (vectors,), seed=1130)
