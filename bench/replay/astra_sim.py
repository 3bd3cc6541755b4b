#!/usr/bin/env python3
"""ASTRA-sim beside Phantora: records and workloads, exported (phantora convert) and run; a row each.

    bench/replay/astra_sim.py ASTRA_SIM RECORD... --cluster h200:1x8

ASTRA_SIM is its analytical backend's program (congestion-unaware). It simulates switches with a
port for each GPU, of the bandwidth and latency given here (default: one of all, as NVLink of an
H200), rings for collectives, and whole microseconds; all that it needs of us is in the export.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PHANTORA = os.environ.get("PHANTORA", str(ROOT / "build/release/bin/phantora"))


def output(*command, folder=None):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, cwd=folder)
    if done.returncode != 0:
        sys.exit(f"{command[0]}: status {done.returncode}\n{done.stdout}")
    return done.stdout


def astra_sim(options, record, ranks, folder):
    """What each rank's kernels take, and all of it, in milliseconds."""
    output(PHANTORA, "convert", record, folder / "trace.et")
    rings = ["all-reduce", "all-gather", "reduce-scatter", "all-to-all"]
    system = {"scheduling-policy": "LIFO", "endpoint-delay": 10, "local-mem-bw": 4800,
              "active-chunks-per-dimension": 1, "preferred-dataset-splits": 4, "boost-mode": 0,
              "collective-optimization": "localBWAware",
              **{f"{name}-implementation": ["ring"] for name in rings}}
    (folder / "system.json").write_text(json.dumps(system))
    (folder / "memory.json").write_text(json.dumps({"memory-type": "NO_MEMORY_EXPANSION"}))
    dimensions = [it.split(":") for it in options.dimension or [f"{ranks}:450:500"]]
    columns = dict(topology=["Switch"] * len(dimensions), npus_count=[it[0] for it in dimensions],
                   bandwidth=[it[1] for it in dimensions], latency=[it[2] for it in dimensions])
    (folder / "network.yml").write_text(
        "".join(f"{name}: [ {', '.join(values)} ]\n" for name, values in columns.items()))
    command = [options.astra_sim.resolve(), f"--workload-configuration={folder}/trace",
               f"--system-configuration={folder}/system.json",
               f"--remote-memory-configuration={folder}/memory.json",
               f"--network-configuration={folder}/network.yml"]
    if (folder / "trace.groups.json").exists():
        command.append(f"--comm-group-configuration={folder}/trace.groups.json")
    ends = re.findall(r"sys\[(\d+)\] finished, (\d+) cycles, exposed communication (\d+)",
                      output(*command, folder=folder))  # it leaves logs where it runs
    if len(ends) != ranks:
        sys.exit(f"{record}: {len(ends)} of {ranks} ranks finished in ASTRA-sim")
    # Its cycles are nanoseconds; what is not exposed communication is kernels' time.
    return ({int(rank): 1e-6 * (int(end) - int(exposed)) for rank, end, exposed in ends},
            1e-6 * max(int(end) for _, end, _ in ends))


def row(mine, theirs):
    off = f"{100 * (theirs / mine - 1):+.2f} %" if mine > 0 else ""
    return f"{mine:.3f} ms | {theirs:.3f} ms | {off}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("astra_sim", type=pathlib.Path)
    parser.add_argument("records", nargs="+", type=pathlib.Path)
    parser.add_argument("--cluster", required=True, help="for Phantora")
    parser.add_argument("--dimension", action="append", metavar="GPUS:GB/S:NS",
                        help="a switch of so many, ports and latency; from the inside outwards")
    options = parser.parse_args()
    print("| record | ranks | kernels of rank 0, Phantora | ASTRA-sim | off | whole, Phantora "
          "| ASTRA-sim | off |\n" + "| --- " * 8 + "|")
    for record in options.records:
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            report = folder / "report.json"
            output(PHANTORA, "replay", record, "--cluster", options.cluster, "--report", report)
            ours = json.loads(report.read_text())
            kernels, whole = astra_sim(options, record, len(ours["ranks"]), folder)
        ours_kernels = 1e3 * sum(ours["ranks"][0]["kernel_s_by_source"].values())
        print(f"| {record.stem} | {len(kernels)} | {row(ours_kernels, kernels[0])} "
              f"| {row(1e3 * ours['simulated_s'], whole)} |", flush=True)


if __name__ == "__main__":
    main()
