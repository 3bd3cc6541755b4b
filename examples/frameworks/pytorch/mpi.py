"""Ranks that take their number from Open MPI's variables, and NCCL's id from a store at host 0."""
import os
import time

import torch
import torch.distributed as dist

rank, world, local = (int(os.environ[f"OMPI_COMM_WORLD_{name}"])
                      for name in ("RANK", "SIZE", "LOCAL_RANK"))
device = torch.device("cuda", local)
torch.cuda.set_device(device)
address = f"tcp://{os.environ.get('MASTER_ADDR', '127.0.0.1')}:23457"
dist.init_process_group("nccl", init_method=address, rank=rank, world_size=world, device_id=device)
vector = torch.ones(1 << 24, device=device)
for step in range(4):
    torch.cuda.synchronize()
    before = time.perf_counter()
    dist.all_reduce(vector)
    torch.cuda.synchronize()
    if rank == 0:
        print(f"step {step}: {1e3 * (time.perf_counter() - before):.3f} ms", flush=True)
dist.destroy_process_group()
print("training completed", flush=True)
