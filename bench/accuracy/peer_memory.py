#!/usr/bin/env python3
"""All-reduces by kernels that read the memory of the other GPUs of a host: vLLM's, and those of PyTorch's symmetric memory.

    torchrun --nproc-per-node GPUS peer_memory.py    # rank 0 prints a line of JSON for each: what, bytes, us

Each is captured REPEATED times into one CUDA graph, as engines that answer do; `us` is the graph's time by CUDA's events over REPEATED,
the median of TURNS. In the last lines, rank 1 comes LATE late and rank 0 tells how long it was at work. NCCL's all-reduce stands beside them.
The same on GPUs and in a simulation (README.md, "Serving").
"""
import json
import os
import statistics

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric_memory
from graph_times import captured

REPEATED, TURNS = 32, 9
LATE = 2_000_000  # cycles
SIZES = [1 << power for power in range(11, 25)]  # bytes of each GPU's vector


def microseconds(graph, late=0):
    """Of one launch of `graph`; `late`: cycles for which rank 1 waits first."""
    dist.barrier()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(500_000)  # the GPUs begin together, whatever their hosts do
    if late and dist.get_rank() == 1:
        torch.cuda._sleep(late)
    begin.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return 1000 * begin.elapsed_time(end)


def tell(what, size, graph):
    times = [microseconds(graph) for _ in range(TURNS)]
    if dist.get_rank() == 0:
        print(json.dumps({"what": what, "gpus": dist.get_world_size(), "bytes": size, "us": round(statistics.median(times) / REPEATED, 3)}), flush=True)


def vllm_all_reduces():
    """Function of a size: the graph, of vLLM's own all-reduce."""
    import vllm  # noqa: F401
    from vllm.distributed.device_communicators.custom_all_reduce import CustomAllreduce
    reducer = CustomAllreduce(dist.new_group(backend="gloo"), torch.cuda.current_device())
    assert not reducer.disabled

    def graph(size):
        if size >= reducer.max_size:
            return None
        vector = torch.ones(size // 2, dtype=torch.bfloat16, device="cuda")
        outputs = [torch.empty_like(vector) for _ in range(REPEATED)]
        torch.cuda.synchronize()
        made = torch.cuda.CUDAGraph()
        with reducer.capture():
            with torch.cuda.graph(made):
                for output in outputs:
                    reducer.all_reduce(vector, out=output, registered=True)
        return made
    return graph


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    name = dist.group.WORLD.group_name
    buffer = symmetric_memory.empty(SIZES[-1] // 2, dtype=torch.bfloat16, device="cuda")
    handle = symmetric_memory.rendezvous(buffer, dist.group.WORLD)
    buffer.fill_(0)
    ways = {
        "nccl": dist.all_reduce,
        "one_shot": lambda vector: torch.ops.symm_mem.one_shot_all_reduce(vector, "sum", name),
        "two_shot": lambda vector: torch.ops.symm_mem.two_shot_all_reduce_(vector, "sum", name),
    }
    late = []
    for what, way in ways.items():
        for size in SIZES:
            graph = captured(lambda way=way, size=size: way(buffer[:size // 2]), REPEATED)
            tell(what, size, graph)
            if size == SIZES[3]:
                late.append((what, size, graph))
    barrier = captured(handle.barrier, REPEATED)
    tell("barrier", 0, barrier)
    late.append(("barrier", 0, barrier))
    try:
        graph_of = vllm_all_reduces()
    except ImportError as error:
        if dist.get_rank() == 0:
            print(f"no vLLM: {error}", flush=True)
    else:
        for size in SIZES:
            if graph := graph_of(size):
                tell("vllm", size, graph)
                if size == SIZES[3]:
                    late.append(("vllm", size, graph))
    for what, size, graph in late:
        extra = statistics.median(microseconds(graph, LATE) for _ in range(TURNS)) - statistics.median(microseconds(graph) for _ in range(TURNS))
        if dist.get_rank() == 0:
            print(json.dumps({"what": f"{what}, rank 1 late", "gpus": dist.get_world_size(), "bytes": size, "waited_us": round(extra, 1)}), flush=True)
    dist.barrier()
    os._exit(0)  # vLLM's group needs no destructor's order


if __name__ == "__main__":
    main()
