#!/usr/bin/env python3
"""Training steps of feed-forward layers whose norms and gates are Triton kernels of this file: triton_layers.py [--compiled]

With --compiled the same layers are plain PyTorch, and torch.compile writes the kernels. Each of 8 layers takes
16,384 tokens of 2,048 numbers to 5,632 and back in bf16, so that the GPU decides how long a step takes. Prints a
JSON line as train.py does, with how far the Triton kernels are from PyTorch's (`apart`, 0 where
nothing is computed). For measured.py.
"""
import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

TOKENS, WIDTH, HIDDEN, LAYERS = 16384, 2048, 5632, 8


@triton.jit
def norm_forward(x, weight, y, scale, width: tl.constexpr, BLOCK: tl.constexpr):
    """A row of x by its root mean square, times the weight; the row's scale is kept for the gradient."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    values = tl.load(x + row * width + columns, inside, 0.0).to(tl.float32)
    by = tl.rsqrt(tl.sum(values * values, 0) / width + 1e-6)
    tl.store(scale + row, by)
    tl.store(y + row * width + columns, (values * by * tl.load(weight + columns, inside, 0.0)).to(tl.bfloat16), inside)


@triton.jit
def norm_backward(dy, x, weight, scale, dx, dweight, rows, width: tl.constexpr, BLOCK: tl.constexpr):
    """Gradients of every so many rows: those of x, and a part of the weight's."""
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    of_weight = tl.load(weight + columns, inside, 0.0).to(tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        values = tl.load(x + row * width + columns, inside, 0.0).to(tl.float32)
        gradient = tl.load(dy + row * width + columns, inside, 0.0).to(tl.float32)
        by = tl.load(scale + row)
        normal = values * by
        weighted = gradient * of_weight
        along = tl.sum(weighted * normal, 0) / width
        tl.store(dx + row * width + columns, (by * (weighted - normal * along)).to(tl.bfloat16), inside)
        total += gradient * normal
    tl.store(dweight + tl.program_id(0) * width + columns, total, inside)


SIZES = [triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in ((1024, 4), (2048, 8), (4096, 8))]


@triton.autotune(SIZES, key=["count"])
@triton.jit
def gate_forward(gate, up, out, count, BLOCK: tl.constexpr):
    where = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = where < count
    g = tl.load(gate + where, inside, 0.0).to(tl.float32)
    u = tl.load(up + where, inside, 0.0).to(tl.float32)
    tl.store(out + where, (g * tl.sigmoid(g) * u).to(tl.bfloat16), inside)


@triton.autotune(SIZES, key=["count"])
@triton.jit
def gate_backward(gradient, gate, up, dgate, dup, count, BLOCK: tl.constexpr):
    where = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = where < count
    d = tl.load(gradient + where, inside, 0.0).to(tl.float32)
    g = tl.load(gate + where, inside, 0.0).to(tl.float32)
    u = tl.load(up + where, inside, 0.0).to(tl.float32)
    s = tl.sigmoid(g)
    tl.store(dup + where, (d * g * s).to(tl.bfloat16), inside)
    tl.store(dgate + where, (d * u * s * (1 + g * (1 - s))).to(tl.bfloat16), inside)


class Norm(torch.autograd.Function):
    @staticmethod
    def forward(context, x, weight):
        y, scale = torch.empty_like(x), torch.empty(len(x), device=x.device)
        norm_forward[(len(x),)](x, weight, y, scale, WIDTH, triton.next_power_of_2(WIDTH), num_warps=8)
        context.save_for_backward(x, weight, scale)
        return y

    @staticmethod
    def backward(context, dy):
        x, weight, scale = context.saved_tensors
        parts = 2 * torch.cuda.get_device_properties(x.device).multi_processor_count
        dx, dweight = torch.empty_like(x), torch.empty(parts, WIDTH, device=x.device)
        norm_backward[(parts,)](dy, x, weight, scale, dx, dweight, len(x), WIDTH, triton.next_power_of_2(WIDTH), num_warps=8)
        return dx, dweight.sum(0).to(weight.dtype)


class Gate(torch.autograd.Function):
    @staticmethod
    def forward(context, gate, up):
        out = torch.empty_like(gate)
        gate_forward[lambda meta: (triton.cdiv(out.numel(), meta["BLOCK"]),)](gate, up, out, out.numel())
        context.save_for_backward(gate, up)
        return out

    @staticmethod
    def backward(context, gradient):
        gate, up = context.saved_tensors
        dgate, dup = torch.empty_like(gate), torch.empty_like(up)
        grid = lambda meta: (triton.cdiv(gate.numel(), meta["BLOCK"]),)
        gate_backward[grid](gradient, gate, up, dgate, dup, gate.numel())
        return dgate, dup


def plain_norm(x, weight):
    values = x.float()
    return (values * torch.rsqrt(values.square().mean(-1, keepdim=True) + 1e-6) * weight).to(x.dtype)


class Layer(torch.nn.Module):
    def __init__(self, norm, gated):
        super().__init__()
        self.norm, self.gated = norm, gated
        self.weight = torch.nn.Parameter(torch.ones(WIDTH))
        self.gate, self.up = (torch.nn.Linear(WIDTH, HIDDEN, bias=False) for _ in range(2))
        self.down = torch.nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x):
        normal = self.norm(x, self.weight)
        return x + self.down(self.gated(self.gate(normal), self.up(normal)))


def furthest():
    """How far the Triton kernels are from PyTorch's, values and gradients, on one small layer."""
    torch.manual_seed(0)
    x, d = (torch.randn(64, WIDTH, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    apart = 0.0
    for ours, plain, shape in ((Norm.apply, plain_norm, (WIDTH,)), (Gate.apply, lambda g, u: F.silu(g) * u, (64, WIDTH))):
        other = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
        results = []
        for function in (ours, plain):
            operands = [value.clone().requires_grad_() for value in (x, other)]
            y = function(*operands)
            results.append((y, *torch.autograd.grad(y, operands, d)))
        apart = max(apart, *((a.float() - b.float()).abs().max().item() / max(b.abs().max().item(), 1) for a, b in zip(*results)))
    return apart


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--compiled", action="store_true")
    arguments.add_argument("--steps", type=int, default=12)
    options = arguments.parse_args()
    apart = None if options.compiled else furthest()
    ways = (plain_norm, lambda gate, up: F.silu(gate) * up) if options.compiled else (Norm.apply, Gate.apply)
    model = torch.nn.Sequential(*(Layer(*ways) for _ in range(LAYERS))).to("cuda", torch.bfloat16)
    run = torch.compile(model) if options.compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    x = torch.randn(TOKENS, WIDTH, device="cuda", dtype=torch.bfloat16)
    times, host = [], []
    for step in range(3 + options.steps):
        torch.cuda.synchronize()
        began, busy = time.perf_counter(), time.process_time()
        run(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        busy = time.process_time() - busy
        torch.cuda.synchronize()
        if step >= 3:
            times.append(time.perf_counter() - began)
            host.append(busy)
    print(json.dumps(dict(compiled=options.compiled, torch=torch.__version__, triton=triton.__version__,
                          gpu=torch.cuda.get_device_name(0), median_s=statistics.median(times), min_s=min(times), max_s=max(times),
                          cpu_s=statistics.median(host), apart=apart, peak_alloc=torch.cuda.max_memory_allocated())))


main()
