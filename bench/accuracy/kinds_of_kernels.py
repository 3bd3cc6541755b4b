#!/usr/bin/env python3
"""Real and simulated times of a step's kernels by kind: kinds_of_kernels.py REAL SIMULATED

Both files are what scripts.py --kernels wrote (same_host.py: KERNELS.real and KERNELS.simulated). Prints a line of JSON
for each kind that takes more than a millisecond of a step, for kernel_errors.py. Collectives are left out, which hold
waiting for other ranks, and fills, which belong to library calls where these are simulated.
"""
import json
import pathlib
import re
import sys

# The first that a name has says its kind; of others the name without arguments does. None: left out.
KINDS = [
    ("^ncclDevKernel|^Memset", None), ("bprop|compute_dot_do_o|convert_dq_to|fmha_reduce_head|sdpa_bwd", "attention backward"),
    ("sm90_flash_fpro|sdpa_fwd", "attention forward"), ("gemv", "products"), ("masked_fill", "masked_fill"),
    ("^triton_tem.*backward", "flex_attention backward"), ("^triton_tem", "flex_attention forward"), ("^triton_poi", "triton pointwise"),
    ("^triton_(red|per)", "triton reductions"), ("(?i)grouped.*(gemm|cutlass)|(gemm|cutlass).*grouped", "grouped"), ("gemm|cutlass|nvjet|sm90_xmma", "products")]


def kind_of(name):
    for pattern, kind in KINDS:
        if re.search(pattern, name):
            return kind
    bare = re.sub(r"^void ", "", name).replace("at::native::", "").replace("(anonymous namespace)::", "")
    return re.sub(r"[<(].*", "", bare)[:48]


def by_kind(file):
    """Microseconds of a step, by case and kind."""
    cases = {}
    for row in map(json.loads, pathlib.Path(file).read_text().splitlines()):
        kinds = cases[row["name"]] = {}
        for name, (_, us) in row["kernels"].items():
            kind = kind_of(name)
            if kind:
                kinds[kind] = kinds.get(kind, 0) + us / row["steps"]
    return cases


def main():
    real, simulated = map(by_kind, sys.argv[1:])
    for case, kinds in real.items():
        for kind, us in sorted(kinds.items(), key=lambda item: -item[1]):
            other = simulated.get(case, {}).get(kind)
            if other and max(us, other) > 1000:
                print(json.dumps(dict(case=case, kernel=kind, real_us=[round(us, 1)], simulated_us=round(other, 1))))


if __name__ == "__main__":
    main()
