"""Derives --host-scale for this machine from the host_cost rows measured on an H200's host.

Runs test/programs/host_cost.py with scales 1 and 0: the second is the modelled cost of the API calls
alone, the difference is this machine's own CPU time for what is between them. Printed are the scale
that makes each row equal to the real one, and the one that makes the sum of all rows equal, which is
the default of `phantora run` as taken on the machine where the project is built. Usage: host_scale.py PHANTORA PYTHON
"""
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def measure(scale):
    done = subprocess.run(
        [sys.argv[1], "run", "--cluster", "h200:1x2", "--host-scale", str(scale), "--",
         sys.argv[2], str(ROOT / "test/programs/host_cost.py")],
        capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {row["call"]: row["us"] for row in rows}


real = {}
for line in (ROOT / "test/data/h200_overlap_and_host_cost.jsonl").read_text().splitlines():
    row = json.loads(line)
    if row["test"] == "host_cost":
        real[row["call"]] = row["us"]
whole, api = measure(1), measure(0)
host = here = 0.0
print("| call | real, us | API model, us | CPU here, us | scale |\n| --- | --- | --- | --- | --- |")
for call, us in real.items():
    cpu = whole[call] - api[call]
    host += us - api[call]
    here += cpu
    print(f"| {call} | {us:.2f} | {api[call]:.2f} | {cpu:.2f} | {(us - api[call]) / cpu:.2f} |")
print(f"\nScale of the sums: {host / here:.2f}")
