#!/usr/bin/env python3
"""Records a job once, replays it on other clusters, and runs it live there: a row for each.

    bench/replay/compare.py --record-on h200:2x8 --on h200:2x8 h200:4x4 -- build/venv/bin/python train.py

A row is a cluster: step time, simulated time and peak memory of the live run and of the replay, and
by how much the replay is off. On a cluster of more GPUs the record is replayed with as many more
data-parallel replicas (--widen); with --narrower-on, a second record of fewer tells how sizes of
shards follow their number.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PHANTORA = os.environ.get("PHANTORA", str(ROOT / "build/release/bin/phantora"))


def phantora(*arguments):
    done = subprocess.run([PHANTORA, *map(str, arguments)], stdout=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"phantora {' '.join(map(str, arguments))}: status {done.returncode}")


def read(path):
    return json.loads(pathlib.Path(path).read_text())


def figures(report):
    """Step and whole in milliseconds, peak memory in GiB."""
    steps = [rank["step_s"] for rank in report["ranks"] if rank["step_s"] is not None]
    return [1e3 * statistics.median(steps) if steps else float("nan"), 1e3 * report["simulated_s"],
            max(rank["peak_memory_bytes"] for rank in report["ranks"]) / 2**30]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record-on", default="h200:2x8")
    parser.add_argument("--on", nargs="+", required=True, help="clusters")
    parser.add_argument("--narrower-on", help="a cluster with fewer replicas")
    parser.add_argument("--host-time", default="off")
    parser.add_argument("--keep", help="folder for records and reports, which are used again")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(arguments.keep or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        record = folder / "job.rec"

        def live(cluster, *options):
            report = folder / f"live-{pathlib.Path(cluster).stem.replace(':', '-')}.json"
            if options or not report.exists():
                phantora("run", "--cluster", cluster, "--host-time", arguments.host_time,
                         "--report", report, *options, "--", *arguments.command)
            return report

        recorded = live(arguments.record_on) if record.exists() else live(
            arguments.record_on, "--record", record)
        ranks = len(read(recorded)["ranks"])
        narrower = folder / "narrower.rec"
        if arguments.narrower_on and not narrower.exists():
            live(arguments.narrower_on, "--record", narrower)
        widened = ["--narrower", narrower] if arguments.narrower_on else []
        print(f"recorded on {arguments.record_on}, --host-time {arguments.host_time}\n")
        print("| cluster | step, live | replayed | off | whole, live | replayed | off "
              "| memory, live | replayed | off |\n" + "| --- " * 10 + "|")
        for cluster in arguments.on:
            there = read(live(cluster))
            factor = len(there["ranks"]) // ranks
            replayed = folder / "replayed.json"
            phantora("replay", record, "--cluster", cluster, "--report", replayed,
                     *(["--widen", f"{factor}x", *widened] if factor > 1 else []))
            row = [pathlib.Path(cluster).name]
            for unit, theirs, mine in zip(("ms", "ms", "GiB"), figures(there),
                                          figures(read(replayed))):
                row += [f"{theirs:.3f} {unit}", f"{mine:.3f} {unit}",
                        f"{100 * (mine / theirs - 1):+.2f} %"]
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
