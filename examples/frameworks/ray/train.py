"""Ray Train, as its first page shows it: a worker with a GPU each, which PyTorch's DistributedDataParallel joins.

    phantora run --cluster h200:1x2 --per run -- python examples/frameworks/ray/train.py --workers 2
"""
import argparse
import time

import ray
import ray.train
import ray.train.torch
import torch
import torch.nn as nn
from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer


def train(settings):
    width, heads, layers, batch, tokens, vocabulary = 1024, 16, 8, 8, 1024, 32000

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(vocabulary, width)
            layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
            self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
            self.head = nn.Linear(width, vocabulary, bias=False)

        def forward(self, x):
            mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
            return self.head(self.layers(self.embedding(x), mask=mask, is_causal=True))

    model = ray.train.torch.prepare_model(Decoder())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    device = ray.train.torch.get_device()
    text = torch.randint(vocabulary, (batch, tokens + 1), device=device)
    rank, workers = ray.train.get_context().get_world_rank(), ray.train.get_context().get_world_size()
    times = []
    for step in range(settings["steps"]):
        begin = time.perf_counter()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
        if rank == 0:
            print(f"step {step}: {1e3 * times[-1]:.1f} ms, {workers * batch * tokens / times[-1]:,.0f} tokens/s on {workers} GPUs", flush=True)
    ray.train.report({"step_ms": 1e3 * sorted(times)[len(times) // 2]})  # Ray's controller asks for it every two seconds


parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=2)
parser.add_argument("--steps", type=int, default=8)
arguments = parser.parse_args()

ray.init()
print(f"Ray has {ray.cluster_resources()['GPU']:.0f} GPUs", flush=True)
trainer = TorchTrainer(train, train_loop_config={"steps": arguments.steps},
                       scaling_config=ScalingConfig(num_workers=arguments.workers, use_gpu=True))
print("trained without an error:", trainer.fit().error is None, flush=True)
