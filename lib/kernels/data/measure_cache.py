#!/usr/bin/env python3
"""Measures, on a machine with a GPU, what a kernel's operands in the L2 cache save it.

Usage: measure_cache.py OUT.jsonl [SECONDS [WORKERS]]

Lines are like measure_h200.py's. The last kernels of a line, as many as the line of the same shape has whose state
is warm, are those of the operation itself, which runs in one of these states:

    warm       again and again, as in all other sweeps
    read       after 256 MB were read: nothing of the operands is in the cache, and what is there need not be written back
    written    after 256 MB were written
    produced   after 256 MB were read, and then the first operand written: as behind the operation that makes this operand
    gap        after the operation itself and then `gap` bytes were read
"""
import functools
import sys

import torch
import torch.nn.functional as F

import measure_h200
from measure_h200 import draw, pick, tensor

draw.seed(80)
MB = 1 << 20


@functools.cache
def buffer():
    return torch.zeros(256 * MB // 4, device="cuda")


def operation(kind, dtype, rows, cols, inner):
    """The first operand, and what runs."""
    if kind in ("batch_norm", "batch_norm_nhwc", "convolution"):
        # `rows` images' places of 14 x 14 pixels.
        x = tensor(max(1, rows // 196), cols, 14, 14, dtype=dtype)
        x = x if kind == "batch_norm" else x.contiguous(memory_format=torch.channels_last)
        if kind == "convolution":
            w = tensor(cols, cols, 3, 3, dtype=dtype).contiguous(memory_format=torch.channels_last)
            return x, lambda: F.conv2d(x, w, padding=1)
        w, b = tensor(cols, dtype="fp32"), tensor(cols, dtype="fp32")
        mean, var = torch.zeros(cols, device="cuda"), torch.ones(cols, device="cuda")
        return x, lambda: F.batch_norm(x, mean, var, w, b, True)
    x, y, scale = tensor(rows, cols, dtype=dtype), tensor(rows, cols, dtype=dtype), tensor(cols, dtype=dtype)
    if kind in ("mm", "linear", "bmm"):
        w = tensor(cols, inner, dtype=dtype)
        many, filters = x.view(1, rows, cols).expand(4, -1, -1), w.view(1, cols, inner).expand(4, -1, -1)
        return x, {"mm": lambda: torch.mm(x, w), "linear": lambda: torch.mm(w.t(), x.t()), "bmm": lambda: torch.bmm(many, filters)}[kind]
    if kind == "layer_norm_backward":
        _, mean, rstd = torch.native_layer_norm(y, (cols,), scale, scale, 1e-5)
        return x, lambda: torch.ops.aten.native_layer_norm_backward(x, y, (cols,), mean, rstd, scale, scale, [True, True, True])
    return x, {"to_bf16": lambda: x.to(torch.bfloat16), "to_fp32": lambda: x.float(), "add": lambda: x + y, "add_": lambda: x.add_(y), "gelu": lambda: F.gelu(x),
               "sum0": lambda: x.sum(0), "sum1": lambda: x.sum(1), "layer_norm": lambda: F.layer_norm(x, (cols,), scale, scale),
               "softmax": lambda: x.softmax(-1), "transpose": lambda: x.t().contiguous(), "cat": lambda: torch.cat((x, y), 1)}[kind]


KINDS = ("to_bf16", "to_fp32", "add", "add_", "gelu", "sum0", "sum0", "sum1", "layer_norm", "layer_norm_backward", "softmax", "transpose", "cat",
         "mm", "mm", "linear", "bmm", "batch_norm", "batch_norm_nhwc", "convolution")


def in_the_cache():
    for _ in range(600):
        kind, cols, inner = draw.choice(KINDS), draw.choice((64, 256, 512, 768, 1024, 2048, 4096)), draw.choice((64, 256, 1024, 4096))
        rows = max(8, int(2 ** draw.uniform(14.5, 26)) // cols)
        # The products of a framework are of bf16, and what it casts to fp32 is bf16.
        dtype = "fp32" if kind == "to_bf16" else "bf16" if kind in ("to_fp32", "mm", "linear", "bmm", "convolution") else draw.choice(("bf16", "bf16", "fp32"))
        if 2.0 * rows * cols * (inner if kind in ("mm", "linear", "bmm") else 1) > 4e11 or kind == "convolution" and rows * cols**2 > 4e10:
            continue

        def case(state, gap=0, kind=kind, dtype=dtype, rows=rows, cols=cols, inner=inner):
            def make():
                x, run = operation(kind, dtype, rows, cols, inner)
                big = buffer()
                part = big[:max(1, gap // 4)]

                def runs():
                    if state == "gap":
                        run()
                        part.sum()
                    elif state == "written":
                        big.fill_(1.0)
                    elif state != "warm":
                        big.sum()
                        if state == "produced":
                            x.normal_()
                    run()
                return runs
            return dict(op="cache", kind=kind, dtype=dtype, rows=rows, cols=cols, inner=inner, state=state, gap=gap), make
        yield case("warm")
        yield case("read")
        yield case(draw.choice(("written", "produced")))
        yield case("gap", draw.choice((8, 16, 24, 32, 40, 48, 64, 96)) * MB)


if __name__ == "__main__":
    arguments = sys.argv[2:] + ["110", "6"][len(sys.argv) - 2:]
    measure_h200.main(sys.argv[1], float(arguments[0]), (in_the_cache,), int(arguments[1]))
