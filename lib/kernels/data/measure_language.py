#!/usr/bin/env python3
"""Runs, on a machine with a GPU, what PyTorch does beside products and attention when it trains large language models:
`phantora measure` times its kernels under the keys that the interception has for them.

Usage: phantora measure --kernels FITTED.db -- python3 measure_language.py fitted
       phantora measure --kernels JUDGES.db -- python3 measure_language.py judges
       phantora kernels export FITTED.db FITTED.csv

A third of the cases judges and is never fitted, as in measure_sorting.py.
"""
import sys

import torch
import torch.nn.functional as F

import measure_sorting
from measure_h200 import draw, pick
from measure_operations import classes, floats, there_and_back
from measure_sorting import TYPES

KINDS = ("bf16", "bf16", "fp32")
WIDTHS = (512, 768, 1024, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192)
MOST = 1 << 28  # elements of a tensor


def experts():
    """Tokens that go to their experts and come back, and how a router chooses."""
    rows = ("put_rows", "put_rows", "put_rows_added", "take_rows", "take_rows", "select_rows", "gather_rows", "scatter_add_rows", "index_add_rows", "weighted", "combined")
    for kind in rows * 18:
        dtype, width, tokens, chosen = draw.choice(KINDS), draw.choice(WIDTHS), pick(9, 16.5), draw.choice((1, 2, 4, 6, 8))
        if tokens * chosen * width > MOST:
            continue

        def make(kind=kind, dtype=dtype, width=width, tokens=tokens, chosen=chosen):
            n = tokens * chosen
            x, v = floats(dtype, tokens, width, grad=False), floats(dtype, n, width, grad=False)
            order, token = torch.randperm(n, device="cuda"), torch.randperm(n, device="cuda") // chosen
            score = torch.rand(n, 1, device="cuda")
            out, grown = torch.empty_like(v), x.clone().requires_grad_(True)

            def put():
                out[order] = v
            return {"put_rows": put, "put_rows_added": lambda: x.index_put_((token,), v, accumulate=True), "take_rows": lambda: v[order], "select_rows": lambda: x.index_select(0, token),
                    "gather_rows": lambda: x.gather(0, token[:, None].expand(-1, width)), "scatter_add_rows": lambda: x.scatter_add_(0, token[:, None].expand(-1, width), v),
                    "index_add_rows": lambda: x.index_add_(0, token, v), "weighted": lambda: (v.float() * score).to(v.dtype), "combined": there_and_back(lambda: grown[token])}[kind]
        yield dict(op="experts_" + kind, dtype=dtype, width=width, tokens=tokens, chosen=chosen), make
    choice = ("softmax", "sigmoid", "top", "counted", "sorted", "one_hot", "balance", "gathered", "scattered", "capacity")
    for kind in choice * 6:
        dtype, tokens, number, chosen = draw.choice(KINDS), pick(9, 17), draw.choice((8, 16, 32, 60, 64, 128, 160, 256)), draw.choice((1, 2, 4, 6, 8))

        def make(kind=kind, dtype=dtype, tokens=tokens, number=number, chosen=chosen):
            x = floats(dtype, tokens, number)
            at = torch.rand(tokens, number, device="cuda").topk(chosen).indices
            return {"softmax": there_and_back(lambda: x.softmax(-1, dtype=torch.float32)), "sigmoid": there_and_back(lambda: x.float().sigmoid()), "top": lambda: x.topk(chosen),
                    "counted": lambda: at.flatten().float().histc(number, 0, number), "sorted": lambda: at.flatten().argsort(stable=True),
                    "one_hot": lambda: F.one_hot(at, number).sum(1), "balance": there_and_back(lambda: x.float().softmax(-1).mean(0)), "gathered": there_and_back(lambda: x.gather(1, at)),
                    "scattered": lambda: torch.zeros_like(x).scatter(1, at, 1.0), "capacity": lambda: F.one_hot(at[:, 0], number).cumsum(0)}[kind]
        yield dict(op="router_" + kind, dtype=dtype, tokens=tokens, number=number, chosen=chosen), make


def norms():
    """Of tokens and of heads, with weights and without."""
    for kind in ("rms", "rms", "layer", "rms_plain", "rms_by_hand", "heads") * 28:
        dtype, rows, cols = draw.choice(KINDS), pick(9, 17), draw.choice((*WIDTHS, 64, 128, 192, 256, 12288, 16384))
        if kind == "heads":
            rows, cols = pick(13, 21), draw.choice((64, 96, 128, 192, 256))
        if rows * cols > MOST:
            continue

        def make(kind=kind, dtype=dtype, rows=rows, cols=cols):
            x, weight, bias = floats(dtype, rows, cols), floats(dtype, cols), floats(dtype, cols)
            return there_and_back({"layer": lambda: F.layer_norm(x, (cols,), weight, bias), "rms_plain": lambda: F.rms_norm(x, (cols,)),
                                   "rms_by_hand": lambda: weight * (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)}.get(
                                       kind, lambda: F.rms_norm(x, (cols,), weight)))
        yield dict(op="norm_" + kind, dtype=dtype, rows=rows, cols=cols), make


def heads():
    """Queries, keys and values between their layouts, their places' rotation, and pieces that are put together."""
    kinds = ("rotated_complex", "rotated_halves", "rotated_pairs", "to_heads", "from_heads", "repeated", "joined_strided", "joined_expanded", "joined_heads", "split", "padded", "stacked", "transposed")
    for kind in kinds * 18:
        dtype, batch, length, number, d = draw.choice(KINDS), pick(0, 4), draw.choice((512, 1024, 2048, 4096, 8192)), draw.choice((8, 12, 16, 20, 32, 40)), draw.choice((64, 80, 96, 128))
        if batch * length * number * d * 2 > MOST:
            continue

        def make(kind=kind, dtype=dtype, batch=batch, length=length, number=number, d=d):
            x = floats(dtype, batch, length, number, d)
            angles = torch.rand(length, d // 2, device="cuda")
            turn = torch.polar(torch.ones_like(angles), angles)[:, None]
            cos, sin = (torch.cat((f(angles),) * 2, -1)[:, None].to(TYPES[dtype]) for f in (torch.cos, torch.sin))
            wide, shared = floats(dtype, batch, length, number, d + 64), floats(dtype, batch, length, 1, 64)

            def halves():
                return x * cos + torch.cat((-x[..., d // 2:], x[..., :d // 2]), -1) * sin

            def pairs():
                a, b = x.float()[..., ::2], x.float()[..., 1::2]
                return torch.stack((a * cos[..., :d // 2] - b * sin[..., :d // 2], a * sin[..., :d // 2] + b * cos[..., :d // 2]), -1).flatten(-2).to(x.dtype)
            return there_and_back({
                "rotated_complex": lambda: torch.view_as_real(torch.view_as_complex(x.float().view(batch, length, number, d // 2, 2)) * turn).flatten(3).to(x.dtype),
                "rotated_halves": halves, "rotated_pairs": pairs, "to_heads": lambda: x.transpose(1, 2).contiguous(), "from_heads": lambda: x.view(batch, number, length, d).transpose(1, 2).reshape(batch, length, -1),
                "repeated": lambda: x[:, :, :, None].expand(-1, -1, -1, 2, -1).reshape(batch, length, 2 * number, d), "joined_strided": lambda: torch.cat((wide[..., :d], wide[..., d:]), -1),
                "joined_expanded": lambda: torch.cat((x, shared.expand(-1, -1, number, -1)), -1), "joined_heads": lambda: torch.cat((x, x[:, :, :number // 4]), 2),
                "split": lambda: sum(part.sum() for part in wide.split((d, 64), -1)), "padded": lambda: F.pad(x, (0, 64)), "stacked": lambda: torch.stack((x, x), 2),
                "transposed": lambda: x.permute(1, 0, 2, 3).contiguous()}[kind])
        yield dict(op="heads_" + kind, dtype=dtype, batch=batch, length=length, number=number, d=d), make


def scores():
    """Of attention that is written out: masked, scaled, biased, and their softmax."""
    kinds = dict(
        masked=lambda x, m, b: x.masked_fill(m, -1e4), masked_in_place=lambda x, m, b: x.detach().masked_fill_(m, -1e4), where=lambda x, m, b: torch.where(m, x, -1e4), biased=lambda x, m, b: x + b,
        scaled=lambda x, m, b: x * 0.125, softmax=lambda x, m, b: x.softmax(-1), softmax_float=lambda x, m, b: x.softmax(-1, dtype=torch.float32).to(x.dtype), dropped=lambda x, m, b: F.dropout(x, 0.1),
        causal=lambda x, m, b: x.detach().tril_(), multiplied=lambda x, m, b: x * b)
    for kind in sorted(kinds) * 9:
        dtype, batch, number, length = draw.choice(KINDS), pick(0, 4), draw.choice((4, 8, 12, 16, 32, 64)), draw.choice((128, 256, 512, 1024, 2048, 4096))
        if batch * number * length * length > 2 * MOST:
            continue

        def make(kind=kind, dtype=dtype, batch=batch, number=number, length=length):
            x, bias = floats(dtype, batch, number, length, length), floats(dtype, 1, number, length, length, grad=False)
            mask = torch.ones(1, 1, length, length, dtype=torch.bool, device="cuda").triu(1)
            if kind in ("masked_in_place", "causal"):
                return lambda: kinds[kind](x, mask, bias)
            return there_and_back(lambda: kinds[kind](x, mask, bias))
        yield dict(op="scores_" + kind, dtype=dtype, batch=batch, number=number, length=length), make


def layers():
    """Activations, residuals, dropout, biases, and losses over words."""
    kinds = dict(
        swiglu_chunked=lambda x, y: F.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1], swiglu=lambda x, y: F.silu(x) * y, geglu=lambda x, y: F.gelu(x, approximate="tanh") * y, gelu=lambda x, y: F.gelu(x),
        relu2=lambda x, y: F.relu(x).square(), residual=lambda x, y: x + y, residual_dropout=lambda x, y: x + F.dropout(y, 0.1), bias=lambda x, y: x + y[0], scaled=lambda x, y: x * y[0],
        to_fp32=lambda x, y: x.float(), to_bf16=lambda x, y: x.to(torch.bfloat16), gate=lambda x, y: x * y[:, :1].sigmoid(), softcap=lambda x, y: 30 * torch.tanh(x / 30), sum_tokens=lambda x, y: x.sum(0),
        mean_square=lambda x, y: x.float().pow(2).mean(), transposed=lambda x, y: x.t().contiguous(), cast_transposed=lambda x, y: x.t().contiguous().float())
    for kind in sorted(kinds) * 11:
        dtype, tokens, width = draw.choice(KINDS), pick(9, 16), draw.choice((*WIDTHS, 10240, 11008, 14336, 28672))
        if tokens * width > MOST:
            continue

        def make(kind=kind, dtype=dtype, tokens=tokens, width=width):
            x, y = floats(dtype, tokens, width), floats(dtype, tokens, width)
            return there_and_back(lambda: kinds[kind](x, y))
        yield dict(op="layer_" + kind, dtype=dtype, tokens=tokens, width=width), make
    for kind in ("cross_entropy", "cross_entropy_float", "log_softmax", "embedding", "embedding", "logsumexp", "argmax") * 8:
        dtype, tokens, words, width = draw.choice(KINDS), pick(8, 15), draw.choice((32000, 50304, 65536, 100352, 128256, 151936, 200064, 256000)), draw.choice(WIDTHS[2:9])
        if max(tokens, width if kind == "embedding" else 0) * words > 4 * MOST:
            continue

        def make(kind=kind, dtype=dtype, tokens=tokens, words=words, width=width):
            target = classes(words, tokens)
            if kind == "embedding":
                table = floats(dtype, words, width)
                return there_and_back(lambda: F.embedding(target, table))
            x = floats(dtype, tokens, words)
            if kind == "argmax":
                return lambda: x.argmax(-1)
            return there_and_back({"cross_entropy": lambda: F.cross_entropy(x, target), "cross_entropy_float": lambda: F.cross_entropy(x.float(), target),
                                   "log_softmax": lambda: x.log_softmax(-1), "logsumexp": lambda: x.float().logsumexp(-1)}[kind])
        yield dict(op="words_" + kind, dtype=dtype, tokens=tokens, words=words, width=width), make


def eights():
    """Scaled for products in fp8, as torchao does where nothing is compiled."""
    for kind in ("amax", "scaled", "clamped", "cast", "cast_back", "amax_rows", "cast_transposed") * 8:
        dtype, rows, cols = draw.choice(("bf16", "fp32")), pick(9, 16), draw.choice(WIDTHS)
        if rows * cols > MOST:
            continue

        def make(kind=kind, dtype=dtype, rows=rows, cols=cols):
            x, scale = floats(dtype, rows, cols, grad=False), torch.full((), 2.0, device="cuda")
            eight = x.to(torch.float8_e4m3fn)
            return {"amax": lambda: x.abs().max(), "scaled": lambda: x.float() * scale, "clamped": lambda: x.clamp(-448.0, 448.0), "cast": lambda: x.to(torch.float8_e4m3fn), "cast_back": lambda: eight.to(x.dtype),
                    "amax_rows": lambda: x.abs().amax(-1, keepdim=True), "cast_transposed": lambda: eight.t().contiguous()}[kind]
        yield dict(op="eight_" + kind, dtype=dtype, rows=rows, cols=cols), make


def shards():
    """Parameters that are gathered and divided, and optimizers of a shard."""
    kinds = ("split_copy", "chunk_cat", "foreach_copy", "adamw", "adamw_foreach", "clip", "zero", "accumulate", "scale", "ema", "flat_cast")
    for kind in kinds * 7:
        dtype, width, count, ranks = draw.choice(KINDS), draw.choice((1024, 2048, 4096, 5120, 8192)), draw.choice((1, 3, 7, 9)), draw.choice((2, 4, 8, 16))
        if width * width * count > MOST or kind in ("split_copy", "chunk_cat") and 2 * width * width * count > MOST:
            continue

        def make(kind=kind, dtype=dtype, width=width, count=count, ranks=ranks):
            rows = [width // (4 if i % 3 == 1 else 1) for i in range(count)]
            tensors = [torch.nn.Parameter(floats(dtype, n, width, grad=False)) for n in (*rows, 1)]
            plain = [t.detach() for t in tensors[:count]]
            if kind == "split_copy":
                sizes = [t.numel() // ranks for t in plain]
                whole = floats(dtype, ranks, sum(sizes), grad=False)
                out = [torch.empty(ranks, n, device="cuda", dtype=TYPES[dtype]) for n in sizes]
                return lambda: torch.split_with_sizes_copy(whole, sizes, 1, out=out)
            if kind == "chunk_cat":
                return lambda: torch._chunk_cat(plain, 0, ranks)
            if kind == "foreach_copy":
                out = [torch.empty_like(t, dtype=torch.float32) for t in plain]
                return lambda: torch._foreach_copy_(out, plain)
            if kind == "flat_cast":
                return lambda: torch.cat([t.flatten() for t in plain]).to(torch.bfloat16)
            for tensor in tensors:
                tensor.grad = torch.randn_like(tensor)
            grads = [t.grad for t in tensors]
            if kind == "clip":
                return lambda: torch.nn.utils.clip_grad_norm_(tensors, 1.0)
            if kind == "zero":
                return lambda: torch._foreach_zero_(grads)
            if kind == "accumulate":
                return lambda: [g.add_(t.detach()) for g, t in zip(grads, tensors)]
            if kind == "scale":
                return lambda: torch._foreach_mul_(grads, 0.5)
            if kind == "ema":
                return lambda: torch._foreach_lerp_([t.detach() for t in tensors], grads, 0.01)
            return torch.optim.AdamW(tensors, lr=1e-4, fused=kind == "adamw").step
        yield dict(op="shards_" + kind, dtype=dtype, width=width, count=count, ranks=ranks), make


def products():
    """With vectors, many at a time, and of groups, one for each expert."""
    for kind in ("times_vector", "vector_times", "outer", "dots", "groups", "groups", "few_columns") * 14:
        dtype, many, rows, cols = draw.choice(KINDS), pick(4, 16), draw.choice((1, 2, 4, 6, 8, 16, 64, 128)), draw.choice((64, 128, 512, 1024, 2048, 4096))
        if kind == "groups":
            dtype, many, rows, cols = "bf16", draw.choice((4, 8, 16, 32, 64)), pick(11, 16), draw.choice((1024, 1408, 2048, 4096))
        if (rows if kind == "groups" else many * rows) * cols > MOST:
            continue

        def make(kind=kind, dtype=dtype, many=many, rows=rows, cols=cols):
            if kind == "groups":
                rows = rows // 8 * 8
                x, w = floats(dtype, rows, 2048), floats(dtype, many, 2048, cols)
                ends = torch.cat((torch.randperm(rows // 8 - 1, device="cuda")[:many - 1].sort().values * 8 + 8, torch.tensor([rows], device="cuda"))).int()
                return there_and_back(lambda: torch._grouped_mm(x, w, ends))
            x, tall, wide = floats(dtype, many, rows, cols), floats(dtype, many, cols, 1), floats(dtype, many, 1, rows)
            few = floats(dtype, many, cols, 4)
            return there_and_back({"times_vector": lambda: x @ tall, "vector_times": lambda: wide @ x, "outer": lambda: tall @ wide, "dots": lambda: tall.mT @ tall, "few_columns": lambda: x @ few}[kind])
        yield dict(op="product_" + kind, dtype=dtype, many=many, rows=rows, cols=cols), make


if __name__ == "__main__":
    measure_sorting.main(sys.argv[1], (experts, norms, heads, scores, layers, eights, shards, products), seed=1129)
