#!/usr/bin/env python3
"""What cuDNN's recurrent networks keep the host, as host_cost.hpp has it.

Usage: rnn_host_time.py                  medians of h200_rnn_host.jsonl
       rnn_host_time.py --run SO         measures them, on a machine with a GPU, with api_in_situ.cpp's SO
"""
import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

# Cells, type of autocast, steps, batch, units, layers, directions. Autocast makes float16 of bf16 for these.
CASES = [line.split() for line in """
gru bf16 96 32 768 2 1
gru fp16 96 32 768 2 1
gru fp32 96 32 768 2 1
gru bf16 48 64 384 1 1
gru bf16 160 24 1280 1 1
lstm bf16 96 32 768 2 1
lstm fp16 96 32 768 1 1
lstm fp16 96 32 768 2 1
lstm fp32 96 32 768 2 1
lstm bf16 64 16 512 2 2
lstm fp32 64 16 512 1 2
lstm bf16 128 64 1536 1 1
lstm fp32 100 32 128 1 1
lstm bf16 100 32 128 1 1
tanh bf16 128 32 512 2 1
tanh fp32 128 32 512 1 1
""".strip().splitlines()]


def train(kind, type_name, *shape):
    """Forty steps, each of which waits for the GPU."""
    import torch
    from torch import nn
    steps, batch, hidden, layers, directions = map(int, shape)
    torch.manual_seed(0)
    cells = {"gru": nn.GRU, "lstm": nn.LSTM, "tanh": nn.RNN}[kind](hidden, hidden, layers, bidirectional=directions == 2)
    words, out = nn.Embedding(4096, hidden), nn.Linear(hidden * directions, 4096)
    model = nn.ModuleList([words, cells, out]).cuda()
    dtype = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[type_name]
    text = torch.randint(0, 4096, (steps, batch), device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    times = []
    for _ in range(40):
        begin = time.perf_counter()
        with torch.autocast("cuda", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            loss = nn.functional.cross_entropy(out(cells(words(text))[0]).flatten(0, 1), text.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - begin))
    print(json.dumps({"step_ms": round(statistics.median(times[10:]), 3), "least_ms": round(min(times[10:]), 3)}))


def run(library):
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            out = subprocess.run([sys.executable, __file__, "--train", *case], check=True, text=True, stdout=subprocess.PIPE,
                                 env=os.environ | {"API_IN_SITU": f"{folder}/calls", "LD_PRELOAD": library}).stdout
            for path in pathlib.Path(folder).glob("calls.*"):
                for line in path.read_text().splitlines():
                    row = json.loads(line)
                    if row["call"].startswith("cudnnRNN"):
                        print(json.dumps({"case": " ".join(case), "step": json.loads(out)} | row), flush=True)


def table():
    per_part = collections.defaultdict(list)
    for line in open(pathlib.Path(__file__).resolve().parent / "h200_rnn_host.jsonl"):
        row = json.loads(line)
        steps, _, _, layers, directions = map(int, row["case"].split()[2:])
        # A pass that keeps the weights in the SMs is one kernel for all steps, and weights' gradients are two products.
        by_layer = row["call"].endswith("Weights_v8") or row["p50_us"] < 2 * steps * layers * directions
        parts = layers * directions * (1 if by_layer else steps)
        per_part["layers" if by_layer else "steps", row["call"]].append(row["p50_us"] / parts)
        per_part["layers" if by_layer else "steps", "all calls"].append(row["p50_us"] / parts)
    for (parts, call), us in sorted(per_part.items()):
        print(f"{call:28} by {parts}: median {statistics.median(us):5.1f} us, {min(us):.1f} to {max(us):.1f} of {len(us)} medians")


if sys.argv[1:2] == ["--train"]:
    train(*sys.argv[2:])
elif sys.argv[1:2] == ["--run"]:
    run(str(pathlib.Path(sys.argv[2]).resolve()))
else:
    table()
