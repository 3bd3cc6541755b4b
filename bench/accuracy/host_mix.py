"""Which kinds of work a framework's host time is like.

On a machine whose speed changes from moment to moment, a loop of PyTorch's host work (small layers
on the CPU, forward, backward and optimizer) is timed in turn with the pieces of work of `phantora
host`; where they vary together, they depend on the same things. Prints the shares, none below 0,
whose sum follows the loop's time best. Needs PyTorch and numpy. Usage: host_mix.py HOST_MIX_SO"""
import ctypes
import sys
import time

import numpy
import torch

library = ctypes.CDLL(sys.argv[1])
library.host_mix_ns.restype = ctypes.c_double
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.GELU())
                              for _ in range(12)])
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
data = torch.zeros(2, 8)


def step():
    optimizer.zero_grad()
    model(data).sum().backward()
    optimizer.step()


def of_framework():
    begin = time.thread_time_ns()
    step()
    return time.thread_time_ns() - begin


for _ in range(20):
    step()
# The means of ten each: moments, and not single hiccups.
rows = numpy.array([numpy.mean([[of_framework(), *(library.host_mix_ns(kind) for kind in range(4))]
                                for _ in range(10)], axis=0) for _ in range(60)])
print("medians, us:", *(f"{us:.1f}" for us in numpy.median(rows, axis=0) / 1e3))
print("p10, us:", *(f"{us:.1f}" for us in numpy.percentile(rows, 10, axis=0) / 1e3))
print("p90 / p10:", *(f"{x:.2f}" for x in numpy.percentile(rows, 90, axis=0) / numpy.percentile(rows, 10, axis=0)))
relative = rows / numpy.median(rows, axis=0)
print(f"a constant: mean error {numpy.abs(relative[:, 0] - 1).mean():.3f}")
for kind, name in enumerate(("interpreter", "allocation", "loads that wait", "loads that do not")):
    print(f"{name}: mean error {numpy.abs(relative[:, 0] - relative[:, 1 + kind]).mean():.3f}, "
          f"correlation {numpy.corrcoef(relative[:, 0], relative[:, 1 + kind])[0, 1]:.2f}")
