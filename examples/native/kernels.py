#!/usr/bin/env python3
"""Times of the samples' own kernels: on an H200, by Nsight Compute, and as they are priced here.

Usage: kernels.py PHANTORA DIR [PROGRAM...]     DIR as of build.sh

h200_kernels.csv.gz has of each sample its first 30 launches, in its order, as
`ncu --clock-control none --cache-control none --metrics gpu__time_duration.sum --csv -c 30 ./PROGRAM` told them.
Compared are means by kernel. Nsight Compute's figure of the smallest kernels is 0.7 us above that of CUPTI, by
which all other prices here were measured (DeviceScanInitKernel: 1.5 and 0.8 us).
"""
import csv
import gzip
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import run

HERE = pathlib.Path(__file__).resolve().parent


def base(name):
    """A kernel's name without namespaces and arguments."""
    return re.split(r"[ :]+", re.sub(r"<.*", "", name.split("(")[0]).strip())[-1]


def measured():
    """Microseconds of each launch, by sample and kernel."""
    found, kernels = {}, {}
    for line in gzip.open(HERE / "h200_kernels.csv.gz", "rt"):
        if line.startswith("####"):
            kernels = found.setdefault(line.split()[1], {})
        else:
            row = next(csv.reader([line]))
            kernels.setdefault(base(row[1]), []).append(float(row[-1].replace(",", "")) / 1e3)
    return found


def priced(phantora, program):
    """Microseconds and number of launches, and where the price came from, by kernel."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        subprocess.run([phantora, "run", "--cluster", "h200:1x1", "--host-time", "off", "--per", "run", "--report", report.name,
                        "--", f"./{program.name}"], cwd=program.parent, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300)
        kernels = json.load(open(report.name))["kernels"]
    found = {}
    for kernel in kernels:
        us, count, source = found.get(base(kernel["name"]), (0, 0, kernel["source"]))
        found[base(kernel["name"])] = us + 1e6 * kernel["total_s"], count + kernel["count"], source
    return found


def main(phantora, directory, *only):
    build = pathlib.Path(directory).resolve() / "build"
    programs = {sample.name.removeprefix("samples/"): sample.folder for sample in run.samples(build)}
    rows = []
    for name, kernels in measured().items():
        if name not in programs or only and name not in only:
            continue
        here = priced(str(pathlib.Path(phantora).resolve()), programs[name] / name)
        for kernel, times in kernels.items():
            us, count, source = here.get(kernel, (0, 0, ""))
            if source == "code":
                rows.append((us / count / statistics.mean(times), name, kernel, statistics.mean(times), us / count))
    print("| sample | kernel | measured, us | priced, us | ratio |\n| --- | --- | --- | --- | --- |")
    for ratio, name, kernel, real, ours in sorted(rows):
        print(f"| {name} | {kernel} | {real:.1f} | {ours:.1f} | {ratio:.2f} |")
    for least in (0, 5):
        off = sorted(max(row[0], 1 / row[0]) - 1 for row in rows if row[3] >= least)
        if off:
            print(f"\n{len(off)} kernels of {least} us and more: off by {statistics.median(off):.0%} in the median, "
                  f"p90 {off[int(0.9 * len(off))]:.0%}.")


main(*sys.argv[1:])
