#!/usr/bin/env python3
"""Measures, on a machine with a GPU, the messages of graph networks: many rows that are added up at, or read from, nodes.

Usage: measure_messages.py OUT.jsonl [SECONDS [WORKERS]]

scatter_add, scatter and gather by an index for each row, expanded along its features, as torch_geometric has them: up to a million edges,
which measure_indexing.py ends far below. Lines are like its own. A third of the cases judges and is never fitted: those
whose digest leaves 1 when it is divided by 3 (make_table.py's is_judge()).
"""
import sys

import torch

import measure_h200
from measure_h200 import draw, pick
from measure_indexing import SIZES, filled, places

MOST = 1e9  # bytes of the messages


def messages():
    draw.seed(617)
    for _ in range(260):
        kind = draw.choice(("scatter_add", "scatter_add", "scatter_add", "gather", "scatter"))
        dtype, ordered = draw.choice(("fp32", "fp32", "fp32", "bf16")), draw.random() < 0.3
        edges, nodes = pick(10, 20.5), pick(6, 18)
        width = draw.choice((1, 1, 3, 8, 16, 32, 40, 47, 64, 64, 100, 128, 128, 256, 256, 512))
        if edges * width * SIZES[dtype] > MOST or edges * width < 4096:
            continue

        def make(kind=kind, dtype=dtype, ordered=ordered, edges=edges, nodes=nodes, width=width):
            x, v = filled(nodes, width, dtype=dtype), filled(edges, width, dtype=dtype)
            i = places(nodes, edges, ordered=ordered)[:, None].expand(-1, width)
            return {"gather": lambda: x.gather(0, i), "scatter": lambda: x.scatter_(0, i, v), "scatter_add": lambda: x.scatter_add_(0, i, v)}[kind]
        yield dict(op="along", kind=kind, dtype=dtype, numel=edges * width, indices=edges, tensors=1, table=nodes * width, last=False,
                   ordered=ordered), make


def main():
    arguments = sys.argv[2:] + ["60", "4"][len(sys.argv) - 2:]
    measure_h200.main(sys.argv[1], float(arguments[0]), (messages,), int(arguments[1]))


if __name__ == "__main__":
    main()
