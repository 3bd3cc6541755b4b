#!/usr/bin/env python3
"""Real and simulated training steps, one after the other on one host with GPUs, and their table.

Usage: same_host.py PHANTORA [--gpus N] [--gpu h100] [--json OUT] [--only NAME...] [--table IN...] [--scripts FOLDER | --libraries FOLDER | --jax]

Runs zoo.py, trainings.py, studies.py, multimodal.py and generation.py (with one GPU) and the cases below that use N GPUs of test/programs/train.py and of
transformer_live.py, each for real and then under PHANTORA, with the Python that runs this. --table only
prints what was measured.
"""
import argparse
import concurrent.futures
import fnmatch
import json
import pathlib
import re
import statistics
import subprocess
import sys
import time

import scripts

HERE = pathlib.Path(__file__).resolve().parent
TRAIN = HERE.parents[1] / "test/programs/train.py"

# model, parallel, batch, sequence, more options
CASES = {
    1: [("gpt2", "none", 6, 1024), ("gpt2-large", "none", 3, 1024), ("llama1b", "none", 3, 1024),
        ("resnet50", "none", 80, 1024), ("vgg16", "none", 48, 1024), ("llama-tiny", "none", 6, 2048)],
    2: [("gpt2-medium", "ddp", 3, 1024), ("llama1b", "tp", 3, 1024), ("gpt2", "fsdp2", 6, 1024),
        ("llama1b", "fsdp2", 4, 2048, "--ac"), ("resnet50", "ddp", 96, 1024)],
    4: [("gpt2", "ddp", 6, 1024), ("gpt2-medium", "fsdp2", 4, 1024), ("llama1b", "fsdp2", 3, 1024),
        ("llama1b", "tp", 3, 1024), ("resnet50", "ddp", 80, 1024),
        ("llama-tiny", "fsdp2", 6, 2048), ("llama1b", "fsdp2", 3, 1024, "--ac")],
}


# What transformer_live.py is told, sizes that are not its own.
LIVE = {
    2: [("ddp",), ("zero1",), ("fsdp", "--micro-batch", 2), ("fsdp", "--recompute"), ("tp",), ("cp", "--length", 8192),
        ("ep", "--mlp", 4096), ("Schedule1F1B", "--micro-batches", 6), ("ScheduleGPipe", "--micro-batches", 4)],
}
# What generation.py is told, on one GPU.
GENERATION = [("llama", "--batch", 1), ("llama", "--static", "--batch", 8), ("qwen2", "--prompt", 1024),
              ("llama", "--compiled", "--batch", 4)]
STEP = re.compile(r"^rank (\d+) step (\d+): ([\d.]+) ms, (\d+) bytes$", re.M)


def of_steps(text):
    """The row of transformer_live.py's lines: its steps after the first two, the last rank to end each."""
    steps, peak = {}, 0
    for _, number, ms, peak_bytes in STEP.findall(text):
        steps.setdefault(int(number), []).append(float(ms) / 1e3)
        peak = max(peak, int(peak_bytes)) if int(number) > 1 else peak
    taken = [max(times) for number, times in steps.items() if number > 1]
    return [dict(median_s=statistics.median(taken), min_s=min(taken), max_s=max(taken), peak_alloc=peak)] if taken else []


def lines_of(command, limit=None):
    """The JSON lines that the command prints, or the row of its steps."""
    began = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=limit)
    except subprocess.TimeoutExpired:
        print(f"{' '.join(map(str, command))}: took more than {limit} s", file=sys.stderr)
        return []
    rows = [json.loads(line) for line in re.findall(r"^\{\".*\}$", done.stdout, re.M)] or of_steps(done.stdout)
    if done.returncode != 0:
        print(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr[-3000:]}",
              file=sys.stderr)
    print(f"{time.monotonic() - began:.0f} s: {' '.join(map(str, command))}"[:200], file=sys.stderr)
    return rows


# Whose steps have names.
PROGRAMS = ("zoo.py", "trainings.py", "studies.py", "multimodal.py")


def names_in(program, decorator):
    return re.findall(rf"^@(?:{decorator})\ndef (\w+)", (HERE / program).read_text(), re.M)


def cases(options):
    """Name and arguments of Python of each case; those of scripts.py or libraries.py where there is a folder for them."""
    gpus = options.gpus
    if options.scripts:
        for script in scripts.SCRIPTS:
            if script.gpus == gpus:
                yield script.name, [HERE / "scripts.py", options.scripts, "--name", script.name]
        return
    if options.libraries:
        for name in names_in("libraries.py", "library"):
            yield name, [HERE / "libraries.py", options.libraries, "--name", name]
        return
    if options.jax:
        for name in names_in("jax_steps.py", "program"):
            if (name == "sharded") == (gpus > 1):
                yield name + f" x{gpus}" * (gpus > 1), [HERE / "jax_steps.py", name]
        return
    if gpus == 1:
        for program in PROGRAMS:
            for name in names_in(program, "architecture|training|study|multimodal"):
                yield name, [HERE / program, "--names", name]
        for told in GENERATION:
            yield f"generate {' '.join(map(str, told))}".replace("--", ""), [HERE / "generation.py", *told]
    for model, parallel, batch, length, *more in CASES[gpus]:
        name = f"{model} {parallel} b{batch} s{length} {' '.join(more)}".strip() + f" x{gpus}"
        yield name, [TRAIN, "--model", model, "--parallel", parallel, "--batch", batch, "--seq", length, "--steps", 16,
                     *more]
    for told in LIVE.get(gpus, []):
        yield f"{' '.join(map(str, told))} x{gpus}".replace("--", ""), [HERE / "transformer_live.py", *told, "--steps", 8]


def command_of(what, program, options, name):
    program = list(map(str, program))
    if options.kernels and (options.scripts or options.libraries):
        program += ["--kernels", f"{options.kernels}.{what}"]
    if what == "simulated":
        record = []
        if options.records:
            record = ["--record", str(pathlib.Path(options.records) / (re.sub(r"\W+", "_", name) + ".rec"))]
        per = ["--per", "run"] if options.jax else []
        return [options.phantora, "run", "--cluster", f"{options.gpu}:1x{options.gpus}", *per, *record, "--", sys.executable, *program]
    if options.kernels and program[0].endswith(PROGRAMS):
        program += ["--kernels", options.kernels]
    several = options.gpus > 1 and not options.jax
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(options.gpus)] if several else []
    return [sys.executable, *launcher, *program]


def measure(options, out):
    deadline = time.monotonic() + options.seconds
    chosen = [case for case in cases(options) if options.only is None or case[0] in options.only]
    if options.only:
        chosen.sort(key=lambda case: options.only.index(case[0]))
    # One after the other unless more are asked for: what the host does is measured.
    with concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
        def take(case):
            name, program = case
            for what in options.order:
                left = deadline - time.monotonic()
                if left <= 5:
                    return
                for row in lines_of(command_of(what, program, options, name), left):
                    out.write(json.dumps(dict(row, name=name, what=what)) + "\n")
                    out.flush()
        list(pool.map(take, chosen))


def medians(found, key):
    """Of the real rows of a case, and of the simulated ones."""
    return [statistics.median(row[key] for row in found[what]) for what in ("real", "simulated")]


def summary(what, errors):
    """A line on errors, of which each is a share."""
    sizes = sorted(map(abs, errors))
    if sizes:
        print(f"\n{len(sizes)} {what}: mean error {statistics.mean(sizes):.1%}, median {statistics.median(sizes):.1%}, "
              f"p90 {sizes[int(0.9 * len(sizes))]:.1%}, worst {sizes[-1]:.1%}.")


def table(files, only):
    rows = {}
    for file in files:
        for line in pathlib.Path(file).read_text().splitlines():
            row = json.loads(line)
            if any(fnmatch.fnmatchcase(row["name"], pattern) for pattern in only):
                rows.setdefault(row["name"], {}).setdefault(row["what"], []).append(row)
    print("| case | real step, ms | simulated, ms | error | peak allocated, real | error | the GPU's time, real, ms | error |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    errors, gpu_errors, bound_errors, queued_errors, memory_errors, spans = [], [], [], [], [], []
    for name, found in rows.items():
        if len(found) < 2:
            print(f"| {name} | only {' '.join(found)} | | | | | | |")
            continue
        real, simulated = medians(found, "median_s")
        memory = [found[what][0].get("peak_alloc") for what in ("real", "simulated")]
        told = ["", "", "", ""]
        errors.append(simulated / real - 1)
        if all(memory):
            memory_errors.append(memory[1] / memory[0] - 1)
            told[:2] = f"{memory[0] / 2**30:.2f} GiB", f"{memory_errors[-1]:+.2%}"
        if len(found["real"]) > 1:
            times = [row["median_s"] for row in found["real"]]
            spans.append(max(times) / min(times) - 1)
        if "queued_s" in found["real"][0]:
            queued = medians(found, "queued_s")
            queued_errors.append(queued[1] / queued[0] - 1)
        # Of several GPUs NCCL's kernels are busy with waiting.
        if "gpu_s" in found["real"][0] and not re.search(r" x\d+$", name):
            busy = medians(found, "gpu_s")
            gpu_errors.append(busy[1] / busy[0] - 1)
            told[2:] = f"{1e3 * busy[0]:.1f}", f"{gpu_errors[-1]:+.1%}"
            if busy[0] > 0.8 * real:
                bound_errors.append(errors[-1])
        steps = ", ".join(format(1e3 * row["median_s"], ".1f") for row in found["real"])
        print(f"| {name} | {steps} | {1e3 * simulated:.1f} | {errors[-1]:+.1%} "
              f"| {' | '.join(told)} |")
    summary("cases", errors)
    summary("of them whose GPU is busy for four fifths of the real step", bound_errors)
    summary("of them by what the GPU does in a step", gpu_errors)
    summary("of them by steps that nobody waits for, in a row", queued_errors)
    if memory_errors:
        print(f"\nPeak memory is the same to the byte in {memory_errors.count(0)} of {len(memory_errors)}, and {max(map(abs, memory_errors)):.2%} off at worst.")
    if spans:
        print(f"\nReal steps of {len(spans)} taken more than once: the longest {statistics.mean(spans):.1%} longer than the shortest in the mean, {max(spans):.1%} at worst.")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("phantora", nargs="?")
    arguments.add_argument("--gpus", type=int, default=1, choices=sorted(CASES))
    arguments.add_argument("--gpu", default="h200", choices=("h200", "h100"), help="that this host has")
    arguments.add_argument("--json", default="same_host.jsonl", help="rows are appended to this file")
    arguments.add_argument("--table", nargs="+", help="print these files' rows, measure nothing")
    arguments.add_argument("--order", nargs="+", choices=("real", "simulated"),
                           default=("real", "simulated", "real"))
    arguments.add_argument("--only", nargs="+", help="these cases, in this order; of a table, those that such patterns match")
    arguments.add_argument("--scripts", help="the folder with clones of the projects whose scripts scripts.py runs: these instead")
    arguments.add_argument("--libraries", help="the folder with the tokenizer that libraries.py's programs read: these instead")
    arguments.add_argument("--jax", action="store_true", help="jax_steps.py's programs instead")
    arguments.add_argument("--seconds", type=float, default=1e6, help="begin none after so long, end those that run")
    arguments.add_argument("--at-once", type=int, default=1)
    arguments.add_argument("--records", help="folder for what phantora replay can price anew")
    arguments.add_argument("--kernels", help="what the kernels of these programs but generation.py took is appended to this file")
    options = arguments.parse_args()
    if options.table:
        return table(options.table, options.only or ["*"])
    if options.phantora is None:
        arguments.error("the phantora program to compare with")
    with open(options.json, "a") as out:
        measure(options, out)
    table([options.json], ["*"])


main()
