"""A Llama-like model under one of PyTorch's own parallelisms: parallel.py KIND [--compile [MODE]] [--ac]

KIND is single, ddp, fsdp1, fsdp2, hsdp, tp (tensor parallel), sp (with sequence parallel), tp_fsdp (2D)
or async_tp (sequence parallel through symmetric memory, where it is compiled). The process group is
destroyed without a synchronisation before it.
"""
import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput,
                                               RowwiseParallel, SequenceParallel,
                                               parallelize_module)
from torch.nn.parallel import DistributedDataParallel

WIDTH, HEADS, LAYERS, WORDS, BATCH, LENGTH = 512, 8, 4, 8192, 4, 1024


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x):
        # Under tensor parallelism a rank holds some of the heads.
        q, k, v = (f(x).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2)
                   for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).flatten(2))


class Feed(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.gate = (nn.Linear(WIDTH, 4 * WIDTH, bias=False) for _ in range(2))
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.attention, self.feed = Attention(), Feed()

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed(self.norm2(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH)
        self.output = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.output(self.norm(x))


def tensor_parallel(model, mesh, sequence):
    if sequence:
        parallelize_module(model, mesh, {
            "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "norm": SequenceParallel(),
            "output": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())})
        between = Shard(1)
    else:
        between = Replicate()
    plan = {"attention.q": ColwiseParallel(), "attention.k": ColwiseParallel(),
            "attention.v": ColwiseParallel(), "attention.o": RowwiseParallel(output_layouts=between),
            "feed.up": ColwiseParallel(), "feed.gate": ColwiseParallel(),
            "feed.down": RowwiseParallel(output_layouts=between)}
    if sequence:
        gather = dict(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
        plan |= {"norm1": SequenceParallel(), "norm2": SequenceParallel(),
                 "attention": PrepareModuleInput(**gather), "feed": PrepareModuleInput(**gather)}
    for block in model.blocks:
        parallelize_module(block, mesh, plan)


def shard(model, mesh):
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)


arguments = argparse.ArgumentParser()
arguments.add_argument("kind")
arguments.add_argument("--compile", nargs="?", const="default")
arguments.add_argument("--ac", action="store_true", help="activation checkpointing")
arguments.add_argument("--steps", type=int, default=6)
options = arguments.parse_args()

local, world = int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])
device = torch.device("cuda", local)
torch.cuda.set_device(device)
kind = options.kind
if kind != "single":
    dist.init_process_group("nccl", device_id=device)
torch.manual_seed(0)
model = Model().to(device)
if options.ac:
    model.blocks = nn.ModuleList(checkpoint_wrapper(block) for block in model.blocks)

if kind in ("tp", "sp", "async_tp"):
    mesh = init_device_mesh("cuda", (world,))
    if kind == "async_tp":
        import torch.distributed._symmetric_memory as symmetric_memory
        torch._inductor.config._micro_pipeline_tp = True
        symmetric_memory.enable_symm_mem_for_group(mesh.get_group().group_name)
    tensor_parallel(model, mesh, kind != "tp")
elif kind == "tp_fsdp":
    mesh = init_device_mesh("cuda", (world // 2, 2), mesh_dim_names=("dp", "tp"))
    tensor_parallel(model, mesh["tp"], sequence=True)
    shard(model, mesh["dp"])
elif kind == "fsdp2":
    shard(model, init_device_mesh("cuda", (world,)))
elif kind == "hsdp":
    shard(model, init_device_mesh("cuda", (2, world // 2), mesh_dim_names=("copies", "shards")))

step_model = model
if kind == "ddp":
    step_model = DistributedDataParallel(model, device_ids=[local])
elif kind == "fsdp1":
    step_model = FullyShardedDataParallel(model, device_id=device, use_orig_params=True,
                                          auto_wrap_policy=ModuleWrapPolicy({Block}))
if options.compile:
    step_model = torch.compile(step_model, mode=options.compile)
# Plain tensor parallelism leaves the norms plain tensors, which no list of DTensors may hold.
optimizer = torch.optim.AdamW(step_model.parameters(), lr=1e-3, foreach=kind != "tp")
tokens = torch.randint(WORDS, (BATCH, LENGTH + 1), device=device)

before = time.perf_counter()
for step in range(options.steps):
    with torch.autocast("cuda", torch.bfloat16):
        logits = step_model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    loss.item()
    now = time.perf_counter()
    if os.environ["RANK"] == "0":
        print(f"step {step}: {1e3 * (now - before):.3f} ms, "
              f"{torch.cuda.max_memory_allocated() / 2**30:.2f} GiB", flush=True)
    before = now
if kind != "single":
    dist.destroy_process_group()
print("training completed", flush=True)
