"""How far runs of one job with measured host time are apart, quiet and beside busy neighbours.

Runs each case several times as the machine is, and again while a process spins on each core; prints
steps, their spread and what the report says of hosts 20 % faster and slower. Usage: host_spread.py
PHANTORA PYTHON [--runs N] [--busy N] [--only NAME]"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

TRAIN = pathlib.Path(__file__).resolve().parents[2] / "test/programs/train.py"
# name, GPUs, options of train.py; the first waits for its host, the second for its GPU too
CASES = [("gpt2 b2 s256", 1, ["--model", "gpt2", "--parallel", "none", "--batch", "2", "--seq", "256"]),
         ("gpt2 b8 s1024", 1, ["--model", "gpt2", "--parallel", "none", "--batch", "8", "--seq", "1024"]),
         ("gpt2 ddp b2 s256", 2, ["--model", "gpt2", "--parallel", "ddp", "--batch", "2", "--seq", "256"])]
# Touches memory as a compiler or another rank does, and not only registers.
SPIN = "import array\nx = array.array('q', range(1 << 18))\nwhile True: x = array.array('q', sorted(x, key=lambda i: -i))"


def run(phantora, python, gpus, options):
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        subprocess.run([phantora, "run", "--cluster", f"h200:1x{gpus}", "--report", report, "--", python, TRAIN,
                        "--steps", "8", "--warmup", "3", *options], check=True, stdout=subprocess.DEVNULL)
        return json.loads(report.read_text())


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("phantora")
    arguments.add_argument("python")
    arguments.add_argument("--runs", type=int, default=5)
    arguments.add_argument("--busy", type=int, default=os.cpu_count(), help="spinning processes; 0: only as it is")
    arguments.add_argument("--only", default="", help="cases whose name has this")
    options = arguments.parse_args()
    print("| case | neighbours | steps, ms | (max - min) / median | waits for the host | 20 % faster, slower, ms |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    for name, gpus, of_train in CASES:
        if options.only not in name:
            continue
        for busy in sorted({0, options.busy}):
            spinning = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(busy)]
            try:
                reports = [run(options.phantora, options.python, gpus, of_train) for _ in range(options.runs)]
            finally:
                for process in spinning:
                    process.kill()
                    process.wait()
            steps = sorted(1e3 * report["ranks"][0]["step_s"] for report in reports)
            spread = (steps[-1] - steps[0]) / statistics.median(steps)
            of = [report["host"] for report in reports]
            middle = [statistics.median(host[key] for host in of)
                      for key in ("share_of_step", "step_s_if_20_percent_faster", "step_s_if_20_percent_slower")]
            print(f"| {name} | {busy} busy | {', '.join(f'{step:.1f}' for step in steps)} | {spread:.1%} "
                  f"| {middle[0]:.0%} | {1e3 * middle[1]:.1f}, {1e3 * middle[2]:.1f} |", flush=True)


main()
