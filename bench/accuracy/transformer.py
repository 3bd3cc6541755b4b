#!/usr/bin/env python3
"""Transformer steps by transformer.hpp against live runs of the same shapes: prints a table.

Usage: transformer.py PHANTORA TRANSFORMER_STEPS PYTHON [--only TEXT]

PHANTORA runs transformer_live.py with --host-time off, so that the GPUs decide; TRANSFORMER_STEPS is
built with -DPHANTORA_BENCH=ON; PYTHON has torch. Both sides price kernels and collectives with the
same models: what is compared is which kernels, messages and allocations there are, and their order.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SHAPE = dict(layers=4, hidden=4096, heads=32, mlp=11008, words=32000, length=4096)
NONE, OPTIMIZER, PARAMETERS = 0, 1, 3  # Sharding
GPIPE, ZERO_BUBBLE = 0, 2  # PipelineSchedule
STAGES = dict(pipeline=4, batch=8)
EIGHT = "--micro-batches 8"

# Name, GPUs, what the live script is told, other sizes, what transformer.hpp is told.
CASES = [
    ("one GPU", 1, "single", {}, dict(batch=1)),
    ("one GPU, 2 micro-batches of 2", 1, "single --micro-batches 2", dict(micro_batch=2), dict(batch=4)),
    ("one GPU, all recomputed", 1, "single --recompute", {}, dict(batch=1, recompute=2)),
    ("one GPU, norms of passes", 1, "single --norm-passes", {}, dict(batch=1, fused_norms=0)),
    ("data parallel, buckets of 25 MiB", 2, "ddp --micro-batches 2", {},
     dict(data=2, batch=4, bucket_mib=25)),
    ("data parallel, 8 GPUs", 8, "ddp", {}, dict(data=8, batch=8, bucket_mib=25)),
    ("ZeRO-1", 2, "zero1 --micro-batches 2", {}, dict(data=2, batch=4, sharding=OPTIMIZER)),
    ("FSDP", 4, "fsdp", {}, dict(data=4, batch=4, sharding=PARAMETERS, gradient=4, optimizer=12)),
    ("FSDP, 8 GPUs, all recomputed", 8, "fsdp --recompute", {},
     dict(data=8, batch=8, sharding=PARAMETERS, gradient=4, optimizer=12, recompute=2)),
    ("tensor and sequence parallel", 2, "tp", {}, dict(tensor=2, batch=1)),
    ("tensor and sequence parallel, 4 GPUs", 4, "tp", dict(micro_batch=2), dict(tensor=4, batch=2)),
    ("context parallel", 4, "cp", dict(length=16384), dict(context=4, batch=1, bucket_mib=25)),
    ("experts", 4, "ep", dict(mlp=4096), dict(data=4, batch=4, experts=8, expert=4, bucket_mib=0)),
    ("GPipe", 4, f"ScheduleGPipe {EIGHT}", dict(layers=8), STAGES | dict(schedule=GPIPE)),
    ("1F1B", 4, f"Schedule1F1B {EIGHT}", dict(layers=8), STAGES),
    ("1F1B, 2 stages", 2, f"Schedule1F1B {EIGHT}", {}, dict(pipeline=2, batch=8)),
    ("interleaved", 4, f"ScheduleInterleaved1F1B --chunks 2 {EIGHT}", dict(layers=8),
     STAGES | dict(chunks=2)),
    ("zero bubble, interleaved", 4, f"ScheduleInterleavedZeroBubble --chunks 2 {EIGHT}",
     dict(layers=8), STAGES | dict(chunks=2, schedule=ZERO_BUBBLE)),
    # Judged when transformer.hpp was done with, without having been looked at.
    ("new: tensor and sequence parallel, 8 GPUs", 8, "tp", dict(length=8192), dict(tensor=8, batch=1)),
    ("new: context parallel, 2 GPUs", 2, "cp", dict(length=8192),
     dict(context=2, batch=1, bucket_mib=25)),
    ("new: interleaved, 2 stages", 2, "ScheduleInterleaved1F1B --chunks 2 --micro-batches 6", {},
     dict(pipeline=2, chunks=2, batch=6)),
    ("new: zero bubble, interleaved, 2 stages", 2,
     "ScheduleInterleavedZeroBubble --chunks 2 --micro-batches 4", {},
     dict(pipeline=2, chunks=2, batch=4, schedule=ZERO_BUBBLE)),
]


def live(options, gpus, told, sizes, out):
    command = [options.phantora, "run", "--host-time", "off", "--cluster", f"h200:1x{gpus}", "--trace",
               str(out / "trace.json"), "--", options.python, str(HERE / "transformer_live.py"),
               *told.split()]
    for name, value in (SHAPE | sizes).items():
        command += ["--" + name.replace("_", "-"), str(value)]
    text = subprocess.run(command, check=True, capture_output=True, text=True, timeout=900).stdout
    steps = {int(rank): (float(step), int(size)) for rank, step, size in
             re.findall(r"rank +(\d+) step 4: +([\d.]+) ms, (\d+) bytes", text)}
    return max(step for step, _ in steps.values()), [steps[rank][1] for rank in range(gpus)]


def predicted(options, gpus, sizes, way):
    sizes = SHAPE | sizes
    fields = dict(layers=sizes["layers"], hidden=sizes["hidden"], heads=sizes["heads"],
                  key_heads=sizes["heads"], mlp=sizes["mlp"], vocabulary=sizes["words"],
                  sequence=sizes["length"], micro_batch=sizes.get("micro_batch", 1), rotary=0, fused=0,
                  gradient=2, optimizer=4, sharding=NONE) | way
    words = subprocess.run([options.steps, f"h200:1x{gpus}", *(f"{k}={v}" for k, v in fields.items())],
                           check=True, capture_output=True, text=True).stdout.split()
    return float(words[0]), [int(word) for word in words[1:]]


def early_messages(trace):
    """Of the messages between stages, those that began while a kernel of their rank ran."""
    events = json.loads(trace.read_text())
    events = events["traceEvents"] if isinstance(events, dict) else events
    spans = [e for e in events if e.get("ph") == "X"]
    messages = [e for e in spans if e["name"] == "send_recv"]
    early = 0
    for rank in {e["pid"] for e in messages}:
        kernels = sorted((e["ts"], e["ts"] + e["dur"]) for e in spans
                         if e["pid"] == rank and e["cat"] == "compute")
        at = 0
        for message in sorted((e["ts"] for e in messages if e["pid"] == rank)):
            while at < len(kernels) and kernels[at][1] <= message + 1e-3:
                at += 1
            early += at < len(kernels) and kernels[at][0] < message - 1e-3
    return early, len(messages)


def main():
    arguments = argparse.ArgumentParser()
    for name in ("phantora", "steps", "python"):
        arguments.add_argument(name)
    arguments.add_argument("--only", default="")
    options = arguments.parse_args()
    print("| way | GPUs | live step, ms | transformer.hpp | error | live peak, GiB | transformer.hpp | "
          "error | worst rank |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder)
        for name, gpus, told, sizes, way in CASES:
            if options.only not in name:
                continue
            step, memory = live(options, gpus, told, sizes, out)
            ours, peaks = predicted(options, gpus, sizes, way)
            errors = [peak / size - 1 for peak, size in zip(peaks, memory)]
            print(f"| {name} | {gpus} | {step:.2f} | {ours:.2f} | {ours / step - 1:+.1%} | "
                  f"{max(memory) / 2**30:.2f} | {max(peaks) / 2**30:.2f} | "
                  f"{max(peaks) / max(memory) - 1:+.1%} | {max(errors, key=abs):+.1%} |", flush=True)
            if name == "1F1B":
                early = early_messages(out / "trace.json")
    if "early" in locals():
        print("\nOf %d messages of the live 1F1B run %d began while a kernel of their rank ran."
              % early[::-1])


if __name__ == "__main__":
    sys.exit(main())
