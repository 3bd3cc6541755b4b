#!/usr/bin/env python3
"""Transformers' generation with random weights: generation.py [MODEL] [--static | --compiled] [--batch B] [--prompt P] [--new N]

Prints a JSON line: `median_s` is that of a token of the whole batch after the first, `first_s` the time of the first, with
the prompt. Of three turns, the last. Three ways: a cache that grows, one of fixed size (`--static`), and that with the
compiled forward pass and CUDA graphs that Transformers makes of it (`--compiled`). For same_host.py.
"""
import argparse
import json
import statistics
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, StoppingCriteria, StoppingCriteriaList

# About 1.2 and 0.5 billion parameters.
MODELS = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(
        hidden_size=2048, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8, intermediate_size=8192,
        vocab_size=32000, max_position_embeddings=8192, eos_token_id=None)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(
        hidden_size=896, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2, intermediate_size=4864,
        vocab_size=32000, max_position_embeddings=8192, eos_token_id=None)),
}


class Clock(StoppingCriteria):
    """Stops nothing; notes when each token is there."""

    def __init__(self):
        self.times = []

    def __call__(self, ids, scores, **_):
        torch.cuda.synchronize()
        self.times.append(time.perf_counter())
        return torch.zeros(ids.shape[0], dtype=torch.bool, device=ids.device)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("model", nargs="?", default="llama", choices=MODELS)
    arguments.add_argument("--static", action="store_true")
    arguments.add_argument("--compiled", action="store_true")
    arguments.add_argument("--batch", type=int, default=4)
    arguments.add_argument("--prompt", type=int, default=512)
    arguments.add_argument("--new", type=int, default=48)
    options = arguments.parse_args()
    torch.manual_seed(0)
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        model = MODELS[options.model]().eval()
    prompt = torch.randint(5, 32000, (options.batch, options.prompt), device="cuda")
    how = dict(do_sample=False, max_new_tokens=options.new, pad_token_id=0)
    if options.static or options.compiled:
        how |= dict(cache_implementation="static", disable_compile=not options.compiled)
    for _ in range(3):
        clock = Clock()
        torch.cuda.synchronize()
        began = time.perf_counter()
        answer = model.generate(prompt, attention_mask=torch.ones_like(prompt),
                                stopping_criteria=StoppingCriteriaList([clock]), **how)
        assert answer.shape[1] == options.prompt + options.new, answer.shape
    tokens = [after - before for before, after in zip(clock.times, clock.times[1:])]
    print(json.dumps(dict(first_s=clock.times[0] - began, median_s=statistics.median(tokens), min_s=min(tokens),
                          max_s=max(tokens), peak_alloc=torch.cuda.max_memory_allocated(), torch=torch.__version__,
                          gpu=torch.cuda.get_device_name())))


main()
