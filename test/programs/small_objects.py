"""Small data between ranks: objects, shapes and values that the host reads back.

Run on at least two ranks. Exits with an AssertionError where a value is wrong.
"""
import os

import torch
import torch.distributed as dist

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
device = torch.device("cuda")

gathered = [None] * world
dist.all_gather_object(gathered, {"rank": rank, "text": "x" * (10 * rank + 1)})
assert gathered == [{"rank": r, "text": "x" * (10 * r + 1)} for r in range(world)], gathered

objects = [{"shape": (3, 4)}, "plan", 17] if rank == 0 else [None] * 3
dist.broadcast_object_list(objects, src=0)
assert objects == [{"shape": (3, 4)}, "plan", 17], objects

for dtype in (torch.int64, torch.int32, torch.float32, torch.float64, torch.bfloat16, torch.uint8):
    value = torch.arange(5, device=device).to(dtype) + rank
    total = value.clone()
    dist.all_reduce(total)
    expected = (torch.arange(5) * world + world * (world - 1) // 2).to(dtype)
    assert torch.equal(total.cpu(), expected), (dtype, total, expected)
    most = value.clone()
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    assert torch.equal(most.cpu(), (torch.arange(5) + world - 1).to(dtype)), (dtype, most)

# Arithmetic before and behind a collective, in stream order.
x = torch.full((4,), float(rank + 1), device=device) * 2
dist.all_reduce(x)
y = (x + 1).sum().item()
assert y == 4 * (world * (world + 1) + 1), y

# Uneven splits: sizes first, then data.
send = [r + 1 for r in range(world)]
sizes = torch.empty(world, dtype=torch.int64, device=device)
dist.all_to_all_single(sizes, torch.tensor(send, device=device))
assert sizes.tolist() == [rank + 1] * world, sizes
data = torch.cat([torch.full((n,), 100 * rank + i, device=device) for i, n in enumerate(send)])
received = torch.empty(sum(sizes.tolist()), dtype=data.dtype, device=device)
dist.all_to_all_single(received, data, sizes.tolist(), send)
assert received.tolist() == [100 * r + rank for r in range(world) for _ in range(rank + 1)], received

# A flag that one rank sets.
flag = torch.zeros(1, device=device)
if rank == world - 1:
    flag += torch.tensor([1.0, float("inf")], device=device).isinf().any()
dist.all_reduce(flag)
assert flag.item() == 1.0, flag

dist.barrier()
if rank == 0:
    print("small objects arrive")
dist.destroy_process_group()
