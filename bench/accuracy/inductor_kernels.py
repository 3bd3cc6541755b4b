#!/usr/bin/env python3
"""Kernels that torch.compile writes for pieces of models: norms, activations, losses, rotations, casts to fp8, attention by
FlexAttention.

    inductor_kernels.py [--part fitted|judges] [--share K/N]      # prints a line of JSON for each: what it is, us of the GPU

The same on a GPU and in a simulation (README.md, "Kernels that Inductor writes"). A name tells piece, type and sizes. A half
of the cases judges: those whose digest is odd, which nobody looks at while rules are made.
"""
import argparse

import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from graph_times import tell
from kernel_errors import judges

TYPES = dict(bf16=torch.bfloat16, fp32=torch.float32)
E4M3 = 448.0


def rms(x, weight):
    return F.rms_norm(x, x.shape[-1:], weight)


def to_eight(x):
    """One scale for all, as torchao's tensorwise recipe."""
    scale = E4M3 / x.abs().max().float().clamp(min=1e-12)
    return (x.float() * scale).clamp(-E4M3, E4M3).to(torch.float8_e4m3fn), scale


def to_eight_by_row(x):
    scale = E4M3 / x.abs().amax(-1, keepdim=True).float().clamp(min=1e-12)
    return (x.float() * scale).clamp(-E4M3, E4M3).to(torch.float8_e4m3fn), scale


def rotated(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


# Of a matrix of tokens, with a vector as wide and another such matrix.
FORWARD = dict(
    amax=lambda x, w, y: x.abs().max(), to_eight=lambda x, w, y: to_eight(x), to_eight_transposed=lambda x, w, y: to_eight(x.t().contiguous()), to_eight_by_row=lambda x, w, y: to_eight_by_row(x),
    rms=lambda x, w, y: rms(x, w), rms_residual=lambda x, w, y: rms(x + y, w), layer=lambda x, w, y: F.layer_norm(x, x.shape[-1:], w, w), rms_to_eight=lambda x, w, y: to_eight(rms(x, w)),
    swiglu=lambda x, w, y: F.silu(x) * y, swiglu_to_eight=lambda x, w, y: to_eight(F.silu(x) * y), gelu_bias=lambda x, w, y: F.gelu(x + w), softmax=lambda x, w, y: x.softmax(-1), logsumexp=lambda x, w, y: x.float().logsumexp(-1),
    sum_tokens=lambda x, w, y: (x * y).sum(0), sum_all=lambda x, w, y: (x.float() * y.float()).sum(), transposed=lambda x, w, y: (x * w).t().contiguous(), dropout=lambda x, w, y: F.dropout(x, 0.1) + y,
    argmax=lambda x, w, y: x.argmax(-1), cumsum=lambda x, w, y: x.float().cumsum(-1), var=lambda x, w, y: torch.var_mean(x, -1))
BOTH_WAYS = dict(
    rms=lambda x, w, y: rms(x, w), layer=lambda x, w, y: F.layer_norm(x, x.shape[-1:], w, w), rms_residual=lambda x, w, y: rms(x + y, w), swiglu=lambda x, w, y: F.silu(x) * y, gelu_bias=lambda x, w, y: F.gelu(x + w),
    softmax=lambda x, w, y: x.softmax(-1), softcap=lambda x, w, y: 30 * torch.tanh(x / 30), gated=lambda x, w, y: x * torch.sigmoid(y) * w)
SIZES = [(512, 2048), (4096, 1024), (8192, 4096), (16384, 8192), (2048, 14336), (100000, 256)]


def cases():
    """Name and a function that makes the call."""
    for piece in FORWARD:
        for rows, cols in SIZES:
            for dtype in TYPES:
                def make(piece=piece, rows=rows, cols=cols, dtype=dtype):
                    x, y = (torch.randn(rows, cols, device="cuda").to(TYPES[dtype]) for _ in range(2))
                    w = torch.ones(cols, device="cuda", dtype=TYPES[dtype])
                    compiled = torch.compile(FORWARD[piece], dynamic=False)
                    return lambda: compiled(x, w, y)
                yield f"{piece} {dtype} {rows} x {cols}", make
    for piece in BOTH_WAYS:
        for rows, cols in SIZES:
            def make(piece=piece, rows=rows, cols=cols):
                x, y = (torch.randn(rows, cols, device="cuda").bfloat16().requires_grad_(True) for _ in range(2))
                w = torch.ones(cols, device="cuda", dtype=torch.bfloat16, requires_grad=True)
                compiled, gradient = torch.compile(BOTH_WAYS[piece], dynamic=False), torch.ones_like(x)
                return lambda: torch.autograd.grad(compiled(x, w, y), [t for t in (x, w, y)], gradient, allow_unused=True)
            yield f"{piece} both ways {rows} x {cols}", make
    for tokens, words in ((2048, 32000), (8192, 128256), (4096, 50304)):
        def make(tokens=tokens, words=words):
            x, target = torch.randn(tokens, words, device="cuda").bfloat16().requires_grad_(True), torch.randint(0, words, (tokens,), device="cuda")
            compiled = torch.compile(lambda x: F.cross_entropy(x.float(), target), dynamic=False)
            return lambda: torch.autograd.grad(compiled(x), x)
        yield f"cross entropy both ways {tokens} x {words}", make
    for batch, length, heads, d in ((1, 4096, 16, 128), (4, 2048, 32, 64), (1, 8192, 32, 128)):
        def make(batch=batch, length=length, heads=heads, d=d):
            x = torch.randn(batch, length, heads, d, device="cuda").bfloat16()
            cos, sin = (torch.randn(length, 1, d, device="cuda").bfloat16() for _ in range(2))
            compiled = torch.compile(rotated, dynamic=False)
            return lambda: compiled(x, cos, sin)
        yield f"rotated {batch} x {length} x {heads} x {d}", make
    # Heads of two sizes are DeepSeek's.
    for batch, length, heads, key_heads, d, d_v in ((1, 4096, 16, 16, 128, 128), (1, 4096, 16, 16, 192, 128), (2, 2048, 32, 8, 128, 128), (4, 1024, 16, 16, 64, 64), (1, 8192, 32, 32, 64, 64), (1, 16384, 8, 8, 128, 128)):
        for mask in ("causal", "window", "full"):
            for ways in ("forward", "both ways"):
                def make(batch=batch, length=length, heads=heads, key_heads=key_heads, d=d, d_v=d_v, mask=mask, ways=ways):
                    q, k, v = (torch.randn(batch, h, length, depth, device="cuda").bfloat16().requires_grad_(ways != "forward") for h, depth in ((heads, d), (key_heads, d), (key_heads, d_v)))
                    seen = {"causal": lambda b, h, i, j: i >= j, "window": lambda b, h, i, j: (i >= j) & (i - j < 1024)}.get(mask)
                    blocks = create_block_mask(seen, None, None, length, length, device="cuda") if seen else None
                    attend = torch.compile(flex_attention, dynamic=False)
                    if ways == "forward":
                        return lambda: attend(q, k, v, block_mask=blocks, enable_gqa=heads != key_heads)
                    gradient = torch.ones(batch, heads, length, d_v, device="cuda", dtype=torch.bfloat16)
                    return lambda: torch.autograd.grad(attend(q, k, v, block_mask=blocks, enable_gqa=heads != key_heads), (q, k, v), gradient)
                yield f"attention {ways} {mask} {batch} x {length} x {heads} of {d}" + f", {d_v}" * (d != d_v) + f", {key_heads} of keys" * (heads != key_heads), make


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("fitted", "judges"))
    parser.add_argument("--share", default="0/1", help="K/N: every N-th case from the K-th; N processes compile what one that comes after finds compiled")
    options = parser.parse_args()
    first, of = map(int, options.share.split("/"))
    torch.manual_seed(0)
    for name, make in list(cases())[first::of]:
        if options.part and judges(name) != (options.part == "judges"):
            continue
        torch._dynamo.reset()
        try:
            call = make()
        except Exception as error:  # the others are still of interest
            print(f"{name}: {error}", flush=True)
            continue
        tell(name, call)


if __name__ == "__main__":
    main()
