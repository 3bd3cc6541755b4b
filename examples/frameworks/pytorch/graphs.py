"""A small GPT trained with CUDA graphs: captured by hand, by make_graphed_callables, by torch.compile's
reduce-overhead, and with DistributedDataParallel's all-reduces inside.

    phantora run --cluster h200:1x1 -- python graphs.py raw|callables|reduce-overhead
    phantora run --cluster h200:1x2 -- python graphs.py ddp
"""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def main():
    way = sys.argv[1]
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    torch.manual_seed(0)
    width, vocabulary = 256, 1024
    model = nn.Sequential(nn.Embedding(vocabulary, width), *(Block(width, 4) for _ in range(4)),
                          nn.LayerNorm(width), nn.Linear(width, vocabulary)).cuda()
    ids = torch.randint(vocabulary, (4, 128), device="cuda")

    def loss_of(logits):
        return F.cross_entropy(logits.flatten(0, 1), ids.flatten())

    def by_graph(network, warm_up):
        # As the notes on CUDA graphs of PyTorch's manual have it: warm up on a side stream (11 times
        # for DDP, which makes its buckets anew), then capture all of a step but the optimizer's.
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(warm_up):
                network.zero_grad(set_to_none=True)
                loss_of(network(ids)).backward()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        network.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            loss_of(network(ids)).backward()
        return graph.replay

    if way == "raw":
        forward_and_backward = by_graph(model, 3)
    elif way == "ddp":
        os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"
        dist.init_process_group("nccl")
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            network = nn.parallel.DistributedDataParallel(
                model, device_ids=[torch.cuda.current_device()])
        forward_and_backward = by_graph(network, 11)
    else:
        if way == "callables":
            network = torch.cuda.make_graphed_callables(model, (ids,))
        else:
            network = torch.compile(model, mode="reduce-overhead")

        def forward_and_backward():
            # The compiled graphs' gradients are overwritten by their next run: nothing may hold them.
            model.zero_grad(set_to_none=way == "reduce-overhead")
            loss_of(network(ids)).backward()

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=True)
    for number in range(8):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        forward_and_backward()
        optimizer.step()
        torch.cuda.synchronize()
        print(f"step {number}: {1e3 * (time.perf_counter() - begin):.3f} ms", flush=True)
    print("training completed", flush=True)
    if way == "ddp":
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
