"""Host time of PyTorch calls, in microseconds: the host_cost rows of overlap.py, on one rank."""
import json
import os
import time

import torch
import torch.distributed as dist

dev = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(dev)
dist.init_process_group("nccl", device_id=dev)
x = torch.zeros(16, device=dev)
e = torch.cuda.Event()
st = torch.cuda.current_stream()
w = torch.zeros(256, 256, device=dev, dtype=torch.bfloat16)


def host(name, fn, n=2000):
    for _ in range(50):
        fn()
    torch.cuda.synchronize()
    best = 1e9
    for _ in range(5):
        torch.cuda.synchronize()
        t = time.perf_counter()
        for _ in range(n):
            fn()
        best = min(best, time.perf_counter() - t)
    torch.cuda.synchronize()
    if dist.get_rank() == 0:
        print(json.dumps(dict(test="host_cost", call=name, us=round(best / n * 1e6, 3))), flush=True)


host("pass", lambda: None)
host("add_", lambda: x.add_(1), 500)
host("mm_256", lambda: torch.mm(w, w), 500)
host("event_record", lambda: e.record())
host("event_query", lambda: e.query())
host("stream_query", lambda: st.query())
host("empty_cached", lambda: torch.empty(16, device=dev))
host("synchronize_idle", torch.cuda.synchronize)
host("item", lambda: x[0].item(), 300)
host("fill_h2d_small", lambda: torch.tensor([1.0], device=dev), 300)
host("zeros", lambda: torch.zeros(16, device=dev), 500)
host("all_reduce_small", lambda: dist.all_reduce(x), 200)
dist.destroy_process_group()
