"""A small job of DistributedDataParallel, for as many ranks as there are: runs live on 32 in minutes."""
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
device = torch.device("cuda", local)
dist.init_process_group("nccl", device_id=device)
torch.manual_seed(0)
with device:
    model = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096) for _ in range(8)])
model = DistributedDataParallel(model, device_ids=[local])
optimizer = torch.optim.AdamW(model.parameters())
data = torch.randn(512, 4096, device=device)
for _ in range(5):
    model(data).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.cuda.synchronize()
dist.destroy_process_group()
