#!/usr/bin/env python3
"""What the host takes for a token of vLLM's when its thread does something else for a while in each: how a program slows down that gets its turn less often.

    vllm_after_pauses.py NAME    # prints a line of JSON for each pause: ms between tokens, and of them the program's own
    vllm_after_pauses.py --fit FILE... [--kinds spin simulation]    # what such lines give for CacheRefill

On a real GPU. After each token's CUDA graph is launched, the thread spins for so long, or fills memory. The GPU works meanwhile, so that what
is left of the time between two tokens is the program's own work. (README.md, "Serving")
"""
import argparse
import ctypes
import json
import math
import pathlib
import statistics
import time

import vllm_serving

PAUSES, TOKENS, ROUNDS = (0, 1, 2, 6, 20), 64, 5
LIBC = ctypes.CDLL(None)
BUFFER = ctypes.create_string_buffer(4 << 20)


def spin(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def fill(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        LIBC.memset(ctypes.byref(BUFFER), 1, len(BUFFER))


def lengthened(files, kinds):
    """Pause in ms and how much longer the own work took, of each line whose pause was of these kinds."""
    for file in files:
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        at_rest = {(row["model"], row.get("requests", 1)): row["own_ms"] for row in rows if row["pause_ms"] == 0}
        for row in rows:
            if row["pause_ms"] > 0 and row["in_it"] in kinds:
                yield row["pause_ms"], row["own_ms"] - at_rest[row["model"], row.get("requests", 1)]


def fit(files, kinds):
    """Prints the WHOLE and LOST_IN of longer = WHOLE (1 - exp(-pause / LOST_IN)), by least squares."""
    points = list(lengthened(files, kinds))

    def fitted(lost_in):
        shares = [-math.expm1(-pause / lost_in) for pause, _ in points]
        whole = sum(share * longer for share, (_, longer) in zip(shares, points)) / sum(share * share for share in shares)
        return statistics.mean((longer - whole * share) ** 2 for share, (_, longer) in zip(shares, points)), whole, lost_in

    square, whole, lost_in = min(fitted(tenths / 10) for tenths in range(10, 3000))
    print(f"{len(points)} points: whole {whole:.2f} ms, lost in {lost_in:.1f} ms, {math.sqrt(square):.2f} ms off in the mean square")


def measure(name):
    model = vllm_serving.started(name, 1, False)
    import torch  # brings PyTorch; vLLM comes first, as in its own programs
    launch = torch.cuda.CUDAGraph.replay
    how, seconds = spin, 0

    def launch_and_pause(graph):
        launch(graph)
        if seconds > 0:
            how(seconds)

    torch.cuda.CUDAGraph.replay = launch_and_pause

    def between_tokens():
        longer, shorter = (vllm_serving.turn(model, 1, vllm_serving.CONTEXT, tokens) for tokens in (1 + TOKENS, 1))
        return (longer - shorter) / TOKENS

    between_tokens()
    cases = [(pause, of) for pause in PAUSES for of in (spin, fill) if pause > 0 or of is spin]
    times = {case: [] for case in cases}
    for _ in range(ROUNDS):  # in turn: how fast the machine is changes from minute to minute
        for pause, how in cases:
            seconds = pause / 1000
            times[pause, how].append(between_tokens())
    for (pause, of), all_of in times.items():
        print(json.dumps({"model": name, "pause_ms": pause, "in_it": of.__name__, "ms": round(statistics.median(all_of), 3),
                          "own_ms": round(statistics.median(all_of) - pause, 3), "all": [round(t, 3) for t in all_of]}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", choices=vllm_serving.MODELS)
    parser.add_argument("--fit", nargs="+", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--kinds", nargs="+", default=["spin", "simulation"])
    options = parser.parse_args()
    if options.fit:
        fit(options.fit, options.kinds)
    elif options.name:
        measure(options.name)
    else:
        parser.error("a model to measure, or --fit")


if __name__ == "__main__":
    main()
