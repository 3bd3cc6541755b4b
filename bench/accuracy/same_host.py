#!/usr/bin/env python3
"""Real and simulated training steps, one after the other on one host with GPUs, and their table.

Usage: same_host.py PHANTORA [--gpus N] [--json OUT] [--table IN...]

Runs zoo.py (with one GPU) and the cases below that use N GPUs of test/programs/train.py, each for
real and then under PHANTORA, with the Python that runs this. --table only prints what was measured.
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
TRAIN = HERE.parents[1] / "test/programs/train.py"

# model, parallel, batch, sequence, more options
CASES = {
    1: [("gpt2", "none", 6, 1024), ("gpt2-large", "none", 3, 1024), ("llama1b", "none", 3, 1024),
        ("resnet50", "none", 80, 1024), ("vgg16", "none", 48, 1024), ("llama-tiny", "none", 6, 2048)],
    2: [("gpt2-medium", "ddp", 3, 1024), ("llama1b", "tp", 3, 1024), ("gpt2", "fsdp2", 6, 1024)],
    4: [("gpt2", "ddp", 6, 1024), ("gpt2-medium", "fsdp2", 4, 1024), ("llama1b", "fsdp2", 3, 1024),
        ("llama1b", "tp", 3, 1024), ("resnet50", "ddp", 80, 1024),
        ("llama-tiny", "fsdp2", 6, 2048), ("llama1b", "fsdp2", 3, 1024, "--ac")],
}


def lines_of(command):
    """The JSON lines that the command prints."""
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    rows = [json.loads(line) for line in re.findall(r"^\{.*\}$", done.stdout, re.M)]
    if done.returncode != 0:
        print(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr[-3000:]}",
              file=sys.stderr)
    print(f"{time.monotonic() - began:.0f} s: {' '.join(map(str, command))}"[:200], file=sys.stderr)
    return rows


def runs(phantora, gpus):
    """(name, real command, simulated command) of each measurement."""
    cluster = [phantora, "run", "--cluster", f"h200:1x{gpus}", "--"]
    if gpus == 1:
        zoo = [sys.executable, HERE / "zoo.py"]
        yield None, zoo, [*cluster, *zoo]
    for model, parallel, batch, length, *more in CASES[gpus]:
        train = [TRAIN, "--model", model, "--parallel", parallel, "--batch", str(batch), "--seq",
                 str(length), "--steps", "16", *more]
        real = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(gpus)] if gpus > 1 else [
            sys.executable]
        name = f"{model} {parallel} b{batch} s{length} {' '.join(more)}".strip() + f" x{gpus}"
        yield name, [*real, *train], [*cluster, sys.executable, *train]


def measure(phantora, gpus, out, order):
    for name, real, simulated in runs(phantora, gpus):
        for what in order:
            for row in lines_of(list(map(str, real if what == "real" else simulated))):
                out.write(json.dumps(dict(name=name or row["model"], what=what, **row)) + "\n")
                out.flush()


def table(files):
    rows = {}
    for file in files:
        for line in pathlib.Path(file).read_text().splitlines():
            row = json.loads(line)
            rows.setdefault(row["name"], {}).setdefault(row["what"], []).append(row)
    print("| case | real step, ms | simulated, ms | error | peak allocated, real | error |")
    print("| --- | --- | --- | --- | --- | --- |")
    errors = []
    for name, found in rows.items():
        if len(found) < 2:
            print(f"| {name} | only {' '.join(found)} | | | | |")
            continue
        real = statistics.median(row["median_s"] for row in found["real"])
        simulated = statistics.median(row["median_s"] for row in found["simulated"])
        memory = [found[what][0]["peak_alloc"] for what in ("real", "simulated")]
        errors.append(simulated / real - 1)
        steps = ", ".join(format(1e3 * row["median_s"], ".1f") for row in found["real"])
        print(f"| {name} | {steps} | {1e3 * simulated:.1f} | {errors[-1]:+.1%} "
              f"| {memory[0] / 2**30:.2f} GiB | {memory[1] / memory[0] - 1:+.2%} |")
    if errors:
        print(f"\n{len(errors)} cases: mean error {statistics.mean(map(abs, errors)):.1%}, median "
              f"{statistics.median(map(abs, errors)):.1%}, worst {max(map(abs, errors)):.1%}.")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("phantora", nargs="?")
    arguments.add_argument("--gpus", type=int, default=1, choices=sorted(CASES))
    arguments.add_argument("--json", default="same_host.jsonl", help="rows are appended to this file")
    arguments.add_argument("--table", nargs="+", help="print these files' rows, measure nothing")
    arguments.add_argument("--order", nargs="+", choices=("real", "simulated"),
                           default=("real", "simulated", "real"))
    options = arguments.parse_args()
    if options.table:
        return table(options.table)
    if options.phantora is None:
        arguments.error("the phantora program to compare with")
    with open(options.json, "a") as out:
        measure(options.phantora, options.gpus, out, options.order)
    table([options.json])


main()
