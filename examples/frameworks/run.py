"""Runs programs.py's programs under `phantora run` and judges them: see run.sh."""
import argparse
import dataclasses
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

from programs import PROGRAMS, Program

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / "build/frameworks"
PHANTORA = os.environ.get("PHANTORA", str(ROOT / "build/release/bin/phantora"))

ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(BUILD / "hf"), "TOKENIZERS_PARALLELISM": "false",
               "VLLM_NO_USAGE_STATS": "1"}
UNREAD_LIMIT = 0.01  # of the kernel time


@dataclasses.dataclass
class Outcome:
    program: Program
    status: object  # a number, or "hang", or "no nvcc", "no venv-vllm"
    seconds: float
    output: str
    report: dict
    wrong: list

    def row(self):
        step = self.program.step_ms(self.output)
        ranks = self.report.get("ranks", [])
        memory = max((rank["peak_memory_bytes"] for rank in ranks), default=None)
        unread = unread_share(self.report)
        forced = self.report.get("forced_answers")
        return (self.program.name, self.program.cluster, str(self.status),
                "" if step is None else f"{step:.1f} ms",
                "" if memory is None else f"{memory / 2**30:.2f} GiB",
                "" if forced is None else str(forced),
                "" if unread is None else f"{100 * unread:.2f} %", f"{self.seconds:.0f} s",
                "; ".join(self.wrong) or "as expected")


HEADER = ("program", "cluster", "status", "its step", "memory", "forced", "unread", "wall time",
          "judgement")


def unread_share(report):
    """The share of kernel time whose kernels were not read or have no model, if there are kernels."""
    kernels = report.get("kernels", [])
    total = sum(kernel["total_s"] for kernel in kernels)
    unknown = sum(kernel["total_s"] for kernel in kernels if kernel["source"] == "unknown")
    return (report.get("unread", {}).get("total_s", 0.0) + unknown) / total if total else None


def processes_of(mark):
    """The living processes with `mark` in their environment."""
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes():
                yield int(entry.name)
        except OSError:
            pass


def folder_of(program):
    return BUILD / "runs" / program.name.replace("/", "-")


def rows_so_far():
    """The last row of each program that has run, of earlier calls too."""
    files = [folder_of(program) / "row.json" for program in PROGRAMS]
    return [json.loads(file.read_text()) for file in files if file.exists()]


def execute(program, folder, patience=1.0, options=(), prefix=()):
    """Runs the program in `folder`, with more options of `phantora run` and a command before it such as
    nice; returns the exit status, or "hang", and the seconds of wall time."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    bin = BUILD / program.environment / "bin"
    command = program.command.format(python=bin / "python", bin=bin, here=HERE, run=folder)
    mark = f"PHANTORA_FRAMEWORKS={os.getpid()}-{time.monotonic_ns()}"
    # What a run compiles it compiles itself, whichever ran before it.
    caches = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
              "TRITON_CACHE_DIR": str(folder / "triton")}
    path = {"PATH": f"{bin}:{os.environ['PATH']}"}
    environment = os.environ | ENVIRONMENT | path | caches | dict([mark.split("=")])
    began = time.monotonic()
    with open(folder / "output.txt", "w+b") as output:
        process = subprocess.Popen(
            [*prefix, PHANTORA, "run", "--cluster", program.cluster, "--report", folder / "report.json",
             *options, *shlex.split(program.options), "--", *shlex.split(command)],
            cwd=BUILD, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True)
        try:
            status = process.wait(patience * program.seconds)
        except subprocess.TimeoutExpired:
            status = "hang"
            process.terminate()  # it may have something to say
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                pass
        finally:
            for pid in processes_of(mark.encode()):
                os.kill(pid, signal.SIGKILL)
            process.wait()
    return status, time.monotonic() - began


def run(program, patience=1.0):
    if program.needs and not shutil.which(program.needs):
        return Outcome(program, f"no {program.needs}", 0, "", {}, [])
    if not (BUILD / program.environment).exists():
        return Outcome(program, f"no {program.environment}", 0, "", {}, [])
    folder = folder_of(program)
    status, seconds = execute(program, folder, patience)
    text = (folder / "output.txt").read_text(errors="replace")
    report = folder / "report.json"
    contents = json.loads(report.read_text()) if report.exists() else {}
    return Outcome(program, status, seconds, text, contents,
                   judge(program, status, text, contents))


def judge(program, status, output, report):
    """What is not as expected."""
    wrong = []
    if status != 0:
        wrong.append("did not end" if status == "hang" else f"status {status}")
        wrong += re.findall(r"^(?:\[rank\d+\]: )?(\w*(?:Error|Exception): .{0,100})", output, re.M)[:1]
        wrong += re.findall(r"^phantora: (?!interrupted)(?!h\d)(.*)", output, re.M)[:2]
        return wrong
    wrong += [f"never printed {pattern!r}" for pattern in program.expect
              if not re.search(pattern, output)]
    if program.step and program.step_ms(output) is None:
        wrong.append("never printed a step")
    if not report:
        return [*wrong, "no report"]
    if report["forced_answers"]:
        wrong.append(f"{report['forced_answers']} forced answers")
    unsupported = [name.split()[-1] for name in report["counters"]
                   if name.startswith("unsupported ")]
    if unsupported:
        wrong.append("unsupported " + ", ".join(unsupported))
    unread = unread_share(report)
    if unread is not None and unread >= UNREAD_LIMIT:
        wrong.append(f"{100 * unread:.1f} % unread")
    return wrong


def table(rows):
    lines = [HEADER, ("---",) * len(HEADER), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "/") for cell in line) + " |\n" for line in lines)


def main():
    arguments = argparse.ArgumentParser(usage="run.sh [--heavy] [--patience X] [--list] [FILTER...]")
    arguments.add_argument("filters", nargs="*")
    arguments.add_argument("--heavy", action="store_true", help="the heavy ones too")
    arguments.add_argument("--patience", type=float, default=1.0,
                           help="times the wall time after which a program counts as hanging")
    arguments.add_argument("--list", action="store_true", help="only says what would run")
    options = arguments.parse_args()
    chosen = [program for program in PROGRAMS if (options.heavy or not program.heavy)
              and (not options.filters or any(text in program.name for text in options.filters))]
    if not chosen:
        sys.exit(f"no program's name contains {' or '.join(options.filters)}")
    if options.list:
        print("\n".join(f"{program.name:36} {program.cluster}" for program in chosen))
        return
    rows = []
    for program in chosen:
        print(f"{program.name} ...", end=" ", flush=True)
        outcome = run(program, options.patience)
        rows.append(outcome.row())
        print(" | ".join(rows[-1][2:]), flush=True)
        (folder_of(program) / "row.json").write_text(json.dumps(rows[-1]))
        (BUILD / "table.md").write_text(table(rows_so_far()))
    print("\n" + table(rows))
    good = sum(row[-1] == "as expected" for row in rows)
    print(f"{good} of {len(rows)} as expected")
    sys.exit(good != len(rows))


if __name__ == "__main__":
    main()
