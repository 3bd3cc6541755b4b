"""DeepSpeed's pipeline module: two stages, data parallel over the rest of the GPUs."""
import time

import deepspeed
import torch
from deepspeed.pipe import PipelineModule
from torch import nn

deepspeed.init_distributed("nccl")
layers = [nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)]
net = PipelineModule(layers, loss_fn=nn.CrossEntropyLoss(), num_stages=2,
                     partition_method="parameters")
config = {"train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 4,
          "steps_per_print": 1,
          "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "torch_adam": True}}}
engine, *_ = deepspeed.initialize(model=net, config=config, model_parameters=[
    parameter for parameter in net.parameters() if parameter.requires_grad])


def batches():
    while True:
        yield torch.randn(8, 256), torch.randint(10, (8,))


data = iter(batches())
for step in range(4):
    before = time.perf_counter()
    engine.train_batch(data_iter=data)
    torch.cuda.synchronize()
    if engine.global_rank == 0:
        print(f"step {step}: {1e3 * (time.perf_counter() - before):.3f} ms", flush=True)
print("training completed", flush=True)
