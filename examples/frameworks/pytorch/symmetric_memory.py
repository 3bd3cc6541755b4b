"""Symmetric memory: rendezvous, all-reduces through it, and matrix products fused with collectives."""
import os
import time

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric_memory

local = int(os.environ["LOCAL_RANK"])
device = torch.device("cuda", local)
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=device)
group, world = dist.group.WORLD, dist.get_world_size()
name = group.group_name

vector = symmetric_memory.empty(1 << 20, device=device, dtype=torch.bfloat16)
handle = symmetric_memory.rendezvous(vector, group)
assert (handle.rank, handle.world_size) == (dist.get_rank(), world)
vector.fill_(1)
handle.barrier()
for way in ("one_shot_all_reduce", "two_shot_all_reduce_"):
    torch.cuda.synchronize()
    before = time.perf_counter()
    getattr(torch.ops.symm_mem, way)(vector, "sum", name)
    torch.cuda.synchronize()
    if dist.get_rank() == 0:
        print(f"step {way}: {1e3 * (time.perf_counter() - before):.3f} ms", flush=True)

rows = torch.randn(512, 1024, device=device, dtype=torch.bfloat16)
weight = torch.randn(1024, 512, device=device, dtype=torch.bfloat16)
torch.ops.symm_mem.fused_all_gather_matmul(rows, [weight], 0, name)
torch.ops.symm_mem.fused_matmul_reduce_scatter(rows, weight, "sum", 0, name)
torch.cuda.synchronize()
dist.destroy_process_group()
print("training completed", flush=True)
