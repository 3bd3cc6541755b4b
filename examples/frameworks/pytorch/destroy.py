"""Ends its process group at an unusual moment: destroy.py WHEN

idle: nothing is queued; queued: 50 ms of work and a collective are; twice: a group of its own
first, then the default one twice; never: not at all; async: with a collective that nobody waited for.
"""
import os
import sys
import time

import torch
import torch.distributed as dist

when = sys.argv[1]
local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
dist.init_process_group("nccl", device_id=torch.device("cuda", local))
square = torch.ones(8192, 8192, device="cuda", dtype=torch.bfloat16)
ones = torch.ones(1 << 20, device="cuda")
dist.all_reduce(ones)
torch.cuda.synchronize()

before = time.perf_counter()
if when in ("queued", "async", "never"):
    for _ in range(30):
        torch.mm(square, square)
    dist.all_reduce(ones, async_op=when == "async")
if when == "twice":
    group = dist.new_group()
    dist.all_reduce(ones, group=group)
    dist.destroy_process_group(group)
if when != "never":
    dist.destroy_process_group()
if when == "twice":
    try:
        dist.destroy_process_group()
        raise SystemExit("the second destruction was accepted")
    except (AssertionError, ValueError) as refused:
        print("refused, as it should be:", type(refused).__name__)
print(f"ended in {1e3 * (time.perf_counter() - before):.3f} ms", flush=True)
