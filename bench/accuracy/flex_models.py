#!/usr/bin/env python3
"""Training steps of models whose attention is FlexAttention's, compiled: masks by blocks that are made once or anew in each
step, of causal, windowed, packed, prefixed and two-dimensional attention, with and without changes of the scores.

    flex_models.py [--only NAME ...] [--kernels]      # prints a line of JSON for each: name, ms of a step, peak bytes; of its kernels

The same on a GPU and in a simulation (README.md, "Models with FlexAttention").
"""
import argparse
import json
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

attend = torch.compile(flex_attention)
make_mask = torch.compile(create_block_mask)
STEPS, WARM = 12, 4


class Attention(nn.Module):
    def __init__(self, width, heads, key_heads, score_mod=None):
        super().__init__()
        self.heads, self.key_heads, self.depth, self.score_mod = heads, key_heads, width // heads, score_mod
        self.qkv = nn.Linear(width, (heads + 2 * key_heads) * self.depth, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x, mask):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, -1, self.depth).transpose(1, 2).split((self.heads, self.key_heads, self.key_heads), 1)
        y = attend(q, k, v, score_mod=self.score_mod, block_mask=mask, enable_gqa=self.heads != self.key_heads)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads, key_heads, score_mod):
        super().__init__()
        self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention = Attention(width, heads, key_heads, score_mod)
        self.gate, self.up, self.down = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, 3 * width, bias=False), nn.Linear(3 * width, width, bias=False)

    def forward(self, x, mask):
        x = x + self.attention(self.first(x), mask)
        y = self.second(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Model(nn.Module):
    def __init__(self, words=32000, width=1024, layers=8, heads=16, key_heads=None, score_mod=None):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, heads, key_heads or heads, score_mod) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens, masks):
        x = self.words(tokens)
        for number, block in enumerate(self.blocks):
            x = block(x, masks[number % len(masks)])
        return self.head(self.norm(x))


def causal(b, h, q, k):
    return q >= k


def window(size):
    return lambda b, h, q, k: (q >= k) & (q - k < size)


def prefix(size):
    return lambda b, h, q, k: (q >= k) | (k < size)


def neighbourhood(side, reach):
    return lambda b, h, q, k: ((q // side - k // side).abs() <= reach) & ((q % side - k % side).abs() <= reach)


def softcap(score, b, h, q, k):
    return 50 * torch.tanh(score / 50)


def alibi(score, b, h, q, k):
    return score - (q - k) * torch.exp2(-(h + 1) / 2.0)


def documents(numbers):
    return lambda b, h, q, k: (q >= k) & (numbers[b, q] == numbers[b, k])


def packed(batch, length, mean, generator):
    """Numbers of the documents that tokens belong to."""
    ends = (torch.rand(batch, length, generator=generator) < 1 / mean).long()
    return ends.cumsum(-1).cuda()


def fixed(*masks, batch=1, length=4096, **model):
    """Masks that are made once, layer by layer in turn."""
    return dict(batch=batch, length=length, model=model, masks=lambda step, generator: [make_mask(m, None, None, length, length, device="cuda") for m in masks], each=False)


def anew(mean, batch=1, length=4096, **model):
    """A mask of documents in each step."""
    return dict(batch=batch, length=length, model=model, each=True, masks=lambda step, generator: [make_mask(documents(packed(batch, length, mean, generator)), batch, None, length, length, device="cuda")])


MODELS = dict(
    causal_8k=fixed(causal, length=8192),
    causal_gqa_128=fixed(causal, batch=4, length=2048, width=2048, heads=16, key_heads=4, layers=6),
    window_long=fixed(window(1024), length=16384),
    window_and_global=fixed(window(512), causal, batch=2, length=4096, key_heads=8),
    softcapped=fixed(causal, window(2048), length=8192, key_heads=4, score_mod=softcap),
    alibi=fixed(causal, batch=2, length=4096, score_mod=alibi),
    prefix=fixed(prefix(1536), batch=2, length=4096, width=1536, heads=12, layers=6),
    neighbours=fixed(neighbourhood(64, 6), batch=2, length=4096, words=1000, width=768, heads=12, layers=10),
    packed_500=anew(500, length=8192),
    packed_batch=anew(300, batch=4, length=2048, key_heads=4))


def run(name, kernels, batch, length, model, masks, each):
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    network = Model(**model).cuda()
    whole = torch.compile(network)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)
    words = network.words.num_embeddings
    made = masks(0, generator)
    times = []
    torch.cuda.reset_peak_memory_stats()

    def step_of(step):
        nonlocal made
        tokens = torch.randint(0, words, (batch, length), device="cuda")
        torch.cuda.synchronize()
        begin = time.perf_counter()
        if each:
            made = masks(step, generator)
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.cross_entropy(whole(tokens, made).flatten(0, 1).float(), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        times.append(1000 * (time.perf_counter() - begin))

    for step in range(STEPS):
        step_of(step)
    print(json.dumps({"model": name, "ms": round(statistics.median(times[WARM:]), 3), "peak": torch.cuda.max_memory_allocated()}), flush=True)
    if kernels:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            step_of(STEPS)
        for row in profile.key_averages():
            if row.device_time_total > 0:
                print(json.dumps({"of": name, "kernel": row.key[:120], "launches": row.count, "us": round(row.device_time_total, 1)}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--kernels", action="store_true")
    options = parser.parse_args()
    for name, arguments in MODELS.items():
        if options.only and name not in options.only:
            continue
        torch._dynamo.reset()
        try:
            run(name, options.kernels, **arguments)
        except Exception as error:  # the others are still of interest
            print(json.dumps({"model": name, "error": f"{type(error).__name__}: {str(error)[:300]}"}), flush=True)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
