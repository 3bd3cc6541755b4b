#!/usr/bin/env python3
"""How long the host issues a step of zoo.py's, trainings.py's, studies.py's or multimodal.py's, in ms: real or simulated.

Usage: host_parts.py NAME [--steps N] [--how TEXT]
       host_parts.py --table ROWS.jsonl

Prints one JSON line. To tell calls of CUDA from what lies between them, run it for real, with LD_PRELOAD=api_in_situ.so (api_in_situ.cpp),
under `phantora run`, and under `phantora run --host-scale 0`, whose host does nothing but call.
--table prints, of each way, the geometric mean of the steps beside the means of the real ones, and errors beside their medians.
"""
import argparse
import collections
import json
import statistics
import time


def print_table(file):
    steps = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in map(json.loads, file):
        steps[row["how"]][row["name"]].append(row["step"])
    real = steps.pop("real")
    for how, names in steps.items():
        ratio = statistics.geometric_mean(statistics.mean(times) / statistics.mean(real[name]) for name, times in names.items())
        errors = [abs(100 * (statistics.mean(times) / statistics.median(real[name]) - 1)) for name, times in names.items()]
        print(f"{how}: {ratio:.2f} of {len(names)}; mean error {statistics.mean(errors):.1f}%, median {statistics.median(errors):.1f}%, worst {max(errors):.1f}%")
    apart = [max(times) / min(times) for times in real.values()]
    print(f"real steps are {statistics.median(apart):.2f} times apart in the median, {max(apart):.2f} at most")


def step_of(name):
    import multimodal
    import studies
    import trainings
    import zoo
    for module in (trainings, studies, multimodal):
        if name in module.STEPS:
            return module.STEPS[name]()
    return zoo.training_step(name)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("name", nargs="?")
    arguments.add_argument("--table", type=argparse.FileType())
    arguments.add_argument("--steps", type=int, default=12)
    arguments.add_argument("--how", default="real", help="kept with the row")
    options = arguments.parse_args()
    if options.table:
        return print_table(options.table)
    import torch
    torch.manual_seed(0)
    step = step_of(options.name)
    issued, whole = [], []
    for number in range(4 + options.steps):
        torch.cuda.synchronize()
        began = time.perf_counter()
        step()
        left = time.perf_counter()
        torch.cuda.synchronize()
        if number >= 4:
            issued.append(left - began)
            whole.append(time.perf_counter() - began)
    ms = lambda times: round(1e3 * statistics.median(times), 2)
    print(json.dumps(dict(name=options.name, how=options.how, issue=ms(issued), least=round(1e3 * min(issued), 2), step=ms(whole))), flush=True)


main()
