#!/usr/bin/env python3
"""Writes gpt2_b8_step.tsv: the kernels of one GPT-2 training step as the interception asks for them.

Usage: make_gpt2_step.py OUT.tsv gpt2_b8_kernel_trace.json.gz

The trace, of two steps of train.py on an H200 (batch 8, sequence 1024, bf16 autocast), knows no
shapes: a product's follow from the model and the order of the kernels, which this checks against
their number. Equal queries are one row, with their mean time; the feature `count` says how many
there are in a step.
"""
import collections
import gzip
import json
import re
import sys

STEPS, TOKENS, HIDDEN, VOCAB = 2, 8 * 1024, 768, 50257
# Between the kernels of one call, as in lib/kernels/data/make_table.py: the trace's own gaps are longer where
# the host was late.
LAUNCH_GAP_US = 1.4


def product(m, n, k, transa, transb, epilogue="none"):
    lda, ldb, ldc = (m if transa == "N" else k), (k if transb == "N" else n), m
    align = lambda ld: min(16, 2 * ld & -(2 * ld))
    features = dict(m=m, n=n, k=k, batch=1, lda=lda, ldb=ldb, ldc=ldc,
                    a_align=align(lda), b_align=align(ldb), c_align=align(ldc))
    types = dict(a_type="bf16", b_type="bf16", c_type="bf16", compute="fp32")
    return features, dict(types, transa=transa, transb=transb, epilogue=epilogue)


# The four projections of a block, (in, out), in forward order.
ATTN, PROJ, UP, DOWN = (HIDDEN, 3 * HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 4 * HIDDEN), (4 * HIDDEN, HIDDEN)


def products():
    """Shapes of each product kernel, by what its name contains, in the order of execution."""
    forward = lambda p: product(p[1], TOKENS, p[0], "N", "N", "bias")
    data = lambda p: product(p[0], TOKENS, p[1], "T", "N")
    weight = lambda p: product(p[1], p[0], TOKENS, "N", "T")
    blocks = 12
    return {
        r"s1688gemm_bf16_128x128_tn": [product(VOCAB, TOKENS, HIDDEN, "T", "N")],
        r"s1688gemm_bf16_256x128_nn": [product(HIDDEN, TOKENS, VOCAB, "N", "N")],
        r"s1688gemm_bf16_128x256_nt": [product(HIDDEN, VOCAB, TOKENS, "N", "T")],
        r"coop._bias": [forward(p) for p in (ATTN, PROJ, UP, DOWN)] * blocks,
        r"coop._TNT": [data(p) for p in (DOWN, UP, PROJ, ATTN)] * blocks,
        r"_NT[TN]$": [weight(p) for p in (DOWN, UP, PROJ, ATTN)] * blocks,
    }


def shape(name, grid):
    """What the adapters read off the arguments of PyTorch's row-wise kernels."""
    if re.search("layer_norm|GammaBeta", name):
        return dict(rows=TOKENS, cols=HIDDEN)
    if "cunn_SoftMax" in name:
        return dict(rows=TOKENS, cols=VOCAB)
    if "reduce_kernel<128, 4" in name:
        # The bias gradients reduce columns, 128 to a block; the position embedding's, the batch.
        return dict(numel=TOKENS * (128 * grid[0] if grid[1] > 1 else HIDDEN))
    return {}


def main(out, trace):
    events = json.load(gzip.open(trace))["traceEvents"]
    events = sorted((e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")), key=lambda e: e["ts"])
    attention = dict(b=8, h=12, h_kv=12, s_q=1024, s_kv=1024, d=64, d_v=64)
    queues = {k: v * STEPS for k, v in products().items()}
    rows = collections.defaultdict(list)
    pending = 0.0  # kernels of a library call that come before its last

    def add(us, name, grid=None, block=None, shared=0, bytes=0, features={}, attributes={}):
        dim = lambda d: "x".join(map(str, d)) if d else "-"
        pairs = lambda d: ";".join(f"{k}={v}" for k, v in d.items())
        rows[name, dim(grid), dim(block), str(shared), str(bytes), pairs(features), pairs(attributes)].append(us)

    for i, event in enumerate(events):
        name, us, args = event["name"], event["dur"], event["args"]
        following = events[i + 1]["name"] if i + 1 < len(events) else ""
        pattern = next((p for p in queues if re.search(p, name)), None)
        if pattern:
            features, attributes = queues[pattern].pop(0)
            add(us + pending, "gemm", features=features, attributes=attributes)
            pending = 0.0
        elif "sdpa" in name and "fprop" in name:
            add(us + pending, "sdpa_fwd", features=attention, attributes=dict(type="bf16", causal=1))
            pending = 0.0
        elif "cudnn::fusion::convert_dq" in name:
            add(us + pending, "sdpa_bwd", features=attention, attributes=dict(type="bf16", causal=1))
            pending = 0.0
        elif "cudnn" in name or name.startswith("Memset") and args["bytes"] == 4 and re.search("nvjet|cudnn", following):
            pending += us + LAUNCH_GAP_US
        elif name.startswith("Mem"):
            kind = "memset" if name.startswith("Memset") else "memcpy_d2h_pinned" if "Pinned" in name else "memcpy_d2d"
            add(us, kind, bytes=args["bytes"])
        else:
            add(us, name, args["grid"], args["block"], args["shared memory"], features=shape(name, args["grid"]))
    assert not any(queues.values()), {k: len(v) for k, v in queues.items()}

    with open(out, "w") as file:
        file.write("# One GPT-2 training step on an NVIDIA H200, made by make_gpt2_step.py.\n")
        file.write("name\tgrid\tblock\tshared\tbytes\tus\tfeatures\tattributes\n")
        for key, us in sorted(rows.items()):
            features = f"count={len(us) / STEPS:g}" + (";" + key[5] if key[5] else "")
            file.write("\t".join([*key[:5], f"{sum(us) / len(us):.3f}", features, key[6] or "-"]) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
