"""What CUDA graphs save the host in PyTorch: GPT-2 small (124M), forward and backward, eager, by
torch.cuda.graph, make_graphed_callables, and torch.compile with and without reduce-overhead.

    python graph_gpt2.py [--small] [--only WAYS]

Prints a JSON line per way: the median step time, the host time of issuing a step, and the kernels of
a step. The same program runs on a real GPU and under `phantora run`. A way that this machine cannot
run says so.
"""
import argparse
import json
import statistics
import time

import torch
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
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers=12, width=768, heads=12, vocabulary=50257, length=1024):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.norm(self.blocks(x)))


def measure(way, step, steps):
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    whole, issue = [], []
    for _ in range(steps):
        begin = time.perf_counter()
        step()
        issued = time.perf_counter()
        torch.cuda.synchronize()
        issue.append(issued - begin)
        whole.append(time.perf_counter() - begin)
    # Several behind one another, as training issues them.
    begin = time.perf_counter()
    for _ in range(steps):
        step()
    torch.cuda.synchronize()
    back_to_back = (time.perf_counter() - begin) / steps
    print(json.dumps({"way": way, "step_ms": 1e3 * statistics.median(whole),
                      "issue_ms": 1e3 * statistics.median(issue),
                      "back_to_back_ms": 1e3 * back_to_back,
                      "memory_gib": torch.cuda.max_memory_allocated() / 2**30}), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true", help="a model that runs in seconds anywhere")
    parser.add_argument("--only", default="eager,graph,callables,compile,reduce-overhead")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--length", type=int, default=256)
    arguments = parser.parse_args()
    print(json.dumps({"machine": torch.cuda.get_device_name(), "torch": torch.__version__}), flush=True)

    def model_and_input():
        torch.manual_seed(1)
        sizes = {"layers": 2, "width": 256, "heads": 4, "vocabulary": 512} if arguments.small else {}
        model = Gpt(**sizes).cuda().to(torch.bfloat16)
        ids = torch.randint(512, (arguments.batch, arguments.length), device="cuda")
        return model, ids

    def loss_of(logits, ids):
        return F.cross_entropy(logits.flatten(0, 1), ids.flatten())

    def eager():
        model, ids = model_and_input()

        def step():
            model.zero_grad()
            loss_of(model(ids), ids).backward()
        return step

    def graph():
        model, ids = model_and_input()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                model.zero_grad()
                loss_of(model(ids), ids).backward()
        torch.cuda.current_stream().wait_stream(side)
        captured = torch.cuda.CUDAGraph()
        model.zero_grad()
        with torch.cuda.graph(captured):
            loss_of(model(ids), ids).backward()
        return captured.replay

    def callables():
        model, ids = model_and_input()
        graphed = torch.cuda.make_graphed_callables(model, (ids,))

        def step():
            model.zero_grad()
            loss_of(graphed(ids), ids).backward()
        return step

    def compiled(mode):
        def make():
            model, ids = model_and_input()
            fast = torch.compile(model, mode=mode)

            def step():
                torch.compiler.cudagraph_mark_step_begin()
                model.zero_grad()
                loss_of(fast(ids), ids).backward()
            return step
        return make

    ways = {"eager": eager, "graph": graph, "callables": callables, "compile": compiled("default"),
            "reduce-overhead": compiled("reduce-overhead")}
    for way in arguments.only.split(","):
        try:
            measure(way, ways[way](), arguments.steps)
        except Exception as error:  # such as no compiler on this machine
            print(json.dumps({"way": way, "failed": f"{type(error).__name__}: {error}"[:300]}), flush=True)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
