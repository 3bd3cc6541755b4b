#!/usr/bin/env python3
"""Runs, on a machine with a GPU, what language models do for a few tokens at a time: products of few rows with weights, attention of few queries over many keys, growing caches, and choosing among a vocabulary.

Usage: phantora measure --kernels FITTED.db -- python3 measure_decoding.py fitted SECONDS
       phantora measure --kernels JUDGES.db -- python3 measure_decoding.py judges SECONDS
       phantora kernels export FITTED.db FITTED.csv

A third of the cases judges and is never fitted, as in measure_sorting.py. Kinds of cases take turns, so that an end after so many SECONDS leaves out some of each.
"""
import itertools
import sys
import time

import torch
import torch.nn.functional as F

import measure_sorting
from measure_h200 import draw, pick
from measure_products import operand, times

ROWS = (1, 1, 1, 1, 2, 2, 3, 4, 4, 5, 6, 8, 8, 12, 16, 16, 20, 24, 32, 32, 48, 64, 64, 96, 128, 192, 256)
KINDS = ("bf16",) * 6 + ("fp16",) * 3 + ("fp32", "tf32")
HALVES = ("bf16", "bf16", "fp16")
WIDTHS = (512, 576, 640, 768, 896, 1024, 1152, 1280, 1536, 2048, 2304, 2560, 3072, 3584, 4096, 5120, 6144, 6656, 8192)
INNER = (1024, 1536, 2048, 2560, 3072, 4096, 4864, 5632, 6144, 6912, 8192, 8960, 9216, 11008, 12288, 13824, 14336, 17408, 18944, 22016, 28672)
VOCABULARIES = (30522, 32000, 32064, 50257, 50304, 51200, 65536, 100352, 102400, 128256, 129280, 151936, 200064, 248320, 256000, 262144)
HEADS = ((4, 1), (8, 1), (8, 4), (8, 8), (12, 12), (14, 2), (16, 2), (16, 8), (16, 16), (20, 20), (24, 8), (28, 4), (32, 4), (32, 8), (32, 32), (40, 8), (40, 40), (64, 8))
MOST = 1 << 28  # elements of an operand


def layers():
    while True:
        kind, rows, width = draw.choice(KINDS), draw.choice(ROWS), draw.choice(WIDTHS)
        inside, outside = draw.choice(((width, draw.choice(INNER)), (draw.choice(INNER), width), (width, width), (width, draw.choice((1, 2, 3, 6)) * 128 + width),
                                       (width, draw.choice(VOCABULARIES)), (pick(7, 14.5, 8), pick(7, 14.5, 8))))
        biased = draw.random() < 0.2
        if inside * outside > MOST:
            continue

        def make():
            x, w, b = operand(kind, rows, inside), operand(kind, outside, inside), operand(kind, outside) if biased else None
            return times(kind, lambda: F.linear(x, w, b))
        yield dict(op="layer", kind=kind, rows=rows, inside=inside, outside=outside, biased=biased), make


def in_batches():
    """Scores of a query and sums over values, one product for each head, and experts' weights in one tensor."""
    while True:
        kind, rows, batch = draw.choice(KINDS), draw.choice((1, 1, 1, 2, 4, 8, 16)), pick(2, 10)
        inside, outside = draw.choice(((draw.choice((64, 80, 96, 128, 256)), pick(4, 13)), (pick(4, 13), draw.choice((64, 80, 96, 128, 256))), (draw.choice(WIDTHS), draw.choice(INNER))))
        across = draw.random() < 0.5
        if batch * inside * outside > MOST:
            continue

        def make():
            x, w = operand(kind, batch, rows, inside), operand(kind, batch, outside, inside).transpose(1, 2) if across else operand(kind, batch, inside, outside)
            return times(kind, lambda: torch.bmm(x, w))
        yield dict(op="batch", kind=kind, rows=rows, batch=batch, inside=inside, outside=outside, across=across), make


def attentions():
    while True:
        kind, batch, queries, keys = draw.choice(HALVES), pick(0, 6.5), draw.choice((1, 1, 1, 1, 2, 4, 8, 16)), pick(4, 14)
        heads, kept = draw.choice(HEADS)
        size = draw.choice((64, 64, 80, 96, 128, 128, 128, 256))
        masked, repeated = draw.random() < 0.4, draw.random() < 0.5
        if batch * heads * keys * size > MOST:
            continue

        def make():
            q = operand(kind, batch, heads, queries, size)
            k, v = (operand(kind, batch, kept, keys, size) for _ in range(2))
            if repeated:  # as Transformers has it
                k, v = (x[:, :, None].expand(batch, kept, heads // kept, keys, size).reshape(batch, heads, keys, size) for x in (k, v))
            mask = torch.ones(batch, 1, queries, keys, device="cuda", dtype=torch.bool) if masked else None
            return lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=not repeated and heads != kept)
        yield dict(op="attention", kind=kind, batch=batch, queries=queries, keys=keys, heads=heads, kept=kept, size=size, masked=masked, repeated=repeated), make


def caches():
    while True:
        kind, batch, keys, size = draw.choice(HALVES), pick(0, 6.5), pick(4, 14), draw.choice((64, 80, 96, 128, 256))
        _, kept = draw.choice(HEADS)
        how = draw.choice(("joined", "joined", "written", "repeated"))
        heads = kept * draw.choice((2, 4, 7, 8))
        if batch * max(kept, heads) * keys * size > MOST:
            continue

        def make():
            k, new = operand(kind, batch, kept, keys, size), operand(kind, batch, kept, 1, size)
            if how == "joined":
                return lambda: torch.cat([k, new], dim=-2)
            if how == "repeated":
                return lambda: k[:, :, None].expand(batch, kept, heads // kept, keys, size).reshape(batch, heads, keys, size)
            place = torch.tensor([keys // 2], device="cuda")
            return lambda: k.index_copy_(2, place, new)
        yield dict(op="cache", kind=kind, batch=batch, keys=keys, size=size, kept=kept, heads=heads, how=how), make


def choices():
    """Of the next token, as generation samples it."""
    while True:
        kind, rows, words = draw.choice(("fp32", "fp32", "bf16", "fp16")), draw.choice(ROWS), draw.choice(VOCABULARIES)
        how = draw.choice(("argmax", "softmax", "log_softmax", "topk", "sort", "cumsum", "below", "multinomial", "max", "to_fp32", "gather"))

        def make():
            scores = operand(kind, rows, words)
            chances = scores.float().softmax(-1)
            least = scores.float().topk(50).values[:, -1:].to(scores.dtype)
            some = torch.randint(0, words, (rows, 1), device="cuda")
            return {"argmax": lambda: scores.argmax(-1), "softmax": lambda: scores.softmax(-1), "log_softmax": lambda: scores.log_softmax(-1), "topk": lambda: scores.topk(50),
                    "sort": lambda: scores.sort(-1), "cumsum": lambda: chances.cumsum(-1), "below": lambda: scores.masked_fill(scores < least, -float("inf")),
                    "multinomial": lambda: chances.multinomial(1), "max": lambda: scores.max(-1), "to_fp32": lambda: scores.float(),
                    "gather": lambda: scores.gather(-1, some)}[how]
        yield dict(op="choice", kind=kind, rows=rows, words=words, how=how), make


def in_turn(seconds):
    until = time.monotonic() + seconds
    products, batches, attended, kept, chosen = layers(), in_batches(), attentions(), caches(), choices()
    for cases in itertools.cycle((products, products, attended, products, batches, products, attended, products, kept, products, chosen)):
        if time.monotonic() > until:
            return
        yield next(cases)


if __name__ == "__main__":
    measure_sorting.main(sys.argv[1], (lambda: in_turn(float(sys.argv[2])),), seed=1501)
