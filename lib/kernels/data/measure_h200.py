#!/usr/bin/env python3
"""Measures, on a machine with a GPU, the kernels of training that the sweeps leave out.

Usage: measure_h200.py OUT.jsonl [SECONDS]

Writes lines like the sweeps': an operation of PyTorch, its shape, and every kernel that it launched
with its time on the device in microseconds (median of four), for make_table.py to turn into rows.
Shapes are drawn at random, log-uniformly, from a fixed seed; families take turns, so that a time
limit thins all of them.
"""
import contextlib
import json
import multiprocessing
import os
import random
import shutil
import statistics
import sys
import tempfile
import time

import torch
import torch.nn.attention
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile

REPEATS = 5
CHUNK = 20  # cases that are profiled together
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
draw = random.Random(20)


def pick(low, high, multiple=1):
    """A whole multiple between 2^low and 2^high."""
    value = int(2 ** draw.uniform(low, high))
    return max(multiple, value // multiple * multiple)


def tensor(*shape, dtype="bf16", grad=False):
    return torch.randn(*shape, device="cuda", dtype=TYPES[dtype]).requires_grad_(grad)


def batch_norm_case(n, c, hw, dtype, last):
    """A training step's batch norm, forward and back; weights are fp32."""

    def make():
        x = tensor(n, c, hw, hw, dtype=dtype)
        x = (x.to(memory_format=torch.channels_last) if last else x).requires_grad_(True)
        w, b = tensor(c, dtype="fp32", grad=True), tensor(c, dtype="fp32", grad=True)
        mean, var = torch.zeros(c, device="cuda"), torch.ones(c, device="cuda")
        g = torch.randn_like(x)
        return lambda: F.batch_norm(x, mean, var, w, b, True).backward(g)
    return dict(op="batch_norm_fwd_bwd", dtype=dtype, batch=n, cin=c, hw=hw, channels_last=last), make


def batch_norm():
    for _ in range(140):
        n, c, hw = pick(3, 8), pick(5, 11, 8), draw.choice((7, 14, 28, 32, 56, 64, 112))
        dtype, last = draw.choice(("bf16", "bf16", "fp32")), draw.random() < 0.4
        if n * c * hw * hw > 3e8:
            continue
        yield batch_norm_case(n, c, hw, dtype, last)


def convolution():
    for _ in range(420):
        n, c, k = pick(3, 7.5), pick(5, 11, 32), pick(5, 11, 32)
        hw, r, stride = draw.choice((7, 14, 28, 56, 32, 64)), draw.choice((1, 1, 3)), draw.choice((1, 1, 1, 2))
        dtype, last = draw.choice(("bf16", "bf16", "bf16", "tf32")), draw.random() < 0.35
        if n * hw * hw * max(c, k) > 2e8 or n * hw * hw * c * k * r * r / stride**2 > 5e11:
            continue

        def make(n=n, c=c, k=k, hw=hw, r=r, stride=stride, dtype=dtype, last=last):
            layout = torch.channels_last if last else torch.contiguous_format
            kind = "fp32" if dtype == "tf32" else dtype
            x = tensor(n, c, hw, hw, dtype=kind).to(memory_format=layout).requires_grad_(True)
            w = tensor(k, c, r, r, dtype=kind).to(memory_format=layout).requires_grad_(True)

            def run():
                y = F.conv2d(x, w, stride=stride, padding=r // 2)
                y.backward(torch.ones_like(y))
            return run
        yield dict(op="conv2d_fwd_bwd", dtype=dtype, batch=n, cin=c, cout=k, hw=hw, k=r, stride=stride,
                   channels_last=last), make


def gemm():
    """Odd sizes, which go to the unaligned kernels, and vocabularies."""
    for _ in range(420):
        m, n, k = pick(6, 14.5), pick(6, 14.5), pick(6, 13.5)
        odd = draw.choice(("m", "n", "k"))
        step = draw.choice((1, 2, 4))
        fix = lambda v, name: v // 64 * 64 + 64 - (step if name == odd else 0)
        m, n, k = fix(m, "m"), fix(n, "n"), fix(k, "k")
        if draw.random() < 0.15:
            n, m, k = draw.choice((32003, 50257, 50258, 50260, 30522)), fix(m, "m") // 8 * 8, k // 8 * 8
        layout = draw.choice(("NN", "NT", "TN"))
        if 2.0 * m * n * k > 1e12:
            continue

        def make(m=m, n=n, k=k, layout=layout):
            a = tensor(*((m, k) if layout[0] == "N" else (k, m)))
            b = tensor(*((k, n) if layout[1] == "N" else (n, k)))
            return lambda: torch.mm(a if layout[0] == "N" else a.t(), b if layout[1] == "N" else b.t())
        yield dict(op="mm", dtype="bf16", layout=layout, m=m, n=n, k=k), make


def reduction():
    for _ in range(260):
        rows, cols = pick(6, 15.5), pick(6, 14.5, 32)
        dtype, kind = draw.choice(("bf16", "fp32")), draw.choice(("sum0", "sum0", "sum0", "sum1", "mean1", "amax1", "sum", "var1", "argmax1", "sum01"))
        if rows * cols > 1e9:
            continue

        def make(rows=rows, cols=cols, dtype=dtype, kind=kind):
            x = tensor(rows, cols, dtype=dtype)
            if kind == "sum01":
                x = tensor(8, rows // 8 + 1, cols, dtype=dtype)
                return lambda: x.sum((0, 1))
            return {"sum0": lambda: x.sum(0), "sum1": lambda: x.sum(1), "mean1": lambda: x.mean(-1, keepdim=True),
                    "amax1": lambda: x.amax(1), "sum": lambda: x.sum(), "var1": lambda: x.var(1),
                    "argmax1": lambda: x.argmax(1)}[kind]
        yield dict(op="reduce", kind=kind, dtype=dtype, rows=(rows // 8 + 1) * 8 if kind == "sum01" else rows, cols=cols), make


def casting():
    """Elementwise kernels that convert on the way, stride or broadcast."""
    kinds = ("mul_mixed", "add_mixed", "to_bf16", "to_fp32", "copy_mixed", "copy_bf16", "transpose", "permute",
             "add_row", "mul_col", "mask_fill", "where_row", "slice", "expand", "rotary")
    for _ in range(420):
        rows, cols = pick(4, 15.5), pick(6, 13, 64)
        kind = draw.choice(kinds)
        if rows * cols > 4e8:
            continue

        def make(rows=rows, cols=cols, kind=kind):
            x, y = tensor(rows, cols, dtype="fp32"), tensor(rows, cols)
            z = tensor(rows, cols)
            row, col = tensor(cols, dtype="fp32"), tensor(rows, 1, dtype="fp32")
            mask = torch.rand(1, cols, device="cuda") > 0.5
            q = tensor(max(1, rows // 16), 16, max(1, cols // 64), 64)
            return {"mul_mixed": lambda: x * y, "add_mixed": lambda: x.add_(y), "to_bf16": lambda: x.to(torch.bfloat16),
                    "to_fp32": lambda: y.float(), "copy_mixed": lambda: x.copy_(y), "copy_bf16": lambda: y.copy_(x),
                    "transpose": lambda: x.t().contiguous(), "permute": lambda: q.transpose(1, 2).contiguous(),
                    "add_row": lambda: x + row, "mul_col": lambda: x * col, "mask_fill": lambda: x.masked_fill(mask, 0.0),
                    "where_row": lambda: torch.where(mask, x, row), "slice": lambda: y[:, : cols // 2].contiguous(),
                    "expand": lambda: q[:, :, :, None, :].expand(-1, -1, -1, 4, -1).reshape(q.shape[0], 16, -1, 64),
                    "rotary": lambda: torch.cat((-y[:, cols // 2:], y[:, : cols // 2]), -1)}[kind]
        yield dict(op="cast", kind=kind, rows=rows, cols=cols), make


def pointwise():
    kinds = ("tanh", "sigmoid", "relu", "exp", "neg", "mul_scalar", "add_scalar", "div", "silu_bwd", "gelu_bwd", "relu_bwd",
             "tanh_bwd", "pow3", "sqrt", "addcmul", "zero", "gt", "logical", "add_inplace", "mul_inplace", "dropout")
    for _ in range(420):
        n = pick(12, 28, 256)
        kind, dtype = draw.choice(kinds), draw.choice(("bf16", "fp32"))

        def make(n=n, kind=kind, dtype=dtype):
            x, y, z = tensor(n, dtype=dtype), tensor(n, dtype=dtype), tensor(n, dtype=dtype)
            a = torch.ops.aten
            return {"tanh": lambda: x.tanh(), "sigmoid": lambda: x.sigmoid(), "relu": lambda: F.relu(x), "exp": lambda: x.exp(),
                    "neg": lambda: -x, "mul_scalar": lambda: x * 0.5, "add_scalar": lambda: x + 1.0, "div": lambda: x / y,
                    "silu_bwd": lambda: a.silu_backward(x, y), "gelu_bwd": lambda: a.gelu_backward(x, y),
                    "relu_bwd": lambda: a.threshold_backward(x, y, 0), "tanh_bwd": lambda: a.tanh_backward(x, y),
                    "pow3": lambda: x.pow(3.0), "sqrt": lambda: x.sqrt(), "addcmul": lambda: torch.addcmul(x, y, z),
                    "zero": lambda: x.zero_(), "gt": lambda: x > y, "logical": lambda: (x > 0) & (y > 0),
                    "add_inplace": lambda: x.add_(y), "mul_inplace": lambda: x.mul_(1.0001),
                    "dropout": lambda: F.dropout(x, 0.1)}[kind]
        yield dict(op=kind, dtype=dtype, numel=n), make


def row_case(kind, dtype, rows, cols):
    """A step forward and back through an operation on each row."""

    def make():
        x = tensor(rows, cols, dtype=dtype, grad=True)
        w, g = tensor(cols, dtype=dtype, grad=True), tensor(rows, cols, dtype=dtype)
        f = {"layer_norm": lambda: F.layer_norm(x, (cols,), w, w), "softmax": lambda: F.softmax(x, -1),
             "rms_norm": lambda: F.rms_norm(x, (cols,), w), "log_softmax": lambda: F.log_softmax(x, -1)}[kind]
        return lambda: f().backward(g)
    return dict(op=kind, dtype=dtype, rows=rows, cols=cols), make


def rowwise():
    for _ in range(260):
        rows, cols = pick(6, 15.5), pick(7, 13, 64)
        kind, dtype = draw.choice(("layer_norm", "layer_norm", "softmax", "rms_norm", "log_softmax")), draw.choice(("bf16", "fp32"))
        if rows * cols <= 4e8:
            yield row_case(kind, dtype, rows, cols)


def losses():
    for _ in range(60):
        rows, cols, dtype = pick(5, 14), draw.choice((1000, 10000, 30522, 32000, 50257, 128256)), draw.choice(("fp32", "fp32", "bf16"))
        if rows * cols > 1e9:
            continue

        def make(rows=rows, cols=cols, dtype=dtype):
            x = tensor(rows, cols, dtype=dtype, grad=True)
            y = torch.randint(0, cols, (rows,), device="cuda")
            return lambda: F.cross_entropy(x, y).backward()
        yield dict(op="cross_entropy_fwd_bwd", dtype=dtype, rows=rows, cols=cols), make
    for _ in range(60):
        rows, vocab, dim, dtype = pick(8, 14.5), draw.choice((1024, 30522, 50257, 128256)), pick(8, 12, 128), draw.choice(("fp32", "bf16"))

        def make(rows=rows, vocab=vocab, dim=dim, dtype=dtype):
            w = tensor(vocab, dim, dtype=dtype, grad=True)
            y, g = torch.randint(0, vocab, (rows,), device="cuda"), tensor(rows, dim, dtype=dtype)
            return lambda: F.embedding(y, w).backward(g)
        yield dict(op="embedding_fwd_bwd", dtype=dtype, rows=rows, vocab=vocab, dim=dim), make


def pooling():
    for _ in range(50):
        n, c, hw, last, dtype = pick(3, 8), pick(5, 9, 8), draw.choice((14, 28, 56, 112)), draw.random() < 0.3, draw.choice(("bf16", "fp32"))
        kind = draw.choice(("max", "max", "avg"))
        if n * c * hw * hw > 2e8:
            continue

        def make(n=n, c=c, hw=hw, last=last, dtype=dtype, kind=kind):
            x = tensor(n, c, hw, hw, dtype=dtype)
            x = (x.to(memory_format=torch.channels_last) if last else x).requires_grad_(True)
            f = (lambda: F.max_pool2d(x, 3, 2, 1)) if kind == "max" else (lambda: F.adaptive_avg_pool2d(x, 1))
            g = torch.randn_like(f())
            return lambda: f().backward(g)
        yield dict(op=kind + "_pool", dtype=dtype, batch=n, cin=c, hw=hw, channels_last=last), make


def optimiser():
    for _ in range(40):
        count, width, dtype = draw.choice((6, 20, 60, 148)), pick(8, 11.5, 64), draw.choice(("fp32", "fp32", "bf16"))
        kind = draw.choice(("foreach", "foreach", "fused", "sgd", "clip", "copy"))
        if count * width * width > 6e8:
            continue

        def make(count=count, width=width, dtype=dtype, kind=kind):
            shapes = [(width, width) if i % 3 else (width,) for i in range(count)]
            ps = [torch.nn.Parameter(tensor(*s, dtype=dtype)) for s in shapes]
            for p in ps:
                p.grad = torch.randn_like(p)
            if kind == "clip":
                return lambda: torch.nn.utils.clip_grad_norm_(ps, 1.0, foreach=True)
            if kind == "copy":
                other = "bf16" if dtype == "fp32" else "fp32"
                qs = [tensor(*s, dtype=other) for s in shapes]
                return lambda: torch._foreach_copy_(qs, [p.detach() for p in ps])
            if kind == "sgd":
                o = torch.optim.SGD(ps, lr=1e-4, momentum=0.9, foreach=True)
            else:
                o = torch.optim.AdamW(ps, lr=1e-4, foreach=kind == "foreach", fused=kind == "fused")
            return lambda: o.step()
        yield dict(op="optimiser", kind=kind, dtype=dtype, count=count, width=width), make


def attention():
    """cuDNN's, in the layout of a projection's output, with fewer key heads, and the others for comparison."""
    for _ in range(420):
        d, s, group = draw.choice((64, 64, 80, 96, 128, 128)), pick(7, 13.3), draw.choice((1, 1, 2, 4, 8))
        if draw.random() < 0.7:
            s = max(128, s // 128 * 128)
        h, b = draw.choice((8, 12, 16, 20, 24, 32, 40, 64)), pick(0, 6)
        kv = h // group if h % group == 0 else h
        causal, backend = draw.random() < 0.6, draw.choice(("CUDNN", "CUDNN", "CUDNN", "FLASH"))
        if b * h * s * d > 1.5e8 or b * h * s * s > 8e9:
            continue

        def make(b=b, h=h, kv=kv, s=s, d=d, causal=causal, backend=backend):
            q, k, v = (tensor(b, s, n, d).transpose(1, 2).requires_grad_(True) for n in (h, kv, kv))
            g = tensor(b, s, h, d).transpose(1, 2)
            kind = getattr(torch.nn.attention.SDPBackend, backend + "_ATTENTION")

            def run():
                with torch.nn.attention.sdpa_kernel(kind):
                    F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=h != kv).backward(g)
            return run
        yield dict(op="sdpa_fwd_bwd", backend=backend.lower(), batch=b, heads=h, kv_heads=kv, seq=s, head_dim=d, causal=causal), make


def strided():
    kinds = ("permute", "permute", "permute", "slice", "slice", "expand", "add_permuted", "mul_cast_row", "chunk")
    for _ in range(260):
        rows, cols = pick(4, 15), pick(7, 13, 64)
        kind, dtype = draw.choice(kinds), draw.choice(("bf16", "fp32"))
        if rows * cols > 3e8:
            continue

        def make(rows=rows, cols=cols, kind=kind, dtype=dtype):
            x, y = tensor(rows, cols, dtype=dtype), tensor(rows, 3 * cols, dtype=dtype)
            q = tensor(4, -(-rows // 4), cols // 64, 64, dtype=dtype)
            low, row = tensor(rows, cols), tensor(cols, dtype="fp32")
            return {"permute": lambda: q.transpose(1, 2).contiguous(), "slice": lambda: y[:, cols:2 * cols].contiguous(),
                    "expand": lambda: x[:, None, :].expand(-1, 2, -1).reshape(-1, cols),
                    "add_permuted": lambda: q.transpose(1, 2) + 1.0, "mul_cast_row": lambda: low * row,
                    "chunk": lambda: y.view(rows, 3, cols).transpose(0, 1).contiguous()}[kind]
        yield dict(op="cast", kind=kind, dtype=dtype, rows=rows, cols=cols), make


def network_convolution():
    """Channels as networks have them."""
    widths = (32, 64, 64, 96, 128, 128, 192, 256, 256, 384, 512, 512, 768, 1024, 1024, 2048)
    for _ in range(500):
        n, c, k = draw.choice((8, 16, 32, 64, 96, 128, 192, 256)), draw.choice(widths), draw.choice(widths)
        hw, r, stride = draw.choice((7, 14, 28, 56, 112)), draw.choice((1, 1, 3)), draw.choice((1, 1, 1, 2))
        dtype, last = draw.choice(("bf16", "bf16", "bf16", "tf32")), draw.random() < 0.35
        if n * hw * hw * max(c, k) > 3e8 or n * hw * hw * c * k * r * r / stride**2 > 8e11:
            continue

        def make(n=n, c=c, k=k, hw=hw, r=r, stride=stride, dtype=dtype, last=last):
            layout = torch.channels_last if last else torch.contiguous_format
            kind = "fp32" if dtype == "tf32" else dtype
            x = tensor(n, c, hw, hw, dtype=kind).to(memory_format=layout).requires_grad_(True)
            w = tensor(k, c, r, r, dtype=kind).to(memory_format=layout).requires_grad_(True)

            def run():
                y = F.conv2d(x, w, stride=stride, padding=r // 2)
                y.backward(torch.ones_like(y))
            return run
        yield dict(op="conv2d_fwd_bwd", dtype=dtype, batch=n, cin=c, cout=k, hw=hw, k=r, stride=stride,
                   channels_last=last), make


def bias_gemm():
    for _ in range(200):
        m, n, k = pick(7, 15, 64), pick(6, 14, 64), pick(6, 13.5, 64)
        if 2.0 * m * n * k > 2e12:
            continue

        def make(m=m, n=n, k=k):
            x, w, b = tensor(m, k), tensor(n, k), tensor(n)
            return lambda: F.linear(x, w, b)
        yield dict(op="linear_bias", dtype="bf16", m=m, n=n, k=k), make
    for _ in range(150):
        b, m, n, k, layout = pick(1, 8), pick(4, 11, 8), pick(4, 11, 8), pick(4, 11, 8), draw.choice(("NN", "NT", "TN"))
        if 2.0 * b * m * n * k > 1e12:
            continue

        def make(b=b, m=m, n=n, k=k, layout=layout):
            x = tensor(*((b, m, k) if layout[0] == "N" else (b, k, m)))
            y = tensor(*((b, k, n) if layout[1] == "N" else (b, n, k)))
            return lambda: torch.bmm(x if layout[0] == "N" else x.mT, y if layout[1] == "N" else y.mT)
        yield dict(op="bmm", dtype="bf16", layout=layout, batch=b, m=m, n=n, k=k), make


class Turns:
    """Of processes with one GPU: many prepare at a time, or one measures."""

    def __init__(self, workers, processes):
        self.workers = workers
        self.door = processes.Lock()
        self.places = processes.Semaphore(workers)
        self.next = processes.Value("i", 0)

    @contextlib.contextmanager
    def beside_others(self):
        with self.door:
            self.places.acquire()
        try:
            yield
        finally:
            self.places.release()

    @contextlib.contextmanager
    def alone(self):
        with self.door:
            for _ in range(self.workers):
                self.places.acquire()
        try:
            yield
        finally:
            for _ in range(self.workers):
                self.places.release()

    def take(self, count):
        with self.next.get_lock():
            first = self.next.value
            self.next.value += count
        return first


def busy(events):
    """Microseconds in which at least one of these ran; they are sorted by the time of their start."""
    whole, until = 0.0, 0.0
    for event in events:
        whole += max(0.0, event["ts"] + event["dur"] - max(event["ts"], until))
        until = max(until, event["ts"] + event["dur"])
    return whole


def overlap(events):
    """Whether some ran beside others: cuDNN has streams of its own. The next kernel may begin as the last one ends."""
    apart = sum(event["dur"] for event in events)
    return apart - busy(events) > max(1.0, 0.02 * apart)


def prepared(cases, turns):
    """The cases that can be made and run, each with what runs it."""
    runs = []
    for case, make in cases:
        with turns.beside_others():
            try:
                run = make()
                run()
                runs.append((case, run))
            except Exception as error:  # out of memory, or an operation that this build lacks
                print(case, str(error).splitlines()[0][:100], file=sys.stderr)
            torch.cuda.synchronize()
    return runs


def calls_of(runs):
    """What the GPU did in each of REPEATS calls of each of these, one call after the other."""
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _, run in runs:
            for _ in range(REPEATS):
                torch.cuda._sleep(100)
                run()
        torch.cuda._sleep(100)
        torch.cuda.synchronize()
    path = tempfile.mktemp(suffix=".json")
    profiler.export_chrome_trace(path)
    events = json.load(open(path))["traceEvents"]
    os.unlink(path)
    events = sorted((e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")), key=lambda e: e["ts"])
    groups = []
    for event in events:
        if "spin_kernel" in event["name"]:
            groups.append([])
        elif groups:
            groups[-1].append(event)
    return groups


def flush(cases, out, turns):
    runs = prepared(cases, turns)
    with turns.alone():
        groups = calls_of(runs)
    for i, (case, _) in enumerate(runs):
        repeats = groups[i * REPEATS:(i + 1) * REPEATS]
        if len({len(r) for r in repeats}) != 1:
            continue
        kernels = []
        beside = any(overlap(repeat) for repeat in repeats[1:])
        if beside:
            # Their order differs from one repeat to the next: all times are of one, that whose whole is the median.
            usual = sorted(repeats[1:], key=busy)[(len(repeats) - 1) // 2]
            repeats = [usual, usual]
        for same in zip(*repeats[1:]):
            a = same[-1]["args"]
            kernels.append(dict(name=same[-1]["name"], us=round(statistics.median(e["dur"] for e in same), 3), grid=a.get("grid"),
                                block=a.get("block"), smem=a.get("shared memory"), bytes=a.get("bytes")))
            if beside:
                kernels[-1]["at"] = round(same[-1]["ts"] - repeats[0][0]["ts"], 3)
        out.write(json.dumps(dict(case, kernels=kernels)) + "\n")


FAMILIES = (batch_norm, convolution, gemm, reduction, casting, pointwise, rowwise, losses, pooling, optimiser,
            attention, strided, network_convolution, bias_gemm)


def work(path, cases, end, turns):
    torch.backends.cuda.matmul.allow_tf32 = False
    with open(path, "w") as out:
        while time.time() < end and (first := turns.take(CHUNK)) < len(cases):
            flush(cases[first:first + CHUNK], out, turns)
            out.flush()
            torch.cuda.empty_cache()


def main(path, seconds=240.0, families=FAMILIES, workers=1):
    end = time.time() + seconds
    families = [list(f()) for f in families]
    # Each family is spread evenly over the run.
    queue = sorted(((i + draw.random()) / len(f), j, i) for j, f in enumerate(families) for i in range(len(f)))
    cases = [families[j][i] for _, j, i in queue]
    # A GPU cannot be used before a fork and after it: only the children touch it.
    processes = multiprocessing.get_context("fork")
    turns = Turns(workers, processes)
    children = [processes.Process(target=work, args=(f"{path}.{i}", cases, end, turns)) for i in range(workers)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    with open(path, "w") as out:
        for i in range(workers):
            with open(f"{path}.{i}") as part:
                shutil.copyfileobj(part, out)
            os.unlink(f"{path}.{i}")
    print(min(turns.next.value, len(cases)), "of", len(cases), "cases in", round(time.time() - end + seconds), "s")


if __name__ == "__main__":
    main(sys.argv[1], *map(float, sys.argv[2:]))
