"""Runs native CUDA programs under `phantora run` and judges each by one rule: see run.sh and README.md."""
import os
import pathlib
import random
import re
import signal
import struct
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
PHANTORA = os.environ.get("PHANTORA", str(HERE.parent.parent / "build/release/bin/phantora"))
PATIENCE_S = float(os.environ.get("PATIENCE", "120"))

# What a real GPU would have refused too, or what the sample asks of the machine beside the GPU.
REFUSED_THERE = re.compile(
    r"waiv|requires? (at least )?(two|2|more) GPU|at least \d+ (GPU|device)s? (is|are) required|not supported on"
    r"|does not support|only supported on|display|X11|integrated", re.IGNORECASE)


class Program:
    def __init__(self, name, command, cluster="h200:1x2", options=("--per", "run"), folder=None,
                 environment=None, check=None):
        self.name, self.command, self.cluster, self.options = name, command, cluster, list(options)
        self.folder, self.environment, self.check = folder, environment or {}, check


# TFLOP/s of an H200's tensor cores (its data sheet, dense), by what a sample multiplies.
PEAKS = {"bf16TensorCoreGemm": 989, "cudaTensorCoreGemm": 989, "dmmaTensorCoreGemm": 67, "immaTensorCoreGemm": 1979,
         "tf32TensorCoreGemm": 495}


def within(peak):
    def sane(output):
        found = re.search(r"TF?L?OPS: ([\d.]+)", output)
        if not found:
            return "MISS: no rate was printed"
        return f"{found[1]} TFLOP/s" if float(found[1]) < peak else f"MISS: {found[1]} TFLOP/s, of {peak} that an H200 has"

    return sane


def samples(build):
    """Every program that build.sh made of cuda-samples."""
    root = build / "cuda-samples" / "Samples"
    sources = build.parent / "cuda-samples" / "Samples"
    for folder in sorted(root.glob("*/*")) + sorted(root.glob("*/*/*")):
        for program in sorted(folder.glob("*")):
            if not (program.is_file() and os.access(program, os.X_OK)) or program.suffix:
                continue
            data = sources / folder.relative_to(root) / "data"
            if data.is_dir() and not (folder / "data").exists():
                (folder / "data").symlink_to(data)
            if program.name == "simpleMPI":
                command, options = ["--", "mpirun", "--allow-run-as-root", "-np", "2", f"./{program.name}"], ()
            else:
                command, options = ["--", f"./{program.name}"], ("--per", "run")
            peak = PEAKS.get(program.name)
            yield Program("samples/" + program.name, command, options=options, folder=folder,
                          check=within(peak) if peak else None)


def left_out(build):
    """(sample, what it needs) of those that were not built, as their own build or build.sh said."""
    log = build / "cuda-samples.log"
    said = log.read_text(errors="replace") if log.exists() else ""
    reasons = {name: what for what, name in re.findall(r"-- (\w+) not found - will not build sample '(\w+)'", said)}
    reasons |= dict(re.findall(r"^left out: ([\w-]+): (.*)$", said, re.MULTILINE))
    built = {program.name for program in samples(build)}
    sources = build.parent / "cuda-samples" / "Samples"
    for description in sorted(sources.glob("*/**/CMakeLists.txt")):
        name = "samples/" + description.parent.name
        if name not in built and "add_executable" in description.read_text(errors="replace"):
            yield name, reasons.get(description.parent.name)


def bus_bandwidths(output):
    """Bus bandwidths of the out-of-place column that nccl-tests prints."""
    rows = [line.split() for line in output.splitlines() if re.match(r"\s+\d+\s+\d+\s+\w+", line)]
    return [float(row[-6]) for row in rows if len(row) >= 12]  # hypercube_perf has no operation's column


def nccl_tests(build):
    def sane(output):
        found = bus_bandwidths(output)
        if not found:
            return "no bandwidth was printed"
        # NVLink moves 450 GB/s each way; NVSwitch reduces within: 480 GB/s of an H200's host are published.
        return f"busbw {found[-1]:.0f} GB/s" if 1 < found[-1] < 500 else f"MISS: busbw {found[-1]} GB/s"

    folder = build / "nccl-tests"
    sizes = ["-b", "1M", "-e", "256M", "-f", "16", "-n", "5", "-w", "2"]
    for program in sorted(folder.glob("*_perf")):
        yield Program(f"nccl-tests/{program.name} -g 8", ["--", str(program), *sizes, "-g", "8"], "h200:1x8", check=sane)
    all_reduce = str(folder / "all_reduce_perf")
    if os.path.exists(all_reduce):
        yield Program("nccl-tests/all_reduce_perf -t 8", ["--", all_reduce, *sizes, "-t", "8"], "h200:1x8", check=sane)
        yield Program("nccl-tests/all_reduce_perf -t 2 -g 4", ["--", all_reduce, *sizes, "-t", "2", "-g", "4"], "h200:1x8", check=sane)
        yield Program("nccl-tests/all_reduce_perf -g 8, graphs", ["--", all_reduce, *sizes, "-g", "8", "-G", "2"], "h200:1x8", check=sane)
        yield Program("nccl-tests/all_reduce_perf -g 8, windows", ["--", all_reduce, *sizes, "-g", "8", "-R", "2"], "h200:1x8", check=sane)
    mpi = folder / "all_reduce_perf_mpi"
    if mpi.exists():
        yield Program("nccl-tests/all_reduce_perf, mpirun -np 8",
                      ["--", "mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "8", str(mpi), *sizes],
                      "h200:1x8", options=(), check=sane)


def llm_c(build):
    """GPT-2 124M from scratch on random tokens in llm.c's file format (a header of 256 ints, then 16-bit tokens)."""
    program = build / "llm.c" / "train_gpt2cu"
    single = build / "llm.c" / "train_gpt2fp32cu"
    if not program.exists():
        return
    generator = random.Random(1)
    count = 4 * 8 * 1024 * 8 + 1
    tokens = struct.pack("<256i", 20240520, 1, count, *[0] * 253) + \
        struct.pack(f"<{count}H", *(generator.randrange(50257) for _ in range(count)))
    for name in ("train.bin", "val.bin"):
        (program.parent / name).write_bytes(tokens)

    def sane(output):
        times = [float(ms) for ms in re.findall(r"[|(] ?([\d.]+) ms", output)]
        return f"{times[-1]:.1f} ms a step" if times else "MISS: no step was printed"

    if single.exists():
        # It begins with a checkpoint: a header of 256 ints, then 124,475,904 parameters, here zeros.
        with open(program.parent / "gpt2_124M.bin", "wb") as file:
            file.write(struct.pack("<256i", 20240326, 3, 1024, 50257, 12, 12, 768, 50304, *[0] * 248))
            file.truncate(1024 + 4 * 124475904)
        command = ["--", str(single), "-i", "train.bin", "-j", "val.bin", "-b", "8", "-t", "1024", "-v", "100", "-m", "1",
                   "-s", "100", "-g", "2"]
        yield Program("llm.c/train_gpt2fp32cu, 1 GPU", command, "h200:1x1", options=(), folder=program.parent, check=sane)
    for gpus in (1, 4):
        for zero in ((0,) if gpus == 1 else (0, 1)):
            command = ["--", str(program), "-i", "train.bin", "-j", "val.bin", "-e", "d12", "-b", "8", "-t", "1024",
                       "-d", str(8192 * gpus), "-x", "4", "-s", "0", "-v", "100", "-m", "1", "-z", str(zero), "-pi", "fs",
                       "-pf", "."]
            if gpus > 1:  # one process for each GPU; ids pass through a file
                shell = 'exec "$0" "$@" -pn ' + str(gpus) + ' -pr $RANK -pg 8'
                command = ["--", "sh", "-c", shell, *command[1:]]
            yield Program(f"llm.c/train_gpt2cu, {gpus} GPU, ZeRO {zero}", command, f"h200:1x{gpus}", options=(),
                          folder=program.parent, check=sane)


class Output:
    """What a program prints, as it comes: the first and the last MiB of it (simpleIPC prints every number that is wrong)."""

    def __init__(self, pipe):
        self.head, self.tail, self.most = b"", b"", 1 << 20
        self.reader = threading.Thread(target=self.read, args=(pipe,), daemon=True)
        self.reader.start()

    def read(self, pipe):
        while part := pipe.read1(1 << 16):
            if len(self.head) < self.most:
                self.head += part
            else:
                self.tail = (self.tail + part)[-self.most:]

    def text(self):
        self.reader.join(timeout=20)
        return (self.head + self.tail).decode(errors="replace")


def run(program):
    """Status (a number, or "hang"), what was printed, seconds."""
    begin = time.monotonic()
    for left in (program.folder or pathlib.Path(".")).glob("ncclUniqueId*"):
        left.unlink()  # llm.c waits for this file, and takes an old one for the new
    process = subprocess.Popen(
        [PHANTORA, "run", "--cluster", program.cluster, *program.options, *program.command], cwd=program.folder,
        env={**os.environ, **program.environment}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, start_new_session=True)
    output = Output(process.stdout)
    try:
        status = process.wait(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        status = "hang"
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return status, output.text(), time.monotonic() - begin


# Rows of the summary that count what was used though it was not computed.
UNCOMPUTED = re.compile(r"^\s+(unknown reads|uncomputed_host_writes)\s", re.MULTILINE)
SAID = re.compile(r"phantora: [^\n]*(not simulated|not computed|not executed|runtime linked into|no GPU code was found"
                  r"|does not (compile|have))[^\n]*")


# What the dynamic linker says of a library that the machine lacks.
LACKS = re.compile(r"error while loading shared libraries: (\S+): cannot open shared object file")
OURS = {path.name.removesuffix(".txt") for path in (HERE.parent.parent / "adapters/exports").glob("lib*.txt")}


def lacked(output):
    """A library that no process of a machine without it finds, with a GPU or without; never one that we stand in for."""
    found = LACKS.search(output)
    return found[1] if found and found[1] not in OURS else ""


# For the table: what our sentences say, in fewer words.
SHORTER = ((r"^phantora: ", ""), (r" \(said once.*", ""), (r"__nv_static_\d+__\w+?__Z", "_Z"),
           (r"a copy to the host reads what kernel (.*) wrote; .*", r"host reads what \1 wrote, which is not executed"),
           (r"^(?:kernel |a )?(.*) may write page-locked or managed memory; .*", r"\1 may write host memory, and is not executed"))


def shortened(sentence):
    for what, by in SHORTER:
        sentence = re.sub(what, by, sentence)
    return sentence


def judge(program, status, output):
    """(what it says, judgement). Either it ends as on a GPU, or we said in a sentence what was different."""
    said = SAID.search(output)
    sentence = shortened(said.group(0)) if said else ""
    own, _, summary = output.partition("\nphantora: " + program.cluster)
    lines = [line.strip() for line in own.splitlines() if line.strip() and not line.startswith("phantora:")]
    last = lines[-1] if lines else ""
    if status == "hang":
        return last, "MISS: hangs"
    if status not in (0, 2) and ("was killed by signal" in output or status in (134, 136, 139)):
        return last, "MISS: crashes"
    if "internal error" in output:
        return last, "MISS: an error of ours"
    if UNCOMPUTED.search(summary) and not said:
        return last, "MISS: uses what was not computed, and is not told"
    if program.check and status == 0:
        found = program.check(own)
        return found, found if found.startswith("MISS") else f"{found}: as on a GPU" + (", but " + sentence if said else "")
    if said:
        return last, "says why not: " + sentence
    if lacked(output):
        return last, f"says why not: {lacked(output)} is not installed"
    if status == 0 or REFUSED_THERE.search(output):
        return last, "as on a GPU"
    return last, "MISS: fails and is not told why"


def main():
    directory = pathlib.Path(sys.argv[1]).resolve()
    build = directory / "build"
    filters = sys.argv[2:]
    rows = []

    def add(*row):
        rows.append(row)
        print(" | ".join(row), flush=True)  # the table has neither the last line nor the wall time

    def chosen(name):
        return not filters or any(text in name for text in filters)

    logs = build / "logs"
    logs.mkdir(exist_ok=True)
    for program in [*nccl_tests(build), *llm_c(build), *samples(build)]:
        if not chosen(program.name):
            continue
        status, output, seconds = run(program)
        (logs / (re.sub(r"[/ ,]+", "-", program.name) + ".log")).write_text(output)
        says, judgement = judge(program, status, output)
        add(program.name, str(status), says.replace("|", "/")[:60], judgement.replace("|", "/")[:170], f"{seconds:.0f} s")
    for name, needs in left_out(build):
        if chosen(name):
            add(name, "", "", f"not built: needs {needs}" if needs else "MISS: not built", "")
    counts = {"as on a GPU": 0, "says why not": 0, "not built": 0, "MISS": 0}
    for row in rows:
        counts[re.search("|".join(counts), row[3]).group(0)] += 1
    table = ["| program | status | judgement |", "| --- | --- | --- |",
             *(f"| {name} | {status} | {judgement} |" for name, status, _, judgement, _ in rows)]
    summary = f"{len(rows)} programs: " + ", ".join(f"{n} {name}" for name, n in counts.items())
    (build / "table.md").write_text("\n".join([*table, "", summary, ""]))
    print(summary)
    return 1 if counts["MISS"] else 0


if __name__ == "__main__":
    sys.exit(main())
