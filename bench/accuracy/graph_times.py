"""Times of GPU operations alone: each is captured several times into a CUDA graph, whose replays are timed by events,
so that the host does not count. The same on a GPU and in a simulation."""
import json

import torch

CALLS, REPLAYS = 5, 10


def captured(call, calls):
    """A CUDA graph of so many calls."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    return graph


def microseconds(call):
    """What one call takes of the GPU."""
    graph = captured(call, CALLS)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(3):
        graph.replay()
    begin.record()
    for _ in range(REPLAYS):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    return 1000 * begin.elapsed_time(end) / (CALLS * REPLAYS)


def tell(name, call):
    """Prints a line of JSON: {"kernel": name, "us": microseconds}."""
    try:
        print(json.dumps({"kernel": name, "us": round(microseconds(call), 3)}), flush=True)
    except Exception as error:  # the others are still of interest
        print(json.dumps({"kernel": name, "error": f"{type(error).__name__}: {str(error)[:200]}"}), flush=True)
    torch.cuda.empty_cache()
