#!/usr/bin/env python3
"""Runs, on a machine with a GPU, what sorts, selects and searches: `phantora measure` times its kernels under the keys
that the interception has for them.

Usage: phantora measure --kernels FITTED.db -- python3 measure_sorting.py fitted
       phantora measure --kernels JUDGES.db -- python3 measure_sorting.py judges
       phantora kernels export FITTED.db FITTED.csv

A third of the cases judges and is never fitted: those whose digest leaves 1 when it is divided by 3 (make_table.py's
is_judge()).
"""
import sys

import torch
import torch.nn.functional as F

from make_table import is_judge
from measure_h200 import draw, pick

TYPES = dict(fp32=torch.float32, bf16=torch.bfloat16, fp16=torch.float16, fp64=torch.float64, int64=torch.int64, int32=torch.int32)
REPEATS = 5


def filled(dtype, *shape, below=1 << 30):
    kind = TYPES[dtype]
    return torch.randn(*shape, device="cuda").to(kind) if kind.is_floating_point else torch.randint(0, below, shape, dtype=kind, device="cuda")


def long_ones():
    """Of one long tensor."""
    for _ in range(190):
        kind = draw.choice(("sort", "sort", "sort", "unique", "unique_inverse", "topk", "kthvalue", "median", "cumsum", "randperm", "bincount",
                            "histc", "searchsorted", "bucketize", "multinomial", "isin"))
        dtype = draw.choice(("fp32", "fp32", "fp32", "bf16", "fp64", "int64", "int64", "int32"))
        n, few = pick(12, 25.5), pick(0, 10)
        if kind in ("unique", "unique_inverse", "isin", "bincount"):
            dtype = draw.choice(("int64", "int64", "int32"))
        if kind in ("multinomial", "searchsorted", "bucketize", "histc"):
            dtype = "fp32"
        if kind == "multinomial":
            n = min(n, 1 << 22)
        below = draw.choice((1 << 10, 1 << 16, 1 << 30))

        def make(kind=kind, dtype=dtype, n=n, few=few, below=below):
            x = filled(dtype, n, below=below)
            edges = filled("fp32", few + 1).sort().values
            return {"sort": lambda: x.sort(), "unique": lambda: x.unique(), "unique_inverse": lambda: x.unique(return_inverse=True),
                    "topk": lambda: x.topk(few), "kthvalue": lambda: x.kthvalue(few), "median": lambda: x.median(), "cumsum": lambda: x.cumsum(0),
                    "randperm": lambda: torch.randperm(n, device="cuda"), "bincount": lambda: (x % 1024).bincount(minlength=1024),
                    "histc": lambda: x.histc(few + 1), "searchsorted": lambda: torch.searchsorted(edges, x), "bucketize": lambda: torch.bucketize(x, edges),
                    "multinomial": lambda: x.abs().multinomial(few, replacement=True), "isin": lambda: torch.isin(x, x[:few])}[kind]
        yield dict(op=kind, dtype=dtype, n=n, few=few, below=below), make


def rows():
    """Of each row of a matrix, as samplers and routers have them."""
    for _ in range(120):
        kind = draw.choice(("sort", "sort", "topk", "topk", "topk", "cumsum", "argmax", "median"))
        dtype = draw.choice(("fp32", "fp32", "bf16", "int64"))
        n, cols = pick(0, 14), draw.choice((8, 16, 32, 64, 128, 160, 256, 384, 1000, 1024, 2048, 4096, 8192, 32000, 50257, 128256))
        if n * cols > 1 << 26:
            continue
        few = min(cols, draw.choice((1, 2, 4, 6, 8, 16, 50, 100)))

        def make(kind=kind, dtype=dtype, n=n, cols=cols, few=few):
            x = filled(dtype, n, cols)
            return {"sort": lambda: x.sort(-1), "topk": lambda: x.topk(few, -1), "cumsum": lambda: x.cumsum(-1), "argmax": lambda: x.argmax(-1),
                    "median": lambda: x.median(-1)}[kind]
        yield dict(op=kind + "_rows", dtype=dtype, n=n, cols=cols, few=few), make


def gradients():
    """Of tables by many indices, which are sorted first."""
    for _ in range(60):
        kind = draw.choice(("embedding", "index_put"))
        dtype = draw.choice(("fp32", "fp32", "bf16"))
        table, count, width = pick(8, 20), pick(12, 21.5), draw.choice((16, 32, 64, 128, 256, 512, 1024))
        if max(table, count) * width > 3e8:
            continue

        def make(kind=kind, dtype=dtype, table=table, count=count, width=width):
            at, x, v = torch.randint(0, table, (count,), device="cuda"), filled(dtype, table, width), filled(dtype, count, width)
            if kind == "embedding":
                x.requires_grad_(True)
                return lambda: F.embedding(at, x).backward(v)
            return lambda: x.index_put_((at,), v, accumulate=True)
        yield dict(op="by_" + kind, dtype=dtype, table=table, count=count, width=width), make


def main(part, families=(long_ones, rows, gradients), seed=1127):
    draw.seed(seed)
    torch.manual_seed(0)
    done = 0
    for family in families:
        for case, make in family():
            if is_judge(case, 3) != (part == "judges"):
                continue
            try:
                run = make()
                for _ in range(REPEATS):
                    run()
                torch.cuda.synchronize()
                done += 1
            except Exception as error:
                print(f"{case}: {str(error).splitlines()[0]}", flush=True)
            run = None
            torch.cuda.empty_cache()
    print(f"{done} cases", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
