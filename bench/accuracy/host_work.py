#!/usr/bin/env python3
"""How alike two machines are by CPU time of programs over what HostScale's piece of work takes in them, cold, warm or both.

ROWS.jsonl has, of each program on each machine, CPU time of a step's forward, backward and optimizer pass between calls of CUDA, and means of the piece of work's first and second run in
them, by a build whose ranks printed these (adapters/rank/runtime/host_speed.cpp), under `phantora run --host-scale 1`. Usage: host_work.py ROWS.jsonl
"""
import json
import statistics
import sys

rows = [json.loads(line) for line in open(sys.argv[1])]
here = {row["name"]: row for row in rows if row["machine"] == "workplace"}
for what, work in (("warm", lambda row: row["warm_us"]), ("cold", lambda row: row["cold_us"]), ("both", lambda row: row["cold_us"] + row["warm_us"]), ("unscaled", lambda row: 1)):
    ratios = [row["cpu_ms"] / work(row) / (here[row["name"]]["cpu_ms"] / work(here[row["name"]])) for row in rows if row["machine"] != "workplace"]
    print(f"{what}: {statistics.geometric_mean(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
