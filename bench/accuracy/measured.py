#!/usr/bin/env python3
"""Training steps: real, and simulated with and without a database of their own kernels.

Usage: measured.py PHANTORA --run FOLDER [--gpu KIND] [--seconds N] [--only NAME...]
       measured.py PHANTORA --table FOLDER [--gpu KIND]

--run, on a machine with GPUs of that kind: each case runs for real, under `phantora measure` on one GPU, of several ranks
the first alone, and under `phantora run --record`; cases that would begin after --seconds are left out. FOLDER gets
what was printed (rows.jsonl), a database as CSV and a record for each. --table, on any machine, replays the
records with and without the databases.
"""
import argparse
import gzip
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent


def train(model, batch, length, parallel="none", *more):
    return [HERE.parents[1] / "test/programs/train.py", "--model", model, "--parallel", parallel,
            "--batch", str(batch), "--seq", str(length), "--steps", "12", *more]


CASES = {
    "gpt2": train("gpt2", 8, 1024),
    "resnet50": train("resnet50", 64, 1024),
    "llama1b": train("llama1b", 2, 2048),
    "compiled": [HERE / "zoo.py", "--only", "compiled_blocks"],
    "vit": [HERE / "zoo.py", "--only", "vit_b_16"],
    "triton": [HERE / "triton_layers.py"],
    "inductor": [HERE / "triton_layers.py", "--compiled"],
}
# On two GPUs.
CASES_OF_TWO = {
    "gpt2-medium_ddp_x2": train("gpt2-medium", 6, 1024, "ddp"),
    "llama1b_fsdp2_ac_x2": train("llama1b", 4, 2048, "fsdp2", "--ac"),
    "resnet50_ddp_x2": train("resnet50", 112, 1024, "ddp"),
}
# Where the host works less than this part of a real step, the GPU decides how long that takes.
GPU_BOUND = 0.8


def cluster_of(options, name):
    return f"{options.gpu}:1x{2 if name in CASES_OF_TWO else 1}"


def run(options):
    folder = pathlib.Path(options.run)
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    for name, program in (CASES | CASES_OF_TWO).items():
        if name not in (options.only or CASES):
            continue
        if time.monotonic() - began > options.seconds:
            print(f"no time is left for {name}", file=sys.stderr)
            continue
        python, cluster, several = [sys.executable, *program], cluster_of(options, name), name in CASES_OF_TWO
        launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
        others = ["--cluster", cluster] if several else []
        database, record = folder / f"{name}.db", folder / f"{name}.rec"
        commands = {"real": [*launcher, *program] if several else python,
                    "measured": [options.phantora, "measure", "--kernels", database, *others, "--", *python],
                    "without": [options.phantora, "run", "--cluster", cluster, "--record", record, "--", *python]}
        for what, command in commands.items():
            done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True)
            rows = re.findall(r"^\{.*\}$", done.stdout, re.M)
            print(f"{name} {what}: {done.returncode} after {time.monotonic() - began:.0f} s", file=sys.stderr)
            if done.returncode != 0 or not rows:
                sys.exit(f"{' '.join(map(str, command))}:\n{done.stderr[-3000:]}")
            with open(folder / "rows.jsonl", "a") as out:
                out.write(json.dumps(dict(name=name, what=what, **json.loads(rows[-1]))) + "\n")
        csv = subprocess.run([options.phantora, "kernels", "export", database, "-"], check=True, stdout=subprocess.PIPE)
        (folder / f"{name}.csv.gz").write_bytes(gzip.compress(csv.stdout))
        (folder / f"{name}.rec.gz").write_bytes(gzip.compress(record.read_bytes()))
        database.unlink()
        record.unlink()


def replayed(options, cluster, record, *more):
    """The median step of a replay, and what part of the kernels' time each source told."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        subprocess.run([options.phantora, "replay", record, "--cluster", cluster, "--report", report.name, *more],
                       check=True, stdout=subprocess.DEVNULL)
        rank = json.load(open(report.name))["ranks"][0]
    times = rank["kernel_s_by_source"]
    return rank["step_s"], times.get("database", 0) / sum(times.values())


def table(options):
    folder = pathlib.Path(options.table)
    rows = {}
    for line in (folder / "rows.jsonl").read_text().splitlines():
        row = json.loads(line)
        rows.setdefault(row["name"], {}).setdefault(row["what"], row)
    print("| case | real step, ms | host works, of it | without a database, ms | error | with, ms | error | time from it |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    errors = {"without": {}, "with": {}}
    for name, found in rows.items():
        with tempfile.TemporaryDirectory() as scratch:
            record, csv, database = (str(pathlib.Path(scratch) / file) for file in ("job.rec", "job.csv", "job.db"))
            for packed, plain in ((f"{name}.rec.gz", record), (f"{name}.csv.gz", csv)):
                with gzip.open(folder / packed) as source, open(plain, "wb") as target:
                    shutil.copyfileobj(source, target)
            subprocess.run([options.phantora, "kernels", "import", csv, database], check=True, stdout=subprocess.DEVNULL)
            cluster = cluster_of(options, name)
            steps = {"without": replayed(options, cluster, record),
                     "with": replayed(options, cluster, record, "--kernels", database)}
        real = found["real"]["median_s"]
        host = found["real"]["cpu_s"] / real
        cells = [f"{1e3 * real:.2f}", f"{host:.0%}"]
        for what, (step, _) in steps.items():
            error = step / real - 1
            errors[what][name] = (error, host < GPU_BOUND)
            cells += [f"{1e3 * step:.2f}", f"{error:+.1%}"]
        print(f"| {name} | {' | '.join(cells)} | {steps['with'][1]:.1%} |")
    for what, of_cases in errors.items():
        bound = [abs(error) for error, gpu_bound in of_cases.values() if gpu_bound]
        print(f"\n{what.capitalize()} a database, where the GPU decides ({len(bound)} cases): mean error "
              f"{statistics.mean(bound):.1%}, worst {max(bound):.1%}.")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("phantora")
    arguments.add_argument("--gpu", default="h200", help="what the GPU is to the simulation")
    what = arguments.add_mutually_exclusive_group(required=True)
    what.add_argument("--run", metavar="FOLDER")
    what.add_argument("--table", metavar="FOLDER")
    arguments.add_argument("--seconds", type=float, default=float("inf"))
    arguments.add_argument("--only", nargs="+", choices=CASES | CASES_OF_TWO, metavar="NAME",
                           help="these (default: those of one GPU)")
    options = arguments.parse_args()
    if options.run:
        run(options)
    else:
        table(options)


main()
