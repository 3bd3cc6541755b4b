"""Kernels written in CuTe's DSL (FlashAttention 4, QuACK), which the simulation prices by their machine code.

    cute_kernels.py          # prints a line of JSON for each: what it is, us of the GPU

The same on a GPU and in a simulation (README.md, "Kernels in CuTe's DSL").
"""
import torch
from flash_attn.cute import flash_attn_func
from quack.cross_entropy import cross_entropy_bwd, cross_entropy_fwd
from quack.gemm_interface import gemm
from quack.rmsnorm import rmsnorm_bwd, rmsnorm_fwd
from quack.softmax import softmax_bwd, softmax_fwd

from graph_times import tell

BF16 = {"device": "cuda", "dtype": torch.bfloat16}


def attention(batch, sequence, heads, kv_heads, width, causal):
    q = torch.randn(batch, sequence, heads, width, **BF16, requires_grad=True)
    k, v = (torch.randn(batch, sequence, kv_heads, width, **BF16, requires_grad=True) for _ in range(2))
    shape = f"{batch}x{sequence} {heads}/{kv_heads} heads of {width}{' causal' if causal else ''}"

    def forward():
        out = flash_attn_func(q, k, v, causal=causal)
        return out[0] if isinstance(out, tuple) else out

    with torch.no_grad():
        tell(f"attention forward {shape}", forward)
    gradient = torch.randn(batch, sequence, heads, width, **BF16)
    tell(f"attention forward and backward {shape}", lambda: torch.autograd.grad(forward(), (q, k, v), gradient))


def rows(count, width):
    x, weight = torch.randn(count, width, **BF16), torch.randn(width, device="cuda")
    rstd = torch.rand(count, device="cuda") + 0.5
    tell(f"RMS norm forward {count}x{width}", lambda: rmsnorm_fwd(x, weight))
    tell(f"RMS norm backward {count}x{width}", lambda: rmsnorm_bwd(x, weight, x, rstd))
    tell(f"softmax forward {count}x{width}", lambda: softmax_fwd(x))
    tell(f"softmax backward {count}x{width}", lambda: softmax_bwd(x, x))
    target = torch.randint(width, (count,), device="cuda")
    losses = torch.rand(count, device="cuda")
    tell(f"cross-entropy forward {count}x{width}", lambda: cross_entropy_fwd(x, target))
    tell(f"cross-entropy backward {count}x{width}", lambda: cross_entropy_bwd(x, target, losses, losses))


def product(m, n, k):
    a, b = torch.randn(m, k, **BF16), torch.randn(k, n, **BF16)
    tell(f"product {m}x{n}x{k}", lambda: gemm(a, b, tuned=False))


if __name__ == "__main__":
    torch.manual_seed(0)
    for shape in [(2, 2048, 16, 16, 128), (4, 4096, 16, 16, 64), (1, 8192, 32, 8, 128), (16, 512, 16, 16, 128),
                  (1, 16384, 8, 8, 128), (16, 1024, 12, 12, 64), (3, 1536, 24, 24, 96)]:
        for causal in (True, False):
            attention(*shape, causal)
    for shape in [(16384, 4096), (32768, 1024), (8192, 8192), (4096, 32768)]:
        rows(*shape)
    for shape in [(4096, 4096, 4096), (8192, 8192, 1024), (16384, 4096, 2048), (1024, 1024, 8192)]:
        product(*shape)
