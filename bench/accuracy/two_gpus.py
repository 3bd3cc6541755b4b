#!/usr/bin/env python3
"""What each of two GPUs does in three steps of ten jobs: a real profile beside that of the simulation.

Usage: two_gpus.py PHANTORA PYTHON [--only TEXT]     simulates the jobs, and compares with h100_two_gpus/
       two_gpus.py --take [FOLDER]                   takes these on a machine with two GPUs, with this Python's torch

The simulation runs with --host-time off: what is compared is what the GPUs do, not when their hosts let them. Columns are
milliseconds of a step of rank 0: of compute kernels (their time when they ran beside collectives, too), of the time in which
the GPU ran anything, of that in which it ran collectives alone; and the real step itself, in which the GPU also waits for its host.
"""
import argparse
import gzip
import json
import os
import pathlib
import runpy
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TAKEN = HERE / "h100_two_gpus"
TRAIN = HERE.parent.parent / "test" / "programs" / "train.py"
LIVE = HERE / "transformer_live.py"
JOBS = {
    "gpt2-medium ddp": (TRAIN, "--model gpt2-medium --parallel ddp --batch 6 --seq 1024 --steps 9"),
    "resnet50 ddp": (TRAIN, "--model resnet50 --parallel ddp --batch 96 --steps 9"),
    "llama1b fsdp2": (TRAIN, "--model llama1b --parallel fsdp2 --batch 4 --seq 2048 --steps 9"),
    "ddp": (LIVE, "ddp --steps 11"),
    "zero1": (LIVE, "zero1 --steps 11"),
    "fsdp": (LIVE, "fsdp --micro-batch 2 --steps 11"),
    "fsdp recomputed": (LIVE, "fsdp --recompute --steps 11"),
    "cp": (LIVE, "cp --length 8192 --steps 11"),
    "ep": (LIVE, "ep --mlp 4096 --steps 11"),
    "tp": (LIVE, "tp --steps 11"),
}
# Steps of the optimizer before those that are profiled, and of these.
WARMUP, STEPS = 6, 3


def trace(out, script, *arguments):
    """Runs a script, and writes [name, begin, length] of each kernel, copy and fill of rank 0's GPU, in us."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook
    profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA], acc_events=True)
    done = dict(steps=0, owner=None)

    def write():
        with tempfile.TemporaryDirectory() as folder:
            whole = pathlib.Path(folder) / "trace.json"
            profile.export_chrome_trace(str(whole))
            events = json.loads(whole.read_text())["traceEvents"]
        found = sorted((e["ts"], e["dur"], e["name"]) for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"))
        names = sorted({name for _, _, name in found})
        rows = [[names.index(name), round(begin - found[0][0], 3), length] for begin, length, name in found]
        with gzip.open(out, "wt") as file:
            json.dump(dict(steps=STEPS, names=names, operations=rows), file)

    def stepped(optimizer, *_):
        # A program with several optimizers steps by the first of them.
        done["owner"] = done["owner"] or id(optimizer)
        done["steps"] += id(optimizer) == done["owner"]
        if id(optimizer) == done["owner"] and done["steps"] in (WARMUP, WARMUP + STEPS):
            torch.cuda.synchronize()
            if done["steps"] == WARMUP:
                profile.start()
            else:
                profile.stop()
                if os.environ.get("RANK", "0") == "0":
                    write()

    register_optimizer_step_post_hook(stepped)
    sys.path.insert(0, str(pathlib.Path(script).parent))
    sys.argv = [script, *arguments]
    runpy.run_path(script, run_name="__main__")


def run(launcher, job, out):
    script, arguments = JOBS[job]
    subprocess.run([*launcher, str(HERE / "two_gpus.py"), "--trace", str(out), str(script), *arguments.split()], check=True,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def file_of(folder, job):
    return pathlib.Path(folder) / f"{job.replace(' ', '_')}.json.gz"


def length_of(spans):
    """Of the union of spans."""
    total, end = 0.0, float("-inf")
    for first, last in sorted(spans):
        total += max(0.0, last - max(first, end))
        end = max(end, last)
    return total


def figures(path):
    """Milliseconds of a step: of compute kernels, of anything, of collectives alone, and from the first to the last."""
    taken = json.load(gzip.open(path))
    spans = [("nccl" in taken["names"][name], begin, begin + length) for name, begin, length in taken["operations"]]
    compute = length_of((begin, end) for collective, begin, end in spans if not collective)
    anything = length_of((begin, end) for _, begin, end in spans)
    whole = max(end for *_, end in spans) - min(begin for _, begin, _ in spans)
    return [us / 1e3 / taken["steps"] for us in (compute, anything, anything - compute, whole)]


def main():
    if sys.argv[1:2] == ["--trace"]:
        return trace(*sys.argv[2:])
    arguments = argparse.ArgumentParser()
    arguments.add_argument("phantora", nargs="?")
    arguments.add_argument("python", nargs="?")
    arguments.add_argument("--only", default="")
    arguments.add_argument("--take", nargs="?", const=TAKEN, type=pathlib.Path)
    options = arguments.parse_args()
    jobs = [job for job in JOBS if options.only in job]
    if options.take:
        options.take.mkdir(exist_ok=True)
        for job in jobs:
            run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"], job, file_of(options.take, job))
        return
    print("| job | compute: real | simulated | error | GPU works: real | simulated | error | collectives alone: real | simulated | real step |")
    print("|" + " --- |" * 10)
    for job in jobs:
        with tempfile.TemporaryDirectory() as folder:
            out = file_of(folder, job)
            run([options.phantora, "run", "--cluster", "h100:1x2", "--host-time", "off", "--", options.python], job, out)
            ours = figures(out)
        real = figures(file_of(TAKEN, job))
        errors = [f"{mine / theirs - 1:+.1%}" for mine, theirs in zip(ours, real)]
        print(f"| {job} | {real[0]:.2f} | {ours[0]:.2f} | {errors[0]} | {real[1]:.2f} | {ours[1]:.2f} | {errors[1]} "
              f"| {real[2]:.2f} | {ours[2]:.2f} | {real[3]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
