#!/usr/bin/env python3
"""FlashAttention 3 as vLLM calls it, over keys and values that lie in pages: prompts, and tokens of many requests.

    paged_attention.py
        # prints a line of JSON for each kernel of each case: case, kernel, us

The same on a GPU and in a simulation (README.md, "Serving").
"""
import json
import statistics

import torch
from vllm.vllm_flash_attn import flash_attn_varlen_func, get_scheduler_metadata

from profiled import times_by_kernel

PAGE, TURNS, LONGEST = 16, 7, 8192
HEADS = ((32, 8, 64), (32, 8, 128), (32, 4, 128), (64, 8, 128), (16, 16, 128), (4, 1, 256))  # of queries, of keys, and their depth
PROMPTS = ((1, 512), (1, 4096), (2, 8192), (8, 1024), (16, 256), (64, 64))  # requests, and tokens of each
TOKENS = ((1, 256), (1, 4096), (8, 1024), (32, 32), (32, 256), (32, 2048), (128, 512), (256, 32), (256, 256), (256, 1024))


def case(requests, queries, keys, heads, key_heads, depth):
    torch.manual_seed(0)
    pages = (keys + PAGE - 1) // PAGE
    q = torch.randn(requests * queries, heads, depth, device="cuda", dtype=torch.bfloat16)
    k = torch.randn(requests * pages, PAGE, key_heads, depth, device="cuda", dtype=torch.bfloat16)
    v = torch.randn_like(k)
    table = torch.zeros(requests, LONGEST // PAGE, dtype=torch.int32)
    # Pages of a request lie apart, as they do when requests have come and gone.
    table[:, :pages] = torch.randperm(requests * pages).view(requests, pages).int()
    table = table.cuda()
    starts = torch.arange(0, requests + 1, dtype=torch.int32).mul(queries).int().cuda()
    used = torch.full((requests,), keys, dtype=torch.int32).cuda()
    out = torch.empty_like(q)

    def step():
        plan = get_scheduler_metadata(
            batch_size=requests, max_seqlen_q=queries, max_seqlen_k=keys, num_heads_q=heads, num_heads_kv=key_heads, headdim=depth,
            cache_seqlens=used, qkv_dtype=torch.bfloat16, cu_seqlens_q=starts, page_size=PAGE, causal=True, num_splits=0)
        flash_attn_varlen_func(q, k, v, max_seqlen_q=queries, cu_seqlens_q=starts, max_seqlen_k=keys, seqused_k=used, causal=True,
                               softmax_scale=depth ** -0.5, block_table=table, out=out, scheduler_metadata=plan, fa_version=3)
    step()
    what = "prompts" if queries > 1 else "tokens"
    for name, of in times_by_kernel(step, TURNS).items():
        short = next((known for known in ("FlashAttnFwdCombine", "FlashAttnFwdSm90", "prepare_varlen") if known in name), None)
        if short:
            print(json.dumps({"case": f"{what} {requests}x{queries} of {keys}, {heads}/{key_heads} heads of {depth}", "kernel": short,
                              "launches": len(of) // TURNS, "us": round(statistics.median(of), 2)}), flush=True)


if __name__ == "__main__":
    for heads, key_heads, depth in HEADS:
        for requests, length in PROMPTS:
            case(requests, length, length, heads, key_heads, depth)
        for requests, keys in TOKENS:
            case(requests, 1, keys, heads, key_heads, depth)
