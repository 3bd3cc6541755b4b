#!/usr/bin/env python3
"""Writes h200.tsv and h100.tsv, the kernel times that the built-in models of these GPUs are fitted on.

Usage: make_table.py GPU OUT.tsv [JUDGES.tsv], GPU being h200 or h100; JUDGES.tsv gets what is held out of the fit
       make_table.py --lacking OUT.tsv, launches of the H100's databases that the H200 never ran, which its model takes to it

The sweeps are beside this file, GPU_sweep1.jsonl.gz and so on: the project's own two, those of measure_h200.py
and measure_architectures.py, and of the H200 what measure_masks.py measured in 43 s (PyTorch 2.11.0, CUDA 13.0,
driver 580), what measure_rest.py measured in 100 s, measure_convolutions.py in 200 s, measure_again.py in 353 s
and measure_thin.py (2026-11-23), and measure_sequences.py (2026-11-25); the last three are of measure_half.py, measure_timm.py
and measure_trials.py (2026-11-26). GPU_overlaps.jsonl.gz is what measure_overlaps.py measured again of them.

GPU_keys1.csv.gz to GPU_keys3.csv.gz are databases of `phantora measure`, of measure_sorting.py and
measure_operations.py (2026-11-27), of measure_language.py (2026-11-28), the H200's fourth to eighth of bench/accuracy/operators.py, measure_products.py, measure_vectors.py,
measure_answers.py and measure_channels.py (2026-11-29); what is held out of the fit is in files of its own.

Each line of a sweep is one operation of PyTorch with the device kernels that it launched and their
times. Here it becomes rows in the terms of the interception: one row per library call (a GEMM, a
convolution, an attention, with all the kernels that the call launched) and one per kernel that
PyTorch launches itself. README.md, one folder up, lists the keys. What a key was measured to take
more than once tells how far from the mean a further measurement lies: the column stddev.
"""
import collections
import csv
import functools
import gzip
import hashlib
import json
import math
import pathlib
import re
import sys
from statistics import median

SIZE = {"bf16": 2, "fp16": 2, "fp32": 4, "tf32": 4, "fp64": 8, "fp8": 1, "int8": 1, "int64": 8, "c64": 8}
SIZES_MOVED = SIZE | {"bool": 1}
TYPE = {"bf16": "bf16", "fp16": "fp16", "fp32": "fp32", "tf32": "fp32", "fp64": "fp64", "fp8": "fp8_e4m3", "int8": "int8"}
COMPUTE = {"bf16": "fp32", "fp16": "fp32", "fp32": "fp32", "tf32": "tf32", "fp64": "fp64", "fp8": "fp32", "int8": "int32"}
COPIES = {"DtoD": "memcpy_d2d", "HtoD (Pinned": "memcpy_h2d_pinned", "HtoD (Pageable": "memcpy_h2d_pageable",
          "DtoH (Device -> Pinned": "memcpy_d2h_pinned", "DtoH (Device -> Pageable": "memcpy_d2h_pageable"}


# Between two kernels on a stream, when the host is ahead: mean of the 1,639 such gaps in a trace of
# two GPT-2 steps on an H200. The same figure as launch_gap in builtin_cost_model.hpp.
LAUNCH_GAP_US = 1.4


def total(kernels):
    """Time that a library call occupies its stream: its kernels, and the gaps between them.

    Where it is told when they began, some ran beside others, and the call takes from the first start to the last end.
    What the GPU stood idle for longer than a gap, it waited for the host.
    """
    if not any("at" in k for k in kernels):
        return sum(k["us"] for k in kernels) + LAUNCH_GAP_US * max(0, len(kernels) - 1)
    whole, until = 0.0, kernels[0]["at"]
    for kernel in kernels:
        end = kernel["at"] + kernel["us"]
        whole += min(LAUNCH_GAP_US, max(0.0, kernel["at"] - until)) + max(0.0, end - max(kernel["at"], until))
        until = max(until, end)
    return whole


def call(name, us, bytes=0, features=None, attributes=None):
    """A row for a library call."""
    return dict(name=name, us=us, bytes=bytes, features=features or {}, attributes=attributes or {})


def launch(kernel, features=None, attributes=None, bytes=0):
    """A row for a single kernel, copy or memset."""
    name = kernel["name"]
    if kernel["grid"] is None:
        operation = "memset" if name.startswith("Memset") else next(v for k, v in COPIES.items() if k in name)
        return call(operation, kernel["us"], kernel["bytes"])
    return dict(name=name, grid=kernel["grid"], block=kernel["block"], shared=kernel["smem"], us=kernel["us"],
                bytes=bytes, features=features or {}, attributes=attributes or {})


def alignment(size):
    """The largest power of two, at most 16, that divides `size`."""
    return min(16, size & -size)


def gemm(row):
    """torch.mm on row-major A[m,k], B[k,n] is cuBLAS's column-major C'[n,m] = B' A'."""
    dtype = row["dtype"]
    # F.linear and _scaled_mm take the weight as [n,k]: B is a transposed view.
    a_layout, b_layout = row.get("layout", "NT" if row["op"] in ("linear_bias", "scaled_mm") else "NN")
    m, n, k = row["n"], row["m"], row["k"]
    lda, ldb, ldc = (m if b_layout == "N" else k), (k if a_layout == "N" else n), m
    c_type = {"fp8": "bf16", "int8": "int32"}.get(dtype, TYPE[dtype])
    compute = COMPUTE[dtype]
    if TYPE[dtype] == "fp32":
        # sweep.py sets allow_tf32 when it builds a case, not when it runs it: believe the kernels.
        names = " ".join(k["name"] for k in row["kernels"])
        compute = "tf32" if re.search(r"tf32f32|s1688gemm", names) else "fp32"
    features = dict(m=m, n=n, k=k, batch=row.get("batch") or 1, lda=lda, ldb=ldb, ldc=ldc,
                    a_align=alignment(lda * SIZE[dtype]), b_align=alignment(ldb * SIZE[dtype]),
                    c_align=alignment(ldc * {"fp8": 2, "int8": 4}.get(dtype, SIZE[dtype])))
    attributes = dict(a_type=TYPE[dtype], b_type=TYPE[dtype], c_type=c_type, compute=compute,
                      transa=b_layout, transb=a_layout, epilogue="bias" if row["op"] == "linear_bias" else "none")
    return [call("gemm", total(row["kernels"]), features=features, attributes=attributes)]


def is_torch(kernel):
    """Whether PyTorch launched the kernel itself, rather than cuDNN."""
    return is_torchs_name(kernel["name"])


@functools.cache  # there are six million kernels, of few names
def is_torchs_name(name):
    return re.search(r"\bat::|at_cuda_detail|pytorch_flash|fmha_cutlass", name) is not None


def attention(row):
    if row.get("backend") == "math":
        # Products and a softmax of their own, whose operands' strides the sweep does not tell.
        softmax = dict(rows=row["batch"] * row["heads"] * row["seq"], cols=row["keys"])
        return [launch(k, softmax) if re.search("softmax|SoftMax", k["name"]) else pointwise(k, row)
                for k in row["kernels"] if is_torch(k)]
    shape = dict(b=row["batch"], h=row["heads"], h_kv=row.get("kv_heads", row["heads"]), s_q=row["seq"],
                 s_kv=row.get("keys", row["seq"]), d=row["head_dim"], d_v=row["head_dim"])
    attributes = dict(type=row.get("dtype", "bf16"), causal=str(int(row["causal"])))
    more = {name: "1" for name, told in (("mask", "masked"), ("dropout", "dropout")) if row.get(told)}
    mine = [k for k in row["kernels"] if not is_torch(k)]
    # CUTLASS's kernels tell their mask by parameters.
    told = dict({"causal": 1} if row["causal"] else {}, **({"bias": 1} if row.get("masked") else {}))
    rows = [launch(k, shape | told, attributes) if "fmha" in k["name"] else launch(k, shape, attributes) if "flash" in k["name"]
            else pointwise(k, row) for k in row["kernels"] if is_torch(k)]
    forward = next((i + 1 for i, k in enumerate(mine) if "_fprop_" in k["name"]), 0)
    if forward:
        rows.append(call("sdpa_fwd", total(mine[:forward]), features=shape, attributes=attributes | more))
    if any("_bprop_" in k["name"] for k in mine):
        rows.append(call("sdpa_bwd", total(mine[forward:]), features=shape, attributes=attributes | more))
    return rows


def split_backward(kernels):
    """The kernels of backward data and of backward filter, which follow one another.

    Backward data ends with its matrix multiply and what reduces or re-orders the result of that.
    """
    multiply = re.compile(r"nvjet|cutlass|xmma|dgrad")
    end = next(i for i, k in enumerate(kernels) if multiply.search(k["name"]) and "helper" not in k["name"]) + 1
    while end < len(kernels) and re.search(r"nhwcToNchw|splitKreduce|ReduceSplitK|dgrad", kernels[end]["name"]):
        end += 1
    return kernels[:end], kernels[end:]


def convolution(row):
    """PyTorch runs forward, ones_like (a fill), backward data, backward filter, then adds the gradients."""
    p = row["k"] // 2 if row["k"] < 16 else 0
    shape = dict(n=row["batch"], c=row["cin"], h=row["hw"], w=row["hw"], k=row["cout"], r=row["k"], s=row["k"],
                 stride_h=row["stride"], stride_w=row["stride"], pad_h=p, pad_w=p, dilation_h=1, dilation_w=1, groups=1)
    attributes = dict(type=TYPE[row["dtype"]], compute=COMPUTE[row["dtype"]],
                      layout="nhwc" if row["channels_last"] else "nchw")
    kernels = row["kernels"]
    fill = next(i for i, k in enumerate(kernels) if "FillFunctor" in k["name"])
    data, weight = split_backward([k for k in kernels[fill:] if not is_torch(k)])
    rows = [call(name, total(part), features=shape, attributes=attributes)
            for name, part in (("conv_fwd", kernels[:fill]), ("conv_bwd_data", data), ("conv_bwd_filter", weight))]
    return rows + [pointwise(k, row) for k in kernels[fill:] if is_torch(k)]


def convolution_part(row):
    """One direction of a convolution of any number of dimensions, in the terms of cuDNN's call."""
    r, stride, pad, dilation, size = (row[key] for key in ("k", "stride", "padding", "dilation", "size"))
    image, c, k, part = size, row["cin"], row["cout"], row["part"]
    if row["transposed"]:
        # cuDNN is called for the convolution of which this is the backward direction.
        extra = stride - 1 if r > stride else 0
        image = [(length - 1) * stride - 2 * pad + dilation * (r - 1) + 1 + extra for length in size]
        c, k = k, c
        part = {"fwd": "bwd_data", "bwd_data": "fwd"}.get(part, part)
    # A missing dimension is 1. Where a filter is one element of all channels, planes lie as one that is as high as all of them.
    flat, volume = len(size) == 1, len(size) == 3
    out = [(length + 2 * pad - dilation * (r - 1) - 1) // stride + 1 for length in image]
    stacked = volume and r == 1 and out == image and row["groups"] == 1
    h, w = [image[0] * image[1], image[2]] if stacked else ([1] + image)[-2:]
    shape = dict(n=row["batch"], c=c, h=h, w=w, k=k, r=1 if flat else r, s=r,
                 stride_h=1 if flat else stride, stride_w=stride, pad_h=0 if flat else pad, pad_w=pad,
                 dilation_h=1 if flat else dilation, dilation_w=dilation, groups=row["groups"])
    if volume and not stacked:
        shape |= dict(d=image[0], t=r, stride_d=stride, pad_d=pad, dilation_d=dilation)
    attributes = dict(type=TYPE[row["dtype"]], compute=COMPUTE[row["dtype"]],
                      layout="nhwc" if row["channels_last"] and c > 1 else "nchw")
    if row.get("benchmark"):
        attributes["plan"] = "tried"
    mine = [k for k in row["kernels"] if not is_torch(k)]
    own = lambda kernel: "::conv_depthwise2d_" in kernel["name"]
    # What PyTorch runs itself is not tried, and was measured without.
    rows = [depthwise(k, shape, row) if own(k) else pointwise(k, row) for k in row["kernels"] if is_torch(k) and not row.get("benchmark")]
    return rows + ([call("conv_" + part, total(mine), features=shape, attributes=attributes)] if mine else [])


def depthwise(kernel, shape, row):
    """PyTorch's own: the input, the output and the filter are read or written once."""
    length = lambda size, pad, dilation, r, stride: (size + 2 * pad - dilation * (r - 1) - 1) // stride + 1
    outputs = shape["n"] * shape["k"] * math.prod(
        length(shape[side], shape["pad_" + side], shape["dilation_" + side], shape[taps], shape["stride_" + side])
        for side, taps in (("h", "r"), ("w", "s")))
    taps = shape["r"] * shape["s"]
    elements = shape["n"] * shape["c"] * shape["h"] * shape["w"] + outputs + shape["k"] * taps
    return launch(kernel, dict(numel=outputs, rows=shape["n"] * shape["k"], cols=taps), bytes=elements * SIZE[row["dtype"]])


def normalised_groups(kernel, row):
    """A block has a row: a group of the channels of an image, or a channel."""
    rows = kernel["grid"][0]
    elements = row["batch"] * row["cin"] * row["hw"] ** 2
    return launch(kernel, dict(rows=rows, cols=elements // rows))


def passes(kernels):
    """cuDNN's passes, which PyTorch's own kernels separate: its copies and fills before each."""
    mine = [i for i, k in enumerate(kernels) if not is_torch(k) and not k["name"].startswith("Memcpy")]
    found = []
    for i in range(mine[0], mine[-1] + 1):
        if is_torch(kernels[i]):
            continue
        if i == mine[0] or is_torch(kernels[i - 1]):
            found.append([])
        found[-1].append(kernels[i])
    if len(found) == 1:
        return [("rnn_fwd", found[0])]
    # With two directions, PyTorch's fills run beside the gradients of the data, and part them.
    return [("rnn_fwd", found[0]), ("rnn_bwd_data", sum(found[1:-1], [])), ("rnn_bwd_weights", found[-1])]


def recurrent(row):
    """`again`: the passes as measure_overlaps.py has them, where some of their kernels overlap, or none if nobody knows."""
    kernels, again = row["kernels"], row.get("again")
    parts = {name: total(part) for name, part in passes(kernels)}
    if again:
        parts = {part["name"]: part["us"] for part in again}
    elif again is not None:
        # One layer of one direction goes on one stream, but for its weights' gradients: of 52 such networks of which some
        # kernels overlap, 80 % of the other passes take 0.94 to 1.02 of their kernels' sum.
        parts = {name: us for name, us in parts.items() if row["layers"] == 1 and not row["bidirectional"] and name != "rnn_bwd_weights"}
    shape = dict(steps=row["seq"], batch=row["batch"], input=row["inputs"], hidden=row["hidden"], layers=row["layers"],
                 directions=1 + row["bidirectional"], gates={"LSTM": 4, "GRU": 3, "RNN": 1}[row["kind"]])
    attributes = dict(type=TYPE[row["dtype"]], compute=COMPUTE[row["dtype"]])
    rows = [call(name, us, features=shape, attributes=attributes) for name, us in parts.items()]
    return rows + [pointwise(k, row) for k in kernels if is_torch(k)]


def per_block(kernel):
    """Elements that one block of an elementwise kernel covers; 0 for other kernels."""
    threads = kernel["block"][0] if kernel["block"] else 0
    if "::vectorized_elementwise_kernel<" in kernel["name"]:
        return threads * 8
    if re.search(r"::unrolled_elementwise_kernel(_for_multi_outputs)?<", kernel["name"]):
        return threads * 4
    match = re.search(r"::elementwise_kernel<(\d+), (\d+)", kernel["name"])
    return int(match[1]) * int(match[2]) if match else 0


def reduction(row, elements):
    """Rows are results, columns what each is reduced from."""
    kind = row.get("kind", row["op"])
    inputs = {"sum0": row.get("rows"), "sum01": row.get("rows"), "mean_last": 256}.get(kind)
    if inputs is None:
        inputs = row["cols"] if kind.endswith("1") else elements
    return dict(numel=elements, rows=elements // inputs, cols=inputs)


def strides_told(row):
    """Whether it is known how elementwise_kernel's operands are strided: not where an operation of several
    copies mixes layouts, some of which are transposed."""
    return not row.get("channels_last") and row.get("backend") != "math"


# Dimensions that the operands of measure_h200.py's casts have where they lie apart.
CAST_DIMS = dict(permute=4, add_row=2, mul_col=2, mask_fill=2, where_row=2, slice=2, expand=3, rotary=2,
                 mul_cast_row=2, chunk=3)


def dimensions(shape, strides):
    """Lengths and strides of the dimensions that TensorIterator leaves, the fastest first: those of one element are
    dropped, the others ordered by their strides, and those that lie one behind the other in every operand are one."""
    found = [(length, [of[d] for of in strides]) for d, length in reversed(list(enumerate(shape))) if length > 1]

    def order(one, other):
        for a, b in zip(one[1], other[1]):
            if a and b and a != b:
                return a - b
            if a and b and one[0] != other[0]:
                return max(0, one[0] - other[0])
        return 0
    for i in range(1, len(found)):
        at = i
        for before in reversed(range(i)):
            comparison = order(found[before], found[at])
            if comparison > 0:
                found[before], found[at] = found[at], found[before]
                at = before
            elif comparison < 0:
                break
    merged = found[:1]
    for length, steps in found[1:]:
        if all(last * merged[-1][0] == step for last, step in zip(merged[-1][1], steps)):
            merged[-1] = (merged[-1][0] * length, merged[-1][1])
        else:
            merged.append((length, steps))
    return merged


def strides_of(row):
    """Shape and strides of the operands of measure_h200.py's, measure_masks.py's and measure_cache.py's transposed
    copies, the result first, as `strided` rows tell them."""
    result, turned = [row["rows"], 1], [1, row["cols"]]
    return dict(shape=[row["cols"], row["rows"]], strides=[result, *([result] if row.get("kind") == "add_transposed" else []), turned])


def lines(kept, operand, size):
    """Of 128 bytes that lie apart and that 512 elements touch of an operand, or hold one of them alone, as
    adapters/rank/kernels/families/elementwise.cpp counts them."""
    left, near, apart = 512, size, 1
    for length, steps in kept:
        taken, step = min(length, left), steps[operand] * size
        left = -(-left // length)
        if step >= 128 and step > near:
            apart *= taken
        else:
            near += (taken - 1) * step
    filled = -(-near // 128)
    return apart * filled if apart > 1 else max(0, 2 * filled - 512)


def told_places(row, sizes):
    """Of operands with strides what is read from their launch."""
    kept = dimensions(row["shape"], row["strides"])
    touched = sum(lines(kept, operand, size) for operand, size in enumerate(sizes))
    return (dict(lines=touched) if touched > 8 * sum(sizes) else {}) | dict(dims=max(1, len(kept)))


def places(kernel, row):
    """How the operands of a strided kernel lie, where that is known."""
    if "::elementwise_kernel<" not in kernel["name"]:
        return {}
    size = SIZE[row.get("dtype", "fp32")]
    if row["op"] == "strided":
        sizes = [size] * len(row["strides"])
        return told_places(row, [size, 1, *sizes[2:]] if row["kind"] == "where" else sizes)
    kinds = dict(transpose=[size] * 2, transpose_copy=[size] * 2, add_transposed=[size] * 3, cast_transposed=[6 - size, size])
    kind = row.get("kind", row["op"])
    if kind in kinds:
        return told_places(strides_of(row), kinds[kind])
    return dict(dims=CAST_DIMS[kind]) if kind in CAST_DIMS else {}


def pointwise(kernel, row):
    """Elementwise kernels carry their number of elements, the others the shape of the operation."""
    covered = per_block(kernel)
    elements = math.prod(row["shape"]) if "shape" in row else row.get("numel") or row.get("rows", 0) * row.get("cols", 0)
    if covered:
        blocks = kernel["grid"][0]
        numel = elements if -(-elements // covered) == blocks else blocks * covered
        return launch(kernel, dict(numel=numel) | places(kernel, row))
    if row["op"] == "cat":
        # Two inputs of numel elements are read, and written one after the other.
        return launch(kernel, dict(numel=2 * row["numel"], cols=row["numel"]), bytes=4 * row["numel"] * SIZE[row["dtype"]])
    if row["op"] == "adamw" and row["kind"] == "fused" and "std::plus" in kernel["name"]:
        # The step counts: a tensor of one element each.
        return launch(kernel, dict(numel=kernel["grid"][0], cols=1))
    if "::batch_norm_" in kernel["name"]:
        return launch(kernel, dict(numel=row["batch"] * row["cin"] * row["hw"] ** 2))
    if "::reduce_kernel<" in kernel["name"] and elements:
        return launch(kernel, reduction(row, elements))
    if "vectorized_gather_kernel" in kernel["name"] and "dim" in row:
        # Rows of the table are read and written, by an index of 8 bytes each; columns are bytes.
        return launch(kernel, dict(rows=row["rows"], cols=row["dim"] * SIZE[row["dtype"]]), bytes=row["rows"] * (2 * row["dim"] * SIZE[row["dtype"]] + 8))
    if "::embedding_backward_feature_kernel<" in kernel["name"]:
        return gradient_of_few_indices(kernel, row["rows"], row)
    if row["op"] == "cat4":
        return launch(kernel, dict(numel=elements * row["parts"], cols=elements), bytes=2 * elements * row["parts"] * SIZE[row["dtype"]])
    if "CatArrayBatchedCopy" in kernel["name"] and row.get("kind") == "rotary":
        return launch(kernel, dict(numel=elements, cols=elements // 2), bytes=2 * elements * SIZE["bf16"])
    if "numel" in row:
        return launch(kernel, dict(numel=elements))
    if "cols" in row and row["op"] != "cast":
        return launch(kernel, dict(rows=row["rows"], cols=row["cols"]))
    return launch(kernel)


def gradient_of_few_indices(kernel, indices, row):
    """As adapters/rank/kernels/families/embedding.cpp tells it."""
    elements = indices * row["dim"]
    return launch(kernel, dict(numel=elements, rows=indices, cols=row["dim"]), bytes=3 * elements * SIZE[row["dtype"]])


def told_or_pointwise(row, pattern, told):
    """Kernels whose names have the pattern as `told` has them; of the others those that tell their elements."""
    own = lambda kernel: re.search(pattern, kernel["name"])
    return [told(kernel) if own(kernel) else pointwise(kernel, dict(op=row["op"])) for kernel in row["kernels"]
            if own(kernel) or per_block(kernel) or kernel["grid"] is None]


def number(value):
    """As C++ prints it to 17 digits, whole ones without a point."""
    return int(value) if value == int(value) else float(value)


def pooling(row):
    """Windows of planes or volumes: adapters/rank/kernels/families/pooling.cpp says the same of the launches."""
    size = row["size"] if "size" in row else [row["hw"]] * 2
    k, stride = row.get("k", 3), row.get("stride", 2)
    element, planes = SIZE[row["dtype"]], row["batch"] * row["cin"]
    image = planes * math.prod(size)
    out = [(length + 2 * ((k - 1) // 2) - k) // stride + 1 for length in size]
    pooled, pooled_plane = planes * math.prod(out), math.prod(out[-2:])

    def told(kernel):
        if "adaptive_average_" in kernel["name"]:
            return launch(kernel, dict(numel=planes * k**2, cols=math.prod(-(-length // k) for length in size)),
                          bytes=(image + planes * k**2) * element)
        backward, maximum = "backward" in kernel["name"], "::max_pool" in kernel["name"]
        if "::max_pool3d_" in kernel["name"]:
            # Where channels do not come last, a launch goes through 65535 pooled planes at most.
            output, each = pooled if row["channels_last"] else kernel["grid"][2] * pooled_plane, image / pooled
            return launch(kernel, dict(numel=output, cols=number(each) if backward else k**3),
                          bytes=number(output * ((2 if backward else 1 + each) * element + 8)))
        return launch(kernel, dict(numel=image if backward else pooled, cols=k**2),
                      bytes=(image + pooled) * element + (pooled * 8 if maximum else 0))
    return told_or_pointwise(row, "::(max_pool_(for|back)ward_n|avg_pool2d_|max_pool3d_|(atomic_)?adaptive_average_)", told)


def resizing(row):
    """As pooling.cpp tells them, too."""
    planes, element = row["batch"] * row["cin"], SIZE[row["dtype"]]
    image, resized = planes * math.prod(row["size"]), planes * math.prod(row["out"])

    def told(kernel):
        read, written = (resized, image) if "backward" in kernel["name"] else (image, resized)
        each_plane = dict(rows=planes) if "upsample_bilinear2d_out_frame" in kernel["name"] else {}
        return launch(kernel, dict(numel=written, cols=number(max(1, read / written))) | each_plane, bytes=(image + resized) * element)
    return told_or_pointwise(row, "::upsample_(nearest|bilinear)", told)


def moved_by_index(kernel, element, numel, indices, tensors, table, run=1):
    """`numel` elements to or from `table` places, which each of `tensors` tensors of `indices` names, `run` side by side by one."""
    features = dict(numel=numel, rows=indices, dims=tensors, table=table)
    if run > 1:
        features["run"] = run
    return launch(kernel, features, bytes=2 * numel * element + 8 * indices * tensors)


def indexed(row):
    """As adapters/rank/kernels/families/indexing.cpp tells them; the passes of nonzero() as selection.cpp does."""
    passed = row["numel"] // row["indices"] if row["kind"] == "mask_rows" else 1
    flags, chosen = row["table"] // passed, row["indices"]
    whole = any("DeviceReduceKernel" in kernel["name"] for kernel in row["kernels"])

    def told(kernel):
        name = kernel["name"]
        if "DeviceReduceKernel" in name:
            return launch(kernel, dict(numel=flags), bytes=flags + 4 * kernel["grid"][0])
        if "DeviceReduceSingleTileKernel" in name:
            return launch(kernel, dict(numel=flags), bytes=flags + 4)
        if "DeviceSelectSweepKernel" in name:
            return launch(kernel, dict(numel=flags), bytes=9 * flags)
        if "::write_indices" in name:
            return launch(kernel, dict(numel=chosen), bytes=8 * chosen * (row["tensors"] + 1))
        run = row["numel"] // chosen if row["op"] == "along" and not row["last"] else 1
        return moved_by_index(kernel, SIZES_MOVED[row["dtype"]], row["numel"], chosen, row["tensors"], row["table"], run)
    # The second pass of a sum adds what the blocks of the first left.
    second = "" if whole else "|DeviceReduceSingleTileKernel"
    return told_or_pointwise(row, f"(::(index_elementwise_kernel|_scatter_gather_elementwise_kernel|write_indices)|DeviceReduceKernel|DeviceSelectSweepKernel{second})", told)


def by_index(row):
    """Slices that a tensor of indices names: adapters/rank/kernels/families/indexing.cpp says the same of the launches."""
    slice_bytes = row["dim"] * SIZE[row["dtype"]]
    elements = row["count"] * row["dim"]

    def told(kernel):
        if "::_scatter_gather_elementwise_kernel" in kernel["name"]:
            return moved_by_index(kernel, SIZE[row["dtype"]], elements, row["count"], 1, row["table"] * row["dim"], row["dim"])
        if "::vectorized_gather_kernel" in kernel["name"]:
            return launch(kernel, dict(rows=row["count"], cols=slice_bytes), bytes=row["count"] * (2 * slice_bytes + 8))
        if "::embedding_backward_feature_kernel<" in kernel["name"]:
            return gradient_of_few_indices(kernel, row["count"], row)
        return launch(kernel, dict(numel=elements), bytes=elements * (2 * SIZE[row["dtype"]] + 8))
    return told_or_pointwise(row, "::(vectorized_gather_kernel|indexFunc|_scatter_gather_elementwise_kernel|embedding_backward_feature_kernel)", told)


def batch_norm(row):
    """cuDNN's for fp32, PyTorch's own kernels for bf16."""
    rows = [pointwise(k, row) for k in row["kernels"] if is_torch(k)]
    shape = dict(n=row["batch"], c=row["cin"], h=row["hw"], w=row["hw"])
    attributes = dict(type=row["dtype"], layout="nhwc" if row["channels_last"] else "nchw")
    cudnn = [k for k in row["kernels"] if not is_torch(k)]
    backward = next((i for i, k in enumerate(cudnn) if re.search("_bw_|_bwtr", k["name"])), len(cudnn))
    # A memset before the backward kernel belongs to it.
    while 0 < backward < len(cudnn) and cudnn[backward - 1]["name"].startswith("Memset"):
        backward -= 1
    for name, part in (("batch_norm_fwd_train", cudnn[:backward]), ("batch_norm_bwd", cudnn[backward:])):
        if any("cudnn" in k["name"] for k in part):
            rows.append(call(name, total(part), features=shape, attributes=attributes))
    return rows


# Elements of a block of multi_tensor_apply_kernel, blocks of a launch, and tensors of one by its number of
# lists, without and with a scalar for each (ATen/native/cuda/MultiTensorApply.cuh).
CHUNK, BLOCKS = 65536, 320
TENSORS, TENSORS_WITH_SCALARS = (110, 64, 48, 36, 30), (96, 64, 48, 36, 30)


def chunked(sizes, most):
    """The launches that go through tensors of so many elements, `most` in one: each as the chunks of its blocks."""
    launches, blocks, tensors = [], [], 0
    for size in sizes:
        tensors += 1
        chunks = [CHUNK] * (size // CHUNK) + [size % CHUNK] * (size % CHUNK > 0)
        for i, chunk in enumerate(chunks):
            blocks.append(chunk)
            last = i == len(chunks) - 1
            if len(blocks) == BLOCKS or (last and tensors == most):
                launches.append(blocks)
                # The rest of a tensor is the first one of the next launch.
                blocks, tensors = [], 0 if last else 1
    return launches + [blocks] * bool(blocks)


# All that was touched before so many bytes is in the L2 cache of an H100 (50 MiB), and of an H200 too; nothing of
# what was touched before so many is in that of an H200 (60 MB). The shares are l2_cache.hpp's.
ALL_THERE, NOTHING_THERE = 0.53 * (50 << 20), 0.8 * 62914560
# Lists of tensors that a step goes through: parameters, gradients, states, and for AdamW one on the way.
LISTS = dict(foreach=5, fused=4, sgd=3, clip=1, copy=2)


def optimiser(row):
    """A list of tensors, of which two of three are matrices.

    A launch is kept where it finds in the L2 cache what it would find if it ran again and again: if all lists
    fit, or if not even its own operands do.
    """
    sizes = [row["width"] ** (2 if i % 3 else 1) for i in range(row["count"])]
    everything = LISTS[row["kind"]] * sum(sizes) * SIZE[row["dtype"]]
    rows, left, of = [], [], None
    for kernel in row["kernels"]:
        metadata = re.search(r"Metadata<(?:\w+, )?(\d)>", kernel["name"])
        if "multi_tensor_apply" not in kernel["name"] or not metadata:
            rows.append(pointwise(kernel, row))
            continue
        depth = int(metadata[1])
        if not left or of != kernel["name"]:
            counters = row["kind"] == "fused" and "std::plus" in kernel["name"]
            most = (TENSORS_WITH_SCALARS if "ScalarList" in kernel["name"] else TENSORS)[depth - 1]
            left, of = chunked([1] * row["count"] if counters else sizes, most), kernel["name"]
        chunks = left.pop(0)
        assert len(chunks) == kernel["grid"][0], (row, kernel)
        own = depth * sum(chunks) * SIZE[row["dtype"]]
        if everything <= ALL_THERE or own >= NOTHING_THERE:
            rows.append(launch(kernel, dict(numel=sum(chunks), cols=max(chunks))))
    return rows


def transform(row):
    """A plan of cuFFT. The last size is of the elements that lie beside each other. Of one matrix PyTorch transforms the columns
    where they are, of several it makes them lines first."""
    sizes = row["sizes"][::-1] + [1, 1]
    wide = row["dtype"] == "fp64"
    of_complex = "complex128" if wide else "complex64"
    types = dict(c2c=(of_complex, of_complex), r2c=(row["dtype"], of_complex), c2r=(of_complex, row["dtype"]))[row["kind"]]
    features = dict(x=sizes[0], y=sizes[1], z=sizes[2], batch=row["batch"] * row["width"], stride=row["width"] if row["batch"] == 1 else 1)
    return [call("fft", total(row["kernels"]), features=features, attributes=dict(type=types[0], output_type=types[1]))]


def routine(row):
    """A routine of cuSOLVER or cuBLAS as PyTorch 2.11 calls it; nothing where it calls several, or MAGMA.

    What looks at its results on the way waits for its host, too: of such a call all counts, and the time by a clock, of a GPU that
    was idle, if it is less, since profiling takes time as well. Of others the kernels count, and gaps as between those of a host that is ahead.
    """
    kind, m, n, right, batch = row["kind"], row["m"], row["n"], row["right"], math.prod(row["batch"])
    names = " ".join(k["name"] for k in row["kernels"])
    us = min(row["span"], row["wall"])
    if not kind.startswith(("eig", "svd")):
        us = min(us, row["busy"] + LAUNCH_GAP_US * (sum(k["count"] for k in row["kernels"]) - 1))
    # Of a batch each is a call, or all are one.
    each, whole = (us / batch, 1), (us, batch)
    alone = batch == 1
    if kind == "cholesky":
        name, (us, count), sizes = "potrf", whole, dict(n=n)
    elif kind in ("cholesky_solve", "cholesky_inverse") and alone:
        name, (us, count), sizes = "potrs", whole, dict(n=n, right=right or n)
    elif kind == "lu" and m == n and (alone or sum(k["count"] for k in row["kernels"]) == 1):
        name, (us, count), sizes = "getrf", whole, dict(m=m, n=n)
    elif kind == "lu_solve" and alone and n <= 32:
        name, (us, count), sizes = "getrs", whole, dict(n=n, right=right)
    elif kind.startswith("triangular"):
        name, (us, count), sizes = "trsm", whole if alone or "batch" in names else each, dict(n=n, right=right)
    elif kind == "qr":
        name, (us, count), sizes = "geqrf", whole if alone or "geqr2_batch_kernel" in names else each, dict(m=m, n=n)
    elif kind == "householder":
        name, (us, count), sizes = "orgqr", each, dict(m=m, n=n, k=n)
    elif kind == "ormqr":
        name, (us, count), sizes = "ormqr", each, dict(m=m, n=right, k=n)
    elif kind in ("eigh", "eigvalsh"):
        together = not alone and n <= 32
        jacobi = together or row["dtype"] == "fp32" and 32 <= n <= 512
        name, (us, count), sizes = "syevj" if jacobi else "syevd", whole if together else each, dict(n=n)
    elif kind in ("svd", "svdvals"):
        name, (us, count), sizes = "gesvdj", whole if max(m, n) <= 32 else each, dict(m=m, n=n)
    elif kind in ("svd_gesvd", "eig") and alone:
        name, (us, count), sizes = "gesvd" if kind == "svd_gesvd" else "geev", whole, dict(m=m, n=n) if kind == "svd_gesvd" else dict(n=n)
    else:
        return []
    attributes = dict(type=row["dtype"])
    if name in ("syevd", "syevj", "gesvd", "gesvdj", "geev"):
        attributes["vectors"] = "0" if kind in ("eigvalsh", "svdvals") else "1"
    if name in ("trsm", "ormqr"):
        attributes["side"] = "right" if kind == "triangular_right" else "left"
    return [call(name, round(us, 3), features=dict(sizes, batch=count), attributes=attributes)]


def distinct(row):
    """How many different places a sparse matrix's random entries have, in the mean: of rows drawn alike, or as the cube of a number drawn."""
    rows, columns, entries, parts = row["rows"], row["columns"], row["rows"] * row["degree"], 256
    if not row["skewed"]:
        return rows * columns * (1 - math.exp(-entries / (rows * columns)))
    found = 0.0
    for part in range(parts):
        low, high = part / parts, (part + 1) / parts
        here = max(rows * (high**3 - low**3), 1e-9)  # rows that this part of the numbers names
        found += here * columns * (1 - math.exp(-entries / parts / (here * columns)))
    return min(found, entries)


def sparse(row):
    # PyTorch makes offsets of a list of rows first, and chooses another algorithm then.
    from_list = row["form"] == "coo"
    kernels = [k for k in row["kernels"] if "CooToCsr" not in k["name"]]
    entries = round(distinct(row))
    features = dict(rows=row["rows"], columns=row["columns"], entries=entries, right=row["right"])
    attributes = dict(type=row["dtype"], format="csr", index="32" if from_list or row["short"] else "64",
                      algorithm=dict(mm="4" if from_list else "5", mv="0", sampled="0")[row["kind"]])
    return [call(dict(mm="spmm", mv="spmv", sampled="sddmm")[row["kind"]], total(kernels), features=features, attributes=attributes)]


def groups(row):
    """PyTorch's product of groups, of which adapters/rank/kernels/families/grouped_product.cpp tells the same."""
    tokens, count = row["tokens"], row["groups"]
    each = tokens / count
    m, n, k = (row["k"], row["n"], each) if row["kind"] == "inner" else (each, row["n"], row["k"])
    size = SIZE[row["dtype"]]
    return [launch(kernel, dict(m=n, n=m, k=k, batch=count), bytes=count * (size * (m * k + k * n) + 2 * m * n))
            for kernel in row["kernels"] if "GroupProblemShape" in kernel["name"] or "GemmUniversal" in kernel["name"]]


# Operations of which the sweep does not tell what the interception reads off the launches of their own kernels,
# nor does the grid: of them we take the elementwise ones.
LAUNCHES_ALONE = ("embedding_bag", "index_select", "gather", "scatter_add", "index_put", "topk", "sort", "argmax",
                  "one_hot", "nonzero", "index_add", "masked_fill", "masked_select",
                  "image_nearest", "image_bilinear", "image_bicubic", "image_pad", "image_pixel_shuffle", "image_unfold",
                  "image_adaptive", "image_flip")


def rows_of(row):
    if row["op"] in ("mm", "bmm", "linear_bias", "scaled_mm"):
        return gemm(row)
    if row["op"].startswith("sdpa"):
        return attention(row)
    if "part" in row:
        return convolution_part(row)
    if row["op"].startswith("conv2d"):
        return convolution(row)
    if row["op"].startswith("rnn_"):
        return recurrent(row)
    if row["op"].startswith("batch_norm"):
        return batch_norm(row)
    if row["op"] == "cold" or row.get("state", "warm") != "warm":
        return []  # of operands that are not in the cache, which no query tells
    if row["op"] in ("pool_max2d", "pool_max3d", "pool_avg2d", "pool_adaptive2d", "max_pool"):
        return pooling(row)
    if row["op"].startswith("resize_"):
        return resizing(row)
    if row["op"].startswith("by_"):
        return by_index(row)
    if row["op"] in ("indexed_get", "indexed_put", "along"):
        return indexed(row)
    if row["op"] == "fft":
        return transform(row)
    if row["op"] == "solver":
        return routine(row)
    if row["op"] == "sparse":
        return sparse(row)
    if row["op"] == "groups":
        return groups(row)
    if row["op"] == "grouped_mm":
        return groups(dict(row, kind="rows", tokens=row["m"]))
    if row["op"] == "image_roll":
        elements = row["batch"] * row["cin"] * row["hw"] ** 2
        return told_or_pointwise(row, "::roll_cuda_kernel<", lambda kernel: launch(
            kernel, dict(numel=elements), bytes=2 * elements * SIZE[row["dtype"]]))
    if row["op"].startswith("pool_"):
        return [pointwise(k, dict(op=row["op"])) for k in row["kernels"] if per_block(k) or k["grid"] is None]
    if row["op"].startswith("instance_norm"):
        # A batch norm of one image, in which every image's channels are channels.
        return batch_norm(row | dict(batch=1, cin=row["batch"] * row["cin"], channels_last=False))
    if row["op"] == "optimiser":
        return optimiser(row)
    if row["op"] == "group_norm_fwd_bwd":
        read = lambda kernel: re.search("::(RowwiseMoments|ComputeInternalGradients)CUDAKernel<", kernel["name"])
        return [normalised_groups(k, row) if read(k) else pointwise(k, dict(op=row["op"])) for k in row["kernels"]
                if read(k) or per_block(k) or k["grid"] is None]
    if row["op"] == "cumsum":
        # The sums go down the columns: a row of ours is a column of theirs.
        return [launch(k, dict(rows=row["cols"], cols=row["rows"])) for k in row["kernels"]
                if "tensor_kernel_scan_outer_dim" in k["name"]]
    if row["op"] in LAUNCHES_ALONE:
        return [pointwise(k, dict(op=row["op"])) for k in row["kernels"] if per_block(k) or k["grid"] is None]
    return [pointwise(k, row) for k in row["kernels"]]


def whole(value):
    """The same number in the same letters, whichever way it came."""
    return int(value) if isinstance(value, float) and value == int(value) else value


def text(row):
    dim = lambda d: "x".join(map(str, d)) if d else "-"
    pairs = lambda d: ";".join(f"{k}={whole(v)}" for k, v in sorted(d.items())) or "-"
    return "\t".join([row["name"], dim(row.get("grid")), dim(row.get("block")), str(row.get("shared", 0)),
                      str(whole(row["bytes"])), f"{row['us']:.3f}", pairs(row["features"]), pairs(row["attributes"])])


def mean(values):
    return sum(values) / len(values)


def warm(us):
    """What a launch takes that finds its operands in the L2 cache as far as they fit: others among these found less of
    them, for which the simulation adds time by itself."""
    return sorted(us)[len(us) // 4]


def kind(name):
    """A library call, or a kernel's name without its namespaces and arguments."""
    return re.match(r"(?:void )?(?:\(anonymous namespace\)::|\w+::)*(\w*)", name)[1]


def magnitude(us):
    return sum(us >= bound for bound in (3, 10, 50))


class Spread:
    """How much measurements of one key scatter about their mean.

    Few keys were measured often, so that each one's own variance is drawn towards that of its kind
    at times of its magnitude, as if that were two measurements. A kind of which no key was measured
    twice has the median of the kinds of that magnitude.
    """

    prior = 2

    def __init__(self, samples):
        self.pools = {}
        for name, us in samples:
            pool = magnitude(mean(us)), kind(name)
            squares, freedom = self.pools.get(pool, (0, 0))
            self.pools[pool] = squares + self.squares(us), freedom + len(us) - 1

    @staticmethod
    def squares(us):
        middle = mean(us)
        return sum((u / middle - 1) ** 2 for u in us)

    # The profiler counts in 32 ns.
    tick = 0.032

    @functools.cache
    def variances(self, size):
        """Of the kinds that were measured more than once at times of that magnitude, and their median."""
        found = {k: squares / freedom for (m, k), (squares, freedom) in self.pools.items() if freedom and m == size}
        return found, median(found.values())

    def of_another(self, name, us):
        """Standard deviation of a further measurement from the mean of these, in microseconds."""
        variances, usual = self.variances(magnitude(mean(us)))
        pooled = variances.get(kind(name), usual)
        variance = (self.squares(us) + self.prior * pooled) / (len(us) - 1 + self.prior)
        return max(mean(us) * math.sqrt(variance * (1 + 1 / len(us))), self.tick / math.sqrt(12))


def coverage(samples, spread):
    """Prints which share of measurements lie near the mean of the others of their key."""
    near = total = nearer = 0
    for name, us in samples:
        for i in range(len(us) if len(us) > 1 else 0):
            others = us[:i] + us[i + 1:]
            off = abs(us[i] - mean(others)) / spread.of_another(name, others)
            # Every key counts alike, however often it was measured.
            nearer, near, total = nearer + (off < 1) / len(us), near + (off < 2) / len(us), total + 1 / len(us)
    print(f"{total:.0f} keys of several measurements: {nearer / total:.3f} lie within one standard deviation of the "
          f"others' mean, {near / total:.3f} within two")


# Of what measure_libraries.py, measure_rest.py and measure_strided.py measured, a half is held out for good; of what
# measure_convolutions.py and measure_again.py did, a quarter, since neighbouring convolutions tell little of each other.
JUDGED = {"h200_sweep6": 2, "h200_sweep7": 2, "h200_sweep8": 4, "h200_sweep9": 2, "h200_sweep10": 4, "h200_sweep12": 3, "h200_sweep13": 3, "h200_sweep14": 3, "h200_sweep15": 3, "h200_sweep16": 3, "h200_sweep17": 3, "h200_sweep18": 4, "h200_sweep19": 4,
          "h100_sweep5": 2, "h100_sweep6": 2, "h100_sweep7": 4, "h100_sweep8": 2, "h100_sweep9": 4, "h100_sweep11": 3, "h100_sweep12": 3, "h100_sweep13": 3, "h100_sweep14": 3, "h100_sweep15": 3, "h100_sweep16": 3, "h100_sweep17": 4, "h100_sweep18": 4, "h100_sweep19": 1, "h100_sweep20": 3, "h100_sweep21": 3}


# What measure_trials.py adds to a case of another sweep: a convolution judges with trials if it judges without.
OF_TRIALS = ("benchmark", "seconds", "trial_workspace", "workspace")


def case_of(row):
    """What was asked for, as text."""
    return json.dumps({key: value for key, value in row.items() if key != "kernels" and key not in OF_TRIALS}, sort_keys=True)


def is_judge(row, share):
    """Whether the digest of what was asked for leaves 1, as one of `share` does; all, of 1. Decided before any was measured."""
    return share == 1 or int(hashlib.sha256(case_of(row).encode()).hexdigest(), 16) % share == 1


def run_apart(row):
    """Whether each group of a convolution has kernels of its own: all of the 3,653 calls that overlap do, but three."""
    names = collections.Counter(k["name"] for k in row["kernels"] if not is_torch(k))
    return "part" in row and 1 < row["groups"] < row["cin"] and min(names.values(), default=0) >= row["groups"]


def host_was_late(kernels):
    """Whether groups that run apart waited for the host's launches, so that nobody knows what they take of the GPU.

    Those of which the GPU stood idle for more than a tenth, and those of short kernels that do not overlap. Of 2,010 such
    calls that both GPUs ran, the times of 10 % differ by a factor of 2.2 and more, and without these by 1.26.
    """
    kernels = [k for k in kernels if not is_torch(k)]
    if "at" not in kernels[0]:
        return sum(k["us"] for k in kernels) < 10 * len(kernels)
    idle, until = 0.0, kernels[0]["at"]
    for kernel in kernels:
        idle += max(0.0, kernel["at"] - until)
        until = max(until, kernel["at"] + kernel["us"])
    return idle > 0.1 * (until - kernels[0]["at"])


def measured_again(row, again):
    """The row of a sweep as measure_overlaps.py measured it, if it did and some of its kernels overlap; nothing where
    nobody knows what it takes."""
    kernels = None if row.get("benchmark") else again.get(case_of(row))
    if row["op"].startswith("rnn_"):
        return row if kernels is None else dict(row, again=kernels)
    if not run_apart(row):
        return row
    row = row if kernels is None else dict(row, kernels=kernels)
    return row if row["kernels"] and not host_was_late(row["kernels"]) else None


# What measure_thin.py measured judges nothing: it is of families that have judges, none of which is taken from here.
# Copies, fills and sums beside its calls are not taken, either: of those there are thousands.
NEVER_JUDGES = ("h200_sweep11", "h100_sweep10")


# Databases of which launches that only their machine code tells are rows, too, and library calls but copies and fills.
# What the interception read off the code was less before, and of the calls that earlier ones have, sweeps have more.
TELL_ALL = ("h200_keys4", "h200_keys5", "h200_keys6", "h200_keys7", "h200_keys8", "h200_keys9", "h200_keys10", "h200_keys11", "h200_keys12")
# Of these only convolutions are kept.
VOLUMES = ("h200_keys10", "h200_keys11")


def waits_for_host(key):
    """Recurrent networks and groups of one tap, of which `phantora measure` times the calls with the time between their many small kernels."""
    return key["name"].startswith("rnn_") or key["name"].startswith("conv_") and 1 < key["features"]["groups"] < key["features"]["c"] and key["features"]["r"] * key["features"]["s"] == 1


def folded(key, file):
    """Whether a key is of a convolution over three dimensions from before the interception told the third: planes
    counted as images, and a filter's depth as height. Of keys9 all are that have more than one row."""
    features = key["features"]
    if not key["name"].startswith("conv_") or "t" in features:
        return False
    if file.startswith(VOLUMES):
        return features["groups"] > 1  # of one element, told as of two dimensions
    return features["r"] == features["s"]**2 > 1 or (file.startswith("h200_keys9") and features["h"] > 1)


def measured_keys(file, by_code=False):
    """The launches of a database that `phantora measure` made and `phantora kernels export` wrote, each under the key
    that the interception has for it: what it takes warm, of a library call the median of its times.

    Library calls are left to the sweeps but for TELL_ALL. Launches of which nothing but the grid is told are not
    taken, and those that only their machine code tells alone: `by_code`.
    """
    times = collections.defaultdict(list)
    with gzip.open(file, "rt", newline="") as text:
        for row in csv.DictReader(text):
            times[row["query"]] += [int(row["picoseconds"]) / 1e6] * int(row["count"])
    for query, us in times.items():
        key = json.loads(query)
        told = key["bytes"] > 0 or key["features"]
        of_library = key["grid"] is None
        if of_library and (not file.name.startswith(TELL_ALL) or key["name"].startswith(("memcpy", "memset")) or waits_for_host(key)):
            continue
        if not told or ("warp_instructions" in key["features"]) != by_code:
            continue
        if "DeviceRadixSortSingleTileKernel" in key["name"] and "cols" not in key["features"]:
            continue  # measured before the interception told how many bits are sorted
        if "upsample_bilinear2d_out_frame" in key["name"] and "rows" not in key["features"]:
            continue  # measured before the interception told how many planes a thread goes through
        if "CatArrayBatchedCopy" in key["name"] and file.name.startswith("h200_keys8") and key["grid"][1] > 8:
            continue  # of four channels each, which no key tells from parts as wide as models have them
        if folded(key, file.name) or (file.name.startswith(VOLUMES) and "conv_" not in key["name"]):
            continue
        # The bytes of a product and of attention follow from their sizes, and the sweeps do not tell them.
        sized = key["name"] == "gemm" or key["name"].startswith("sdpa_")
        yield dict(name=key["name"], grid=key["grid"], block=None if of_library else key["block"], shared=key["shared"],
                   us=median(us) if of_library else warm(us), bytes=0 if sized else key["bytes"], features=key["features"], attributes=key["attributes"])


def key_and_us(made):
    fields = text(made).split("\t")
    return tuple(fields[:5] + fields[6:]), made["us"]


def launch_of(key, bytes="0"):
    """What tells a launch: the sweeps leave out bytes that follow from the features, and shared memory. Of a library
    call they always do."""
    return (*key[:3], bytes if key[1] != "-" else "0", *key[5:])


def databases(gpu, judges):
    return [file for file in sorted(pathlib.Path(__file__).parent.glob(f"{gpu}_keys*.csv.gz")) if file.name.endswith("_judges.csv.gz") == judges]


def key_lines(gpu, judges, by_code=False):
    """Of the databases: keys and times."""
    for file in databases(gpu, judges):
        yield from map(key_and_us, measured_keys(file, by_code))


def told_by_code(gpu, judges):
    """Of the databases that count for that: launches that only their machine code tells, and times."""
    for file in databases(gpu, judges):
        if file.name.startswith(TELL_ALL):
            for made in measured_keys(file, by_code=True):
                yield key_and_us(made)
                without_code = compiled_at_run_time(made)
                if without_code:
                    yield key_and_us(without_code)


def compiled_at_run_time(made):
    """An elementwise kernel that PyTorch compiles at run time, as it is told where NVIDIA's compiler is not installed:
    by its elements, of which a thread has eight, and its arrays."""
    found = re.fullmatch(r"\w+_vectorized(4|8)_kernel", made["name"])
    if not found:
        return None
    size = 16 // int(found[1])
    arrays = round(made["bytes"] / size / (math.prod(made["grid"]) * math.prod(made["block"]) * 8))
    return arrays and made | dict(features=dict(numel=made["bytes"] / size / arrays, arrays=arrays))


def lines_of(gpu, judges, never_fitted=()):
    """What each key was measured to take."""
    lines = {}
    with gzip.open(pathlib.Path(__file__).parent / f"{gpu}_overlaps.jsonl.gz", "rt") as overlaps:
        again = {case_of(row): row["kernels"] for row in map(json.loads, overlaps)}
    for sweep in sorted(pathlib.Path(__file__).parent.glob(f"{gpu}_sweep*.jsonl.gz"), key=lambda path: (len(path.name), path.name)):
        name = sweep.name.split(".")[0]
        share = JUDGED.get(name)
        for line in gzip.open(sweep, "rt"):
            row = json.loads(line)
            if (share is not None and is_judge(row, share)) != judges:
                continue
            row = measured_again(row, again) if row.get("kernels") else None
            for made in rows_of(row) if row else []:
                if "::elementwise_kernel<" in made["name"] and not strides_told(row):
                    continue
                if "multi_tensor_apply_kernel<" in made["name"] and "cols" not in made["features"]:
                    continue  # of an optimiser's step whose tensors are not told
                if re.match("memcpy_(h2d|d2h)", made["name"]) and not row["op"].startswith("copy_"):
                    continue  # a few bytes, which would stand for all copies of a GPU whose larger ones nobody measured
                # The same launch measured again and again (optimiser chunks) says nothing new: keep the mean.
                key, us = key_and_us(made)
                beside = "elementwise_kernel<" in made["name"]
                if name in NEVER_JUDGES and (beside or key in never_fitted and key not in lines):
                    continue
                lines.setdefault(key, []).append(us)
    # The same launch is one line.
    known = {launch_of(key, key[4]): key for key in lines}
    for key, us in key_lines(gpu, judges):
        same = known.get(launch_of(key)) or known.setdefault(launch_of(key, key[4]), key)
        lines.setdefault(same, []).append(us)
    for key, us in told_by_code(gpu, judges):
        lines.setdefault(key, []).append(us)
    return lines


def write(file, gpu, lines, spread):
    file.write(f"# Kernel times on one NVIDIA {gpu.upper()}, made by make_table.py.\n")
    file.write("name\tgrid\tblock\tshared\tbytes\tus\tfeatures\tattributes\tstddev\n")
    last = None
    for key, us in sorted(lines.items()):
        name = '"' if key[0] == last else key[0]
        last = key[0]
        file.write("\t".join([name, *key[1:5], f"{mean(us) if key[1] == '-' else warm(us):.3f}", *key[5:], f"{spread.of_another(key[0], us):.3f}"]) + "\n")


def samples_of(lines):
    """What tells how far from one another measurements of the same key lie."""
    # A launch of which only the grid is known may have had any size: those are not measured again.
    # What was tried first may have been chosen otherwise the next time: how those scatter tells of no other.
    return [(key[0], us) for key, us in lines.items() if (key[4] != "0" or key[5] != "-") and "plan=tried" not in key[6]]


def main(gpu, out, judges=None):
    held_out = lines_of(gpu, judges=True)
    lines = lines_of(gpu, judges=False, never_fitted=held_out)
    samples = samples_of(lines)
    spread = Spread(samples)
    coverage(samples, spread)
    with open(out, "w") as file:
        write(file, gpu, lines, spread)
    if judges:
        # A key that is in the fit judges nothing.
        with open(judges, "w") as file:
            write(file, gpu, {key: us for key, us in held_out.items() if key not in lines}, spread)


def lacking(out):
    """With the H100's times and spread."""
    there = {launch_of(key) for judges in (False, True) for key in lines_of("h200", judges)}
    lines = {}
    for key, us in key_lines("h100", judges=False):
        if launch_of(key) not in there:
            lines.setdefault(key, []).append(us)
    with open(out, "w") as file:
        write(file, "h100", lines, Spread(samples_of(lines_of("h100", judges=False))))


if __name__ == "__main__":
    if sys.argv[1] == "--lacking":
        lacking(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
