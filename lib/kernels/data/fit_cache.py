#!/usr/bin/env python3
"""Fits what operand_cache.cpp says of kernels whose operands lie in memory, and judges that.

Usage: fit_cache.py

By h200_cache.jsonl.gz, which measure_cache.py made: the coefficients of each family of kernels by least squares of the
relative error, none below zero. What was written last must be written back before there is room for more: such a cache
counts as much as one with what was read, since programs leave both. h100_cache.jsonl.gz judges. Wants numpy and scipy.
"""
import collections
import gzip
import json
import math
import pathlib
import re

import numpy
import scipy.optimize

HERE = pathlib.Path(__file__).resolve().parent
SIZE = {"bf16": 2, "fp32": 4}
MB = 1e6
# GpuModel's: size of the L2 cache in MB, and MB that memory moves in a microsecond.
GPUS = {"h200": (60 * 2**20 / MB, 4.8), "h100": (50 * 2**20 / MB, 3.35)}
FAMILIES = {"vectorized_elementwise_kernel": ("add", "add_", "gelu", "to_bf16"), "unrolled_elementwise_kernel": ("to_fp32",),
            "elementwise_kernel": ("transpose",), "CatArrayBatchedCopy": ("cat",), "softmax_warp": ("softmax",),
            "vectorized_layer_norm": ("layer_norm",), "layer_norm_grad_input": ("layer_norm_backward",), "reduce_kernel": ("sum0", "sum1"),
            "batch_norm_collect_statistics_channels_last": ("batch_norm_nhwc",), "products": ("mm", "linear", "bmm"), "convolutions": ("convolution",),
            "other launches": ("add", "add_", "gelu", "to_bf16", "to_fp32", "transpose", "cat")}
NAMES = [family for family in FAMILIES if " " not in family and not family.endswith("s")]  # parts of a kernel's name


def missing_share(since, size):
    return min(1.0, max(0.0, (since / size - 0.53) / 0.27))


class Cache:
    """phantora::L2Cache, by parts of half a MB of named operands."""

    def __init__(self, size):
        self.size, self.touched, self.stamps = size, 0.0, {}

    def touch(self, *operands):
        """A kernel goes through all of these, pairs of a name and MB, at once; what of each is missing."""
        parts = [max(1, round(2 * mb)) for _, mb in operands]
        order = sorted((part / count, name, part, mb / count) for (name, mb), count in zip(operands, parts) for part in range(count))
        missing = collections.Counter()
        for _, name, part, mb in order:
            missing[name] += mb * missing_share(self.touched - self.stamps.get((name, part), -math.inf), self.size)
            self.touched += mb
            self.stamps[name, part] = self.touched
        return missing


def operands(kind, dtype, rows, cols, inner):
    """MB of each operand that is read, and of what is written."""
    n, size = rows * cols, SIZE[dtype]
    if kind in ("batch_norm", "batch_norm_nhwc", "convolution"):
        n = max(1, rows // 196) * 196 * cols
    one = n * size
    weights = cols * inner * size
    read, written = {"to_bf16": ((one,), one / 2), "to_fp32": ((one,), 2 * one), "add": ((one, one), one), "add_": ((one, one), 0), "cat": ((one, one), 2 * one),
                     "sum0": ((one,), 0), "sum1": ((one,), 0), "layer_norm_backward": ((one, one), one), "convolution": ((one, 9 * cols * cols * size), one),
                     "mm": ((one, weights), rows * inner * size), "linear": ((one, weights), rows * inner * size),
                     "bmm": ((one, weights), 4 * rows * inner * size)}.get(kind, ((one,), one))
    return [bytes / MB for bytes in read], written / MB


def round_trips(kernel, read, size):
    """KernelWork::round_trips of a reduction that one block row does, as work/reductions.cpp counts them."""
    blocks, threads = math.prod(kernel["grid"]), math.prod(kernel["block"])
    outputs = int(re.search(r"reduce_kernel<\d+, (\d+)", kernel["name"])[1])
    return math.ceil(read * MB / size / blocks / threads / (4 * (outputs if outputs > 1 else 4)))


def points(gpu, family):
    """Of a family's kernels: how much of them is cold, round trips, microseconds of memory, time when warm, time, and whether
    room had to be made by writing back."""
    size, bandwidth = GPUS[gpu]
    states = collections.defaultdict(dict)
    for line in gzip.open(HERE / f"{gpu}_cache.jsonl.gz", "rt"):
        row = json.loads(line)
        states[tuple(row[key] for key in ("kind", "dtype", "rows", "cols", "inner"))][row["state"]] = row
    found = []
    for shape, rows in states.items():
        kind, dtype = shape[:2]
        if kind not in FAMILIES[family]:
            continue
        read, written = operands(*shape)
        # The first operand of larger ones is not in 256 MB of anything.
        if "warm" not in rows or sum(read) > 200:
            continue
        kernels = len(rows["warm"]["kernels"])
        # An operation's other kernels read what the family's has read, or little.
        counts = [family not in NAMES or family in kernel["name"] for kernel in rows["warm"]["kernels"]]
        if not any(counts):
            continue
        time = lambda state: sum(kernel["us"] for kernel, is_one in zip(rows[state]["kernels"][-kernels:], counts) if is_one)
        trips = round_trips(rows["warm"]["kernels"][counts.index(True)], sum(read), SIZE[dtype]) if family == "reduce_kernel" else 0

        def run(cache):
            missing = cache.touch(*((f"read {i}", mb) for i, mb in enumerate(read)), ("written", written))
            return sum(mb for name, mb in missing.items() if name != "written")
        for state, row in rows.items():
            if state == "warm":
                continue
            cache = Cache(size)
            run(cache)
            if state == "gap":
                run(cache)
            cache.touch(("other", row["gap"] / MB if state == "gap" else 256 * 2**20 / MB))
            if state == "produced":
                cache.touch(("read 0", read[0]))
            more = run(cache) - sum(read) * missing_share(sum(read) + written, size)
            if more > 0:
                found.append((more / sum(read), trips, more / bandwidth, time("warm"), time(state), state == "written"))
    return numpy.array(found)


def terms(rows):
    share, trips, memory = rows[:, 0], rows[:, 1], rows[:, 2]
    return numpy.stack([share, share * trips, memory], 1)


def column_sums():
    """Fits what sums of up to 22 MB take more where their partial sums' memory is cold, whose operands were just written
    (`column_sum` of h200_sweep9.jsonl.gz): once, and for each load of what nobody wrote."""
    states = collections.defaultdict(dict)
    for line in gzip.open(HERE / "h200_sweep9.jsonl.gz", "rt"):
        row = json.loads(line)
        if row["op"] == "column_sum" and row["rows"] * row["cols"] * SIZE[row["dtype"]] <= 22 * MB:
            kernel = [kernel for kernel in row["kernels"] if "::reduce_kernel<" in kernel["name"]][-1]
            states[row["dtype"], row["rows"], row["cols"]][row["state"]] = kernel
    rows = []
    for (_, _, cols), kernels in states.items():
        (_, blocks, _), (wide, high, _) = kernels["warm"]["grid"], kernels["warm"]["block"]
        if blocks > 1:
            unwritten = math.ceil(blocks / high) if cols % (4 * wide) else 0
            rows.append((1, unwritten, kernels["warm"]["us"], kernels["produced"]["us"]))
    rows = numpy.array(rows)
    took, more = rows[:, 3], rows[:, 3] - rows[:, 2]
    found, _ = scipy.optimize.nnls(rows[:, :2] / took[:, None], more / took)
    left = numpy.abs(more - rows[:, :2] @ found) / took
    print(f"{len(rows)} column sums: {found[0]:.2f} us, {found[1]:.2f} us for each unwritten load; of their time "
          f"{100 * (more / took).mean():.0f} % are left unexplained without, {100 * left.mean():.0f} % with")


def main():
    print("family | first, us | round trip, us | of bandwidth | H200: as if warm | fitted | H100: as if warm | judged")
    for family in FAMILIES:
        rows = points("h200", family)
        took = rows[:, 4:5]
        dirty = rows[:, 5:] == 1
        weight = numpy.sqrt(numpy.where(dirty, 1 / dirty.sum(), 1 / (~dirty).sum())) / took
        found, _ = scipy.optimize.nnls(terms(rows) * weight, (rows[:, 4] - rows[:, 3]) * weight[:, 0])
        cells = []
        for rows in (rows, points("h100", family)):
            warm, took = rows[:, 3], rows[:, 4]
            simulated = warm + numpy.minimum(terms(rows) @ found, 1.5 * warm)
            cells += [f"{100 * numpy.abs(warm / took - 1).mean():.1f} %", f"{100 * numpy.abs(simulated / took - 1).mean():.1f} %"]
        print(family, "|", " | ".join(f"{value:.2f}" for value in found), "|", " | ".join(cells))


main()
column_sums()
