#!/usr/bin/env python3
"""The GPU's time in a step of each architecture of zoo.py: measured, and as kernels are priced here.

Usage: zoo_kernels.py PHANTORA PYTHON [--only TEXT] [--worst N]
       zoo_kernels.py PHANTORA --records FOLDER [--only TEXT] [--worst N]

h200_zoo_kernels.jsonl.gz is what `zoo.py --kernels` saw in two steps on an H200. Here each architecture
runs with `--host-time off`, for two steps and for four: what the last two take is compared, since models
are set up and compiled code is tuned before. Prices of library calls hold the gaps between their kernels,
which are added to what was measured: one for each kernel, copy or fill beyond the number of calls.
--records prices what FOLDER holds instead, without PyTorch: kernels.jsonl.gz, measured, and of each architecture
MODEL.rec.gz, a record of sixteen steps, and MODEL.4.rec.gz, of the first four of them.
--worst also lists the N kernels of each that are furthest off.
"""
import argparse
import gzip
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def kind(kernel):
    """A kernel of PyTorch's own by its name and functor; "library" for those of cuBLAS and cuDNN."""
    head = re.match(r"(?:void )?((?:\w+::|\(anonymous namespace\)::)*)(\w+)", kernel)
    namespace, name = (head[1], head[2]) if head else ("", kernel)
    if not re.search(r"at::native|at_cuda|anonymous|at::cuda", namespace) and not name.startswith("triton_"):
        return "library"
    functor = re.search(r"at::native::(?:\(anonymous namespace\)::)?(\w+(?:Functor|Ops|_kernel_cuda)\w*)", kernel[len(head[0]):])
    return name + (f" {functor[1]}" if functor else "")


# As in lib/kernels/data/make_table.py.
LAUNCH_GAP_US = 1.4
RECORDED_STEPS = (4, 16)


def measured(file):
    """Microseconds and number of the kernels of a step, by architecture and kind."""
    found = {}
    for line in gzip.open(file, "rt"):
        row = json.loads(line)
        add(found.setdefault(row["model"], {}), row["kernel"], row["total_us"] / 2, row["count"] / 2)
    return found


def add(kinds, name, us, count):
    before = kinds.get(kind(name), (0, 0))
    kinds[kind(name)] = (before[0] + us, before[1] + count)


def ran(phantora, python, model, steps):
    # What compiled code was tuned to is kept in a folder: both runs are to tune.
    with tempfile.NamedTemporaryFile(suffix=".json") as report, tempfile.TemporaryDirectory() as kept:
        command = [phantora, "run", "--cluster", "h200:1x1", "--host-time", "off", "--report", report.name, "--",
                   python, str(HERE / "zoo.py"), "--warmup", "1", "--steps", str(steps - 1), "--names", model]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              env=os.environ | dict(TORCHINDUCTOR_CACHE_DIR=kept))
        if done.returncode != 0:
            print(f"{model}: {done.stderr[-1000:]}", file=sys.stderr)
            return None
        return json.load(open(report.name))["kernels"]


def kernels_of(phantora, record):
    with tempfile.NamedTemporaryFile(suffix=".rec") as plain:
        plain.write(gzip.open(record).read())
        plain.flush()
        told = subprocess.run([phantora, "kernels", "where", plain.name, "--cluster", "h200:1x1", "--format", "json"],
                              capture_output=True, text=True, check=True).stdout
    return json.loads(told)["kernels"]


def between(before, after, steps):
    """What `after` has more than `before`, per step."""
    kinds = {}
    for rows, sign in ((before, -1), (after, 1)):
        for row in rows:
            add(kinds, row["name"], sign * 1e6 * row["total_s"] / steps, sign * row["count"] / steps)
    return kinds


def priced_records(phantora, folder, model):
    few, many = RECORDED_STEPS
    return between(kernels_of(phantora, folder / f"{model}.{few}.rec.gz"),
                   kernels_of(phantora, folder / f"{model}.rec.gz"), many - few)


def priced(phantora, python, model):
    before, after = (ran(phantora, python, model, steps) for steps in (2, 4))
    if before is None or after is None:
        return None
    return between(before, after, 2)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("phantora")
    arguments.add_argument("python", nargs="?")
    arguments.add_argument("--records", type=pathlib.Path)
    arguments.add_argument("--only", default="")
    arguments.add_argument("--worst", type=int, default=0)
    options = arguments.parse_args()
    print("| architecture | GPU, measured, ms | priced, ms | error |\n| --- | --- | --- | --- |")
    errors = []
    file = options.records / "kernels.jsonl.gz" if options.records else HERE / "h200_zoo_kernels.jsonl.gz"
    for model, real in measured(file).items():
        if options.only not in model:
            continue
        if options.records:
            kinds = priced_records(options.phantora, options.records, model)
        else:
            kinds = priced(options.phantora, options.python, model)
        if kinds is None:
            continue
        gaps = LAUNCH_GAP_US * max(0, real.get("library", (0, 0))[1] - kinds.get("library", (0, 0))[1])
        real = {name: us + (gaps if name == "library" else 0) for name, (us, _) in real.items()}
        kinds = {name: us for name, (us, _) in kinds.items()}
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
