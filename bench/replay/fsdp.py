"""A small job of FSDP2, for as many ranks as there are: runs live on 32 in minutes. Usage: fsdp.py [WIDTH]"""
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
device = torch.device("cuda", local)
dist.init_process_group("nccl", device_id=device)
mesh = init_device_mesh("cuda", (dist.get_world_size(),))
torch.manual_seed(0)
width = int(sys.argv[1]) if len(sys.argv) > 1 else 4096
with device:
    model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(8)])
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters())
data = torch.randn(512, width, device=device)
for _ in range(5):
    model(data).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.cuda.synchronize()
dist.destroy_process_group()
