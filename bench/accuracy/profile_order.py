#!/usr/bin/env python3
"""torch.profiler's trace of simulated GPT-2 steps beside the same on a real H200: which kernels, in which order, how
long.

    profile_order.py PHANTORA PYTHON        # PYTHON has torch 2.11 and transformers

The real one (h200_gpt2_kernels.json.gz): two steps of test/programs/train.py --model gpt2 --batch 8 --seq 1024 on one
H200, torch 2.11.0, CUDA 13.0, driver 580, 2026-11-20; of each operation on the GPU its name and its microseconds, as
the profiler exported them.

Operations are paired as a diff pairs lines. PyTorch's own kernels, copies and fills have to bear the same name. What
NVIDIA's libraries launch is one operation of the simulation for each call, which stands for as many real kernels as
the library launched for it: cuBLAS's fills of its workspace (4 bytes) and cuDNN's helpers count to their call.
"""
import collections
import difflib
import gzip
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
REAL = HERE / "h200_gpt2_kernels.json.gz"
PROGRAM = HERE.parents[1] / "test/programs/train.py"

# Kernels of NVIDIA's libraries, and what the simulation calls the operation that they are of.
LIBRARY = [
    ("gemm", re.compile(r"nvjet_|cutlass|_gemm|gemv|splitKreduce")),
    ("sdpa_fwd", re.compile(r"cudnn_generated.*fprop")),
    ("sdpa_bwd", re.compile(r"cudnn_generated.*bprop|cudnn::fusion::(compute_dot_do_o|convert_dq)")),
]


def operations(trace):
    """[(name, microseconds, bytes of a copy or fill)] in order of time, of an exported trace."""
    found = [event for event in trace["traceEvents"]
             if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    found.sort(key=lambda event: event["ts"])
    return [[event["name"], event["dur"], event["args"].get("bytes", 0)] for event in found]


def called(name):
    return next((operation for operation, pattern in LIBRARY if pattern.search(name)), name)


def by_call(real):
    """Of real kernels: those of one call of a library as one."""
    found = []
    for name, duration, size in real:
        operation = called(name)
        if operation == name and name.startswith("Memset") and size == 4:
            operation = "workspace"  # of the cuBLAS call that follows, if one does
        if found and operation != name and found[-1][0] in (operation, "workspace") and (
                operation != "gemm" or found[-1][0] == "workspace"):
            found[-1] = [operation, found[-1][1] + duration]
        else:
            found.append([operation, duration])
    return [[name if name != "workspace" else "Memset (Device)", duration] for name, duration in found]


def simulated(phantora, python):
    with tempfile.TemporaryDirectory() as folder:
        profile = pathlib.Path(folder) / "profile.json"
        command = [phantora, "run", "--cluster", "h200:1x1", "--", python, PROGRAM, "--model", "gpt2", "--batch", "8",
                   "--seq", "1024", "--warmup", "3", "--steps", "3", "--profile", profile]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        return operations(json.loads(profile.read_text()))


def main():
    real_kernels = json.loads(gzip.open(REAL).read())
    real_kernels = [[real_kernels["names"][name], duration, size] for name, duration, size in real_kernels["operations"]]
    ours = simulated(*sys.argv[1:3])
    real = by_call(real_kernels)
    matcher = difflib.SequenceMatcher(a=[name for name, _ in real], b=[called(name) for name, _, _ in ours],
                                      autojunk=False)
    pairs, missing, extra = [], collections.Counter(), collections.Counter()
    for tag, a0, a1, b0, b1 in matcher.get_opcodes():
        if tag == "equal":
            pairs += zip(real[a0:a1], ours[b0:b1])
        else:
            missing.update(name for name, _ in real[a0:a1])
            extra.update(name for name, _, _ in ours[b0:b1])
    whole = sum(duration for _, duration, _ in real_kernels), sum(duration for _, duration, _ in ours)
    print(f"real: {len(real_kernels)} operations on the GPU, {len(real)} with a library's call as one, {whole[0]:.0f} us")
    print(f"simulated: {len(ours)}, {whole[1]:.0f} us ({whole[1] / whole[0] - 1:+.1%})")
    print(f"of the same name in the same order: {len(pairs)} ({len(pairs) / len(real):.1%})")
    for what, names in ("real only", missing), ("simulated only", extra):
        for name, count in names.most_common():
            print(f"  {what}: {count} x {name[:110]}")
    errors = collections.defaultdict(list)
    for (name, duration), (_, took, _) in pairs:
        kind = name if name in dict(LIBRARY) or name.startswith("Mem") else "PyTorch's kernels"
        errors[kind].append((took - duration, duration))
    print("\n| operations | number | real, us | simulated, us | error of the sum | median error of one | 90 % within | worst |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for kind, all_of in [("all", [error for each in errors.values() for error in each]), *errors.items()]:
        real_us = sum(duration for _, duration in all_of)
        off = sorted(abs(error) / duration for error, duration in all_of)
        error = sum(error for error, _ in all_of)
        print(f"| {kind} | {len(all_of)} | {real_us:.0f} | {real_us + error:.0f} | {error / real_us:+.1%} | "
              f"{statistics.median(off):.1%} | {off[int(0.9 * len(off))]:.1%} | {off[-1]:.1%} |")
    print("\nfurthest off, of equal kernels together:")
    sums = collections.defaultdict(lambda: [0, 0.0, 0.0])
    for (name, duration), (_, took, _) in pairs:
        entry = sums[name]
        sums[name] = [entry[0] + 1, entry[1] + duration, entry[2] + took]
    for name, (count, was, is_) in sorted(sums.items(), key=lambda e: -abs(e[1][2] - e[1][1]))[:8]:
        print(f"  {is_ - was:+7.0f} us ({is_ / was - 1:+.0%}): {count} x {name[:130]}")


if __name__ == "__main__":
    main()
