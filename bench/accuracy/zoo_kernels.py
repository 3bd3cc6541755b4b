#!/usr/bin/env python3
"""The GPU's time in a step of each architecture of zoo.py: measured, and as kernels are priced here.

Usage: zoo_kernels.py PHANTORA PYTHON [--only TEXT] [--worst N]

h200_zoo_kernels.jsonl.gz is what `zoo.py --kernels` saw in two steps on an H200. Here each architecture
takes STEPS steps with `--host-time off`; copies from the host, which only set models up, do not count.
--worst also lists the N kernels of each that are furthest off.
"""
import argparse
import gzip
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
STEPS = 4


def kind(kernel):
    """A kernel of PyTorch's own by its name and functor; "library" for those of cuBLAS and cuDNN."""
    head = re.match(r"(?:void )?((?:\w+::|\(anonymous namespace\)::)*)(\w+)", kernel)
    namespace, name = (head[1], head[2]) if head else ("", kernel)
    if not re.search(r"at::native|at_cuda|anonymous|at::cuda", namespace) and not name.startswith("triton_"):
        return "library"
    functor = re.search(r"at::native::(?:\(anonymous namespace\)::)?(\w+(?:Functor|Ops|_kernel_cuda)\w*)", kernel[len(head[0]):])
    return name + (f" {functor[1]}" if functor else "")


def measured():
    found = {}
    for line in gzip.open(HERE / "h200_zoo_kernels.jsonl.gz", "rt"):
        row = json.loads(line)
        kinds = found.setdefault(row["model"], {})
        name = kind(row["kernel"])
        kinds[name] = kinds.get(name, 0) + row["total_us"] / 2
    return found


def priced(phantora, python, model):
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [phantora, "run", "--cluster", "h200:1x1", "--host-time", "off", "--report", report.name, "--",
                   python, str(HERE / "zoo.py"), "--warmup", "1", "--steps", str(STEPS - 1), "--only", model]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            print(f"{model}: {done.stderr[-1000:]}", file=sys.stderr)
            return None
        kinds = {}
        for row in json.load(open(report.name))["kernels"]:
            if "h2d" in row["name"]:
                continue
            name = kind(row["name"])
            kinds[name] = kinds.get(name, 0) + 1e6 * row["total_s"] / STEPS
        return kinds


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("phantora")
    arguments.add_argument("python")
    arguments.add_argument("--only", default="")
    arguments.add_argument("--worst", type=int, default=0)
    options = arguments.parse_args()
    print("| architecture | GPU, measured, ms | priced, ms | error |\n| --- | --- | --- | --- |")
    errors = []
    for model, real in measured().items():
        if options.only not in model:
            continue
        kinds = priced(options.phantora, options.python, model)
        if kinds is None:
            continue
        total, sum_of_prices = sum(real.values()), sum(kinds.values())
        errors.append(sum_of_prices / total - 1)
        print(f"| {model} | {total / 1e3:.2f} | {sum_of_prices / 1e3:.2f} | {errors[-1]:+.1%} |", flush=True)
        off = lambda name: kinds.get(name, 0) - real.get(name, 0)
        for name in sorted({*real, *kinds}, key=lambda name: -abs(off(name)))[:options.worst]:
            print(f"    {name[:80]}: {real.get(name, 0):.0f} us, {off(name):+.0f} us")
    if errors:
        print(f"\n{len(errors)} architectures: mean error {statistics.mean(map(abs, errors)):.1%}, median "
              f"{statistics.median(map(abs, errors)):.1%}, worst {max(map(abs, errors)):.1%}.")


main()
