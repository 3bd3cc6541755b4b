"""Kernels that are compiled while the program runs: PyTorch's own with NVRTC, the user's with NVRTC
(jiterator) and with Triton, plain and autotuned."""
import time

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(a, b, out, n, BLOCK: tl.constexpr):
    where = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = where < n
    tl.store(out + where, tl.load(a + where, inside) + tl.load(b + where, inside), inside)


@triton.autotune([triton.Config({"BLOCK": block}, num_warps=warps)
                  for block, warps in ((64, 2), (128, 4), (256, 8))], key=["columns"])
@triton.jit
def row_sum_kernel(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        where = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * columns + where, where < columns, 0.0)
    tl.store(out + row, tl.sum(total, 0))


n = 1 << 24
a, b = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
out = torch.empty_like(a)
squares = torch.cuda.jiterator._create_jit_fn("template <typename T> T f(T x, T y) { return x * x + y * y; }")
sums = torch.empty(4096, device="cuda")
work = {
    "erfinv": lambda: torch.erfinv(a),
    "trunc_normal": lambda: torch.nn.init.trunc_normal_(a),
    "prod": lambda: b.prod(),
    "jiterator": lambda: squares(a, b),
    "triton": lambda: add_kernel[(triton.cdiv(n, 1024),)](a, b, out, n, BLOCK=1024),
    "triton autotuned": lambda: row_sum_kernel[(4096,)](a, sums, n // 4096),
}
for name, function in work.items():
    for _ in range(2):  # the first compiles
        torch.cuda.synchronize()
        before = time.perf_counter()
        function()
        torch.cuda.synchronize()
    print(f"step {name}: {1e3 * (time.perf_counter() - before):.3f} ms", flush=True)
print("all compiled", flush=True)
