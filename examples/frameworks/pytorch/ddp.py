"""DistributedDataParallel of a small convolutional network, as a first tutorial has it. Destroys its
process group while the last step's work is still queued."""
import os
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

local = int(os.environ["LOCAL_RANK"])
device = torch.device("cuda", local)
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=device)

torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(),
                      nn.MaxPool2d(2), nn.Dropout(0.25), nn.Flatten(), nn.Linear(9216, 128),
                      nn.ReLU(), nn.Linear(128, 10)).to(device)
model = DistributedDataParallel(model, device_ids=[local])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
images = torch.randn(256, 1, 28, 28, device=device)
labels = torch.randint(10, (256,), device=device)

before = time.perf_counter()
for step in range(10):
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    now = time.perf_counter()
    if dist.get_rank() == 0:
        print(f"step {step}: {1e3 * (now - before):.3f} ms", flush=True)
    before = now
dist.destroy_process_group()
print("training completed", flush=True)
