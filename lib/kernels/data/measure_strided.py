#!/usr/bin/env python3
"""Measures, on a machine with a GPU, what models do and earlier sweeps hold little of: elementwise kernels over operands
of several dimensions, concatenation in four, sums of columns whose partial sums left the cache, norms of short rows,
and pooling of channels that come last.

Usage: measure_strided.py OUT.jsonl [SECONDS [WORKERS]]

Lines are like measure_h200.py's. `strided` lines tell the shape of the result and the strides of all operands, the
result's first. `state` is as in measure_cache.py.
"""
import math
import sys

import torch
import torch.nn.functional as F

import measure_h200
from measure_architectures import format_of
from measure_cache import buffer
from measure_h200 import draw, tensor

draw.seed(90)


def a_shape(dims, low=15, high=26):
    """Of `dims` dimensions and 2**low to 2**high elements, the last one long enough for a few warps mostly."""
    goal = 2 ** draw.uniform(low, high)
    shape = [draw.choice((16, 32, 49, 64, 64, 80, 128, 256, 512, 1024))]
    while len(shape) < dims:
        shape.insert(0, draw.choice((2, 4, 8, 12, 16, 32, 49, 64)))
    rest = goal / math.prod(shape)
    at = draw.randrange(dims - 1) if dims > 1 else 0
    shape[at] = max(1, round(shape[at] * rest))
    return shape


def strided():
    for _ in range(900):
        dims, kind = draw.choice((2, 3, 3, 4, 4, 5)), draw.choice(("add", "add", "mul", "mul", "where", "copy", "copy", "unary"))
        shape, dtype = a_shape(dims), draw.choice(("bf16", "bf16", "fp32"))
        transposed = draw.random() < 0.5
        ones = [draw.random() < 0.5 for _ in shape]
        if not 3e4 < math.prod(shape) < 8e7:
            continue

        def make(kind=kind, shape=shape, dtype=dtype, ones=ones, transposed=transposed):
            x = tensor(*shape, dtype=dtype)
            if transposed and len(shape) > 2:
                # As heads and tokens are: stored the other way round.
                x = tensor(shape[0], shape[2], shape[1], *shape[3:], dtype=dtype).transpose(1, 2)
            elif kind in ("copy", "unary"):
                x = tensor(*shape[:-1], 2 * shape[-1], dtype=dtype)[..., :shape[-1]]
            y = tensor(*(1 if one else length for one, length in zip(ones, shape)), dtype=dtype)
            mask = y > 0
            out = torch.empty(shape, dtype=x.dtype, device="cuda")
            return {"add": lambda: torch.add(x, y, out=out), "mul": lambda: torch.mul(x, y, out=out), "where": lambda: torch.where(mask, x, y, out=out),
                    "copy": lambda: out.copy_(x), "unary": lambda: torch.neg(x, out=out)}[kind]

        def contiguous(lengths):
            return [math.prod(lengths[i + 1:]) for i in range(len(lengths))]

        small = [1 if one else length for one, length in zip(ones, shape)]
        other = [0 if one else stride for one, stride in zip(ones, contiguous(small))]
        first = contiguous(shape)
        if transposed and dims > 2:
            first = contiguous([shape[0], shape[2], shape[1], *shape[3:]])
            first[1], first[2] = first[2], first[1]
        elif kind in ("copy", "unary"):
            first = contiguous([*shape[:-1], 2 * shape[-1]])
        operands = [contiguous(shape), *([other] if kind == "where" else []), first, *([other] if kind in ("add", "mul", "where") else [])]
        yield dict(op="strided", kind=kind, dtype=dtype, shape=shape, strides=operands), make


def concatenation():
    for _ in range(160):
        batch, heads, length, width = draw.choice((1, 2, 4, 8)), draw.choice((4, 8, 12, 16, 32)), draw.choice((128, 256, 512, 1024, 2048)), draw.choice((16, 32, 64, 80, 128))
        dim, parts, dtype, other = draw.choice((1, 2, 3, 3, 3)), draw.choice((2, 2, 2, 3)), draw.choice(("bf16", "bf16", "fp32")), draw.random() < 0.4
        shape = [batch, heads, length, width]
        if not 3e4 < math.prod(shape) * parts < 6e7:
            continue

        def make(shape=shape, dim=dim, parts=parts, dtype=dtype, other=other):
            whole = list(shape)
            whole[3] *= parts
            # As the halves that a rotary embedding swaps, or tensors of their own.
            x = list(tensor(*whole, dtype=dtype).chunk(parts, 3)) if other else [tensor(*shape, dtype=dtype) for _ in range(parts)]
            return lambda: torch.cat(x, dim)
        yield dict(op="cat4", dtype=dtype, shape=shape, dim=dim, parts=parts, halves=other), make


def column_sums():
    for _ in range(220):
        cols, dtype = draw.choice((64, 96, 96, 128, 192, 192, 196, 256, 320, 384, 512, 576, 588, 768, 768, 1024, 1536, 3072)), draw.choice(("bf16", "bf16", "fp32"))
        rows = max(64, int(2 ** draw.uniform(17, 25.5)) // cols)

        def case(state, cols=cols, rows=rows, dtype=dtype):
            def make():
                x, big = tensor(rows, cols, dtype=dtype), buffer()
                other = torch.empty_like(x)

                def runs():
                    if state != "warm":
                        big.sum()
                        if state == "produced":
                            x.copy_(other)
                    x.sum(0)
                return runs
            return dict(op="column_sum", kind="sum0", dtype=dtype, rows=rows, cols=cols, state=state), make
        yield case("warm")
        yield case("produced")
        yield case("read")


def short_rows():
    for _ in range(120):
        cols, dtype, kind = draw.choice((16, 32, 32, 48, 64, 80, 96, 128, 256)), draw.choice(("bf16", "bf16", "fp32")), draw.choice(("norm", "norm", "sum", "mean", "amax"))
        rows = max(64, int(2 ** draw.uniform(16, 25)) // cols)

        def make(kind=kind, cols=cols, rows=rows, dtype=dtype):
            x = tensor(rows, cols, dtype=dtype)
            return {"norm": lambda: torch.linalg.vector_norm(x, dim=-1), "sum": lambda: x.sum(-1), "mean": lambda: x.mean(-1), "amax": lambda: x.amax(-1)}[kind]
        yield dict(op="short_rows", kind=kind + "1", dtype=dtype, rows=rows, cols=cols), make


def pooling_last():
    for _ in range(140):
        kind, n, c, hw = draw.choice(("max2d", "avg2d")), draw.choice((8, 16, 32, 48, 64)), draw.choice((32, 64, 96, 192, 256, 288, 768, 1280)), draw.choice((8, 14, 17, 28, 35, 56, 73, 112))
        (k, stride), dtype = draw.choice(((3, 1), (3, 1), (3, 2), (3, 2), (2, 2), (5, 1))), draw.choice(("bf16", "bf16", "fp32"))
        if not 1e5 < n * c * hw * hw < 6e7:
            continue

        def make(kind=kind, n=n, c=c, hw=hw, k=k, stride=stride, dtype=dtype):
            x = format_of(tensor(n, c, hw, hw, dtype=dtype), True).requires_grad_(True)
            pool = {"max2d": F.max_pool2d, "avg2d": F.avg_pool2d}[kind]
            f = lambda: pool(x, k, stride, (k - 1) // 2)
            g = torch.randn_like(f())
            return lambda: f().backward(g)
        yield dict(op="pool_" + kind, dtype=dtype, batch=n, cin=c, size=[hw, hw], k=k, stride=stride, channels_last=True), make


FAMILIES = (strided, concatenation, column_sums, short_rows, pooling_last)

if __name__ == "__main__":
    arguments = sys.argv[2:] + ["110", "6"][len(sys.argv) - 2:]
    measure_h200.main(sys.argv[1], float(arguments[0]), FAMILIES, int(arguments[1]))
