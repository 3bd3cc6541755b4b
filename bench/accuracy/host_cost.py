"""Host time of single PyTorch calls, each in a loop of its own: simulated against real.

The real rows are of H200 hosts (overlap.py's, and test/programs/host_cost.py on 2026-11-21 on three
machines, which differ by a factor of 1.7 among themselves). API calls are charged what they take
within training steps, which in such loops is too much: see api_cost.py. Usage: host_cost.py
PHANTORA PYTHON"""
import collections
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
real = collections.defaultdict(list)
for name in ("h200_overlap_and_host_cost.jsonl", "h200_host_cost.jsonl"):
    for line in (ROOT / "test/data" / name).read_text().splitlines():
        row = json.loads(line)
        if row["test"] == "host_cost":
            real[row["call"]].append(row["us"])
done = subprocess.run(
    [sys.argv[1], "run", "--cluster", "h200:1x2", "--", sys.argv[2],
     str(ROOT / "test/programs/host_cost.py")], capture_output=True, text=True, check=True)
print("| call | real, us | simulated, us |\n| --- | --- | --- |")
for line in done.stdout.splitlines():
    if line.startswith("{"):
        row = json.loads(line)
        us = ", ".join(f"{u:.2f}" for u in sorted(real[row["call"]]))
        print(f"| {row['call']} | {us} | {row['us']:.2f} |")
