"""Training steps under torch.profiler: writes FOLDER/rankN.json, and prints what the profiler counts.

    profiled.py FOLDER [sync]    with `sync`, waits for events are recorded too
"""
import ctypes
import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(),
                            torch.nn.Linear(2048, 512)).cuda()
model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters())
side = torch.cuda.Stream()


def step():
    x = torch.randn(256, 512).cuda()  # a copy from pageable memory
    buffer = torch.zeros(1 << 20, dtype=torch.uint8, device="cuda")
    with torch.cuda.stream(side):
        side.wait_stream(torch.cuda.current_stream())
        buffer.zero_()
        copied = x.clone()
    torch.cuda.current_stream().wait_stream(side)
    with record_function("forward"):
        loss = (model(x) - copied).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    gathered = torch.empty(world, device="cuda")
    dist.all_gather_into_tensor(gathered, loss.detach().reshape(1))
    return gathered.sum().item()  # a copy to the host


settings = {}
if "sync" in sys.argv:
    settings["experimental_config"] = torch._C._profiler._ExperimentalConfig(
        enable_cuda_sync_events=True)
for _ in range(2):
    step()
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], **settings) as profiler:
    for _ in range(2):
        with record_function("step"):
            step()
    cudart, graph = ctypes.CDLL("libcudart.so.13"), ctypes.c_void_p()
    assert cudart.cudaGraphCreate(ctypes.byref(graph), 0) == 0
    assert cudart.cudaGraphDestroy(graph) == 0
    assert cudart.cudaMemcpy3D(None) == cudart.cudaGetLastError() == 1
profiler.export_chrome_trace(str(pathlib.Path(sys.argv[1]) / f"rank{rank}.json"))
averages = {event.key: event for event in profiler.key_averages()}
# Operators bear the time of their kernels, which are listed too; ranges of the program's are, around what they launched.
device_us = sum(event.self_device_time_total for event in averages.values()
                if event.device_type == DeviceType.CUDA and not event.is_user_annotation)
print(f"rank {rank}: {device_us:.3f} us on the device, "
      f"{averages['aten::addmm'].device_time_total:.3f} us of aten::addmm")
dist.destroy_process_group()
