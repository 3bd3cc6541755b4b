"""A worker that fails once, for torchrun's --max-restarts"""
import os
import sys

import torch
import torch.distributed as dist

local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
dist.init_process_group("nccl", device_id=torch.device("cuda", local))
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
ones = torch.ones(1024, device="cuda")
dist.all_reduce(ones)
print(f"rank {dist.get_rank()} attempt {attempt}: sum {ones[0].item():.0f}", flush=True)
if attempt == 0 and dist.get_rank() == 1:
    sys.exit(3)
dist.all_reduce(ones)
torch.cuda.synchronize()
dist.destroy_process_group()
print("training completed", flush=True)
