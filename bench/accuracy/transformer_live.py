#!/usr/bin/env python3
"""Training steps of a Llama-like model in plain PyTorch, divided in one of many ways: what
transformer.hpp says of the same shape is compared with (transformer.py).

Weights, gradients and AdamW's moments are bf16; gradients are kept from step to step. There are no
rotary embeddings. KIND: single, ddp, zero1, fsdp (FSDP2), tp (sequence parallel), cp (context
parallel), ep (experts), or a schedule of torch.distributed.pipelining.
"""
import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

arguments = argparse.ArgumentParser()
arguments.add_argument("kind")
for name, default in dict(layers=4, hidden=4096, heads=32, mlp=11008, words=32000, length=4096,
                          micro_batch=1, micro_batches=1, experts=8, chunks=1, steps=5).items():
    arguments.add_argument("--" + name.replace("_", "-"), type=int, default=default)
arguments.add_argument("--recompute", action="store_true")
arguments.add_argument("--norm-passes", action="store_true", help="norms as Transformers' LlamaRMSNorm")
o = arguments.parse_args()

local, rank, world = (int(os.environ[name]) for name in ("LOCAL_RANK", "RANK", "WORLD_SIZE"))
device = torch.device("cuda", local)
torch.cuda.set_device(device)
if world > 1:
    dist.init_process_group("nccl", device_id=device)


class NormOfPasses(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


Norm = NormOfPasses if o.norm_passes else nn.RMSNorm


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.project = (nn.Linear(o.hidden, o.hidden, bias=False)
                                                for _ in range(4))

    def forward(self, x):
        # Under tensor parallelism a rank holds some of the heads.
        q, k, v = (part(x).unflatten(-1, (-1, o.hidden // o.heads)).transpose(1, 2)
                   for part in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.project(y.transpose(1, 2).flatten(2))


class Feed(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.gate = (nn.Linear(o.hidden, o.mlp, bias=False) for _ in range(2))
        self.down = nn.Linear(o.mlp, o.hidden, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(_, x):
        y = torch.empty_like(x)
        dist.all_to_all_single(y, x)
        return y

    @staticmethod
    def backward(_, gradient):
        return AllToAll.apply(gradient.contiguous())


class Experts(nn.Module):
    """Two of them for each token, and each has as many: what a router would pick is not looked at."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(o.hidden, o.experts, bias=False)
        self.experts = nn.ModuleList(Feed() for _ in range(o.experts // world))

    def forward(self, x):
        shares = torch.softmax(self.router(x), -1)[..., :2].unsqueeze(-1)
        picked = (x.unsqueeze(2) * shares).flatten(0, 2)
        picked = AllToAll.apply(picked)
        outputs = [expert(part)
                   for expert, part in zip(self.experts, picked.chunk(len(self.experts)))]
        return AllToAll.apply(torch.cat(outputs)).view(*x.shape[:2], 2, o.hidden).sum(2)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = Norm(o.hidden), Norm(o.hidden)
        self.attention, self.feed = Attention(), Experts() if o.kind == "ep" else Feed()

    def layer(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed(self.norm2(x))

    def forward(self, x):
        return checkpoint(self.layer, x, use_reentrant=False) if o.recompute else self.layer(x)


class Model(nn.Module):
    """Some of the layers, with the embedding and the head if it has the first or the last."""

    def __init__(self, layers=range(o.layers)):
        super().__init__()
        self.embedding = nn.Embedding(o.words, o.hidden) if layers.start == 0 else nn.Identity()
        self.blocks = nn.ModuleList(Block() for _ in layers)
        last = layers.stop == o.layers
        self.norm = Norm(o.hidden) if last else nn.Identity()
        self.output = nn.Linear(o.hidden, o.words, bias=False) if last else nn.Identity()

    def forward(self, x):
        x = self.embedding(x)
        for block in self.blocks:
            x = block(x)
        return self.output(self.norm(x))


def tensor_parallel(model):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput,
                                                   RowwiseParallel, SequenceParallel,
                                                   parallelize_module)
    mesh = init_device_mesh("cuda", (world,))
    gather = dict(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
    for block in model.blocks:
        parallelize_module(block, mesh, {
            "norm1": SequenceParallel(), "norm2": SequenceParallel(),
            "attention": PrepareModuleInput(**gather), "feed": PrepareModuleInput(**gather),
            "attention.q": ColwiseParallel(), "attention.k": ColwiseParallel(),
            "attention.v": ColwiseParallel(), "feed.up": ColwiseParallel(),
            "feed.gate": ColwiseParallel(),
            "attention.project": RowwiseParallel(output_layouts=Shard(1)),
            "feed.down": RowwiseParallel(output_layouts=Shard(1))})
    parallelize_module(model, mesh, {
        "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "norm": SequenceParallel(),
        "output": ColwiseParallel(input_layouts=Shard(1), use_local_output=False)})


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def step_of(model):
    def once(tokens, targets):
        for i in range(o.micro_batches):
            part = slice(i * o.micro_batch, (i + 1) * o.micro_batch)
            loss_of(model(tokens[part]), targets[part]).backward()
    return once


def context_parallel(model):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.experimental import context_parallel as divided
    mesh, step = init_device_mesh("cuda", (world,)), step_of(model)

    def once(tokens, targets):
        with divided(mesh, buffers=[tokens, targets], buffer_seq_dims=[1, 1]):
            step(tokens, targets)
    return once


def zero1(model):
    """Weights and gradients of all in one buffer each, of which a rank updates its share."""
    weights = list(model.parameters())
    size = sum(w.numel() for w in weights)
    size += -size % world
    flat, gradients = (torch.zeros(size, dtype=torch.bfloat16, device=device) for _ in range(2))
    at = 0
    for w in weights:
        part = flat[at:at + w.numel()].view_as(w)
        part.copy_(w.data)
        w.data, w.grad = part, gradients[at:at + w.numel()].view_as(w)
        at += w.numel()
    share = nn.Parameter(flat.chunk(world)[rank])
    share.grad = gradients.chunk(world)[rank]  # in place
    optimizer, step = torch.optim.AdamW([share], lr=1e-4, fused=True), step_of(model)

    def once(tokens, targets):
        step(tokens, targets)
        dist.reduce_scatter_tensor(share.grad, gradients)
        optimizer.step()
        dist.all_gather_into_tensor(flat, share.data)
        gradients.zero_()
    return once


def pipeline(kind):
    from torch.distributed.pipelining import PipelineStage, schedules
    kind = getattr(schedules, kind)
    stages, size = o.chunks * world, o.layers // (o.chunks * world)
    mine = [rank + i * world for i in range(o.chunks)]
    models = [Model(range(i * size, (i + 1) * size)).to(device, torch.bfloat16) for i in mine]
    parts = [PipelineStage(model, i, stages, device) for model, i in zip(models, mine)]
    schedule = kind(parts if o.chunks > 1 else parts[0], o.micro_batches, loss_fn=loss_of,
                    scale_grads=False)

    def once(tokens, targets):
        schedule.step(*((tokens,) if 0 in mine else ()),
                      **(dict(target=targets, losses=[], return_outputs=False)
                         if stages - 1 in mine else {}))
    return once, [p for model in models for p in model.parameters()]


torch.manual_seed(0)
if o.kind.startswith("Schedule"):
    once, weights = pipeline(o.kind)
else:
    with torch.device(device):
        model = Model().to(torch.float32 if o.kind == "fsdp" else torch.bfloat16)
    if o.kind == "tp":
        from torch.distributed.tensor.parallel import loss_parallel
        tensor_parallel(model)
    elif o.kind == "fsdp":
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for block in model.blocks:
            fully_shard(block, mp_policy=policy)
        fully_shard(model, mp_policy=policy)
    elif o.kind in ("ddp", "cp"):
        model = nn.parallel.DistributedDataParallel(model, device_ids=[local],
                                                    gradient_as_bucket_view=True)
    weights = list(model.parameters())
    once = {"cp": context_parallel, "zero1": zero1}.get(o.kind, step_of)(model)
optimizer = None if o.kind == "zero1" else torch.optim.AdamW(weights, lr=1e-4, fused=True)
sequences = o.micro_batch * o.micro_batches
tokens, targets = (torch.randint(o.words, (sequences, o.length), device=device) for _ in range(2))

torch.cuda.synchronize()
before = time.perf_counter()
for step in range(o.steps):
    if o.kind == "tp":
        with loss_parallel():
            once(tokens, targets)
    else:
        once(tokens, targets)
    if optimizer:
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    torch.cuda.synchronize()
    now = time.perf_counter()
    print(f"rank {rank} step {step}: {1e3 * (now - before):.3f} ms, "
          f"{torch.cuda.max_memory_allocated()} bytes", flush=True)
    before = now
    torch.cuda.reset_peak_memory_stats()  # DDP changes its buckets in the second step
if world > 1:
    dist.destroy_process_group()
