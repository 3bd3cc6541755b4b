#!/usr/bin/env python3
"""Turns a profile of one training step into kernel data: what the interception would ask, and the true times.

Usage: step_of_profile.py OUT.tsv TRACE.json[.gz]

TRACE is what torch.profiler exports with CPU and CUDA activities and record_shapes=True. Shapes of library
calls are those of the operation that launched the kernels. Equal queries are one row, with their mean time;
the feature `count` says how many there are. kernel_cv OUT.tsv compares it with the model.
"""
import collections
import gzip
import json
import math
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib/kernels/data"))
import make_table as data

TYPES = {"c10::BFloat16": "bf16", "c10::Half": "fp16", "float": "fp32", "double": "fp64"}


def operand(dims, strides):
    """(transposed?, leading dimension) of a matrix in row-major terms; vectors count as rows."""
    rows, cols = dims[-2:]
    if strides[-1] == 1 and strides[-2] >= max(1, cols):
        return False, strides[-2]
    return True, strides[-1]


def gemm(op, kernels):
    args = op["args"]
    first = 1 if op["name"].endswith(("addmm", "baddbmm")) else 0
    (a, b), (sa, sb) = args["Input Dims"][first:first + 2], args["Input Strides"][first:first + 2]
    m, n, k, batch = b[-1], a[-2], a[-1], a[0] if len(a) == 3 else 1
    b_transposed, lda = operand(b, sb)
    a_transposed, ldb = operand(a, sa)
    dtype = TYPES[args["Input type"][first]]
    size = data.SIZE[dtype]
    compute = "fp32"
    if dtype == "fp32" and re.search("tf32f32|s1688gemm", " ".join(k["name"] for k in kernels)):
        compute = "tf32"
    features = dict(m=m, n=n, k=k, batch=batch, lda=lda, ldb=ldb, ldc=m, a_align=data.alignment(lda * size),
                    b_align=data.alignment(ldb * size), c_align=data.alignment(m * size))
    bias = op["name"] == "aten::addmm" and len(args["Input Dims"][0]) == 1
    attributes = dict(a_type=dtype, b_type=dtype, c_type=dtype, compute=compute, transa="T" if b_transposed else "N",
                      transb="T" if a_transposed else "N", epilogue="bias" if bias else "none")
    return [data.call("gemm", data.total(kernels), features=features, attributes=attributes)]


def convolution(op, kernels):
    args = op["args"]
    backward = op["name"] == "aten::convolution_backward"
    x, w = args["Input Dims"][1:3] if backward else args["Input Dims"][:2]
    strides = args["Input Strides"][1 if backward else 0]
    lists = [json.loads(v) for v in args["Concrete Inputs"] if v.startswith("[") and "True" not in v and "False" not in v]
    if backward:
        stride, padding, dilation = lists[1:4] if len(lists[0]) == 1 else lists[0:3]
        groups = int(args["Concrete Inputs"][9])
    else:
        padding, stride, dilation = lists[:3]
        groups = int(args["Concrete Inputs"][5])
    shape = dict(n=x[0], c=x[1], h=x[2], w=x[3], k=w[0], r=w[2], s=w[3], stride_h=stride[0], stride_w=stride[1],
                 pad_h=padding[0], pad_w=padding[1], dilation_h=dilation[0], dilation_w=dilation[1], groups=groups)
    dtype = TYPES[args["Input type"][0]]
    attributes = dict(type=dtype, compute="tf32" if dtype == "fp32" else "fp32",
                      layout="nhwc" if strides[1] == 1 and x[1] > 1 else "nchw")
    # torch adds the bias, and reduces its gradient, by kernels of its own.
    mine = [k for k in kernels if not data.is_torch(k)]
    rows = [data.launch(k) for k in kernels if data.is_torch(k)]
    if not backward:
        parts = {"conv_fwd": mine}
    elif args["Concrete Inputs"][-1].startswith("[False"):
        parts = {"conv_bwd_filter": mine}
    else:
        parts = dict(zip(("conv_bwd_data", "conv_bwd_filter"), data.split_backward(mine)))
    return rows + [data.call(name, data.total(part), features=shape, attributes=attributes) for name, part in parts.items() if part]


def attention(op, kernels):
    backward = "backward" in op["name"]
    q, k, v = op["args"]["Input Dims"][1 if backward else 0:][:3]
    shape = dict(b=q[0], h=q[1], h_kv=k[1], s_q=q[2], s_kv=k[2], d=q[3], d_v=v[3])
    flags = [c for c in op["args"]["Concrete Inputs"] if c in ("True", "False")]
    # Forward: (compute_log_sumexp, is_causal, return_debug_mask); backward: (is_causal).
    causal = flags[0] if backward else flags[1]
    attributes = dict(type=TYPES[op["args"]["Input type"][0]], causal=str(int(causal == "True")))
    mine = [k for k in kernels if not data.is_torch(k)]
    rows = [data.launch(k) for k in kernels if data.is_torch(k)]
    return rows + [data.call("sdpa_bwd" if backward else "sdpa_fwd", data.total(mine), features=shape, attributes=attributes)]


def other(op, kernels):
    rows = []
    dims = [d for d in op["args"].get("Input Dims", []) if d and isinstance(d[0], int)]
    for k in kernels:
        features = {}
        if re.search("layer_norm|GammaBeta|cunn_SoftMax|softmax_warp|nll_loss", k["name"]) and dims:
            widest = max(dims, key=math.prod)
            features = dict(rows=math.prod(widest[:-1]), cols=widest[-1])
        elif re.search("reduce_kernel|::batch_norm_", k["name"]) and dims:
            features = dict(numel=math.prod(max(dims, key=math.prod)))
        rows.append(data.launch(k, features))
    return rows


def rows_of(op, kernels):
    name = op["name"]
    if name in ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"):
        return gemm(op, kernels)
    if name in ("aten::cudnn_convolution", "aten::convolution_backward"):
        return convolution(op, kernels)
    if "_cudnn_attention" in name:
        return attention(op, kernels)
    if name in ("aten::cudnn_batch_norm", "aten::cudnn_batch_norm_backward"):
        x = op["args"]["Input Dims"][0]
        shape = dict(zip("nchw", x))
        attributes = dict(type=TYPES[op["args"]["Input type"][0]], layout="nhwc" if op["args"]["Input Strides"][0][1] == 1 else "nchw")
        kind = "batch_norm_bwd" if "backward" in name else "batch_norm_fwd_train"
        return [data.call(kind, data.total(kernels), features=shape, attributes=attributes)]
    return other(op, kernels)


def main(out, path):
    text = gzip.open(path, "rt") if path.endswith(".gz") else open(path)
    events = json.load(text)
    events = events["traceEvents"] if isinstance(events, dict) else events
    ops = {e["args"]["External id"]: e for e in events if e.get("cat") == "cpu_op"}
    launched = collections.OrderedDict()
    for e in sorted((e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")), key=lambda e: e["ts"]):
        a = e["args"]
        kernel = dict(name=e["name"], us=e["dur"], grid=a.get("grid"), block=a.get("block"), smem=a.get("shared memory"), bytes=a.get("bytes"))
        launched.setdefault(a.get("External id"), []).append(kernel)
    rows = collections.defaultdict(list)
    for identity, kernels in launched.items():
        op = ops.get(identity, dict(name="", args={}))
        # A view or a copy inside a library's operation is an operation of its own in the profile.
        for row in rows_of(op, kernels):
            fields = data.text(row).split("\t")
            rows[tuple(fields[:5] + fields[6:])].append(row["us"])
    with open(out, "w") as file:
        file.write(f"# One training step on an NVIDIA H200, made by step_of_profile.py.\n")
        file.write("name\tgrid\tblock\tshared\tbytes\tus\tfeatures\tattributes\n")
        for key, us in sorted(rows.items()):
            features = f"count={len(us)}" + ("" if key[5] == "-" else ";" + key[5])
            file.write("\t".join([*key[:5], f"{sum(us) / len(us):.3f}", features, key[6]]) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
