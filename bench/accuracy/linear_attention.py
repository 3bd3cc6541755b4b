#!/usr/bin/env python3
"""Training steps of flash-linear-attention's models: recurrences over chunks, written in Triton, as its users train them.

    linear_attention.py [--only NAME ...] [--share K/N] [--kernels] [--tune]
        # prints a line of JSON for each, as compiled_models.py does

Of each kernel the first of the library's configurations runs; with --tune those that Triton finds fastest, which takes minutes.
The same on a GPU and in a simulation (README.md, "Linear attention").
"""
import functools
import sys

import torch
from triton.runtime.autotuner import Autotuner

import compiled_models
from compiled_models import ids

LAYERS, WIDTH, BATCH, LENGTH = 4, 1024, 4, 2048
KINDS = ("GLA", "RetNet", "DeltaNet", "GatedDeltaProduct", "HGRN", "HGRN2", "GSA", "ABC", "KDA", "PrecondKDA", "RWKV6", "RWKV7", "LightNet",
         "LinearAttention", "MesaNet", "ForgettingTransformer", "PaTHAttention", "StickBreakingAttention")


def trained(kind):
    import fla.models
    chosen = getattr(fla.models, f"{kind}Config")(hidden_size=WIDTH, num_hidden_layers=LAYERS, vocab_size=32000)
    network = getattr(fla.models, f"{kind}ForCausalLM")(chosen).to("cuda", torch.bfloat16)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)
    tokens = ids(BATCH, LENGTH)

    def step():
        network(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return step


compiled_models.MODELS.clear()
for kind in KINDS:
    compiled_models.MODELS[kind] = functools.partial(trained, kind)

if __name__ == "__main__":
    if "--tune" in sys.argv:
        sys.argv.remove("--tune")
    else:
        make = Autotuner.__init__
        Autotuner.__init__ = lambda self, fn, names, configs, *more, **settings: make(self, fn, names, configs[:1], *more, **settings)
    compiled_models.main()
