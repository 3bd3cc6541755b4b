"""model.generate of a small Llama with random weights: generate.py [--no-eos] [--sample] [--static]"""
import argparse
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

arguments = argparse.ArgumentParser()
arguments.add_argument("--no-eos", action="store_true")
arguments.add_argument("--sample", action="store_true")
arguments.add_argument("--static", action="store_true", help="a static cache (without compile)")
options = arguments.parse_args()

NEW, BATCH = 16, 4
model = LlamaForCausalLM(LlamaConfig(
    hidden_size=512, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=4,
    intermediate_size=1536, vocab_size=32000, eos_token_id=None if options.no_eos else 2))
model = model.to("cuda", torch.bfloat16).eval()
prompt = torch.randint(5, 32000, (BATCH, 64), device="cuda")
how = dict(do_sample=options.sample, max_new_tokens=NEW, pad_token_id=0)
if options.sample:
    how |= dict(top_k=50, top_p=0.9)
if options.static:
    how |= dict(cache_implementation="static", disable_compile=True)
for attempt in range(2):
    torch.cuda.synchronize()
    before = time.perf_counter()
    answer = model.generate(prompt, attention_mask=torch.ones_like(prompt), **how)
    torch.cuda.synchronize()
    took = time.perf_counter() - before
    # With an end token a sequence may be shorter; without one it may not.
    new = answer.shape[1] - prompt.shape[1]
    assert 1 <= new <= NEW and (new == NEW or not options.no_eos), new
    print(f"step {attempt}: {1e3 * took / new:.3f} ms per token, {new} tokens", flush=True)
print("generation completed", flush=True)
