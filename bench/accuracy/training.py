"""Simulated against real step times and memory: every row of test/data/GPU_training.jsonl.

Runs test/programs/train.py under `phantora run` for each distinct case and prints a Markdown table.
Several real runs of one case are listed together: their spread is what the simulation can be held
to. Usage: training.py PHANTORA PYTHON [--only TEXT] [--json OUT]
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIELDS = ("model", "parallel", "batch", "seq", "ac")


def cases(gpu):
    """{case: real rows}, in the order of the file."""
    found = {}
    for line in (ROOT / f"test/data/{gpu}_training.jsonl").read_text().splitlines():
        row = json.loads(line)
        key = tuple(row["case"][f] for f in FIELDS) + (row["world"],)
        found.setdefault(key, []).append(row)
    return found


def simulate(phantora, python, gpu, case, steps):
    model, parallel, batch, seq, ac, world = case
    command = [phantora, "run", "--cluster", f"{gpu}:1x{world}"]
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command += ["--report", report.name, "--", python, str(ROOT / "test/programs/train.py")]
        command += ["--model", model, "--parallel", parallel, "--batch", str(batch)]
        command += ["--seq", str(seq), "--steps", str(steps), "--warmup", "3"]
        command += ["--ac"] if ac else []
        done = subprocess.run(command, capture_output=True, text=True)
        line = re.search(r'^\{"case".*\}$', done.stdout, re.M)
        if done.returncode != 0 or line is None:
            sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        return json.loads(line[0]), json.load(open(report.name))


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("phantora")
    arguments.add_argument("python")
    arguments.add_argument("--gpu", default="h200", choices=("h200", "h100"))
    arguments.add_argument("--only", default="", help="cases whose name contains this")
    arguments.add_argument("--steps", type=int, default=8)
    arguments.add_argument("--json", help="append the rows to this file")
    options = arguments.parse_args()
    print("| case | GPUs | real step, ms | simulated, ms | error | peak allocated, real | error | "
          "peak reserved, real | error | simulation took |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    errors = []
    for case, real in cases(options.gpu).items():
        model, parallel, batch, seq, ac, world = case
        name = f"{model} {parallel} b{batch}" + (f" s{seq}" if "resnet" not in model else "")
        name += " ac" if ac else ""
        if options.only not in f"{name} x{world}":
            continue
        row, report = simulate(options.phantora, options.python, options.gpu, case, options.steps)
        reference = statistics.median(r["median_s"] for r in real)
        relative = lambda key: row[key] / real[0][key] - 1
        errors.append(row["median_s"] / reference - 1)
        steps = ", ".join(format(1e3 * r["median_s"], ".1f") for r in real)
        print(f"| {name} | {world} | {steps} "
              f"| {1e3 * row['median_s']:.1f} | {errors[-1]:+.1%} "
              f"| {real[0]['peak_alloc'] / 2**30:.2f} GiB | {relative('peak_alloc'):+.2%} "
              f"| {real[0]['peak_reserved'] / 2**30:.2f} GiB | {relative('peak_reserved'):+.2%} "
              f"| {report.get('wall_s', 0):.0f} s |", flush=True)
        if options.json:
            with open(options.json, "a") as out:
                out.write(json.dumps(dict(case=case, simulated=row)) + "\n")
    if errors:
        print(f"\nMean absolute error of the step time: {statistics.mean(map(abs, errors)):.1%}, "
              f"worst {max(map(abs, errors)):.1%}.")


main()
