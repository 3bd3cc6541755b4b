#!/usr/bin/env python3
"""How long the host issues a step of zoo.py's, trainings.py's, studies.py's or multimodal.py's, in ms: real or simulated.

Usage: host_parts.py NAME [--steps N] [--how TEXT]

Prints one JSON line. To tell calls of CUDA from what lies between them, run it for real, with LD_PRELOAD=api_in_situ.so (api_in_situ.cpp),
under `phantora run`, and under `phantora run --host-scale 0`, whose host does nothing but call.
"""
import argparse
import json
import statistics
import time

import torch

import multimodal
import studies
import trainings
import zoo


def step_of(name):
    for module in (trainings, studies, multimodal):
        if name in module.STEPS:
            return module.STEPS[name]()
    return zoo.training_step(name)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("name")
    arguments.add_argument("--steps", type=int, default=12)
    arguments.add_argument("--how", default="real", help="kept with the row")
    options = arguments.parse_args()
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
