"""Fits the constants of messages (lib/collectives/communicator.cpp) and prints errors in sample and held out.

    python message_fit.py [ROWS.jsonl ...]

The rows: rings of messages and all_to_all, timed on the GPU alone. Prints, for messages of up to 1 MiB a
GPU, of 4 to 16 MiB and of more, the mean and the worst error of the constants as committed, of a fit to
all rows, and of fits to half of the rows on the other half. Needs numpy.
"""
import json
import os
import sys

import numpy as np

KIB = 1024.0
NAMES = ["LL base us", "Simple base us", "us a peer", "last step us", "LL GB/s a channel", "Simple GB/s a channel",
         "LL GB/s in all", "crowd us", "crowd half MB"]
START = np.array([10.0, 10.0, 1.0, 10.0, 10.0, 10.0, 100.0, 10.0, 10.0])  # of every fit: what was fitted must not leak
COMMITTED = np.array([10.7, 14.7, 0.4, 5.3, 5.1, 20.5, 120.0, 55.0, 44.0])
CHANNELS, NVLINK = 32, 370.8
LONE, MANY = 362e3, 340e3  # bytes per us over a GPU's NVLinks
UNALIGNED, UNALIGNED_ALL = 7.6e3, 165e3


def read(paths):
    rows = []
    for path in paths:
        with open(path) as file:
            rows += [json.loads(line) for line in file]
    kept = [r for r in rows if r.get("graph") == 1 and r["op"] in ("sendrecv", "all_to_all") and not r.get("fenced")]
    table = {"world": np.array([r["world"] for r in kept]), "us": np.array([r["us"] for r in kept]),
             "total": np.array([float(r["bytes"]) for r in kept])}
    table["many"] = np.array([r["op"] == "all_to_all" for r in kept])
    table["bytes"] = np.where(table["many"], table["total"] / table["world"], table["total"])
    table["peers"] = np.where(table["many"], table["world"] - 1, 1)
    return table


def predicted(k, t):
    ll = t["bytes"] <= CHANNELS * 16 * KIB
    step = np.where(ll, 64 * KIB, 512 * KIB)
    fewest = np.full(len(ll), CHANNELS)
    for _ in range(5):
        fewest = np.where((fewest > 1) & (fewest * t["world"] > CHANNELS), fewest // 2, fewest)
    channels = np.clip(np.ceil(t["bytes"] / (step / 8)), 1, fewest)
    for _ in range(5):
        channels = np.where((channels <= CHANNELS // 2) & (t["bytes"] / channels > step * 32), channels * 2, channels)
    sent = t["bytes"] * t["peers"]
    rate = np.where(ll, k[4], k[5]) * 1e3 * channels * t["peers"]
    share = np.minimum(1, rate / (NVLINK * 1e3))
    rate = np.where(ll, np.minimum(rate, k[6] * 1e3), rate)
    unaligned = t["many"] & (t["bytes"] % 16 != 0) & ~ll
    rate = np.where(unaligned, np.minimum(np.minimum(rate, channels * t["peers"] * UNALIGNED), UNALIGNED_ALL), rate)
    rate = np.minimum(rate, np.where(t["many"], MANY, LONE) / np.where(ll, 2, 1))
    us = np.where(ll, k[0], k[1]) + k[2] * (t["peers"] - 1) + sent / rate
    simple = k[3] * np.minimum(1, t["bytes"] / channels / step) + k[7] * share**2 * sent / (sent + k[8] * 1e6)
    return us + np.where(ll, 0, simple)


def errors(k, t):
    return predicted(k, t) / t["us"] - 1


def fit(t):
    """Least mean absolute error, outliers cut at 35 %, one constant at a time."""
    def loss(k):
        return np.minimum(np.abs(errors(k, t)), 0.35).mean()
    best, step = START.copy(), np.full(len(START), 0.5)
    least = loss(best)
    while step.max() > 1e-3:
        for i in range(len(best)):
            for factor in (1 + step[i], 1 / (1 + step[i])):
                trial = best.copy()
                trial[i] *= factor
                if loss(trial) < least:
                    best, least = trial, loss(trial)
                    break
            else:
                step[i] /= 2
    return best


def part(t, which):
    return {name: column[which] for name, column in t.items()}


def show(title, k, t):
    e = 100 * np.abs(errors(k, t))
    sizes = [t["total"] < 2e6, (t["total"] >= 2e6) & (t["total"] < 3e7), t["total"] >= 3e7]
    print(f"{title:34}", "  ".join(f"{e[s].mean():5.1f} {e[s].max():5.1f}" for s in sizes if s.any()))


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    t = read(sys.argv[1:] or [os.path.join(here, "h200_collectives.jsonl")])
    print(f"{'errors in %: mean, worst':34} up to 1 MiB   4 to 16 MiB  more")
    show("as committed", COMMITTED, t)
    best = fit(t)
    show("fitted to all", best, t)
    few = np.isin(t["world"], (2, 4))
    even = np.round(np.log2(t["total"] / KIB) / 2) % 2 == 0
    for title, train in (("2 and 4 GPUs, judged on 3 and 8", few), ("3 and 8 GPUs, judged on 2 and 4", ~few),
                         ("every other size, on the rest", even), ("the rest, on every other size", ~even)):
        show(title, fit(part(t, train)), part(t, ~train))
    print("\n".join(f"{name:24} {value:8.2f}" for name, value in zip(NAMES, best)))


if __name__ == "__main__":
    main()
