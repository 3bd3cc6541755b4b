#!/usr/bin/env python3
"""Real and simulated times of the kernels that XLA makes: jax_kernels.py REAL FOLDER

REAL is what jax_steps.py --kernels wrote on a GPU, FOLDER has the report of each of its programs, PROGRAM.json, by
`phantora run --report`. Prints a line of JSON for each kernel of both, for kernel_errors.py. Products are left out:
candidates that XLA tries and does not take have the names of those that it takes.
"""
import json
import pathlib
import re
import sys


def kind_of(name):
    kind = re.sub(r"_?\d+$", "", name)
    if kind.startswith(("loop", "wrapped")):
        return "loop"
    return "input" if kind.startswith("input") else "fusion" if kind == "fusion" else "library"


def main():
    real, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    simulated = {}
    for text in pathlib.Path(real).read_text().splitlines():
        row = json.loads(text)
        program, name = row["program"], row["kernel"]
        if program not in simulated:
            simulated[program] = {}
            for kernel in json.loads((folder / f"{program}.json").read_text())["kernels"]:
                count, us = simulated[program].get(kernel["name"], (0, 0))
                simulated[program][kernel["name"]] = count + kernel["count"], us + 1e6 * kernel["total_s"]
        if name not in simulated[program] or name.startswith("gemm_fusion") or row["launches"] < 1:
            continue
        count, us = simulated[program][name]
        print(json.dumps(dict(kernel=f"{kind_of(name)} {row['launches']:g} times in {program}: {name[:60]}",
                              real_us=[round(row["us"] / row["launches"], 2)], simulated_us=round(us / count, 2))))


main()
