#!/usr/bin/env python3
"""Measures, on a machine with a GPU, products of eight-bit integers (torch._int_mm), as quantised layers have them.

Usage: measure_integers.py OUT.jsonl [SECONDS [WORKERS]]

The weight lies as [n, k], as layers keep it, or as [k, n]. Lines are like measure_architectures.py's. A third of the cases judges and
is never fitted: those whose digest leaves 1 when it is divided by 3 (make_table.py's is_judge()).
"""
import sys

import torch

import measure_h200
from measure_half import WIDTHS
from measure_h200 import draw, pick


def product():
    for _ in range(420):
        m, n, k = pick(5, 14.5, 8), draw.choice(WIDTHS) if draw.random() < 0.7 else pick(5, 14, 16), draw.choice(WIDTHS) if draw.random() < 0.7 else pick(5, 14, 16)
        layout = "NT" if draw.random() < 0.75 else "NN"
        if 2.0 * m * n * k > 4e12 or m * n > 5e8 or m <= 16:
            continue

        def make(m=m, n=n, k=k, layout=layout):
            a = torch.randint(-128, 128, (m, k), dtype=torch.int8, device="cuda")
            b = torch.randint(-128, 128, (n, k) if layout == "NT" else (k, n), dtype=torch.int8, device="cuda")
            return lambda: torch._int_mm(a, b.t() if layout == "NT" else b)
        yield dict(op="mm", dtype="int8", m=m, n=n, k=k, layout=layout), make


def main():
    torch.set_num_threads(1)
    draw.seed(2026)
    arguments = sys.argv[2:] + ["60", "6"][len(sys.argv) - 2:]
    measure_h200.main(sys.argv[1], float(arguments[0]), (product,), int(arguments[1]))


if __name__ == "__main__":
    main()
