#!/usr/bin/env python3
"""Measures, on a machine with GPUs, what convolutions of earlier sweeps take that were tried out first (torch.backends.cudnn.benchmark).

Usage: measure_trials.py OUT.jsonl SECONDS SWEEP.jsonl.gz...

Draws convolutions of the sweeps, which say what cuDNN's heuristics chose, and runs each as PyTorch chooses after it has tried what cuDNN
offers. Lines are like measure_architectures.py's, and tell `benchmark`; of the first call, which tries, `seconds` of the host and
`trial_workspace`, the bytes that it allocates beside its result; and `workspace`, those of later calls. Two processes for each GPU take turns with what they
measure: a trial takes 40 ms in the median, of which its kernels take little.
"""
import gzip
import json
import multiprocessing
import pathlib
import random
import sys
import time

import torch

import measure_h200
from measure_architectures import a_convolution

WORKERS = 2  # for each GPU


def requested(kind):
    return torch.cuda.memory_stats()[f"requested_bytes.all.{kind}"]


def alone_in_memory(run):
    """What `run` allocates at its peak, beside its results, and the seconds until its GPU is done."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before, began = requested("current"), time.perf_counter()
    result = run()
    torch.cuda.synchronize()
    results = result if isinstance(result, (tuple, list)) else [result]
    own = sum(one.untyped_storage().nbytes() for one in results if isinstance(one, torch.Tensor))
    return requested("peak") - before - own, round(time.perf_counter() - began, 4)


def is_tried(row):
    """Not the gradients of images, which no training asks for: of patches the slowest of all kernels takes minutes."""
    return row["op"] in ("conv1d", "conv2d", "conv3d") and row["kernels"] and not (row["part"] == "bwd_data" and row["cin"] <= 4)


def tried(row):
    """The case of a sweep's row, with trials, which tells of its first calls once it has been made."""
    case = {key: row[key] for key in row if key != "kernels"} | dict(benchmark=True)
    shape = [row[key] for key in ("batch", "cin", "cout", "size", "k", "stride", "padding", "dilation", "groups", "dtype", "channels_last", "transposed", "op")]
    make = next(make for same, make in a_convolution(*shape) if same["part"] == row["part"])

    def made():
        torch.backends.cudnn.benchmark = False
        run = make()
        torch.backends.cudnn.benchmark = True
        case["trial_workspace"], case["seconds"] = alone_in_memory(run)
        case["workspace"], _ = alone_in_memory(run)
        return run
    return case, made


def work(gpu, path, rows, end, turns):
    torch.cuda.set_device(gpu)
    measure_h200.CHUNK = 6
    measure_h200.work(path, [tried(row) for row in rows], end, turns)


def main():
    out, end = sys.argv[1], time.time() + float(sys.argv[2])
    rows = [row for path in sys.argv[3:] for row in map(json.loads, gzip.open(path, "rt")) if is_tried(row)]
    random.Random(195).shuffle(rows)
    processes = multiprocessing.get_context("fork")
    gpus = torch.cuda.device_count()  # asks the driver's management library, which may be asked before a fork
    turns = [measure_h200.Turns(WORKERS, processes) for _ in range(gpus)]
    for one in turns:
        one.next = turns[0].next  # all take of the same cases
    paths = [f"{out}.{number}" for number in range(gpus * WORKERS)]
    children = [processes.Process(target=work, args=(number % gpus, path, rows, end, turns[number % gpus])) for number, path in enumerate(paths)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    pathlib.Path(out).write_text("".join(pathlib.Path(path).read_text() for path in paths))
    print(min(turns[0].next.value, len(rows)), "of", len(rows), "cases")


if __name__ == "__main__":
    main()
