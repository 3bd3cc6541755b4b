#!/usr/bin/env python3
"""Steps of scripts that other projects ship, unmodified, real or simulated.

Usage: scripts.py FOLDER --prepare            # writes the data that the scripts read, random
       scripts.py FOLDER --name NAME          # runs one of them, prints a JSON line

FOLDER holds clones of the repositories that SCRIPTS names. A step is what lies between two steps of
the script's first optimizer. After `warmup` of these, three times `steps` are timed, each begun and ended
with a wait for the GPU, as many are profiled, and the script is ended.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import pickle
import runpy
import statistics
import struct
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
FRAMEWORKS = HERE.parents[1] / "examples/frameworks"


@dataclasses.dataclass(frozen=True)
class Script:
    name: str
    path: str  # in FOLDER; in braces one of examples/frameworks; after -m a module that is installed
    arguments: tuple = ()
    gpus: int = 1
    warmup: int = 6
    steps: int = 6


def pytorch(name, path, *arguments, **settings):
    return Script(name, f"examples/{path}", arguments, **settings)


def lightning(name, path, *arguments):
    return Script(name, f"pytorch-lightning/examples/{path}", arguments)


def timm(model, *more):
    return Script(f"timm {model}", "pytorch-image-models/benchmark.py", ("--bench", "train", "--model", model, "--amp", "--no-retry", *more))


def framework(name, path, *arguments, gpus=2, **settings):
    return Script(f"{name} x{gpus}" if gpus > 1 else name, f"{{{path}}}", arguments, gpus, **settings)


def torchtitan(name, *more, gpus=2, **settings):
    return Script(f"torchtitan {name} x{gpus}" if gpus > 1 else f"torchtitan {name}", "-m torchtitan.train",
                  ("--job.config_file", str(FRAMEWORKS / "torchtitan/debug.toml"), "--training.steps", "40", *more), gpus, **settings)


def torchtitan_8b(name, *more, gpus=2):
    """As TorchTitan's own llama3_8b.toml; on two GPUs of 80 GB, which do not hold the model in fp32, with weights in bf16."""
    weights = ("--training.dtype", "bfloat16") if gpus == 2 else ()
    return torchtitan(f"8b {name}".strip(), "--model.flavor", "8B", "--training.seq_len", "8192", "--training.local_batch_size", "1", *weights,
                      *BY_OPERATION, *more, gpus=gpus, warmup=3, steps=2)


def torchtitan_deepseek(gpus):
    """Where not told otherwise as TorchTitan's deepseek_v3_16b.toml, which is for GPUs with more memory between them."""
    return torchtitan("deepseek", "--model.name", "deepseek_v3", "--model.flavor", "16B", "--training.seq_len", "4096", "--training.local_batch_size", "1",
                      "--training.dtype", "bfloat16", "--activation_checkpoint.mode", "full", "--parallelism.expert_parallel_degree", str(gpus),
                      gpus=gpus, warmup=3, steps=2)


def torchtitan_qwen3(name, replicas, shards):
    """Where not told otherwise as TorchTitan's qwen3_1.7b.toml."""
    return torchtitan(name, "--model.name", "qwen3", "--model.flavor", "1.7B", "--training.seq_len", "4096", "--training.local_batch_size", "4", *BY_OPERATION,
                      "--parallelism.data_parallel_replicate_degree", str(replicas), "--parallelism.data_parallel_shard_degree", str(shards),
                      gpus=replicas * shards, warmup=3, steps=2)


def megatron_large(name, *more, gpus=2):
    return framework(f"megatron large {name}", "megatron/train_gpt.py", "--distributed-optimizer", "--swiglu", "--hidden", "4096", "--heads", "32",
                     "--layers", "8", "--length", "4096", "--global-batch", "8", "--steps", "40", *more, gpus=gpus, warmup=3, steps=2)


def zero_large(stage, gpus):
    return framework(f"zero {stage} large", "deepspeed/train.py", stage, "--hidden", "2048", "--layers", "24", "--steps", "40", gpus=gpus, warmup=3, steps=2)


BY_OPERATION = ("--activation_checkpoint.mode", "selective", "--activation_checkpoint.selective_ac_option", "op")
FLOAT8 = ("--compile.enable", "--model.converters", "quantize.linear.float8", "--quantize.linear.float8.enable_fsdp_float8_all_gather",
          "--quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp")
EXPERTS = ("--experts", "8", "--ffn", "4096", "--micro-batch", "1")
WIDE = ("--hidden", "1024", "--heads", "16", "--layers", "12", "--length", "1024", "--steps", "40")
SCRIPTS = [
    Script("nanogpt bench", "nanoGPT/bench.py", ("--real_data=False", "--compile=False")),
    Script("nanogpt bench compiled", "nanoGPT/bench.py", ("--real_data=False",)),
    Script("nanogpt characters", "nanoGPT/train.py", ("config/train_shakespeare_char.py", "--compile=False", "--eval_iters=1")),
    Script("mingpt adder", "minGPT/projects/adder/adder.py"),
    Script("schedule-free mnist", "schedule_free/examples/mnist/main.py"),
    Script("copying", "x-transformers/train_copy.py"),
    Script("parity", "x-transformers/train_parity.py"),
    pytorch("mnist", "mnist/main.py"),
    pytorch("mnist rnn", "mnist_rnn/main.py", "--accel"),
    pytorch("vae", "vae/main.py"),
    pytorch("siamese network", "siamese_network/main.py"),
    pytorch("dcgan", "dcgan/main.py", "--dataset", "fake", "--accel", "--outf", "/tmp"),
    pytorch("words lstm", "word_language_model/main.py", "--accel", "--use-optimizer"),
    pytorch("words transformer", "word_language_model/main.py", "--accel", "--use-optimizer", "--model", "Transformer", "--lr", "5"),
    pytorch("imagenet resnet18", "imagenet/main.py", "--dummy"),
    pytorch("imagenet resnet50", "imagenet/main.py", "--dummy", "-a", "resnet50", "-b", "128", "-j", "12"),
    lightning("lightning autoencoder", "pytorch/basics/autoencoder.py"),
    lightning("lightning classifier", "pytorch/basics/backbone_image_classifier.py"),
    lightning("lightning transformer", "pytorch/basics/transformer.py"),
    lightning("lightning gan", "pytorch/domain_templates/generative_adversarial_net.py"),
    lightning("fabric classifier", "fabric/image_classifier/train_fabric.py"),
    lightning("fabric language model", "fabric/language_model/train.py"),
    timm("resnet50", "-b", "128", "--channels-last"),
    timm("convnextv2_tiny", "-b", "64", "--opt", "adamw"),
    timm("swinv2_tiny_window8_256", "-b", "64"),
    timm("tf_efficientnetv2_s", "-b", "64", "--channels-last"),
    timm("mobilenetv4_conv_medium", "-b", "128"),
    timm("eva02_small_patch14_224", "-b", "64", "--opt", "adamw", "--num-classes", "1000"),
    timm("dm_nfnet_f0", "-b", "64"),
    timm("hiera_tiny_224", "-b", "64", "--opt", "lamb"),
    timm("resnext101_32x4d", "-b", "64"),
    timm("mixer_b16_224", "-b", "64", "--opt", "adamw", "--amp-dtype", "bfloat16"),
    timm("vit_base_patch16_224", "-b", "64", "--torchcompile", "--opt", "adamw"),
    framework("trainer", "huggingface/trainer.py", "ddp", "--steps", "40", gpus=1),
    framework("zero 2", "deepspeed/train.py", "2", "--hidden", "1024", "--layers", "12", "--steps", "40", gpus=1),
    framework("megatron", "megatron/train_gpt.py", *WIDE, gpus=1),
    torchtitan("llama", gpus=1),
    pytorch("fsdp2 example x2", "distributed/FSDP2/example.py", gpus=2, warmup=2, steps=2),
    pytorch("fsdp2 example bf16 x2", "distributed/FSDP2/example.py", "--mixed-precision", "--explicit-prefetching", gpus=2, warmup=2, steps=2),
    pytorch("ddp tutorial x2", "distributed/ddp-tutorial-series/multigpu_torchrun.py", "50", "50", gpus=2),
    Script("nanogpt ddp x2", "nanoGPT/train.py", ("--dataset=shakespeare_char", "--compile=False", "--eval_iters=1", "--gradient_accumulation_steps=4"), gpus=2),
    framework("trainer ddp", "huggingface/trainer.py", "ddp", "--steps", "40"),
    framework("trainer fsdp1", "huggingface/trainer.py", "fsdp1", "--steps", "40"),
    framework("trainer fsdp2", "huggingface/trainer.py", "fsdp2", "--steps", "40"),
    *(framework(f"zero {stage}", "deepspeed/train.py", stage, "--hidden", "1024", "--layers", "12", "--steps", "40") for stage in "123"),
    framework("megatron dp", "megatron/train_gpt.py", "--distributed-optimizer", *WIDE),
    framework("megatron tp", "megatron/train_gpt.py", "--tp", "2", "--sequence-parallel", *WIDE),
    torchtitan("fsdp"),
    torchtitan("tp", "--parallelism.tensor_parallel_degree", "2"),
    torchtitan("compiled", "--compile.enable"),
    torchtitan("recomputed", "--activation_checkpoint.mode", "full"),
    framework("megatron pp", "megatron/train_gpt.py", "--pp", "2", *WIDE),
    torchtitan_8b(""),
    torchtitan_8b("compiled", "--compile.enable"),
    torchtitan_8b("recomputed", "--activation_checkpoint.mode", "full", "--training.local_batch_size", "2"),
    torchtitan_8b("tp", "--parallelism.tensor_parallel_degree", "2"),
    torchtitan_8b("pp", "--parallelism.pipeline_parallel_degree", "2", "--training.local_batch_size", "4"),
    torchtitan_8b("cp", "--parallelism.context_parallel_degree", "2", "--training.seq_len", "16384"),
    torchtitan_deepseek(2),
    torchtitan_qwen3("qwen3", 2, 1),
    megatron_large("tp", "--tp", "2", "--sequence-parallel"),
    megatron_large("pp", "--pp", "2", "--layers", "4"),
    megatron_large("ep", *EXPERTS, "--ep", "2", "--layers", "4"),
    torchtitan_8b("float8", *FLOAT8),
    zero_large("1", 2),
    zero_large("3", 2),
    torchtitan_8b("", gpus=4),
    torchtitan_8b("float8", *FLOAT8, gpus=4),
    torchtitan_8b("tp compiled", "--compile.enable", "--parallelism.tensor_parallel_degree", "2", gpus=4),
    torchtitan_8b("pp", "--parallelism.pipeline_parallel_degree", "2", "--parallelism.pipeline_parallel_schedule", "Interleaved1F1B",
                  "--training.local_batch_size", "4", gpus=4),
    torchtitan_8b("cp", "--parallelism.context_parallel_degree", "4", "--training.seq_len", "32768", gpus=4),
    torchtitan_deepseek(4),
    torchtitan_qwen3("qwen3 hsdp", 2, 2),
    megatron_large("tp pp", "--tp", "2", "--pp", "2", "--sequence-parallel", gpus=4),
    megatron_large("ep", *EXPERTS, "--ep", "4", gpus=4),
    zero_large("3", 4),
]


def write_mnist(folder):
    """Random digits in MNIST's files."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind, count in (("train", 60000), ("t10k", 10000)):
        (folder / f"{kind}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 2051, count, 28, 28) + os.urandom(count * 784))
        (folder / f"{kind}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 2049, count) + bytes(i % 10 for i in range(count)))


def write_words(folder):
    """Two million words of 20,000 in WikiText-2's files."""
    import random
    draw = random.Random(1)
    folder.mkdir(parents=True, exist_ok=True)
    for kind, lines in (("train", 20000), ("valid", 200), ("test", 200)):
        text = "\n".join(" ".join(f"w{int(20000 * draw.random() ** 3)}" for _ in range(100)) for _ in range(lines))
        (folder / f"{kind}.txt").write_text(text)


def prepare(folder):
    """Random data where the scripts look for theirs."""
    write_mnist(folder / "data/MNIST/raw")
    write_words(folder / "data/wikitext-2")
    (folder / "data/wikitext-2.txt").write_text((folder / "data/wikitext-2/train.txt").read_text())
    lightning = "pytorch-lightning/examples"
    for link, target in (
            ("examples/data", "data"), ("schedule_free/examples/data", "data"), ("examples/word_language_model/data/wikitext-2", "data/wikitext-2"),
            ("pytorch-lightning/Datasets", "data"), (f"{lightning}/Datasets", "data"), (f"{lightning}/pytorch/basics/data", "data"),
            (f"{lightning}/pytorch/domain_templates/data", "data"), (f"{lightning}/fabric/language_model/data", "data")):
        place = folder / link
        if place.is_dir() and not place.is_symlink():
            for file in (folder / target).iterdir():
                (place / file.name).unlink(missing_ok=True)
                (place / file.name).symlink_to(file.resolve())
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.unlink(missing_ok=True)
            place.symlink_to((folder / target).resolve())
    subprocess.run([sys.executable, FRAMEWORKS / "make_data.py", folder / "data"], check=True)
    characters = folder / "nanoGPT/data/shakespeare_char"
    characters.mkdir(parents=True, exist_ok=True)
    for kind, count in (("train", 1003854), ("val", 111540)):
        (characters / f"{kind}.bin").write_bytes(bytes(byte for value in os.urandom(count) for byte in (value % 65, 0)))
    (characters / "meta.pkl").write_bytes(pickle.dumps(dict(vocab_size=65, itos={}, stoi={})))


class Timed:
    """Counts the steps of the first optimizer that takes one; ends the process when enough were timed and profiled."""

    def __init__(self, script, kernels):
        self.script, self.kernels = script, kernels
        self.optimizer, self.steps, self.began, self.times, self.profile = None, 0, None, [], None

    def __call__(self, optimizer, *_):
        import torch
        if self.optimizer is None:
            self.optimizer = id(optimizer)
        if self.optimizer != id(optimizer):
            return
        self.steps += 1
        if self.steps < self.script.warmup or (self.steps - self.script.warmup) % self.script.steps:
            return
        torch.cuda.synchronize()
        if self.profile is not None:
            self.end(torch)
        now = time.perf_counter()
        if self.began is not None:
            self.times.append((now - self.began) / self.script.steps)
        self.began = now
        if len(self.times) == 3:
            self.peak = torch.cuda.max_memory_allocated()
            self.profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
            self.profile.start()

    def busy(self):
        """Seconds of a step in which the GPU does anything; the kernels' times go into their file."""
        self.profile.stop()
        events = sorted((event.start_ns(), event.start_ns() + event.duration_ns(), event.name())
                        for event in self.profile.profiler.kineto_results.events() if event.device_type().name == "CUDA")
        total, until, names = 0, 0, {}
        for start, end, name in events:
            total += max(0, end - max(start, until))
            until = max(until, end)
            count, ns = names.get(name, (0, 0))
            names[name] = count + 1, ns + end - start
        if self.kernels:
            with open(self.kernels, "a") as out:
                out.write(json.dumps(dict(name=self.script.name, steps=self.script.steps, kernels={
                    name: [count, round(ns / 1e3, 1)] for name, (count, ns) in names.items()})) + "\n")
        return total / 1e9 / self.script.steps

    def end(self, torch):
        if int(os.environ.get("RANK", "0")) == 0:
            print("\n" + json.dumps(dict(median_s=statistics.median(self.times), min_s=min(self.times), max_s=max(self.times),
                                         gpu_s=self.busy(), peak_alloc=self.peak, torch=torch.__version__)), flush=True)
        sys.stdout.flush()
        # The rest of the script would train on: what it began must not keep the process.
        os._exit(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--name", choices=[script.name for script in SCRIPTS])
    parser.add_argument("--kernels", help="what each kernel took is appended to this file")
    options = parser.parse_args()
    folder = options.folder.resolve()
    if options.prepare:
        return prepare(folder)
    from torch.optim.optimizer import register_optimizer_step_post_hook
    # As torchrun and phantora run set them; some frameworks cannot do without.
    for name, value in dict(RANK=0, LOCAL_RANK=0, WORLD_SIZE=1, LOCAL_WORLD_SIZE=1, MASTER_ADDR="localhost", MASTER_PORT=29500).items():
        os.environ.setdefault(name, str(value))
    script = next(script for script in SCRIPTS if script.name == options.name)
    register_optimizer_step_post_hook(Timed(script, options.kernels))
    if script.path.startswith("-m "):
        os.chdir(folder)
        sys.argv = [script.path, *script.arguments]
        runpy.run_module(script.path[3:], run_name="__main__", alter_sys=True)
    else:
        path = FRAMEWORKS / script.path[1:-1] if script.path.startswith("{") else folder / script.path
        os.chdir(path.parent)
        # Projects are found as if they were installed.
        sys.argv, sys.path[:1] = [str(path), *script.arguments], [str(path.parent), str(folder / script.path.split("/")[0])]
        runpy.run_path(str(path), run_name="__main__")
    raise SystemExit(f"{options.name} ended before {script.warmup + 4 * script.steps} steps")


if __name__ == "__main__":
    main()
