#!/usr/bin/env python3
"""Steps of models that torch.compile compiles: torchvision's and Transformers', and some as people write them, trained and
generating, in the default mode, with CUDA graphs (reduce-overhead) and with products tried in Triton (max-autotune).

    compiled_models.py [--only NAME ...] [--share K/N] [--kernels] [--eager]
        # prints a line of JSON for each: name, ms of a step and until the host has issued it, peak bytes; of its kernels

The same on a GPU and in a simulation (README.md, "Models that are compiled").
"""
import argparse
import gc
import json
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS, WARM = 14, 6
MODELS = {}


def model(function):
    MODELS[function.__name__] = function
    return function


def ids(*shape, words=30000):
    return torch.randint(0, words, shape, device="cuda")


def trained(network, loss, mode=None, whole_optimizer=False):
    """A step of AdamW over `loss(compiled network)`, in bf16 by autocast unless told otherwise."""
    compiled = torch.compile(network, mode=mode)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=not whole_optimizer)
    advance = torch.compile(optimizer.step) if whole_optimizer else optimizer.step

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            value = loss(compiled)
        value.backward()
        advance()
        optimizer.zero_grad()
    return step


def images(name, batch, size=224):
    import torchvision
    network = getattr(torchvision.models, name)().to("cuda", memory_format=torch.channels_last)
    x = torch.randn(batch, 3, size, size, device="cuda").to(memory_format=torch.channels_last)
    y = ids(batch, words=1000)
    return trained(network, lambda compiled: F.cross_entropy(compiled(x), y))


def text(kind, batch, length, **config):
    import transformers
    kind = getattr(transformers, kind)
    network = kind(kind.config_class(**config)).cuda()
    tokens = ids(batch, length, words=network.config.vocab_size)
    return trained(network, lambda compiled: compiled(input_ids=tokens, labels=tokens).loss)


@model
def resnet50():
    return images("resnet50", 128)


@model
def convnext_tiny():
    return images("convnext_tiny", 64)


@model
def swin_v2_s():
    return images("swin_v2_s", 32, size=256)


@model
def efficientnet_v2_s():
    return images("efficientnet_v2_s", 48)


@model
def vit_l_16():
    return images("vit_l_16", 32)


@model
def bert():
    return text("BertForMaskedLM", 24, 384)


@model
def llama():
    return text("LlamaForCausalLM", 4, 2048, hidden_size=1536, intermediate_size=4096, num_hidden_layers=10, num_attention_heads=12, num_key_value_heads=4, vocab_size=48000)


@model
def gemma3():
    """Windows and whole attention in turn, norms of queries and keys, a large vocabulary."""
    return text("Gemma3ForCausalLM", 4, 1024, hidden_size=1152, intermediate_size=4608, num_hidden_layers=12, num_attention_heads=4, num_key_value_heads=1, head_dim=256, vocab_size=131072, sliding_window=512)


@model
def t5():
    import transformers
    network = transformers.T5ForConditionalGeneration(transformers.T5Config(d_model=768, d_ff=3072, num_layers=8, num_heads=12, vocab_size=32128, decoder_start_token_id=0)).cuda()
    source, target = ids(12, 512), ids(12, 160)
    return trained(network, lambda compiled: compiled(input_ids=source, labels=target).loss)


class Modulated(nn.Module):
    """A block of a diffusion transformer: its norms are scaled and shifted by what the time says."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norms = heads, nn.ModuleList(nn.LayerNorm(width, elementwise_affine=False) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down, self.modulation = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.Linear(width, 6 * width)

    def forward(self, x, time):
        scale1, shift1, gate1, scale2, shift2, gate2 = self.modulation(F.silu(time))[:, None].chunk(6, -1)
        q, k, v = self.qkv(self.norms[0](x) * (1 + scale1) + shift1).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + gate1 * self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + gate2 * self.down(F.gelu(self.up(self.norms[1](x) * (1 + scale2) + shift2), approximate="tanh"))


class DiffusionTransformer(nn.Module):
    def __init__(self, width=1152, depth=12, heads=16, patches=1024):
        super().__init__()
        self.embed, self.places, self.time = nn.Linear(16, width), nn.Parameter(torch.zeros(patches, width)), nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width))
        self.blocks, self.head = nn.ModuleList(Modulated(width, heads) for _ in range(depth)), nn.Linear(width, 16)

    def forward(self, x, t):
        angles = t[:, None] * torch.exp(-9.2 * torch.arange(128, device=x.device) / 128)
        time = self.time(torch.cat((angles.sin(), angles.cos()), -1))
        x = self.embed(x) + self.places
        for block in self.blocks:
            x = block(x, time)
        return self.head(x)


@model
def diffusion_transformer():
    clean = torch.randn(12, 1024, 16, device="cuda")

    def loss(compiled):
        t, noise = torch.rand(12, device="cuda"), torch.randn_like(clean)
        mixed = (1 - t)[:, None, None] * clean + t[:, None, None] * noise
        return F.mse_loss(compiled(mixed, t), noise - clean)
    return trained(DiffusionTransformer().cuda(), loss)


class Recommender(nn.Module):
    """Tables of embeddings, their products in pairs, and perceptrons."""

    def __init__(self, tables=24, rows=200000, width=128):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, width), nn.ReLU())
        pairs = tables * (tables + 1) // 2
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1))
        self.top = nn.Sequential(nn.Linear(pairs + width, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, numbers, categories):
        x = self.bottom(numbers)
        rows = torch.stack([x] + [table(categories[:, i]) for i, table in enumerate(self.tables)], 1)
        crossed = (rows @ rows.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat((x, crossed), 1))


@model
def recommender():
    numbers, categories, clicks = torch.randn(8192, 13, device="cuda"), ids(8192, 24, words=200000), torch.rand(8192, 1, device="cuda")
    network = Recommender().cuda()
    compiled, optimizer = torch.compile(network), torch.optim.SGD(network.parameters(), lr=0.1)

    def step():
        F.binary_cross_entropy_with_logits(compiled(numbers, categories), clicks).backward()
        optimizer.step()
        optimizer.zero_grad()
    return step


class Decoder(nn.Module):
    """A language model as people write one: rotations, RMS norms, SwiGLU."""

    def __init__(self, words=32000, width=1024, layers=8, heads=16):
        super().__init__()
        self.words, self.heads = nn.Embedding(words, width), heads
        self.layers = nn.ModuleList(nn.ModuleDict(dict(
            first=nn.RMSNorm(width), qkv=nn.Linear(width, 3 * width, bias=False), out=nn.Linear(width, width, bias=False),
            second=nn.RMSNorm(width), up=nn.Linear(width, 6 * width, bias=False), down=nn.Linear(3 * width, width, bias=False))) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, words, bias=False)

    def rotate(self, x):
        half = x.shape[-1] // 2
        angles = torch.arange(x.shape[-2], device=x.device)[:, None] * torch.exp(-9.2 * torch.arange(half, device=x.device) / half)
        a, b = x.float().chunk(2, -1)
        return torch.cat((a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()), -1).to(x.dtype)

    def forward(self, tokens):
        x = self.words(tokens)
        for layer in self.layers:
            q, k, v = layer["qkv"](layer["first"](x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v, is_causal=True)
            x = x + layer["out"](y.transpose(1, 2).flatten(2))
            gate, up = layer["up"](layer["second"](x)).chunk(2, -1)
            x = x + layer["down"](F.silu(gate) * up)
        return self.head(self.norm(x))


def decoder(batch, length, mode=None, whole_optimizer=False, **config):
    tokens = ids(batch, length + 1, words=32000)
    return trained(Decoder(**config).cuda(), lambda compiled: F.cross_entropy(compiled(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()), mode, whole_optimizer=whole_optimizer)


@model
def decoder_and_optimizer():
    """The optimizer's step compiled too."""
    return decoder(8, 1024, whole_optimizer=True)


@model
def decoder_autotuned():
    """Products tried in Triton beside cuBLAS's."""
    return decoder(4, 1024, mode="max-autotune-no-cudagraphs", width=768, heads=12, layers=6)


@model
def decoder_small_graphs():
    """Steps so small that only CUDA graphs keep the GPU busy."""
    return decoder(2, 256, mode="reduce-overhead", width=512, heads=8, layers=6)


@model
def encoder_inference():
    """A vision transformer's features, without gradients."""
    import torchvision
    network = torchvision.models.vit_b_16().to("cuda", torch.bfloat16).eval()
    compiled, x = torch.compile(network, mode="reduce-overhead"), torch.randn(128, 3, 224, 224, device="cuda", dtype=torch.bfloat16)

    @torch.inference_mode()
    def step():
        compiled(x)
    return step


def generating(batch, **config):
    """One token more for each row, whose keys and values lie in a cache of fixed size, as Transformers compiles it."""
    import transformers
    network = transformers.LlamaForCausalLM(transformers.LlamaConfig(**config)).to("cuda", torch.bfloat16).eval()
    cache = transformers.StaticCache(config=network.config, max_cache_len=1024)
    compiled = torch.compile(network, mode="reduce-overhead", fullgraph=True)
    tokens, place = ids(batch, 1), torch.tensor([512], device="cuda")

    @torch.inference_mode()
    def step():
        compiled(tokens, past_key_values=cache, cache_position=place, position_ids=place[None], use_cache=True).logits[:, -1].argmax(-1)
        place.add_(1)
    return step


@model
def llama_tokens():
    return generating(8, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8, vocab_size=64000)


def kernels_of(profile):
    """Name, launches and microseconds of each kernel."""
    return [(row.key, row.count, row.device_time_total) for row in profile.key_averages() if row.device_time_total > 0]


def tell(rows, labels, of, kernels, letters):
    print(json.dumps(labels | {"gpu_ms": round(sum(us for _, _, us in rows) / 1000, 3)}), flush=True)
    for kernel, launches, us in rows if kernels else ():
        print(json.dumps({"of": of, "kernel": kernel[:letters], "launches": launches, "us": round(us, 1)}), flush=True)


def profiled(called, labels, of, kernels, letters=120):
    """Prints how long the GPU is busy in a call, beside `labels`, and with `kernels` each kernel `of` it, by the first letters of its name."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        called()
        torch.cuda.synchronize()
    tell(kernels_of(profile), labels, of, kernels, letters)


def run(name, kernels):
    torch.manual_seed(0)
    torch._dynamo.reset()
    step = MODELS[name]()
    torch.cuda.reset_peak_memory_stats()
    times, issued = [], []
    for _ in range(STEPS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        step()
        issued.append(1000 * (time.perf_counter() - begin))
        torch.cuda.synchronize()
        times.append(1000 * (time.perf_counter() - begin))
    ms, issued_ms = (round(statistics.median(values[WARM:]), 3) for values in (times, issued))
    print(json.dumps({"model": name, "ms": ms, "issued_ms": issued_ms, "peak": torch.cuda.max_memory_allocated()}), flush=True)
    profiled(step, {"model": name}, name, kernels)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--share", default="0/1", help="every Nth model from the Kth on")
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--eager", action="store_true", help="nothing is compiled")
    options = parser.parse_args()
    share, shares = map(int, options.share.split("/"))
    if options.eager:
        torch.compile = lambda called, **_: called
    for name in (options.only or list(MODELS)[share::shares]):
        try:
            run(name, options.kernels)
        except Exception as error:  # the others are still of interest
            print(json.dumps({"model": name, "error": f"{type(error).__name__}: {str(error)[:300]}"}), flush=True)
        gc.collect()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
