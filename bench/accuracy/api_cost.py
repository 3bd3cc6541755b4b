"""Host time of each API call within training steps, from test/data/api_in_situ.jsonl: what
include/phantora/simulation/host_cost.hpp says. The hosts differ in speed, so each run's times are divided by
what reference_work() took in it and multiplied by its mean over all runs.
A call that sometimes waits for the GPU shows in the range. Usage: api_cost.py"""
import collections
import json
import pathlib
import statistics

ROOT = pathlib.Path(__file__).resolve().parents[2]
runs = collections.defaultdict(dict)
for line in (ROOT / "test/data/api_in_situ.jsonl").read_text().splitlines():
    row = json.loads(line)
    runs[row["machine"], row["run"], row["process"]][row["call"]] = row["mean_us"]
reference = statistics.mean(calls["reference_work"] for calls in runs.values())
print(f"reference_work: {reference:.1f} us on average, {len(runs)} ranks")
print("| call | median of the ranks, us | range |\n| --- | --- | --- |")
for call in sorted({call for calls in runs.values() for call in calls}):
    us = [calls[call] * reference / calls["reference_work"] for calls in runs.values() if call in calls]
    print(f"| {call} | {statistics.median(us):.2f} | {min(us):.2f} - {max(us):.2f} |")
