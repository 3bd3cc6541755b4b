#!/usr/bin/env python3
"""Measures, on a machine with a GPU, calls of cuFFT, cuSOLVER, cuSPARSE and of cuBLAS's solvers, and PyTorch's products of groups.

Usage: measure_algebra.py OUT.jsonl [SECONDS [WORKERS]]

Until these were measured such calls cost their arithmetic or their bytes, whatever the library does: a factorisation is hundreds of
kernels one after the other. A line is one operation of PyTorch that makes one such call, with the call's kernels by name (how
many, and their microseconds), and

    span    microseconds from the first one's start to the last one's end, idle time included: solvers wait for their host within
    host    microseconds until the operation returns, of a GPU that was idle
    wall    the same until the GPU is done
    memory  bytes of the peak that are neither there before nor in what the operation returns: the library's work area, above all

A third of the cases judges and is never fitted: those whose digest leaves 1 when it is divided by 3 (make_table.py's is_judge()).
Filters of many taps are lines as measure_architectures.py has them.
"""
import json
import math
import os
import statistics
import sys
import time

import torch

import make_table
import measure_h200
from measure_architectures import a_convolution
from measure_h200 import draw, pick

draw.seed(1126)
TYPES = {"fp32": torch.float32, "fp64": torch.float64, "bf16": torch.bfloat16, "fp16": torch.float16,
         "complex64": torch.complex64, "complex128": torch.complex128}
MOST = 1 << 26  # elements


def random(*shape, dtype="fp32"):
    return torch.randn(*shape, device="cuda", dtype=TYPES[dtype])


def transforms():
    smooth = (24, 48, 80, 96, 100, 120, 160, 200, 224, 240, 320, 384, 400, 448, 480, 500, 512, 640, 720, 768, 960, 1000, 1200, 1536, 2000, 2400,
              3000, 3072, 4000, 6000, 9000, 12000, 16000, 24000, 48000)
    odd = (101, 127, 197, 257, 331, 509, 1009, 2053, 4099, 10007)
    for _ in range(420):
        dims, kind = draw.choice((1, 1, 1, 1, 2, 2, 3)), draw.choice(("c2c", "r2c", "c2r"))
        one = lambda: 1 << draw.randint(4, 20 if dims == 1 else 11 if dims == 2 else 8)
        lengths = lambda: one() if draw.random() < 0.55 else draw.choice(smooth if draw.random() < 0.8 or dims > 1 else odd)
        sizes, batch = [lengths() for _ in range(dims)], int(2 ** draw.uniform(0, 14))
        dtype, across = draw.choice(("fp32",) * 6 + ("fp64",)), dims == 1 and draw.random() < 0.2
        if not 2 ** 10 < math.prod(sizes) * batch < MOST or any(n > 512 for n in sizes) and dims == 3:
            continue
        width = draw.choice((8, 16, 64, 128, 512)) if across else 1
        if across:
            batch = max(1, batch // width)

        def make(dims=dims, kind=kind, sizes=sizes, batch=batch, dtype=dtype, across=across, width=width):
            shape = [batch, *sizes] + ([width] if across else [])
            at = list(range(1, 1 + dims))
            half = list(shape)
            half[dims] = sizes[-1] // 2 + 1
            if kind == "c2r":
                x = random(*half, dtype="complex64" if dtype == "fp32" else "complex128")
                return lambda: torch.fft.irfftn(x, s=sizes, dim=at)
            x = random(*shape, dtype=dtype if kind == "r2c" else "complex64" if dtype == "fp32" else "complex128")
            return lambda: (torch.fft.rfftn if kind == "r2c" else torch.fft.fftn)(x, dim=at)
        yield dict(op="fft", kind=kind, dtype=dtype, sizes=sizes, batch=batch, width=width), make


def positive(n, batch, dtype):
    x = random(*batch, n, n, dtype=dtype)
    return x @ x.mT / n + torch.eye(n, device="cuda", dtype=TYPES[dtype])


def solvers():
    kinds = ("cholesky", "cholesky", "cholesky_solve", "cholesky_inverse", "lu", "lu", "lu_solve", "triangular", "triangular", "triangular_right",
             "qr", "qr", "householder", "ormqr", "eigh", "eigh", "eigh", "eigvalsh", "svd", "svd", "svdvals", "svd_gesvd", "eig", "inv")
    for _ in range(900):
        kind, dtype = draw.choice(kinds), draw.choice(("fp32",) * 5 + ("fp64",))
        several = draw.random() < 0.4
        iterative = kind.startswith(("eig", "svd"))
        batch = [pick(1, 9)] if several else []
        n = pick(2.5, 8 if several else 10.6 if iterative else 12.3)
        if draw.random() < 0.5:
            n = draw.choice([v for v in (8, 16, 32, 64, 128, 256, 512, 768, 1024, 2048, 3072, 4096) if v <= (256 if several else 1536 if iterative else 4096)])
        m = n
        if kind in ("lu", "qr", "householder", "ormqr", "svd", "svdvals", "svd_gesvd") and draw.random() < 0.5:
            m = n * draw.choice((2, 4, 8))
        if m * n * math.prod(batch) > (MOST >> (4 if iterative else 2)) or iterative and several and n > 128:
            continue
        if kind in ("svd_gesvd", "eig") and (several or n > 768):
            continue
        right = draw.choice((1, 1, 16, 64, 256, n)) if kind in ("cholesky_solve", "lu_solve", "triangular", "triangular_right", "ormqr") else 0

        def make(kind=kind, dtype=dtype, batch=batch, m=m, n=n, right=right):
            plain = lambda: random(*batch, m, n, dtype=dtype)
            if kind == "cholesky":
                x = positive(n, batch, dtype)
                return lambda: torch.linalg.cholesky_ex(x)
            if kind in ("cholesky_solve", "cholesky_inverse"):
                x = torch.linalg.cholesky(positive(n, batch, dtype))
                b = random(*batch, n, max(right, 1), dtype=dtype)
                return (lambda: torch.cholesky_solve(b, x)) if kind == "cholesky_solve" else lambda: torch.cholesky_inverse(x)
            if kind == "lu":
                x = plain()
                return lambda: torch.linalg.lu_factor_ex(x)
            if kind == "lu_solve":
                lu, pivots = torch.linalg.lu_factor(positive(n, batch, dtype))
                b = random(*batch, n, right, dtype=dtype)
                return lambda: torch.linalg.lu_solve(lu, pivots, b)
            if kind in ("triangular", "triangular_right"):
                left = kind == "triangular"
                x = torch.linalg.cholesky(positive(n, batch, dtype))
                b = random(*batch, *((n, right) if left else (right, n)), dtype=dtype)
                return lambda: torch.linalg.solve_triangular(x, b, upper=False, left=left)
            if kind == "qr":
                x = plain()
                return lambda: torch.geqrf(x)
            if kind == "householder":
                x, tau = torch.geqrf(plain())
                return lambda: torch.linalg.householder_product(x, tau)
            if kind == "ormqr":
                x, tau = torch.geqrf(plain())
                c = random(*batch, m, right, dtype=dtype)
                return lambda: torch.ormqr(x, tau, c)
            if kind in ("eigh", "eigvalsh"):
                x = positive(n, batch, dtype)
                return lambda: getattr(torch.linalg, kind)(x)
            if kind == "eig":
                x = plain()
                return lambda: torch.linalg.eig(x)
            if kind == "inv":
                x = positive(n, batch, dtype)
                return lambda: torch.linalg.inv_ex(x)
            x = plain()
            if kind == "svdvals":
                return lambda: torch.linalg.svdvals(x)
            return lambda: torch.linalg.svd(x, full_matrices=False, driver="gesvd" if kind == "svd_gesvd" else None)
        yield dict(op="solver", kind=kind, dtype=dtype, batch=batch, m=m, n=n, right=right), make


def sparse_products():
    for _ in range(260):
        kind, form = draw.choice(("mm", "mm", "mm", "mm", "mv", "sampled")), draw.choice(("csr", "csr", "coo"))
        dtype = draw.choice(("fp32", "fp32", "fp32", "bf16", "fp64"))
        rows, columns, degree, right = pick(8, 18), pick(8, 18), pick(0, 7), draw.choice((8, 16, 32, 64, 100, 128, 256, 512))
        short, skewed = form == "csr" and draw.random() < 0.3, draw.random() < 0.3
        right = 1 if kind == "mv" else right
        if kind == "sampled":
            form, dtype = "csr", draw.choice(("fp32", "fp32", "fp64"))
        if rows * degree > MOST >> 3 or max(rows, columns) * right > MOST:
            continue

        def make(kind=kind, form=form, dtype=dtype, rows=rows, columns=columns, degree=degree, right=right, short=short, skewed=skewed):
            entries = rows * degree
            row = torch.randint(0, rows, (entries,), device="cuda")
            if skewed:  # as in graphs: a few rows have many
                row = (rows * torch.rand(entries, device="cuda") ** 3).long()
            column = torch.randint(0, columns, (entries,), device="cuda")
            x = torch.sparse_coo_tensor(torch.stack((row, column)), random(entries, dtype=dtype), (rows, columns)).coalesce()
            if form == "csr":
                x = x.to_sparse_csr()
                if short:
                    x = torch.sparse_csr_tensor(x.crow_indices().int(), x.col_indices().int(), x.values(), x.shape)
            if kind == "sampled":
                a, b = random(rows, right, dtype=dtype), random(right, columns, dtype=dtype)
                return lambda: torch.sparse.sampled_addmm(x, a, b, beta=0.0)
            b = random(columns, right, dtype=dtype)
            return (lambda: x @ b[:, 0]) if kind == "mv" else lambda: x @ b
        yield dict(op="sparse", kind=kind, form=form, dtype=dtype, rows=rows, columns=columns, degree=degree, right=right, short=short,
                   skewed=skewed), make


def groups():
    """Products of groups, forward and of both gradients, with groups alike or not."""
    for _ in range(260):
        count, tokens = draw.choice((2, 4, 8, 16, 32, 64, 128)), pick(8, 16.5, 16)
        k, n = pick(8, 13.2, 64), pick(8, 13.2, 64)
        kind, alike = draw.choice(("rows", "rows", "rows_transposed", "inner", "float8")), draw.random() < 0.6
        if tokens // count < 8 or tokens * max(k, n) > MOST * 4 or count * k * n > MOST * 8 or 2.0 * tokens * n * k > 6e12:
            continue

        def make(count=count, tokens=tokens, k=k, n=n, kind=kind, alike=alike):
            if alike:
                ends = torch.arange(1, count + 1, device="cuda", dtype=torch.int64) * tokens // count // 16 * 16
            else:
                ends = (torch.rand(count - 1, device="cuda") * tokens).long().sort().values // 16 * 16
                ends = torch.cat((ends, ends.new_tensor([tokens])))
            ends[-1] = tokens
            ends = ends.int()
            x, w = random(tokens, k, dtype="bf16"), random(count, k, n, dtype="bf16")
            if kind == "rows":
                return lambda: torch._grouped_mm(x, w, offs=ends)
            if kind == "rows_transposed":
                turned = w.mT.contiguous()
                return lambda: torch._grouped_mm(x, turned.mT, offs=ends)
            if kind == "inner":
                g = random(tokens, n, dtype="bf16")
                return lambda: torch._grouped_mm(x.t(), g, offs=ends)
            a, b = x.to(torch.float8_e4m3fn), w.mT.contiguous().to(torch.float8_e4m3fn)
            sa, sb = torch.ones(tokens, device="cuda"), torch.ones(count, n, device="cuda")
            return lambda: torch._scaled_grouped_mm(a, b.mT, sa, sb, offs=ends, out_dtype=torch.bfloat16, use_fast_accum=True)
        yield dict(op="groups", kind=kind, dtype="fp8" if kind == "float8" else "bf16", tokens=tokens, k=k, n=n, groups=count, alike=alike), make


def many_taps():
    """Filters as large as what they filter: gradients of gradients, large kernels."""
    for _ in range(60):
        n, c, k = draw.choice((4, 8, 16, 32, 64)), draw.choice((16, 32, 64, 128, 256)), draw.choice((16, 32, 64, 128, 256))
        r = draw.choice((7, 8, 9, 11, 13, 15, 16, 31))
        hw = max(r, draw.choice((16, 16, 32, 32, 64)))
        padding = draw.choice((0, 1, r // 2))
        if n * c * hw * hw > 3e7 or 2.0 * n * hw * hw * c * k * r * r > 2e12:
            continue
        yield from a_convolution(n, c, k, (hw, hw), r, 1, padding, dtype=draw.choice(("bf16", "tf32", "tf32")), last=draw.random() < 0.3)


def times(run):
    """Of one call, with an idle GPU: until it returns, and until the GPU is done. And what it needs of memory meanwhile."""
    host, wall = [], []
    for _ in range(3):
        torch.cuda.synchronize()
        before = time.perf_counter()
        run()
        between = time.perf_counter()
        torch.cuda.synchronize()
        host.append((between - before) * 1e6)
        wall.append((time.perf_counter() - before) * 1e6)
    torch.cuda.reset_peak_memory_stats()
    returned = run()
    memory = torch.cuda.max_memory_allocated() - torch.cuda.memory_allocated()
    del returned
    return round(statistics.median(host), 1), round(statistics.median(wall), 1), memory


def line(case, calls, timed):
    """A call's kernels are those of the library, and the copies and fills between the first and the last of these."""
    spans, kept = [], None
    for events in calls:
        own = [i for i, e in enumerate(events) if e["cat"] == "kernel" and not make_table.is_torch(e)]
        inner = [e for e in events[own[0]:own[-1] + 1] if not make_table.is_torch(e)] if own else []
        if inner:
            spans.append(max(e["ts"] + e["dur"] for e in inner) - inner[0]["ts"])
            kept = inner if kept is None or spans[-1] <= statistics.median(spans) else kept
    if kept is None:
        return None
    kernels = {}
    for event in kept:
        found = kernels.setdefault(event["name"][:160], dict(us=0.0, count=0, grid=event["args"].get("grid"), block=event["args"].get("block"),
                                                             smem=event["args"].get("shared memory")))
        found["us"], found["count"] = round(found["us"] + event["dur"], 3), found["count"] + 1
    host, wall, memory = timed
    return dict(case, span=round(statistics.median(spans), 3), busy=round(measure_h200.busy(kept), 3), host=host, wall=wall, memory=memory,
                kernels=[dict(name=name, **of) for name, of in kernels.items()])


def flush(cases, out, turns):
    runs = measure_h200.prepared(cases, turns)
    with turns.alone():
        timed = [times(run) for _, run in runs]
        groups = measure_h200.calls_of(runs)
    for i, (case, _) in enumerate(runs):
        calls = groups[i * measure_h200.REPEATS + 1:(i + 1) * measure_h200.REPEATS]
        if told := line(case, calls, timed[i]):
            out.write(json.dumps(told) + "\n")


def main():
    arguments = sys.argv[2:] + ["200", "4"][len(sys.argv) - 2:]
    seconds, workers = float(arguments[0]), int(arguments[1])
    torch.set_num_threads(1)
    taps = sys.argv[1] + ".taps"
    measure_h200.main(taps, seconds / 8, (many_taps,), workers)
    measure_h200.flush, measure_h200.CHUNK = flush, 8
    measure_h200.main(sys.argv[1], seconds * 7 / 8, (transforms, solvers, sparse_products, groups), workers)
    with open(sys.argv[1], "a") as out, open(taps) as more:
        out.write(more.read())
    os.unlink(taps)


if __name__ == "__main__":
    main()
