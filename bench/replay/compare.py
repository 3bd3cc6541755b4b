#!/usr/bin/env python3
"""Records a job once, replays it on other clusters, and runs it live there: a row for each.

    bench/replay/compare.py --record-on h200:2x8 --on h200:2x8 h200:4x4 -- build/venv/bin/python train.py

A row is a live run on a cluster: step time, what follows the start of the first step, the whole run
and the peak of memory, live and replayed, and by how much the replay is off. --lives runs each
cluster so often: how far live runs are from each other. On a cluster of more GPUs the record is replayed with as many more
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
    """Step, what follows the start of the first, and all of it in milliseconds; peak memory in GiB."""
    ranks, whole = report["ranks"], report["simulated_s"]
    steps = [rank["step_s"] for rank in ranks if rank["step_s"] is not None]
    starts = [rank["step_starts_s"][0] for rank in ranks if rank["step_starts_s"]]
    return [1e3 * statistics.median(steps) if steps else float("nan"),
            1e3 * (whole - min(starts)) if starts else float("nan"), 1e3 * whole,
            max(rank["peak_memory_bytes"] for rank in ranks) / 2**30]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record-on", default="h200:2x8")
    parser.add_argument("--on", nargs="+", required=True, help="clusters")
    parser.add_argument("--narrower-on", help="a cluster with fewer replicas")
    parser.add_argument("--host-time", default="off")
    parser.add_argument("--lives", type=int, default=1, help="live runs of each cluster")
    parser.add_argument("--keep", help="folder for records and reports, which are used again")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(arguments.keep or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        record = folder / "job.rec"

        def live(cluster, *options, turn=0):
            name = pathlib.Path(cluster).stem.replace(":", "-") + (f"-{turn + 1}" if turn else "")
            report = folder / f"live-{name}.json"
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
        print("| cluster | step, live | replayed | off | from the first step on, live | replayed | off "
              "| whole, live | replayed | off | memory, live | replayed | off |\n"
              + "| --- " * 13 + "|")
        for cluster in arguments.on:
            lives = [read(live(cluster, turn=turn)) for turn in range(arguments.lives)]
            factor = len(lives[0]["ranks"]) // ranks
            replayed = folder / "replayed.json"
            phantora("replay", record, "--cluster", cluster, "--report", replayed,
                     *(["--widen", f"{factor}x", *widened] if factor > 1 else []))
            for there in lives:
                row = [pathlib.Path(cluster).name]
                for unit, theirs, mine in zip(("ms", "ms", "ms", "GiB"), figures(there),
                                              figures(read(replayed))):
                    row += [f"{theirs:.3f} {unit}", f"{mine:.3f} {unit}",
                            f"{100 * (mine / theirs - 1):+.2f} %"]
                print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
