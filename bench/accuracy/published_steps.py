#!/usr/bin/env python3
"""Published throughput of training runs beside what transformer.hpp says of the same shapes.

Usage: published_steps.py TRANSFORMER_STEPS [--source NAME] [--longest SEQUENCE] [--all]

published_steps.tsv has tokens per second and GPU as their authors give them:
    llm-foundry  scripts/train/benchmarking/README.md of mosaicml/llm-foundry (2023; attention by Triton's FlashAttention 1)
    torchtitan   docs/performance.md (2024), benchmarks/llama3_h100_202412_torchtitan.md and
                 benchmarks/llama3_8b_h200_2025-06_torchtitan.md of pytorch/torchtitan
    nemo         docs/performance-summary-archive.md of NVIDIA-NeMo/Megatron-Bridge (25.09, 25.11, 26.02)
No number of ours was fitted to any. A row is a hit if our step is within 10 % of theirs.
"""
import argparse
import concurrent.futures
import csv
import os
import pathlib
import statistics
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
HIT = 0.1


def mpt(layers, hidden, heads):
    """Biases, learned positions, a tied head (llm-foundry's number of parameters says so)."""
    return dict(layers=layers, hidden=hidden, heads=heads, key_heads=heads, mlp=4 * hidden, vocabulary=50368, gated=0, rotary=0,
                biases=1, tied=1)


def llama(layers, hidden, heads, key_heads, mlp, vocabulary):
    return dict(layers=layers, hidden=hidden, heads=heads, key_heads=key_heads, mlp=mlp, vocabulary=vocabulary)


SHAPES = {
    "mpt-125m": mpt(12, 768, 12), "mpt-350m": mpt(24, 1024, 16), "mpt-760m": mpt(24, 1536, 12), "mpt-1b": mpt(24, 2048, 16),
    "mpt-3b": mpt(32, 2560, 20), "mpt-7b": mpt(32, 4096, 32), "mpt-13b": mpt(40, 5120, 40), "mpt-30b": mpt(48, 7168, 56),
    "mpt-70b": mpt(80, 8192, 64),
    "llama3-8b": llama(32, 4096, 32, 8, 14336, 128256), "llama3-70b": llama(80, 8192, 64, 8, 28672, 128256),
    "llama2-13b": llama(40, 5120, 40, 40, 13824, 32000), "llama2-70b": llama(80, 8192, 64, 8, 28672, 32000),
}
# An H100 of TorchTitan's hosts, whose limit is 500 W and whose memory is HBM2e.
OWN_GPUS = {"h100-500W": 'like = "h100"\nmemory = "96GB"\nmemory_bandwidth = "2.4TB/s"\npower_limit = "500W"'}
# Whose kernels compute attention (TrainingRecipe::attention). llm-foundry's are Triton's FlashAttention 1, of which FlashAttention 2 is the
# nearest that was measured. TorchTitan's sources at the commits that its tables name: 9dec370 (2024-12) calls scaled_dot_product_attention
# of a PyTorch in which cuDNN came last, and e7c0cae (2025-06) puts cuDNN first on compute capability 10.0 alone, so that H200s have
# FlashAttention 2 as well (torchtitan/models/attention.py). NVIDIA's are Transformer Engine's, which take cuDNN on Hopper.
ATTENTION = {"llm-foundry": 2, "torchtitan": 2, "nemo": 1}
# Every second layer: nearly what TorchTitan's "selective op" computes again (the same throughput within 2 % on A100s).
RECOMPUTE = {"nothing": {}, "all": dict(recompute=2), "half": dict(recompute=2, recompute_every=2)}
# Beside fully sharded data parallel, "fsdp". Megatron's pipelines are interleaved, and NVIDIA's recipes overlap tensor groups' exchange.
DIVISIONS = {"fsdp": dict(sharding=3), "tp4_pp8_vp5": dict(tensor=4, pipeline=8, chunks=5, sharding=1, keep_gathered=0,
                                                             overlap_tensor=1)}


def ours(options, row, folder):
    """Tokens per second and GPU."""
    gpus, micro_batch, accumulated = (int(row[key]) for key in ("gpus", "micro_batch", "accumulated"))
    cluster = f"{row['gpu']}:{gpus // 8}x8"
    if row["gpu"] in OWN_GPUS:
        cluster = folder / f"{row['gpu']}_{gpus}.toml"
        cluster.write_text(f'[gpu.limited]\n{OWN_GPUS[row["gpu"]]}\n[[hosts]]\ngpu = "limited"\ngpus = 8\ncount = {gpus // 8}\n')
    way = DIVISIONS[row["division"]]
    data = gpus // (way.get("tensor", 1) * way.get("pipeline", 1))
    batch = data * micro_batch * accumulated
    fields = SHAPES[row["model"]] | RECOMPUTE[row["recomputed"]] | way | dict(
        sequence=row["sequence"], data=data, batch=batch, micro_batch=micro_batch,
        # No PyTorch of 2024 had a kernel for RMS norms: without torch.compile they are passes.
        fused=int(row["compiled"] == "yes"), fused_norms=int(row["compiled"] == "yes"),
        fp8=int(row["products"] == "fp8"), attention=ATTENTION[row["source"]])
    done = subprocess.run([options.program, cluster, *(f"{name}={value}" for name, value in fields.items())], check=True,
                          capture_output=True, text=True)
    return batch / gpus * int(row["sequence"]) / (float(done.stdout.split()[0]) / 1e3)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("program", help="build/bench/bin/transformer_steps")
    arguments.add_argument("--source", help="rows of this source only")
    arguments.add_argument("--longest", type=int, default=1 << 30, help="leave longer sequences out")
    arguments.add_argument("--all", action="store_true", help="print every row, not only each group's sum")
    options = arguments.parse_args()
    rows = [row for row in csv.DictReader(open(HERE / "published_steps.tsv"), delimiter="\t")
            if options.source in (None, row["source"]) and int(row["sequence"]) <= options.longest]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        told = list(pool.map(lambda row: ours(options, row, pathlib.Path(folder)), rows))
    groups = {}
    if options.all:
        print("| source | GPU | GPUs | model | division | products | sequence | micro-batch | computed again | compiled | tokens/s/GPU | ours | step | |")
        print("|" + " --- |" * 14)
    for row, tokens in zip(rows, told):
        error = int(row["tokens_per_s_per_gpu"]) / tokens - 1
        size = "up to 2048" if int(row["sequence"]) <= 2048 else "4096 and 8192" if int(row["sequence"]) <= 8192 else "longer"
        groups.setdefault((row["source"], row["gpu"], row["products"], size), []).append(error)
        if options.all:
            cells = [row[key] for key in ("source", "gpu", "gpus", "model", "division", "products", "sequence", "micro_batch",
                                          "recomputed", "compiled", "tokens_per_s_per_gpu")]
            print(f"| {' | '.join(cells)} | {tokens:.0f} | {error:+.1%} | {'hit' if abs(error) <= HIT else 'miss'} |")
    print("\n| source | GPU | products | sequences | rows | hits | mean error of the step | median |\n|" + " --- |" * 8)
    for group, errors in groups.items():
        print(f"| {' | '.join(group)} | {len(errors)} | {sum(abs(error) <= HIT for error in errors)} "
              f"| {statistics.mean(map(abs, errors)):.1%} | {statistics.median(errors):+.1%} |")


main()
