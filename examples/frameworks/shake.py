"""Runs small programs of programs.py in random order under random load: see shake.sh."""
import argparse
import concurrent.futures
import hashlib
import json
import multiprocessing
import os
import random
import shutil
import sys
import time

from programs import PROGRAMS
from run import BUILD, execute

FOLDER = BUILD / "shake"
# Whose threads race for the GPUs of one process (LIMITATIONS.md), which torchrun kills at an instant of
# real time, and which sends pickled tensors (saving FSDP's optimizer: each storage is named by its
# address, so that they have 1,071 bytes or 1,073): their reports may differ.
RACING = ["pytorch/one-process", "pytorch/torchrun-restart", "lightning/fsdp"]
# Whose ranks sleep for 50 ms whenever another has a lock file (that of Hugging Face's datasets), which
# they get in the order of real time (LIMITATIONS.md): they are compared from their first step on.
LOCKING = "torchtitan/"

# Each ends within 30 s of wall time on 2 quiet cores; together they have every way to start ranks, to
# wait and to end that programs.py knows, but for those that compile, which take minutes.
SMALL = ("pytorch/ddp-tutorial pytorch/single pytorch/ddp pytorch/fsdp1 pytorch/fsdp2 pytorch/hsdp "
         "pytorch/tp pytorch/sp pytorch/tp_fsdp pytorch/fsdp2-ac pytorch/pipelining-GPipe "
         "pytorch/pipelining-1F1B pytorch/pipelining-Interleaved1F1B pytorch/pipelining-LoopedBFS "
         "pytorch/pipelining-InterleavedZeroBubble pytorch/pipelining-ZBVZeroBubble "
         "pytorch/pipelining-DualPipeV pytorch/spawn-per-run pytorch/spawn-per-host "
         "pytorch/one-process pytorch/destroy-idle pytorch/destroy-queued pytorch/destroy-async "
         "pytorch/destroy-twice pytorch/destroy-never pytorch/torchrun-static pytorch/torchrun-c10d "
         "pytorch/torchrun-restart pytorch/mpirun lightning/ddp lightning/fsdp "
         "huggingface/accelerate-ddp huggingface/accelerate-fsdp2 huggingface/generate-greedy "
         "huggingface/generate-sample deepspeed/zero1 deepspeed/zero3 deepspeed/pipeline "
         "torchtitan/cp torchtitan/pp-1f1b torchtitan/pp-zbv megatron/one-gpu").split()


def from_first_step(report):
    """The report as if the program had begun with its first step, without sums over the whole run."""
    sums = ("busy_s", "communication_s", "exposed_communication_s")
    ranks = [{**{name: value for name, value in rank.items() if name not in sums},
              "step_starts_s": [round(start - rank["step_starts_s"][0], 12)
                                for start in rank["step_starts_s"]]}
             for rank in report["ranks"]]
    return {**report, "ranks": ranks, "simulated_s": None}


def fingerprint(report):
    """What a run says of the simulated program, shortened to a number that can be compared."""
    facts = {name: value for name, value in report.items() if name != "command"}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]


def shake(number, program, rng, patience):
    """Runs the program once; returns its report's fingerprint, or None if it did not end well."""
    settings = ["--runnable", str(rng.choice([1, 2, 3, 4, 8, 16]))]
    load = rng.choice([[], ["taskset", "-c", str(rng.randrange(os.cpu_count()))],
                       ["nice", "-n", str(rng.randrange(1, 20))]])
    folder = FOLDER / f"{number:03}-{program.name.replace('/', '-')}"
    # Programs that iterate over sets do so in the order of addresses or of randomly keyed hashes (those of
    # zero-bubble pipelines hold graph nodes): that is the program's own chance, not ours.
    own_chance = ["env", "PYTHONHASHSEED=0", "setarch", "-R"]
    status, seconds = execute(program, folder, patience, [*settings, "--host-time", "off"], [*own_chance, *load])
    report = folder / "report.json"
    found = None
    if status == 0 and report.exists():
        told = json.loads(report.read_text())
        found = fingerprint(from_first_step(told) if program.name.startswith(LOCKING) else told)
    print(f"{number:3} {program.name:40} {' '.join([*load, *settings]):28} status {status} "
          f"{found or 'no report'} {seconds:.0f} s", flush=True)
    return found


def burn():
    """Keeps a core busy in bursts, so that the runs are held up at random places."""
    while True:
        until = time.monotonic() + random.uniform(0, 0.5)
        while time.monotonic() < until:
            pass
        time.sleep(random.uniform(0, 1))


def main():
    arguments = argparse.ArgumentParser(usage="shake.sh [--runs N] [--at-once N] [--seed N] [FILTER...]")
    arguments.add_argument("filters", nargs="*")
    arguments.add_argument("--runs", type=int, default=200)
    arguments.add_argument("--at-once", type=int, default=os.cpu_count() + 1)
    arguments.add_argument("--seed", type=int, default=time.time_ns() % 1000)
    arguments.add_argument("--patience", type=float, default=5.0)
    options = arguments.parse_args()
    chosen = [program for program in PROGRAMS if program.name in SMALL
              and (not options.filters or any(text in program.name for text in options.filters))]
    if not chosen:
        sys.exit(f"no small program's name contains {' or '.join(options.filters)}")
    rng = random.Random(options.seed)
    shutil.rmtree(FOLDER, ignore_errors=True)
    picks = [(number, rng.choice(chosen), random.Random(rng.random()), options.patience)
             for number in range(1, options.runs + 1)]
    print(f"seed {options.seed}: {options.runs} runs of {len(chosen)} programs, {options.at_once} at once")
    for _ in range(os.cpu_count()):
        multiprocessing.Process(target=burn, daemon=True).start()
    with concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
        prints = list(pool.map(lambda pick: shake(*pick), picks))
    seen = {}
    for (_, program, *_), found in zip(picks, prints):
        seen.setdefault(program.name, []).append(found)
    differ = [name for name, found in seen.items() if len(set(found) - {None}) > 1 and name not in RACING]
    failed = prints.count(None)
    print(f"{len(prints)} runs: {failed} did not end with status 0 and a report, "
          f"{len(differ)} programs whose reports differ {' '.join(differ)}")
    sys.exit(bool(failed or differ))


if __name__ == "__main__":
    main()
