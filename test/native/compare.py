#!/usr/bin/env python3
"""Runs a probe and compares what it prints, line by line, with what it printed on an H200.

    compare.py RECORDING COMMAND...

Numbers with a decimal point are times and rates, which vary, and are not compared; everything else has to be equal, but for
the lines of DIFFERENCES, which have to differ as it says.
"""
import pathlib
import re
import subprocess
import sys

# By recording: the line on an H200, ours, and why.
DIFFERENCES = {
    "memory": [("ok   16777216 of 16777216 bytes came back as sent", "MISS 65536 of 16777216 bytes came back as sent",
                "copies from the host of more than 8 MiB are not kept (LIMITATIONS.md, Data)"),
               ("misses 0", "misses 1", "that one")],
    "occupancy": [("     active clusters of 8: 124", "     active clusters of 8: 120",
                   "counted for one block on each SM; of several more clusters fit into a GPC")],
}


def lines(text):
    """What the probe printed: `phantora run` ends with a summary of its own."""
    own = text.split("\nphantora: ")[0].rstrip("\n").splitlines()
    return [re.sub(r"\d+\.\d+", "#.#", line.rstrip()) for line in own]


def main():
    recording = pathlib.Path(sys.argv[1])
    run = subprocess.run(sys.argv[2:], stdout=subprocess.PIPE, text=True, check=False)
    recorded, ours = lines(recording.read_text(encoding="utf-8")), lines(run.stdout)
    expected = list(recorded)
    for theirs, differs, _ in DIFFERENCES.get(recording.stem, []):
        expected[expected.index(theirs)] = differs
    wrong = [f"line {i + 1}:\n  H200: {recorded[i]}\n  here: {ours[i]}"
             for i in range(min(len(expected), len(ours))) if expected[i] != ours[i]]
    if len(expected) != len(ours):
        wrong.append(f"{len(recorded)} lines on an H200, {len(ours)} here")
    print("\n".join(wrong) or f"{len(ours)} lines as on an H200, {len(DIFFERENCES.get(recording.stem, []))} known to differ")
    return 1 if wrong or run.returncode != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
