#!/usr/bin/env python3
"""Measures, on a machine with a GPU, what the sweeps before lack: attention with masks and dropout, batched
products as small as windows, rows that are short and many, transposed operands.

Usage: measure_masks.py OUT.jsonl [SECONDS]

Lines are like measure_h200.py's.
"""
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import measure_h200
from measure_h200 import draw, pick, row_case, tensor

draw.seed(50)


def attention():
    """cuDNN's. A mask is added to the scores, and is each head's; dropout draws numbers for each score."""
    for _ in range(220):
        d, s = draw.choice((32, 64, 64, 64, 80, 96, 128, 144, 192)), draw.choice((128, 160, 197, 256, 384, 512, 768, 1024, 1500, 2048))
        h, b = draw.choice((4, 8, 12, 16, 20)), pick(0, 6)
        kind = draw.choice(("mask", "mask", "dropout", "dropout", "mask_dropout", "causal_dropout", "plain"))
        one = draw.random() < 0.3
        if b * h * s * d > 1e8 or b * h * s * s > 2e9:
            continue

        def make(b=b, h=h, s=s, d=d, kind=kind, one=one):
            q, k, v = (tensor(b, s, h, d).transpose(1, 2).requires_grad_(True) for _ in range(3))
            mask = tensor(1 if one else b, 1, s, (s + 7) // 8 * 8)[..., :s] if "mask" in kind else None
            g = tensor(b, s, h, d).transpose(1, 2)

            def run():
                with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):
                    F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal="causal" in kind,
                                                   dropout_p=0.1 if "dropout" in kind else 0.0).backward(g)
            return run
        yield dict(op="sdpa_fwd_bwd", backend="cudnn", batch=b, heads=h, seq=s, head_dim=d, causal="causal" in kind,
                   masked="mask" in kind, dropout="dropout" in kind), make


def batched():
    """Windows of attention, heads of many images."""
    for _ in range(220):
        m, n, k = (draw.choice((16, 32, 49, 64, 64, 96, 128, 196, 256, 384, 512)) for _ in range(3))
        batch, layout, dtype = pick(4, 14), draw.choice(("NN", "NT", "TN")), draw.choice(("bf16", "bf16", "bf16", "fp16", "fp32"))
        if batch * (m * k + k * n + m * n) > 4e8 or 2.0 * batch * m * n * k > 1e12:
            continue

        def make(m=m, n=n, k=k, batch=batch, layout=layout, dtype=dtype):
            a = tensor(batch, m, k, dtype=dtype) if layout[0] == "N" else tensor(batch, k, m, dtype=dtype).transpose(1, 2)
            b = tensor(batch, k, n, dtype=dtype) if layout[1] == "N" else tensor(batch, n, k, dtype=dtype).transpose(1, 2)
            return lambda: torch.bmm(a, b)
        yield dict(op="bmm", dtype=dtype, layout=layout, batch=batch, m=m, n=n, k=k), make


def short_rows():
    for _ in range(160):
        rows, cols = pick(12, 18.5), draw.choice((24, 32, 48, 64, 96, 128, 192, 256, 320, 384, 512, 768))
        kind, dtype = draw.choice(("layer_norm", "layer_norm", "layer_norm", "rms_norm", "softmax", "log_softmax")), draw.choice(("bf16", "fp32", "fp32"))
        if rows * cols <= 2e8:
            yield row_case(kind, dtype, rows, cols)


def reduction():
    for _ in range(200):
        rows, cols = pick(9, 18), pick(4, 12, 8)
        dtype, kind = draw.choice(("bf16", "fp32")), draw.choice(("sum0", "sum0", "sum0", "sum1", "mean1", "sum"))
        if rows * cols > 4e8:
            continue

        def make(rows=rows, cols=cols, dtype=dtype, kind=kind):
            x = tensor(rows, cols, dtype=dtype)
            return {"sum0": lambda: x.sum(0), "sum1": lambda: x.sum(1), "mean1": lambda: x.mean(-1, keepdim=True),
                    "sum": lambda: x.sum()}[kind]
        yield dict(op="reduce", kind=kind, dtype=dtype, rows=rows, cols=cols), make


def transposed():
    """Operands of which a warp's neighbouring elements are rows apart; the others are read as they lie."""
    for _ in range(120):
        batch, rows, cols = pick(0, 6), pick(5, 12, 32), pick(5, 12, 32)
        dtype, kind = draw.choice(("bf16", "fp32")), draw.choice(("transpose", "transpose", "add_transposed", "cast_transposed"))
        if batch * rows * cols > 2e8:
            continue

        def make(batch=batch, rows=rows, cols=cols, dtype=dtype, kind=kind):
            x, y = tensor(batch, rows, cols, dtype=dtype).transpose(1, 2), tensor(batch, cols, rows, dtype=dtype)
            other = torch.float32 if dtype == "bf16" else torch.bfloat16
            out = torch.empty_like(y, dtype=other)
            return {"transpose": lambda: x.contiguous(), "add_transposed": lambda: torch.add(y, x),
                    "cast_transposed": lambda: out.copy_(x)}[kind]
        yield dict(op="cast", kind=kind, dtype=dtype, rows=batch * rows, cols=cols), make


FAMILIES = (attention, batched, short_rows, reduction, transposed)

if __name__ == "__main__":
    measure_h200.main(sys.argv[1], *map(float, sys.argv[2:]), families=FAMILIES)
