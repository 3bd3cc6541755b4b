#!/usr/bin/env python3
"""Measures, on a machine with a GPU, what moves elements to and from places that tensors of indices name.

Usage: measure_indexing.py OUT.jsonl [SECONDS [WORKERS]]

x[i], x[i, j], x[:, i], x[mask] and what is put there, gather, scatter and scatter_add: earlier sweeps have rows of 16 bytes and
more by one index alone. Lines are like measure_h200.py's, and tell what adapters/rank/kernels/families/indexing.cpp tells of the launches:
`numel` elements that move, `indices` of each of `tensors` tensors, and `table`, elements of the tensor that they point into. A third of
the cases judges and is never fitted: those whose digest leaves 1 when it is divided by 3 (make_table.py's is_judge()).
"""
import math
import sys

import torch

import measure_h200
from measure_h200 import TYPES, draw, pick

draw.seed(251)
ALL_TYPES = TYPES | {"int64": torch.int64, "bool": torch.bool}
SIZES = {"bf16": 2, "fp32": 4, "int64": 8, "bool": 1}
MOST = 1.5e8  # bytes of a tensor


def filled(*shape, dtype):
    if dtype in TYPES:
        return torch.randn(*shape, device="cuda", dtype=TYPES[dtype])
    return torch.randint(0, 2, shape, device="cuda", dtype=ALL_TYPES[dtype])


def places(below, *shape, ordered=False):
    chosen = torch.randint(0, below, shape, device="cuda")
    return chosen.sort(-1).values if ordered else chosen


def access(x, at, put):
    """What reads x[at], or assigns to it."""
    if not put:
        return lambda: x[at]
    v = x[at].clone()

    def assign():
        x[at] = v
    return assign


def by_tensors():
    """x[i] of rows that are no vectors, x[i, j], x[:, i], and the same on the left of an assignment."""
    for _ in range(420):
        kind, put = draw.choice(("points", "rows", "pairs", "pairs", "columns", "rows_of_pairs")), draw.random() < 0.4
        dtype, ordered = draw.choice(("bf16", "fp32", "fp32", "int64", "bool")), draw.random() < 0.4
        n = pick(3, 24) if kind in ("points", "pairs") else pick(3, 17)
        a, b = pick(3, 24 if kind == "points" else 14), pick(1, 12)
        c = draw.choice((1, 3, 3, 4, 5, 7, 13, 21, 33, 80, 91, 127)) if kind in ("rows", "rows_of_pairs") else 1
        shape = {"points": [a], "rows": [a, c], "pairs": [a, b], "columns": [b, a], "rows_of_pairs": [a, b, c]}[kind]
        numel = {"rows": n * c, "rows_of_pairs": n * c, "columns": n * b}.get(kind, n)
        if max(math.prod(shape), numel) * SIZES[dtype] > MOST or (kind == "rows" and c * SIZES[dtype] % 16 == 0):
            continue

        def make(kind=kind, put=put, dtype=dtype, ordered=ordered, n=n, a=a, b=b, shape=shape):
            x, i, j = filled(*shape, dtype=dtype), places(a, n, ordered=ordered), places(b, n)
            at = {"points": (i,), "rows": (i,), "columns": (slice(None), i)}.get(kind, (i, j))
            return access(x, at, put)
        yield dict(op="indexed_put" if put else "indexed_get", kind=kind, dtype=dtype, numel=numel, indices=n, ordered=ordered,
                   tensors=2 if "pairs" in kind else 1, table=math.prod(shape)), make


def by_masks():
    """x[mask], of elements and of rows; how many pass is known beforehand."""
    for _ in range(130):
        kind, put = draw.choice(("points", "rows", "plane")), draw.random() < 0.3
        dtype, share = draw.choice(("bf16", "fp32", "fp32", "int64")), draw.choice((0.02, 0.5, 0.5, 0.95, 1))
        a, b = pick(4, 23 if kind == "points" else 15), pick(1, 10)
        c = draw.choice((3, 4, 5, 7, 21, 33, 91)) if kind == "rows" else 1
        shape, flags = {"points": ([a], a), "rows": ([a, c], a), "plane": ([a, b], a * b)}[kind]
        n = max(1, int(flags * share))
        if math.prod(shape) * SIZES[dtype] > MOST or (kind == "rows" and c * SIZES[dtype] % 16 == 0):
            continue

        def make(kind=kind, put=put, dtype=dtype, n=n, flags=flags, shape=shape):
            x = filled(*shape, dtype=dtype)
            mask = torch.zeros(flags, dtype=torch.bool, device="cuda")
            mask[torch.randperm(flags, device="cuda")[:n]] = True
            mask = mask.view(shape) if kind == "plane" else mask
            return access(x, mask, put)
        yield dict(op="indexed_put" if put else "indexed_get", kind="mask_" + kind, dtype=dtype, numel=n * c, indices=n, ordered=True,
                   tensors=2 if kind == "plane" else 1, table=math.prod(shape)), make


def along():
    """gather, scatter and scatter_add along the last dimension and along the first, by an index for each element or for each row."""
    for _ in range(420):
        kind = draw.choice(("gather", "gather", "scatter", "scatter_add", "scatter_add", "scatter_value"))
        dtype = draw.choice(("bf16", "fp32", "fp32")) if kind == "scatter_add" else draw.choice(("bf16", "fp32", "fp32", "int64"))
        last, expanded, ordered = draw.random() < 0.55, draw.random() < 0.35, draw.random() < 0.3
        rows, n, size = pick(0, 16), pick(0, 12), pick(1, 16)
        table, moved = rows * size, rows * n
        if moved < 16 or max(table, moved) * SIZES[dtype] > MOST or moved > 3e7:
            continue

        def make(kind=kind, dtype=dtype, last=last, expanded=expanded, ordered=ordered, rows=rows, n=n, size=size):
            x = filled(rows, size, dtype=dtype) if last else filled(size, rows, dtype=dtype)
            v = filled(rows, n, dtype=dtype) if last else filled(n, rows, dtype=dtype)
            if expanded:
                i = places(size, n, ordered=ordered)
                i = i.expand(rows, -1) if last else i[:, None].expand(-1, rows)
            else:
                i = places(size, rows, n, ordered=ordered)
                i = i if last else i.t().contiguous()
            dim = 1 if last else 0
            return {"gather": lambda: x.gather(dim, i), "scatter": lambda: x.scatter_(dim, i, v), "scatter_add": lambda: x.scatter_add_(dim, i, v),
                    "scatter_value": lambda: x.scatter_(dim, i, 1)}[kind]
        yield dict(op="along", kind=kind, dtype=dtype, numel=moved, indices=n if expanded else moved, tensors=1, table=table, last=last,
                   ordered=ordered), make


def main():
    arguments = sys.argv[2:] + ["150", "6"][len(sys.argv) - 2:]
    measure_h200.main(sys.argv[1], float(arguments[0]), (by_tensors, by_masks, along), int(arguments[1]))


if __name__ == "__main__":
    main()
