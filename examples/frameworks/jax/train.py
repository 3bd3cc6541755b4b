"""A small language model in plain JAX, on all GPUs of the program: data parallelism by sharding.

    train.py [--steps N] [--width N] [--layers N]

Started once, it drives all the GPUs that it sees (phantora run --per run); started once per GPU, its processes find each
other by jax.distributed.
"""
import argparse
import os
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--width", type=int, default=768)
parser.add_argument("--layers", type=int, default=6)
options = parser.parse_args()

if int(os.environ.get("WORLD_SIZE", 1)) > 1:
    jax.distributed.initialize(f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}", int(os.environ["WORLD_SIZE"]),
                               int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"]))

WIDTH, HEADS, VOCABULARY, TOKENS, DTYPE = options.width, options.width // 64, 32768, 512, jnp.bfloat16
GPUS = len(jax.devices())
mesh = Mesh(np.array(jax.devices()), ("data",))
everywhere, split = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec("data"))


def weights(key):
    shapes = dict(attention=(WIDTH, 3 * WIDTH), out=(WIDTH, WIDTH), up=(WIDTH, 4 * WIDTH), down=(4 * WIDTH, WIDTH))
    names = [("embedding", (VOCABULARY, WIDTH))] + [(f"{layer} {name}", shape) for layer in range(options.layers)
                                                    for name, shape in shapes.items()]
    return {name: 0.02 * jax.random.normal(jax.random.fold_in(key, i), shape) for i, (name, shape) in enumerate(names)}


def norm(x):
    x = x.astype(jnp.float32)
    return (x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6)).astype(DTYPE)


def loss(weights, tokens):
    weights = {name: weight.astype(DTYPE) for name, weight in weights.items()}
    x = weights["embedding"][tokens]
    for layer in range(options.layers):
        q, k, v = jnp.split(norm(x) @ weights[f"{layer} attention"], 3, -1)
        heads = [part.reshape(*part.shape[:2], HEADS, -1) for part in (q, k, v)]
        attended = jax.nn.dot_product_attention(*heads, is_causal=True).reshape(x.shape)
        x = x + attended @ weights[f"{layer} out"]
        x = x + jax.nn.gelu(norm(x) @ weights[f"{layer} up"]) @ weights[f"{layer} down"]
    logits = (norm(x) @ weights["embedding"].T)[:, :-1].astype(jnp.float32)
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[:, 1:, None], -1).mean()


@jax.jit
def step(weights, momentum, tokens):
    value, gradients = jax.value_and_grad(loss)(weights, tokens)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradients)
    return jax.tree.map(lambda w, m: w - 1e-3 * m, weights, momentum), momentum, value


weights = jax.jit(weights, out_shardings=everywhere)(jax.random.PRNGKey(0))
momentum = jax.tree.map(jnp.zeros_like, weights)
local = np.random.default_rng(jax.process_index()).integers(
    VOCABULARY, size=(8 * jax.local_device_count(), TOKENS), dtype=np.int32)
tokens = jax.make_array_from_process_local_data(split, local)
for number in range(options.steps):
    began = time.perf_counter()
    weights, momentum, value = step(weights, momentum, tokens)
    value.block_until_ready()
    if jax.process_index() == 0:
        taken = time.perf_counter() - began
        print(f"step {number}: {1e3 * taken:.3f} ms, {tokens.size / taken:.0f} tokens/s on {GPUS} GPUs", flush=True)
