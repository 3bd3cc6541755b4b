"""Kernels in Triton that SGLang serves models with: attention of decoding and of prompts, products of experts.

    serving_kernels.py FOLDER        # which has sglang (0.5.23): site-packages, or an unpacked wheel; prints a line of JSON for each

The same on a GPU and in a simulation (README.md, "Kernels in Triton"). Of SGLang the four files are loaded that have the
kernels; what they import from its other parts answers "no".
"""
import importlib.util
import pathlib
import random
import sys
import types

import torch
import triton
import triton.language as tl

from graph_times import tell
from triton_lengths import begins_of, half, lengths_of, whole

FILES = ("attention.score_mod", "attention.decode_attention", "attention.extend_attention", "attention.prefill_attention",
         "moe.fused_moe_triton_kernels")
ANSWERS = {"is_cuda": True, "get_moe_padding_size": 0, "is_sm90_supported": True}


class No:
    """What any question gets for an answer, and any of the answer's own."""
    def __init__(self, value=False):
        self.value = value

    def __call__(self, *arguments, **named):
        return self.value

    def __getattr__(self, name):
        return No()


class Part(types.ModuleType):
    """A part of SGLang that is not loaded."""
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return No(ANSWERS.get(name, False))


def load(folder):
    """The modules of FILES, by the last part of their names."""
    loaded = {}
    for part in ("sglang", "sglang.kernels", "sglang.kernels.jit", "sglang.kernels.jit.utils", "sglang.kernels.ops", "sglang.kernels.ops.attention",
                 "sglang.kernels.ops.moe", "sglang.kernels.ops.quantization", "sglang.kernels.ops.quantization.fp8_kernel",
                 "sglang.kernels.ops.quantization.int8_kernel", "sglang.srt", "sglang.srt.batch_invariant_ops", "sglang.srt.environ",
                 "sglang.srt.layers", "sglang.srt.layers.moe", "sglang.srt.layers.moe.utils", "sglang.srt.utils"):
        sys.modules[part] = Part(part)
    for name in FILES:
        path = pathlib.Path(folder, "sglang/kernels/ops", name.replace(".", "/") + ".py")
        spec = importlib.util.spec_from_file_location("sglang.kernels.ops." + name, path)
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        loaded[name.split(".")[1]] = module
    return loaded


def spread(count, mean):
    return lengths_of("even", count, mean)


def decode(sglang, count, mean, heads, key_heads, d=128, splits=8):
    lengths = spread(count, mean)
    begins = begins_of(lengths)
    tokens = begins[-1] + 64
    k, v = half(tokens, key_heads, d), half(tokens, key_heads, d)
    q, out = half(count, heads, d), half(count, heads, d)
    where, of = torch.randperm(tokens, device="cuda")[:begins[-1]], whole(begins)
    logits, lse = torch.empty(count, heads, splits, d, device="cuda"), torch.empty(count, heads, splits, device="cuda")
    parts = whole([splits] * count)
    tell(f"decode {count} of {mean}, {heads} heads on {key_heads}",
         lambda: sglang["decode_attention"].decode_attention_fwd(q, k, v, out, of, where, logits, lse, parts, splits, d**-0.5, 1.0, 1.0))


def extend(sglang, count, prefix, mean, heads, key_heads, d=128):
    before, new = (spread(count, prefix) if prefix else [0] * count), spread(count, mean)
    begins, places = begins_of(new), begins_of(before)
    k, v = half(places[-1] + 64, key_heads, d), half(places[-1] + 64, key_heads, d)
    q, out = half(begins[-1], heads, d), half(begins[-1], heads, d)
    keys, values = half(begins[-1], key_heads, d), half(begins[-1], key_heads, d)
    where, of, of_prefix = torch.randperm(places[-1] + 64, device="cuda"), whole(begins), whole(places)
    tell(f"extend {count} of {mean} behind {prefix}, {heads} heads on {key_heads}",
         lambda: sglang["extend_attention"].extend_attention_fwd(q, keys, values, out, k, v, of, of_prefix, where, None, True, None, max(new), 1.0, 1.0))


def prompts(sglang, count, mean, heads, key_heads, d):
    lengths = spread(count, mean)
    begins = begins_of(lengths)
    q, k, v, out = half(begins[-1], heads, d), half(begins[-1], key_heads, d), half(begins[-1], key_heads, d), half(begins[-1], heads, d)
    of, sizes = whole(begins[:-1]), whole(lengths)
    tell(f"prompts {count} of {mean}, {heads} heads on {key_heads} of {d}",
         lambda: sglang["prefill_attention"].context_attention_fwd(q, k, v, out, of, sizes, max(lengths)))


def experts(sglang, tokens, number, chosen, hidden, inner):
    """The first product of a layer of experts, with SGLang's default tiles."""
    config = ({"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 1} if tokens <= number
              else {"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 32, "GROUP_SIZE_M": 8})
    block = config["BLOCK_SIZE_M"]
    of_token = [random.sample(range(number), chosen) for _ in range(tokens)]
    rows = [[] for _ in range(number)]
    for token, those in enumerate(of_token):
        for place, expert in enumerate(those):
            rows[expert].append(token * chosen + place)
    order, expert_of = [], []
    for expert, mine in enumerate(rows):
        mine += [tokens * chosen] * (-len(mine) % block)
        order += mine
        expert_of += [expert] * (len(mine) // block)
    room = tokens * chosen + number * (block - 1)
    padded = len(order)
    order += [tokens * chosen] * (room - padded)
    expert_of += [0] * (-(-room // block) - len(expert_of))
    a, b, c = half(tokens, hidden), half(number, 2 * inner, hidden), half(tokens, chosen, 2 * inner)
    weights, ids = torch.rand(tokens, chosen, device="cuda"), whole(of_token)
    sorted_ids, experts_, many = whole(order), whole(expert_of), whole([padded])
    tell(f"experts {tokens} tokens to {chosen} of {number}, {hidden} to 2 x {inner}",
         lambda: sglang["fused_moe_triton_kernels"].invoke_fused_moe_kernel(
             a, b, None, c, None, None, None, weights, ids, sorted_ids, experts_, many, False, chosen, config, tl.bfloat16, False, False, False,
             False, False))


if __name__ == "__main__":
    sglang = load(sys.argv[1])
    random.seed(0)
    torch.manual_seed(0)
    for count, mean in [(1, 4096), (16, 512), (64, 2048), (256, 700), (16, 16384)]:
        decode(sglang, count, mean, 32, 8)
    for count, mean in [(16, 512), (64, 2048)]:
        decode(sglang, count, mean, 16, 16, d=64)
        decode(sglang, count, mean, 64, 8)
    for count, prefix, mean in [(1, 0, 4096), (8, 0, 1024), (32, 0, 256), (8, 4096, 128), (32, 1024, 64), (4, 2048, 2048)]:
        extend(sglang, count, prefix, mean, 32, 8)
    for count, mean in [(1, 4096), (16, 512), (64, 200)]:
        prompts(sglang, count, mean, 16, 16, 64)
        prompts(sglang, count, mean, 32, 8, 128)
    for tokens in (16, 64, 512, 2048):
        experts(sglang, tokens, 128, 8, 2048, 768)
        experts(sglang, tokens, 8, 2, 4096, 3584)
