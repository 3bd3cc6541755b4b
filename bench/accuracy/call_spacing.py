"""How calls cool down: PyTorch calls with more and more other host work between two of them.

In a loop of its own a call finds its code and data in the caches; between the operations of a
framework it does not. Prints, for each amount of other work, the time between two calls and the
median time of the call itself; with LD_PRELOAD=api_in_situ.so that of the CUDA call in it. On a
machine with a GPU, or simulated. Usage: call_spacing.py"""
import json
import re
import statistics
import time

import torch
import torch.nn.functional as F

device = torch.device("cuda", 0)
small = torch.zeros(16, device=device)
square = torch.zeros(256, 256, device=device, dtype=torch.bfloat16)
out = torch.empty_like(square)
event = torch.cuda.Event()
here = torch.ones(8, 8)
words = "the names of things that programs look up are short and many".split()

# Host work of a framework's kind, each with code of its own.
OTHERS = [
    lambda: here + 1, lambda: here.sum(), lambda: torch.cat([here, here]), lambda: here.view(4, 16).t().contiguous(),
    lambda: F.layer_norm(here, (8,)), lambda: F.softmax(here, -1), lambda: torch.empty(7), lambda: here.max(0),
    lambda: F.gelu(here), lambda: here.expand(2, 8, 8).reshape(-1), lambda: torch.stack([here, here]),
    lambda: here.to(torch.float64), lambda: torch.arange(5), lambda: here[1:3], lambda: here @ here,
    lambda: F.cross_entropy(here, torch.zeros(8, dtype=torch.long)), lambda: json.dumps({w: 1 for w in words}),
    lambda: json.loads('{"a": [1, 2, 3]}'), lambda: re.sub("a.", "b", words[0]), lambda: sorted(words),
    lambda: {w: len(w) for w in words}, lambda: "".join(w.upper() for w in words), lambda: torch.zeros(3).tolist(),
    lambda: torch.nn.Linear(4, 4), lambda: statistics.mean([1, 2, 3]), lambda: here.masked_fill(here > 0, 0),
    lambda: torch.where(here > 0, here, here), lambda: here.std(), lambda: F.pad(here, (1, 1)),
    lambda: torch.cumsum(here, 0), lambda: here.unbind(0), lambda: torch.einsum("ij,jk->ik", here, here)]

CALLS = {"add_": lambda: small.add_(1), "mm_256": lambda: torch.mm(square, square, out=out),
         "event_record": lambda: event.record(), "event_query": lambda: event.query()}

for name, call in CALLS.items():
    for count in (0, 1, 2, 4, 8, 16, 32):
        times, gaps, last = [], [], None
        turn = 0
        for i in range(400):
            for _ in range(count):
                OTHERS[turn % len(OTHERS)]()
                turn += 1
            begin = time.perf_counter()
            call()
            end = time.perf_counter()
            if last is not None and i >= 50:
                times.append(end - begin)
                gaps.append(begin - last)
            last = end
            if i % 50 == 49:
                torch.cuda.synchronize()
        print(json.dumps(dict(call=name, others=count, gap_us=round(1e6 * statistics.median(gaps), 2),
                              us=round(1e6 * statistics.median(times), 2))), flush=True)
