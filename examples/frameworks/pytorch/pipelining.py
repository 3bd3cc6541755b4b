"""torch.distributed.pipelining with one of its schedules: pipelining.py Schedule1F1B"""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, schedules

WIDTH, MICROBATCHES = 1024, 8

local, rank, world = (int(os.environ[name]) for name in ("LOCAL_RANK", "RANK", "WORLD_SIZE"))
device = torch.device("cuda", local)
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=device)

kind = getattr(schedules, sys.argv[1])
several = issubclass(kind, schedules.PipelineScheduleMulti)
stages = 2 * world if several else world
if not several:
    mine = [rank]
elif sys.argv[1] in ("ScheduleZBVZeroBubble", "ScheduleDualPipeV"):
    mine = [rank, stages - 1 - rank]  # down the ranks and up again
else:
    mine = [rank, rank + world]


def layer():
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)).to(device)


parts = [PipelineStage(layer(), index, stages, device) for index in mine]
schedule = kind(parts if several else parts[0], MICROBATCHES, loss_fn=nn.functional.mse_loss)
optimizer = torch.optim.SGD([p for part in parts for p in part.submod.parameters()], 0.01)
for step in range(4):
    batch, target = (torch.randn(512, WIDTH, device=device) for _ in range(2))
    dist.barrier()
    torch.cuda.synchronize()
    before = time.perf_counter()
    schedule.step(*((batch,) if 0 in mine else ()),
                  **(dict(target=target, losses=[]) if stages - 1 in mine else {}))
    optimizer.step()
    optimizer.zero_grad()
    torch.cuda.synchronize()
    if rank == 0:
        print(f"step {step}: {1e3 * (time.perf_counter() - before):.3f} ms", flush=True)
dist.destroy_process_group()
print("training completed", flush=True)
