"""Trains a GPT-2-sized language model with DistributedDataParallel on random tokens.

Plain PyTorch: start it with torchrun, or with anything else that sets RANK, WORLD_SIZE and
LOCAL_RANK.
"""
import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (
            t.view(batch, length, self.heads, -1).transpose(1, 2)
            for t in self.qkv(self.norm1(x)).chunk(3, dim=-1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, vocabulary=50257, length=1024, width=768, layers=12, heads=12):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--steps", type=int, default=10)
    arguments.add_argument("--batch", type=int, default=8, help="sequences per GPU")
    arguments.add_argument("--length", type=int, default=1024, help="tokens per sequence")
    options = arguments.parse_args()

    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    torch.manual_seed(rank)

    with torch.device("cuda"):
        model = GPT(length=options.length)
    model = DistributedDataParallel(model, device_ids=[local])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

    data = torch.randint(0, 50257, (options.batch, options.length + 1), device=device)
    for step in range(options.steps):
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(data[:, :-1], data[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        milliseconds = (time.perf_counter() - start) * 1e3
        tokens = options.batch * options.length * dist.get_world_size() / milliseconds * 1e3
        print(
            f"rank {rank:2d} step {step}: {milliseconds:8.3f} ms, {tokens:12,.0f} tokens/s, "
            f"{torch.cuda.max_memory_allocated() / 2**30:.2f} GiB",
            flush=True,
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
