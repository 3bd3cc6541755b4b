#!/usr/bin/env python3
"""Sets simulated times of user kernels (user_kernels/user_kernels.cu) beside measured ones.

    user_kernels.py MEASURED.jsonl SIMULATED.jsonl [--table]

Exits with 1 where the median error of what is judged is above 40 %, or where any kernel exceeds
the GPU's peak. The constants of lib/kernels/code_roofline.cpp were set by FITTED, its rules while looking at all.
"""
import json
import statistics
import sys

# H200, dense: FLOP per second by units, and device memory's bytes per second (lib/kernels/gpu_model.cpp).
PEAKS = {"fp32": 66.9e12, "fp64": 33.5e12, "half": 989.4e12}
MEMORY = 4.8e12
# What stays in the L2 cache between launches is not read from memory; it comes at 1.9 times the rate.
CACHE = 60 << 20
CACHE_SPEED = 1.9
FITTED = {"transpose_naive", "histogram_shared", "matmul_tiled", "dgemm_tiled", "saxpy",
          "copy_vectors", "hash_rounds", "gather", "attention_scores", "stencil_2d", "wmma_gemm", "sums_of_64"}


def read(path):
    with open(path, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines if line.startswith("{")]
    return {(row["kernel"], row["size"]): row for row in rows if "kernel" in row}


def exceeds_peak(row):
    seconds = row["us"] * 1e-6
    memory = MEMORY * (CACHE_SPEED if row["bytes"] < CACHE else 1)
    arithmetic = row["flops"] / PEAKS[row["units"]] if row["units"] in PEAKS else 0
    return seconds < max(arithmetic, row["bytes"] / memory)


def main():
    measured, simulated = read(sys.argv[1]), read(sys.argv[2])
    missing = sorted(set(measured) - set(simulated))
    if missing:
        sys.exit(f"not simulated: {missing}")
    errors = {"fitted": [], "judged": []}
    beyond = []
    if "--table" in sys.argv:
        print("| kernel | size | measured, us | simulated, us | ratio | |\n| --- | --- | --- | --- | --- | --- |")
    for key, row in measured.items():
        ours = simulated[key]
        ratio = ours["us"] / row["us"]
        kind = "fitted" if key[0] in FITTED else "judged"
        errors[kind].append(abs(ratio - 1))
        if exceeds_peak(ours):
            beyond.append(key)
        if "--table" in sys.argv:
            print(f"| {key[0]} | {key[1]} | {row['us']:.1f} | {ours['us']:.1f} | {ratio:.2f} | {kind} |")
    for kind, values in errors.items():
        values.sort()
        print(f"{kind}: {len(values)} launches, median error {100 * statistics.median(values):.0f} %, "
              f"90 % within {100 * values[int(0.9 * len(values))]:.0f} %, worst {100 * values[-1]:.0f} %")
    print(f"beyond the GPU's peaks: {beyond or 'none'}")
    sys.exit(statistics.median(errors["judged"]) > 0.4 or bool(beyond))


if __name__ == "__main__":
    main()
