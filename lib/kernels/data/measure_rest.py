#!/usr/bin/env python3
"""Measures, on a machine with a GPU, kernels that earlier sweeps hold few of or none: pooling, resizing, sums by
index, grouped and depthwise convolutions of models, unaligned products, and kernels whose operands left the cache.

Usage: measure_rest.py OUT.jsonl [SECONDS [WORKERS]]

Lines are like measure_h200.py's. A half of the cases judges and is never fitted: those whose digest is odd
(make_table.py's is_judge(), which is older than this file). `cold` cases follow a fill of 256 MB, their first kernel.
"""
import functools
import sys

import torch
import torch.nn.functional as F

import measure_h200
import measure_libraries
from measure_architectures import a_convolution, format_of
from measure_h200 import draw, pick, tensor

draw.seed(70)


def pooling():
    for _ in range(200):
        kind = draw.choice(("max2d", "max2d", "max3d", "max3d", "avg2d", "avg3d", "adaptive2d"))
        dims = 3 if kind.endswith("3d") else 2
        n, c, last, dtype = pick(0, 7), draw.choice((16, 24, 32, 48, 64, 96, 128, 192, 256, 512)), draw.random() < 0.35, draw.choice(("bf16", "bf16", "fp32"))
        hw = draw.choice((14, 28, 32, 35, 56, 64, 112, 113) if dims == 2 else (14, 16, 28, 32, 56))
        size = [draw.choice((4, 8, 16, 32)), hw, hw] if dims == 3 else [hw, hw]
        k, stride = draw.choice(((2, 2), (2, 2), (3, 2), (3, 1), (3, 2), (5, 1)))
        elements = n * c * hw * hw * (size[0] if dims == 3 else 1)
        if not 2e4 < elements < 1e8:
            continue

        def make(kind=kind, n=n, c=c, size=size, k=k, stride=stride, last=last, dtype=dtype):
            x = format_of(tensor(n, c, *size, dtype=dtype), last).requires_grad_(True)
            f = {"max2d": lambda: F.max_pool2d(x, k, stride, (k - 1) // 2), "max3d": lambda: F.max_pool3d(x, k, stride, (k - 1) // 2),
                 "avg2d": lambda: F.avg_pool2d(x, k, stride, (k - 1) // 2), "avg3d": lambda: F.avg_pool3d(x, k, stride, (k - 1) // 2),
                 "adaptive2d": lambda: F.adaptive_avg_pool2d(x, k)}[kind]
            g = torch.randn_like(f())
            return lambda: f().backward(g)
        yield dict(op="pool_" + kind, dtype=dtype, batch=n, cin=c, size=size, k=k, stride=stride, channels_last=last), make


def resizing():
    for _ in range(200):
        mode = draw.choice(("bilinear", "bilinear", "bilinear", "nearest", "nearest", "nearest3d", "trilinear", "bicubic"))
        dims = 3 if mode in ("nearest3d", "trilinear") else 2
        n, c, last, dtype = pick(0, 5), draw.choice((3, 16, 21, 32, 64, 128, 256, 512)), draw.random() < 0.35, draw.choice(("bf16", "bf16", "fp32"))
        hw = draw.choice((7, 8, 14, 16, 28, 32, 33, 56, 64, 128) if dims == 2 else (8, 14, 16, 28))
        scale = draw.choice((2, 2, 2, 4, 8, 0.5, 1.75))
        size = [draw.choice((4, 8, 16)), hw, hw] if dims == 3 else [hw, hw]
        out = [max(1, int(length * scale)) for length in size]
        larger = n * c * max(torch.tensor(size).prod().item(), torch.tensor(out).prod().item())
        if not 2e4 < larger < 5e7:
            continue

        def make(mode=mode, n=n, c=c, size=size, out=out, last=last, dtype=dtype):
            x = format_of(tensor(n, c, *size, dtype=dtype), last).requires_grad_(True)
            f = lambda: F.interpolate(x, size=out, mode=mode.removesuffix("3d"))
            g = torch.randn_like(f())
            return lambda: f().backward(g)
        yield dict(op="resize_" + mode, dtype=dtype, batch=n, cin=c, size=size, out=out, channels_last=last), make


def by_index():
    for _ in range(220):
        kind = draw.choice(("index_add", "index_add", "index_add", "index_select", "index", "index_put", "scatter_add", "gather", "embedding"))
        table, cols, dtype = pick(5, 17), draw.choice((8, 16, 32, 64, 128, 256, 512, 768, 1024, 2048, 4096)), draw.choice(("bf16", "fp32", "fp32"))
        count, ordered = pick(5, 17), draw.random() < 0.3
        if max(table, count) * cols > 1e8:
            continue

        def make(kind=kind, table=table, cols=cols, count=count, dtype=dtype, ordered=ordered):
            x, v = tensor(table, cols, dtype=dtype), tensor(count, cols, dtype=dtype)
            some = torch.randint(0, table, (count,), device="cuda")
            some = some.sort().values if ordered else some
            wide = some[:, None].expand(-1, cols)
            if kind == "embedding":
                w = x.requires_grad_(True)
                return lambda: F.embedding(some, w).backward(v)
            return {"index_add": lambda: x.index_add_(0, some, v), "index_select": lambda: x.index_select(0, some), "index": lambda: x[some],
                    "index_put": lambda: x.index_put_((some,), v, accumulate=True), "scatter_add": lambda: x.scatter_add_(0, wide, v),
                    "gather": lambda: x.gather(0, wide)}[kind]
        yield dict(op="by_" + kind, dtype=dtype, table=table, dim=cols, count=count, ordered=ordered), make


def grouped_convolution():
    """Of ResNeXts, RegNets, ShuffleNets and speech: widths of groups from 4 to 112."""
    for _ in range(120):
        n, hw = draw.choice((8, 16, 32, 32, 64, 64, 96, 128)), draw.choice((7, 14, 14, 28, 28, 56))
        width, groups = draw.choice((4, 8, 16, 16, 24, 24, 32, 40, 48, 56, 58, 64, 112)), draw.choice((2, 3, 4, 6, 8, 16, 32, 32))
        r, stride = draw.choice((3, 3, 3, 3, 1)), draw.choice((1, 1, 1, 2))
        c = width * groups
        if n * c * hw * hw > 1.5e8 or c > 2600:
            continue
        yield from a_convolution(n, c, c, (hw, hw), r, stride, groups=groups, dtype=draw.choice(("bf16", "bf16", "bf16", "fp16", "tf32", "fp32")), last=draw.random() < 0.35)


def depthwise_convolution():
    for _ in range(120):
        n, hw = draw.choice((8, 16, 32, 64, 64, 96, 128)), draw.choice((7, 14, 14, 28, 28, 56, 112))
        c = draw.choice((16, 24, 32, 64, 72, 88, 96, 116, 120, 144, 184, 192, 232, 240, 384, 464, 480, 576, 672, 768, 960, 1152))
        r, stride = draw.choice((3, 3, 3, 5, 5, 7)), draw.choice((1, 1, 1, 2))
        if n * c * hw * hw > 1.5e8:
            continue
        yield from a_convolution(n, c, c, (hw, hw), r, stride, groups=c, dtype=draw.choice(("bf16", "bf16", "bf16", "fp16", "tf32", "fp32")), last=draw.random() < 0.4)


def strided_convolution():
    """Down- and upsampling, filters that do not overlap, few channels."""
    for _ in range(130):
        n, c, k = draw.choice((1, 4, 8, 16, 32, 64)), draw.choice((3, 3, 4, 32, 64, 128, 256, 320, 512)), draw.choice((32, 64, 96, 128, 192, 256, 320, 512, 640, 768, 1024))
        (r, stride), hw = draw.choice(((3, 2), (3, 2), (2, 2), (1, 2), (7, 2), (4, 4), (4, 2), (16, 16))), draw.choice((14, 16, 28, 32, 56, 64, 112, 224))
        if r > 4 and c > 4 or stride > hw or n * max(c, k / stride**2) * hw * hw > 1.5e8 or 2.0 * n * hw * hw / stride**2 * c * k * r * r > 1e12:
            continue
        yield from a_convolution(n, c, k, (hw, hw), r, stride, (r - 1) // 2 if r < 16 and r != stride else 0, dtype=draw.choice(("bf16", "bf16", "bf16", "tf32")), last=draw.random() < 0.35)


def odd_product():
    """Rows that no 16 bytes divide: vocabularies, classes, odd widths and lengths."""
    for _ in range(420):
        dtype, layout = draw.choice(("bf16", "bf16", "bf16", "fp16", "tf32", "fp32")), draw.choice(("NN", "NT", "NT", "TN"))
        side = lambda: draw.choice(measure_libraries.WIDTHS) if draw.random() < 0.6 else pick(5, 13.5, 8)
        odd = lambda: draw.choice((10, 21, 91, 100, 257, 577, 1000 + draw.choice((1, 2, 4)), 2049, 30522, 32003, 50257, 50265)) if draw.random() < 0.4 else pick(5, 13.5, 8) - draw.choice((1, 2, 4))
        m, n, k = draw.sample((side(), side(), odd()), 3)
        flop = 2.0 * m * n * k
        if not 1e7 < flop < (2e10 if dtype == "fp32" else 4e11):
            continue

        def make(m=m, n=n, k=k, layout=layout, dtype=dtype):
            a, b = measure_libraries.operands(0, m, n, k, layout, dtype)
            return measure_libraries.multiplied(dtype, lambda: torch.mm(a, b))
        yield dict(op="mm", dtype=dtype, layout=layout, m=m, n=n, k=k), make


@functools.cache
def filled():
    return torch.zeros(64 << 20, device="cuda")


def cold():
    """Each with its operands in the cache, and after a fill that leaves nothing of them there."""
    for _ in range(200):
        kind = draw.choice(("to_bf16", "to_fp32", "add", "gelu", "sum0", "sum1", "layer_norm", "softmax", "mm", "mm", "linear", "bmm"))
        rows, cols = pick(6, 14), draw.choice((64, 256, 512, 768, 1024, 1536, 2048, 3072, 4096))
        dtype = "fp32" if kind == "to_bf16" else draw.choice(("bf16", "bf16", "fp32"))
        if kind in ("mm", "linear", "bmm"):
            dtype = "bf16"
        inner = draw.choice((64, 256, 512, 768, 1024, 2048, 4096))
        if not 2e4 < rows * cols < 1.6e7:
            continue

        def case(flushed, kind=kind, rows=rows, cols=cols, dtype=dtype, inner=inner):
            def make():
                x, y = tensor(rows, cols, dtype=dtype), tensor(rows, cols, dtype=dtype)
                w, big = tensor(cols, inner, dtype="bf16"), filled() if flushed else None
                scale = tensor(cols, dtype=dtype)
                run = {"to_bf16": lambda: x.to(torch.bfloat16), "to_fp32": lambda: x.float() if dtype == "bf16" else x.double(), "add": lambda: x + y,
                       "gelu": lambda: F.gelu(x), "sum0": lambda: x.sum(0), "sum1": lambda: x.sum(1), "layer_norm": lambda: F.layer_norm(x, (cols,), scale, scale),
                       "softmax": lambda: x.softmax(-1), "mm": lambda: torch.mm(x, w), "linear": lambda: torch.mm(w.t(), x.t()),
                       "bmm": lambda: torch.bmm(x.view(1, rows, cols).expand(4, -1, -1), w.view(1, cols, inner).expand(4, -1, -1))}[kind]
                if not flushed:
                    return run

                def runs():
                    big.fill_(1.0)
                    run()
                return runs
            return dict(op="cold", kind=kind, dtype=dtype, rows=rows, cols=cols, inner=inner, flushed=flushed), make
        yield case(False)
        yield case(True)


FAMILIES = (pooling, resizing, by_index, grouped_convolution, depthwise_convolution, strided_convolution, odd_product, cold)

if __name__ == "__main__":
    arguments = sys.argv[2:] + ["110", "6"][len(sys.argv) - 2:]
    measure_h200.main(sys.argv[1], float(arguments[0]), FAMILIES, int(arguments[1]))
