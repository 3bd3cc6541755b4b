"""How fast blocks start: kernels in Triton that do nothing, copy, load twice one after the other, or add up.

    triton_blocks.py         # prints a line of JSON for each: what it is, us of the GPU

The same on a GPU and in a simulation (README.md, "Kernels in Triton").
"""
import torch
import triton
import triton.language as tl

from graph_times import tell


@triton.jit
def empty(x, n):
    if tl.program_id(0) >= n:
        tl.store(x, 1.0)


@triton.jit
def copy(x, y, WIDTH: tl.constexpr):
    at = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    tl.store(y + at, tl.load(x + at))


@triton.jit
def chain(order, x, y, WIDTH: tl.constexpr):
    block, lane = tl.load(order + tl.program_id(0)), tl.arange(0, WIDTH)
    tl.store(y + tl.program_id(0) * WIDTH + lane, tl.load(x + block * WIDTH + lane))


@triton.jit
def total(x, y, WIDTH: tl.constexpr):
    at = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    tl.store(y + tl.program_id(0), tl.sum(tl.load(x + at), 0))


if __name__ == "__main__":
    x, y = torch.zeros(1 << 25, device="cuda"), torch.zeros(1 << 25, device="cuda")
    for warps in (1, 2, 4, 8, 16, 32):
        for blocks in (1024, 4096, 16384, 65536, 262144):
            tell(f"empty {blocks} blocks of {warps} warps", lambda: empty[(blocks,)](x, 1 << 30, num_warps=warps))
    for warps in (1, 4):
        for blocks in (1024, 4096, 16384, 65536):
            order = torch.randperm(blocks, device="cuda").to(torch.int32)
            tell(f"copy {blocks} blocks of {warps} warps", lambda: copy[(blocks,)](x, y, WIDTH=32 * warps, num_warps=warps))
            tell(f"chain {blocks} blocks of {warps} warps", lambda: chain[(blocks,)](order, x, y, WIDTH=32 * warps, num_warps=warps))
            tell(f"sum {blocks} blocks of {warps} warps", lambda: total[(blocks,)](x, y, WIDTH=32 * warps, num_warps=warps))
