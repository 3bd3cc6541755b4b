#!/usr/bin/env python3
"""What host_cost.hpp says of calls by the time since the thread's call of the same kind before.

Usage: api_by_gap.py [FILE]    (default: h200_api_by_gap.jsonl beside it, rows of api_in_situ.cpp)

Prints for each call the weighted median, over runs and the gaps of a factor of four, of the medians that each run
has for gaps of a factor of two, in us, and how many calls there were.
"""
import collections
import json
import pathlib
import sys

CENTRES_US = (4, 16, 64, 256, 1024, 4096)


def centre_of(most_us):
    """Of a bucket from most/2 to most: gaps of up to 8 us are one, then 8 to 32, 32 to 128 and so on."""
    for centre in CENTRES_US:
        if most_us <= 2 * centre:
            return centre
    return None


def weighted_median(pairs):
    half, seen = sum(weight for weight, _ in pairs) / 2, 0
    for weight, value in sorted(pairs, key=lambda pair: pair[1]):
        seen += weight
        if seen >= half:
            return value


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent / "h200_api_by_gap.jsonl"
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for line in open(path):
        row = json.loads(line)
        for most_us, (count, median_us) in row["median_us_by_gap"].items():
            if (centre := centre_of(int(most_us))) is not None:
                found[row["call"]][centre].append((count, median_us))
    for call, by_centre in sorted(found.items()):
        points = [f"{centre}: {weighted_median(by_centre[centre]):.2f} ({sum(n for n, _ in by_centre[centre])})"
                  for centre in CENTRES_US if by_centre[centre]]
        print(f"{call:32} {'  '.join(points)}")


main()
