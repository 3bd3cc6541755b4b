"""Times groups of collectives and exchanges as PyTorch programs call them, on GPUs real or simulated.

    torchrun --nproc-per-node 4 bench/accuracy/grouped.py
    build/release/bin/phantora run --host-time off --cluster h200:1x4 -- PYTHON bench/accuracy/grouped.py
"""
import os

import torch
import torch.distributed as dist

MIB = 1 << 20


def main():
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)

    def timed(name, call, times=10):
        for _ in range(3):
            call()
        torch.cuda.synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(times):
            call()
        end.record()
        torch.cuda.synchronize()
        if rank == 0:
            print(f"{name}: {begin.elapsed_time(end) / times * 1e3:.1f} us", flush=True)

    shards = [torch.zeros(MIB // 2 * (i % 3 + 1), dtype=torch.bfloat16, device=device) for i in range(4)]
    whole = [torch.zeros(world * shard.numel(), dtype=shard.dtype, device=device) for shard in shards]

    def one_by_one():
        for out, shard in zip(whole, shards):
            dist.all_gather_into_tensor(out, shard)

    def grouped():
        with dist._coalescing_manager(device=device, async_ops=False):
            one_by_one()

    timed("four all_gathers of 1 to 3 MiB shards, grouped", grouped)
    timed("the same one by one", one_by_one)

    sent = [(to + 1) * MIB for to in range(world)]
    out = torch.zeros(world * (rank + 1) * MIB, dtype=torch.uint8, device=device)
    uneven = torch.zeros(sum(sent), dtype=torch.uint8, device=device)
    timed("all_to_all of 1 to 4 MiB", lambda: dist.all_to_all_single(out, uneven, [(rank + 1) * MIB] * world, sent))
    there, back = (torch.zeros(world * 8 * MIB, dtype=torch.uint8, device=device) for _ in range(2))
    timed("all_to_all of 8 MiB", lambda: dist.all_to_all_single(back, there))

    def ring():
        calls = [dist.P2POp(dist.isend, there, (rank + 1) % world), dist.P2POp(dist.irecv, back, (rank - 1) % world)]
        for work in dist.batch_isend_irecv(calls):
            work.wait()

    timed("32 MiB to the next rank", ring)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
