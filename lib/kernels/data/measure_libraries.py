#!/usr/bin/env python3
"""Measures, on a machine with a GPU, what the libraries choose among kernels for, densely: products, convolutions,
attention, recurrent networks; and what measure_masks.py had no time for.

Usage: measure_libraries.py OUT.jsonl [SECONDS [WORKERS]]

Lines are like measure_h200.py's. A half of the cases judges and is never fitted: those whose digest is odd
(make_table.py's is_judge(), which was written before anything was measured). Most time goes to the libraries'
choosing and compiling on the host, so that several processes do that beside one another, while one measures alone.
"""
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import measure_architectures
import measure_h200
import measure_masks
from measure_architectures import a_convolution
from measure_h200 import draw, pick, tensor

draw.seed(60)
TYPES = ("bf16", "bf16", "bf16", "bf16", "fp16", "tf32", "fp32")
# Widths and lengths as models have them, beside any others.
WIDTHS = (64, 96, 128, 192, 256, 320, 384, 512, 640, 768, 896, 1024, 1152, 1280, 1536, 1600, 1792, 2048, 2304, 2560, 2816, 3072, 3584, 4096, 4864,
          5120, 5632, 6144, 6400, 8192, 8960, 10240, 11008, 14336)


def multiplied(dtype, run):
    """`run`, with what its type says of TF32."""
    def runs():
        torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
        return run()
    return runs


def operands(batch, m, n, k, layout, dtype):
    shape = [batch] if batch else []
    a = tensor(*shape, *((m, k) if layout[0] == "N" else (k, m)), dtype=dtype)
    b = tensor(*shape, *((k, n) if layout[1] == "N" else (n, k)), dtype=dtype)
    return a if layout[0] == "N" else a.mT, b if layout[1] == "N" else b.mT


def product():
    for _ in range(3600):
        dtype, layout = draw.choice(TYPES), draw.choice(("NN", "NT", "NT", "TN", "TN", "TT"))
        flop = 10 ** draw.uniform(8.0, 11.3 if draw.random() < 0.8 else 12.3) / (8 if dtype == "fp32" else 1)
        side = lambda: draw.choice(WIDTHS) if draw.random() < 0.6 else pick(5, 14.5, 8)
        m, n = side(), side()
        k = flop / (2.0 * m * n)
        if not 16 <= k <= 70000:
            continue
        k = min(WIDTHS, key=lambda width: abs(width / k - 1)) if draw.random() < 0.6 else max(16, int(k) // 8 * 8)
        m, n, k = draw.sample((m, n, k), 3)
        if draw.random() < 0.12:
            odd = draw.choice("mnk")
            step = draw.choice((1, 2, 4))
            m, n, k = (v - step if name == odd else v for v, name in ((m, "m"), (n, "n"), (k, "k")))
        biased = layout == "NT" and draw.random() < 0.4

        def make(m=m, n=n, k=k, layout=layout, dtype=dtype, biased=biased):
            a, b = operands(0, m, n, k, layout, dtype)
            bias = tensor(n, dtype=dtype) if biased else None
            return multiplied(dtype, (lambda: F.linear(a, b.mT, bias)) if biased else lambda: torch.mm(a, b))
        yield dict(op="linear_bias" if biased else "mm", dtype=dtype, layout=layout, m=m, n=n, k=k), make


def batched_product():
    for _ in range(450):
        m, n, k = (draw.choice((16, 32, 49, 64, 64, 80, 96, 128, 128, 196, 197, 256, 384, 512, 1024, 2048)) for _ in range(3))
        batch, layout, dtype = pick(1, 12), draw.choice(("NN", "NT", "TN")), draw.choice(TYPES)
        if batch * (m * k + k * n + m * n) > 3e8 or not 5e7 < 2.0 * batch * m * n * k < 5e11:
            continue

        def make(batch=batch, m=m, n=n, k=k, layout=layout, dtype=dtype):
            a, b = operands(batch, m, n, k, layout, dtype)
            return multiplied(dtype, lambda: torch.bmm(a, b))
        yield dict(op="bmm", dtype=dtype, layout=layout, batch=batch, m=m, n=n, k=k), make


def network_convolution():
    widths = (16, 24, 32, 40, 48, 64, 64, 80, 96, 112, 128, 128, 160, 192, 224, 256, 256, 320, 384, 448, 512, 512, 640, 768, 1024, 1024, 1280, 2048)
    for _ in range(900):
        n, c, k = draw.choice((1, 2, 4, 8, 16, 24, 32, 48, 64, 64, 80, 96, 128, 128, 256)), draw.choice(widths), draw.choice(widths)
        if draw.random() < 0.4:
            k = c * draw.choice((1, 1, 2, 4))
        hw, r, stride = draw.choice((7, 7, 8, 14, 14, 16, 28, 28, 32, 56, 56, 64, 112, 128)), draw.choice((1, 1, 1, 3, 3, 3, 5)), draw.choice((1, 1, 1, 2))
        if n * hw * hw * max(c, k) > 2e8 or not 2e7 < 2.0 * n * hw * hw * c * k * r * r / stride**2 < 8e11:
            continue
        yield from a_convolution(n, c, k, (hw, hw), r, stride, dtype=draw.choice(("bf16", "bf16", "bf16", "bf16", "fp16", "tf32", "fp32")), last=draw.random() < 0.35)


def stem_convolution():
    for _ in range(80):
        n, k, hw = pick(0, 8), draw.choice((16, 24, 32, 48, 64, 64, 96, 128, 768, 1024)), draw.choice((32, 64, 128, 224, 224, 256))
        r, stride = draw.choice(((3, 1), (3, 2), (7, 2), (4, 4), (16, 16), (11, 4), (14, 14), (32, 32)))
        if n * max(3, k / stride**2) * hw * hw > 2e8:
            continue
        yield from a_convolution(n, 3, k, (hw, hw), r, stride, 0 if r == stride else None, dtype=draw.choice(("bf16", "bf16", "tf32")), last=draw.random() < 0.35)


def grouped_convolution():
    for _ in range(130):
        n, hw, width = draw.choice((8, 16, 32, 64, 96, 128)), draw.choice((7, 14, 28, 56)), draw.choice((4, 8, 16, 24, 32, 40, 48, 56, 64, 112))
        groups, r, stride = draw.choice((2, 4, 8, 16, 32, 58)), draw.choice((3, 3, 3, 3, 1, 5)), draw.choice((1, 1, 2))
        c = width * groups
        if n * c * hw * hw > 2e8 or c > 3000:
            continue
        yield from a_convolution(n, c, c, (hw, hw), r, stride, groups=groups, dtype=draw.choice(("bf16", "bf16", "bf16", "tf32", "fp32")), last=draw.random() < 0.4)


def depthwise_convolution():
    for _ in range(160):
        n, hw = draw.choice((8, 16, 32, 64, 96, 128)), draw.choice((7, 14, 14, 28, 28, 56, 112))
        c = draw.choice((16, 32, 48, 64, 72, 96, 116, 120, 144, 192, 232, 240, 288, 384, 464, 480, 576, 672, 768, 960, 1152, 1536))
        r, stride = draw.choice((3, 3, 3, 5, 5, 7)), draw.choice((1, 1, 2))
        if n * c * hw * hw > 2e8:
            continue
        yield from a_convolution(n, c, c, (hw, hw), r, stride, groups=c, dtype=draw.choice(("bf16", "bf16", "bf16", "fp16", "tf32", "fp32")), last=draw.random() < 0.4)


def attention():
    """cuDNN's and FlashAttention's: heads, lengths, fewer key heads, other lengths of keys."""
    for _ in range(650):
        d, s = draw.choice((32, 48, 64, 64, 64, 80, 96, 128, 128, 192, 256)), pick(6, 13)
        if draw.random() < 0.6:
            s = max(64, s // 64 * 64)
        h, b, group = draw.choice((4, 6, 8, 12, 12, 16, 16, 20, 25, 32, 40)), pick(0, 6.5), draw.choice((1, 1, 1, 2, 4, 8))
        kv = h // group if h % group == 0 else h
        causal, backend = draw.random() < 0.5, draw.choice(("CUDNN", "CUDNN", "CUDNN", "FLASH"))
        keys = draw.choice((77, 128, 256, 512, 1500, 2 * s)) if not causal and draw.random() < 0.15 else s
        dtype = draw.choice(("bf16", "bf16", "bf16", "fp16"))
        if b * h * max(s, keys) * d > 1.2e8 or b * h * s * keys > 4e9:
            continue

        def make(b=b, h=h, kv=kv, s=s, keys=keys, d=d, causal=causal, backend=backend, dtype=dtype):
            q, k, v = (tensor(b, length, heads, d, dtype=dtype).transpose(1, 2).requires_grad_(True) for length, heads in ((s, h), (keys, kv), (keys, kv)))
            g = tensor(b, s, h, d, dtype=dtype).transpose(1, 2)
            kind = getattr(SDPBackend, backend + "_ATTENTION")

            def run():
                with sdpa_kernel(kind):
                    F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=h != kv).backward(g)
            return run
        yield dict(op="sdpa_fwd_bwd", backend=backend.lower(), dtype=dtype, batch=b, heads=h, kv_heads=kv, seq=s, keys=keys, head_dim=d,
                   causal=causal), make


def column_sums():
    """Gradients of biases, in the layouts of models: the sums over all but the last dimension."""
    for _ in range(220):
        rows, cols = pick(6, 17), draw.choice((draw.choice(WIDTHS), pick(3, 12, 4)))
        dtype, kind = draw.choice(("bf16", "bf16", "fp32")), draw.choice(("sum0", "sum0", "sum0", "sum1", "mean1"))
        if rows * cols > 3e8:
            continue

        def make(rows=rows, cols=cols, dtype=dtype, kind=kind):
            x = tensor(rows, cols, dtype=dtype)
            return {"sum0": lambda: x.sum(0), "sum1": lambda: x.sum(1), "mean1": lambda: x.mean(-1, keepdim=True)}[kind]
        yield dict(op="reduce", kind=kind, dtype=dtype, rows=rows, cols=cols), make


FAMILIES = (product, batched_product, network_convolution, stem_convolution, grouped_convolution, depthwise_convolution, attention,
            column_sums, measure_h200.batch_norm, measure_architectures.recurrent, measure_masks.attention, measure_masks.short_rows, measure_masks.transposed)

if __name__ == "__main__":
    arguments = sys.argv[2:] + ["240", "1"][len(sys.argv) - 2:]
    measure_h200.main(sys.argv[1], float(arguments[0]), FAMILIES, int(arguments[1]))
