"""One process that drives every GPU of its host: DataParallel, copies between GPUs and NCCL's
one-process collectives."""
import time

import torch
from torch import nn

gpus = torch.cuda.device_count()
model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)).cuda()
model = nn.DataParallel(model)
optimizer = torch.optim.AdamW(model.parameters())
batch = torch.randn(256 * gpus, 1024, device="cuda")
for step in range(6):
    before = time.perf_counter()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.cuda.synchronize()
    print(f"step {step}: {1e3 * (time.perf_counter() - before):.3f} ms", flush=True)

parts = [torch.full((4,), float(gpu), device=f"cuda:{gpu}") for gpu in range(gpus)]
torch.cuda.nccl.all_reduce(parts)
assert all(part.tolist() == [gpus * (gpus - 1) / 2] * 4 for part in parts), parts
assert parts[-1].to("cuda:0").tolist() == parts[0].tolist()
print(f"training completed on {gpus} GPUs", flush=True)
