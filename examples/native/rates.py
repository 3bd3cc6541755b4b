#!/usr/bin/env python3
"""What native programs print of times and rates, on a real GPU and here.

Usage: rates.py take DIR OUT.jsonl.gz      on a machine with a GPU, of what build.sh made in DIR/build (copied with its folders)
       rates.py table REAL.jsonl.gz DIR   compares with DIR/build/logs, which run.sh has written

`take` runs the samples and llm.c's steps on one GPU without Phantora, a program after the other, and keeps what each prints.
`table` looks at lines that have a figure with a unit and are the same but for their numbers, once for each of a program's
kinds of line: their ratio is simulated to real time, or real to simulated rate. Lines that time the CPU are left out.
"""
import gzip
import json
import pathlib
import re
import statistics
import subprocess
import sys
import time

import run

LIMIT_S = 30
KEPT = 20_000  # characters, of each end

NUMBER = r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?"
TIMES = r"ms\b|msecs?\b|us\b|usec\b|sec\b|seconds\b|s\b"
RATES = r"[GMTK]B/se?c?|[GMT]?B/s|[GT]?F[Ll][Oo][Pp][Ss]?(?:/s|s)?\b|[GT]OP/s|T?OPS\b|[MG]?[Pp]ix(?:els)?/s|M[A-Za-z]*/se?c?|[A-Za-z]+/se?c?\b|options per sec"
TIME = re.compile(rf"({NUMBER}) ?\(?({TIMES})")
RATE = re.compile(rf"({NUMBER}) ?({RATES})|(?:T[A-Z]*OPS|GFLOPS)[:=] ?({NUMBER})")
CPU = re.compile(r"\bCPU\b|\bcpu\b|[Hh]ost (?:time|code)|naive")


def take(directory, out):
    build = pathlib.Path(directory).resolve() / "build"
    with gzip.open(out, "wt") as file:
        for program in [*run.llm_c(build), *run.samples(build)]:
            if program.cluster not in ("h200:1x1", "h200:1x2"):
                continue
            begin = time.monotonic()
            command = program.command[program.command.index("--") + 1:]
            try:
                done = subprocess.run(command, cwd=program.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, timeout=LIMIT_S)
                status, output = done.returncode, done.stdout
            except subprocess.TimeoutExpired as expired:
                status, output = "hang", expired.stdout or b""
            except OSError as error:
                status, output = "missing", str(error).encode()
            text = output.decode(errors="replace")
            text = text if len(text) <= 2 * KEPT else text[:KEPT] + "\n...\n" + text[-KEPT:]
            file.write(json.dumps(dict(name=program.name, status=status, seconds=round(time.monotonic() - begin, 1),
                                       output=text)) + "\n")
            file.flush()
            print(program.name, status, flush=True)


def figures(output):
    """The first figure of each kind of line: (is a time, value) by the line without its numbers."""
    found = {}
    for line in output.splitlines():
        if line.startswith("phantora:") or CPU.search(line):
            continue
        for is_time, pattern in ((True, TIME), (False, RATE)):
            match = pattern.search(line)
            if match and float(match[1] or match[3]) > 0:
                kind = re.sub(NUMBER, "#", line).strip()
                found.setdefault(re.sub(r"\s+", " ", kind), (is_time, float(match[1] or match[3])))
                break
    return found


def table(real_file, directory):
    logs = pathlib.Path(directory) / "build/logs"
    print("| program | line | real | simulated | time, simulated to real |\n| --- | --- | --- | --- | --- |")
    medians = []
    for line in gzip.open(real_file, "rt"):
        row = json.loads(line)
        log = logs / (re.sub(r"[/ ,]+", "-", row["name"]) + ".log")
        if not log.exists():
            continue
        simulated = figures(log.read_text(errors="replace").partition("\nphantora: h200")[0])
        ratios = []
        for kind, (is_time, real) in figures(row["output"]).items():
            if kind in simulated:
                ours = simulated[kind][1]
                ratios.append(ours / real if is_time else real / ours)
                print(f"| {row['name']} | {kind[:70].replace('|', '/')} | {real:g} | {ours:g} | {ratios[-1]:.2f} |")
        if ratios:
            medians.append(statistics.median(ratios))
    off = sorted(max(ratio, 1 / ratio) - 1 for ratio in medians)
    if off:
        print(f"\n{len(off)} programs, the median of each one's lines: off by {statistics.median(off):.0%} in the median, "
              f"p90 {off[int(0.9 * len(off))]:.0%}, worst {off[-1]:.0%}.")


if __name__ == "__main__":
    {"take": take, "table": table}[sys.argv[1]](*sys.argv[2:])
