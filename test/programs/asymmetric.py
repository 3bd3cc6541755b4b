"""Unequal ranks: different amounts of work, a chain of messages, and two communicators whose rings
share the NICs, with random real delays in every rank. Prints each rank's virtual times; with
--host-time off they must not depend on the delays. The delays compute: of ranks that all sleep in ways
that are not known, the engine goes on without what they would have issued (`late_operations`)."""
import os
import random
import time

import torch
import torch.distributed as dist

rank, local, world = (int(os.environ[k]) for k in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
device = torch.device("cuda", local)
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=device)
groups = [dist.new_group([r for r in range(world) if r % 2 == parity]) for parity in (0, 1)]
mine = groups[rank % 2]
side = torch.cuda.Stream()
delays = random.Random(os.urandom(8))


def delay():
    sum(range(delays.randrange(400_000)))  # up to some 10 ms that the simulation does not count


x = torch.zeros(1 << 24, device=device)
message = torch.zeros(1 << 22, device=device)
gradient = torch.zeros(1 << 23, device=device)
other = torch.zeros(1 << 22, device=device)
times = []
for step in range(4):
    delay()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(3 + 2 * rank + step):
        x.mul_(1.5)
    delay()
    if rank > 0:
        dist.recv(message, rank - 1)
    message.add_(1)
    if rank + 1 < world:
        dist.send(message, rank + 1)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        dist.all_reduce(gradient, group=mine)
    delay()
    dist.all_reduce(other)
    while not end.query():
        end.record()
        delay()
        break
    torch.cuda.current_stream().wait_stream(side)
    end.record()
    if step % 2 == rank % 2:
        torch.cuda.synchronize()
    else:
        end.synchronize()
    times.append((round(start.elapsed_time(end), 6), time.perf_counter_ns()))
torch.cuda.synchronize()
dist.barrier()
print(rank, times, flush=True)
dist.destroy_process_group()
