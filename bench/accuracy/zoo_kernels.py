#!/usr/bin/env python3
"""The GPU's time in a step of each architecture of zoo.py, trainings.py, studies.py and multimodal.py: measured, and as kernels are priced here.

Usage: zoo_kernels.py PHANTORA [--gpu h200|h100] [--unmeasured] [--only TEXT | --names NAME...] [--without NAME...]
                      [--worst N] [--bound PERCENT]
       zoo_kernels.py PHANTORA --take PYTHON [--names NAME...]

zoo/GPU_kernels.jsonl.gz is what these programs' `--kernels` saw in two steps on that GPU. zoo/ also holds of each architecture
NAME.rec.gz, a record of sixteen steps, and NAME.4.rec.gz, of the first four of them: what the longer one has more is
priced, so that compiled code that is tuned, captures and warm-ups do not count. Prices of library calls hold the gaps
between their kernels, which are added to what was measured: one for each kernel, copy or fill beyond the number of calls. What
ran beside other kernels, which since 2026-11-25 a row of its own tells of the architectures that have any, took none of the step's time.
--unmeasured prices them as on a GPU of the same data sheet that nobody has measured: by what is known of the other.
--take records anew, with the PyTorch of PYTHON; --worst also lists the N kernels of each that are furthest off.
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
ZOO = HERE / "zoo"


# zoo.py's row of the time in which kernels ran beside others, with a minus: they are cuDNN's.
BESIDE = "beside other kernels"


def kind(kernel):
    """A kernel of PyTorch's own by its name and functor; "library" for those of cuBLAS and cuDNN."""
    if kernel == BESIDE:
        return kernel
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


def program_of(model):
    """The program that has an architecture, or a training, of that name."""
    return next(HERE / name for name in ("zoo.py", "trainings.py", "studies.py", "multimodal.py")
                if re.search(rf"^@(architecture|training|study|multimodal)\ndef {model}\(", (HERE / name).read_text(), re.M))


def take(phantora, python, model):
    """Records the steps of a model, all of them and the first few."""
    for steps in RECORDED_STEPS:
        # What compiled code was tuned to is kept in a folder: both runs are to tune.
        with tempfile.NamedTemporaryFile(suffix=".rec") as plain, tempfile.TemporaryDirectory() as kept:
            subprocess.run([phantora, "run", "--cluster", "h200:1x1", "--host-time", "off", "--record", plain.name, "--",
                            python, str(program_of(model)), "--warmup", "2", "--steps", str(steps - 2), "--names", model],
                           stdin=subprocess.DEVNULL, check=True, env=os.environ | dict(TORCHINDUCTOR_CACHE_DIR=kept))
            record_of(model, steps).write_bytes(gzip.compress(pathlib.Path(plain.name).read_bytes(), mtime=0))


def record_of(model, steps):
    return ZOO / (f"{model}.rec.gz" if steps == RECORDED_STEPS[-1] else f"{model}.{steps}.rec.gz")


def kernels_of(phantora, cluster, record):
    with tempfile.NamedTemporaryFile(suffix=".rec") as plain:
        plain.write(gzip.open(record).read())
        plain.flush()
        told = subprocess.run([phantora, "kernels", "where", plain.name, "--cluster", cluster, "--format", "json"],
                              capture_output=True, text=True, check=True).stdout
    return json.loads(told)["kernels"]


def between(before, after, steps):
    """What `after` has more than `before`, per step."""
    kinds = {}
    for rows, sign in ((before, -1), (after, 1)):
        for row in rows:
            add(kinds, row["name"], sign * 1e6 * row["total_s"] / steps, sign * row["count"] / steps)
    return kinds


def priced(phantora, cluster, model):
    few, many = RECORDED_STEPS
    return between(*(kernels_of(phantora, cluster, record_of(model, steps)) for steps in RECORDED_STEPS), many - few)


def table(options, found, cluster):
    print("| architecture | GPU, measured, ms | priced, ms | error |\n| --- | --- | --- | --- |")
    errors = []
    for model, real in found.items():
        if not record_of(model, RECORDED_STEPS[0]).exists():
            print(f"{model}: no record of it", file=sys.stderr)
            continue
        kinds = priced(options.phantora, cluster, model)
        library, launches = real.get("library", (0, 0))
        beside, _ = real.pop(BESIDE, (0, 0))
        # No gap comes before a kernel that begins beside another: of the library's they are taken to be as many as
        # their time is of its time.
        alone = 1 + beside / library if beside else 1
        gaps = LAUNCH_GAP_US * max(0, alone * launches - kinds.get("library", (0, 0))[1])
        real = {name: us + (gaps + beside if name == "library" else 0) for name, (us, _) in real.items()}
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
    if not errors or options.bound and statistics.mean(map(abs, errors)) > options.bound / 100:
        sys.exit("no errors at all, or more than are allowed")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("phantora")
    arguments.add_argument("--take", metavar="PYTHON")
    arguments.add_argument("--gpu", default="h200", choices=("h200", "h100"))
    arguments.add_argument("--unmeasured", action="store_true")
    arguments.add_argument("--only", default="")
    arguments.add_argument("--names", nargs="+")
    arguments.add_argument("--without", nargs="+", default=[])
    arguments.add_argument("--worst", type=int, default=0)
    arguments.add_argument("--bound", type=float, metavar="PERCENT", help="fail where the mean error is above")
    options = arguments.parse_args()
    found = {model: real for model, real in measured(ZOO / f"{options.gpu}_kernels.jsonl.gz").items()
             if options.only in model and model in (options.names or [model]) and model not in options.without}
    if options.take:
        for model in options.names or found:
            take(options.phantora, options.take, model)
        return
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as unmeasured:
        unmeasured.write(f'[gpu.unmeasured]\nlike = "{options.gpu}"\n[[hosts]]\ngpu = "unmeasured"\ncount = 1\n')
        unmeasured.flush()
        table(options, found, unmeasured.name if options.unmeasured else f"{options.gpu}:1x1")


main()
