#!/usr/bin/env python3
"""Training steps of one GPU: real, and simulated with and without a database of their own kernels.

Usage: measured.py PHANTORA [--json OUT] [--databases FOLDER] [--seconds N] [--only NAME...]
       measured.py --table IN...

On a machine with a GPU of the kind that --cluster names each case runs for real, then under
`phantora measure`, then under `phantora run` without and with `--kernels`. --seconds: cases that would
begin later are left out. --table only prints what was measured.
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
ZOO = HERE / "zoo.py"


def train(model, batch, length):
    return [TRAIN, "--model", model, "--parallel", "none", "--batch", str(batch), "--seq", str(length), "--steps", "12"]


CASES = {
    "gpt2 b8 s1024": train("gpt2", 8, 1024),
    "resnet50 b64": train("resnet50", 64, 1024),
    "llama1b b2 s2048": train("llama1b", 2, 2048),
    "compiled_blocks": [ZOO, "--only", "compiled_blocks"],
    "vit_b_16": [ZOO, "--only", "vit_b_16"],
}


class Run:
    """A command that has been started."""

    def __init__(self, command):
        self.command = list(map(str, command))
        self.began = time.monotonic()
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)

    def row(self):
        """What it measured; None if it failed, which is told."""
        out, err = self.process.communicate()
        print(f"{time.monotonic() - self.began:.0f} s: {' '.join(self.command)}"[:300], file=sys.stderr)
        told = [line for line in (out + err).splitlines()
                if line.startswith("phantora:") or "by source" in line or "step time" in line]
        print("\n".join(told), file=sys.stderr, flush=True)
        lines = re.findall(r"^\{.*\}$", out, re.M)
        if self.process.returncode != 0 or not lines:
            print(f"it ended with {self.process.returncode}:\n{err[-3000:]}", file=sys.stderr, flush=True)
            return None
        return json.loads(lines[-1])


def measure(options):
    folder = pathlib.Path(options.databases)
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    for name, program in CASES.items():
        if options.only and name not in options.only:
            continue
        if time.monotonic() - began > options.seconds:
            print(f"no time is left for {name}", file=sys.stderr)
            continue
        database = folder / (name.replace(" ", "_") + ".db")
        python = [sys.executable, *program]
        simulated = [options.phantora, "run", "--cluster", options.cluster]
        runs = []
        for what, command in (("real", python),
                              ("measured", [options.phantora, "measure", "--kernels", database, "--", *python])):
            runs.append((what, Run(command).row()))
        # They need no GPU: one beside the other.
        both = [("without", Run([*simulated, "--", *python])),
                ("with", Run([*simulated, "--kernels", database, "--", *python]))]
        runs += [(what, run.row()) for what, run in both]
        with open(options.json, "a") as out:
            for what, row in runs:
                if row is not None:
                    out.write(json.dumps(dict(name=name, what=what, **row)) + "\n")


def table(files):
    rows = {}
    for file in files:
        for line in pathlib.Path(file).read_text().splitlines():
            row = json.loads(line)
            rows.setdefault(row["name"], {})[row["what"]] = row["median_s"]
    print("| case | real step, ms | while measured | without a database | error | with | error |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    errors = {"without": [], "with": []}
    for name, found in rows.items():
        if not found.keys() >= {"real", "without", "with"}:
            print(f"| {name} | only {' '.join(found)} | | | | | |")
            continue
        cells = [format(1e3 * found["real"], ".2f"),
                 format(1e3 * found["measured"], ".2f") if "measured" in found else "-"]
        for what, all_errors in errors.items():
            all_errors.append(found[what] / found["real"] - 1)
            cells += [format(1e3 * found[what], ".2f"), format(all_errors[-1], "+.1%")]
        print(f"| {name} | {' | '.join(cells)} |")
    for what, all_errors in errors.items():
        if all_errors:
            print(f"\n{what.capitalize()} a database, {len(all_errors)} cases: mean error "
                  f"{statistics.mean(map(abs, all_errors)):.1%}, worst {max(map(abs, all_errors)):.1%}.")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("phantora", nargs="?")
    arguments.add_argument("--cluster", default="h200:1x1", help="what this machine's GPU is to the simulation")
    arguments.add_argument("--json", default="measured.jsonl", help="rows are appended to this file")
    arguments.add_argument("--databases", default="databases", help="a folder, a database for each case")
    arguments.add_argument("--seconds", type=float, default=float("inf"))
    arguments.add_argument("--only", nargs="+", choices=CASES)
    arguments.add_argument("--table", nargs="+", help="print these files' rows, measure nothing")
    options = arguments.parse_args()
    if options.table:
        return table(options.table)
    if options.phantora is None:
        arguments.error("the phantora program")
    measure(options)
    table([options.json])


main()
