"""The slow-down of kernels and collectives that overlap, real against simulated, per case.

Runs test/programs/overlap.py under `phantora run` on 2 and 4 GPUs, and compares it with the real
runs in bench/accuracy/h200_overlap.jsonl and test/data/h200_overlap_and_host_cost.jsonl.
Usage: overlap.py PHANTORA PYTHON
"""
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def overlaps(lines):
    """{case: row} of the rows that overlap.py prints about kernels beside collectives."""
    rows = (json.loads(line) for line in lines if line.startswith("{"))
    keys = ("world", "op", "bytes", "compute", "n")
    return {tuple(r[k] for k in keys): r for r in rows if r["test"] == "overlap"}


def main():
    phantora, python = sys.argv[1:]
    real = {}
    for name in ("bench/accuracy/h200_overlap.jsonl", "test/data/h200_overlap_and_host_cost.jsonl"):
        real |= overlaps((ROOT / name).read_text().splitlines())
    simulated = {}
    for world in (2, 4):
        command = [phantora, "run", "--cluster", f"h200:1x{world}", "--", python]
        done = subprocess.run(command + [str(ROOT / "test/programs/overlap.py")],
                              stdout=subprocess.PIPE, text=True, check=True)
        simulated |= overlaps(done.stdout.splitlines())
    print("| GPUs | collective | MiB | kernels | kernel slowed, real | simulated "
          "| collective slowed, real | simulated |\n" + "| --- " * 8 + "|")
    errors = {"comp": [], "comm": []}
    for case, row in real.items():
        world, op, size, compute, n = case
        cells = []
        for what in errors:
            slowed = [r[f"{what}_both_us"] / r[f"{what}_alone_us"] for r in (row, simulated[case])]
            errors[what].append(abs(slowed[1] / slowed[0] - 1))
            cells += [f"{s:.2f}" for s in slowed]
        kernels = f"gemm {n}" if compute == "gemm" else "elementwise"
        print(f"| {world} | {op} | {size >> 20} | {kernels} | " + " | ".join(cells) + " |")
    print(f"\n{len(real)} cases. Mean error of a kernel's slow-down {statistics.mean(errors['comp']):.1%}"
          f" (worst {max(errors['comp']):.0%}), of a collective's {statistics.mean(errors['comm']):.1%}"
          f" (worst {max(errors['comm']):.0%}).")


main()
