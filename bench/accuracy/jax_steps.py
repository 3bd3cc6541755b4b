"""Steps of programs in JAX, on GPUs or simulated: prints how long each takes, one JSON object per line.

    jax_steps.py [--kernels FILE] [NAME...]

All were written before any had run on a GPU, and nothing is fitted to them. `median_s` is of steps that are waited for
one by one, `queued_s` the mean of as many in a row. `sharded` uses all GPUs of the process.
With --kernels what each kernel took in a step, by JAX's own profiler, is appended to FILE: a line of JSON each.
"""
import argparse
import gzip
import json
import pathlib
import re
import statistics
import tempfile
import time

import jax
import jax.numpy as jnp
from jax import lax

PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function


def normal(*shape, dtype=jnp.float32, scale=0.02):
    # Random: a GPU's power, and so its clock, hangs on the numbers that it multiplies.
    return (scale * jax.random.normal(jax.random.PRNGKey(len(shape)), shape)).astype(dtype)


@program
def product():
    x = normal(8192, 8192, dtype=jnp.bfloat16)
    return (lambda x: jnp.tanh(x @ x)), (x,)


@program
def mlp():
    sizes = [784, 4096, 4096, 10]
    params = [(normal(a, b), normal(b)) for a, b in zip(sizes, sizes[1:])]
    x, y = normal(4096, 784), normal(4096, 10)

    def loss(params, x, y):
        for w, b in params[:-1]:
            x = jax.nn.relu(x @ w + b)
        w, b = params[-1]
        logits = jax.nn.log_softmax(x @ w + b)
        return -(logits * y).mean()

    def step(params):
        grads = jax.grad(loss)(params, x, y)
        return jax.tree.map(lambda p, g: p - 1e-3 * g, params, grads)
    return step, (params,)


@program
def transformer():
    layers, width, heads, vocab, batch, tokens = 12, 768, 12, 50304, 8, 1024
    dtype = jnp.bfloat16
    params = dict(embed=normal(vocab, width), position=normal(tokens, width), blocks=[
        dict(qkv=normal(width, 3 * width), out=normal(width, width), up=normal(width, 4 * width),
             down=normal(4 * width, width), n1=normal(width), n2=normal(width))
        for _ in range(layers)])
    ids = jnp.zeros((batch, tokens), jnp.int32)

    def norm(x, g):
        x = x.astype(jnp.float32)
        m = x.mean(-1, keepdims=True)
        v = ((x - m) ** 2).mean(-1, keepdims=True)
        return ((x - m) * lax.rsqrt(v + 1e-5) * g).astype(dtype)

    def block(p, x):
        h = norm(x, p["n1"]) @ p["qkv"].astype(dtype)
        q, k, v = jnp.split(h.reshape(batch, tokens, heads, 3 * width // heads), 3, -1)
        h = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        x = x + h.reshape(batch, tokens, width) @ p["out"].astype(dtype)
        h = jax.nn.gelu(norm(x, p["n2"]) @ p["up"].astype(dtype))
        return x + h @ p["down"].astype(dtype)

    def loss(params):
        x = (params["embed"][ids] + params["position"]).astype(dtype)
        for p in params["blocks"]:
            x = block(p, x)
        logits = x @ params["embed"].astype(dtype).T
        logits = jax.nn.log_softmax(logits.astype(jnp.float32))
        return -jnp.take_along_axis(logits, ids[..., None], -1).mean()

    def step(state):
        params, m, v = state
        grads = jax.grad(loss)(params)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
        v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, v, grads)
        params = jax.tree.map(lambda p, m, v: p - 1e-4 * m / (jnp.sqrt(v) + 1e-8), params, m, v)
        return params, m, v
    zeros = jax.tree.map(jnp.zeros_like, params)
    return step, ((params, zeros, zeros),)


@program
def convolutions():
    dtype = jnp.bfloat16
    width = [64, 128, 256, 512]
    params, last = [], 3
    for w in width:
        params += [normal(3, 3, last, w), normal(3, 3, w, w)]
        last = w
    params.append(normal(512, 1000))
    x = normal(64, 128, 128, 3)

    def loss(params):
        h = x.astype(dtype)
        for i, w in enumerate(params[:-1]):
            stride = 2 if i % 2 == 0 and i else 1
            h = lax.conv_general_dilated(h, w.astype(dtype), (stride, stride), "SAME",
                                         dimension_numbers=("NHWC", "HWIO", "NHWC"))
            h = jax.nn.relu(h)
        h = h.mean((1, 2)) @ params[-1].astype(dtype)
        return (h.astype(jnp.float32) ** 2).mean()

    def step(params):
        return jax.tree.map(lambda p, g: p - 1e-3 * g, params, jax.grad(loss)(params))
    return step, (params,)


@program
def recurrent():
    width, batch, tokens = 1024, 64, 128
    w, u = normal(width, 4 * width), normal(width, 4 * width)
    xs = normal(tokens, batch, width)

    def loss(params):
        w, u = params
        def cell(carry, x):
            h, c = carry
            i, f, g, o = jnp.split(x @ w + h @ u, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h
        zero = jnp.zeros((batch, width))
        _, hs = lax.scan(cell, (zero, zero), xs)
        return (hs ** 2).mean()

    def step(params):
        return jax.tree.map(lambda p, g: p - 1e-3 * g, params, jax.grad(loss)(params))
    return step, ((w, u),)


@program
def scanned_layers():
    """A decoder as MaxText and others write them: layers by scan, recomputed, grouped queries."""
    layers, width, heads, groups, hidden, vocab, batch, tokens = 8, 1024, 16, 4, 2816, 32000, 4, 2048
    size, dtype = width // heads, jnp.bfloat16
    params = dict(
        embed=normal(vocab, width), head=normal(width, vocab),
        blocks=dict(q=normal(layers, width, width), kv=normal(layers, width, 2 * groups * size),
                    out=normal(layers, width, width), gate=normal(layers, width, hidden),
                    up=normal(layers, width, hidden), down=normal(layers, hidden, width),
                    n1=normal(layers, width), n2=normal(layers, width)))
    ids = jnp.zeros((batch, tokens), jnp.int32)
    angle = jnp.arange(tokens)[:, None] / 10000 ** (jnp.arange(0, size, 2) / size)

    def norm(x, gain):
        x = x.astype(jnp.float32)
        return (x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * gain).astype(dtype)

    def rotate(x):
        a, b = jnp.split(x.astype(jnp.float32), 2, -1)
        cos, sin = jnp.cos(angle)[:, None], jnp.sin(angle)[:, None]
        return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(dtype)

    @jax.checkpoint
    def block(x, p):
        p = jax.tree.map(lambda w: w.astype(dtype), p)
        h = norm(x, p["n1"])
        q = rotate((h @ p["q"]).reshape(batch, tokens, heads, size))
        k, v = jnp.split((h @ p["kv"]).reshape(batch, tokens, groups, 2 * size), 2, -1)
        h = jax.nn.dot_product_attention(q, rotate(k), v, is_causal=True, implementation="cudnn")
        x = x + h.reshape(batch, tokens, width) @ p["out"]
        h = norm(x, p["n2"])
        return x + (jax.nn.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"], None

    def loss(params):
        x = params["embed"][ids].astype(dtype)
        x, _ = lax.scan(block, x, params["blocks"])
        logits = jax.nn.log_softmax((x @ params["head"].astype(dtype)).astype(jnp.float32))
        return -jnp.take_along_axis(logits, ids[..., None], -1).mean()

    def step(params):
        return jax.tree.map(lambda p, g: p - 1e-3 * g, params, jax.grad(loss)(params))
    return step, (params,)


@program
def generation():
    """Sixteen tokens with a cache of keys and values."""
    layers, width, heads, vocab, batch, tokens = 12, 768, 12, 50304, 16, 512
    dtype = jnp.bfloat16
    size = width // heads
    params = dict(embed=normal(vocab, width, dtype=dtype), blocks=[
        dict(qkv=normal(width, 3 * width, dtype=dtype), out=normal(width, width, dtype=dtype),
             up=normal(width, 4 * width, dtype=dtype), down=normal(4 * width, width, dtype=dtype))
        for _ in range(layers)])
    cache = [normal(2, batch, tokens, heads, size, dtype=dtype) for _ in range(layers)]

    def token(carry, position):
        ids, cache = carry
        x, kept = params["embed"][ids], []
        for p, keys in zip(params["blocks"], cache):
            q, k, v = jnp.split((x @ p["qkv"]).reshape(batch, 1, heads, 3 * size), 3, -1)
            keys = lax.dynamic_update_slice(keys, jnp.stack([k, v]), (0, 0, position, 0, 0))
            kept.append(keys)
            weights = jax.nn.softmax(jnp.einsum("bqhd,bthd->bhqt", q, keys[0]).astype(jnp.float32))
            h = jnp.einsum("bhqt,bthd->bqhd", weights.astype(dtype), keys[1])
            x = x + h.reshape(batch, width) @ p["out"]
            x = x + jax.nn.gelu(x @ p["up"]) @ p["down"]
        return (jnp.argmax(x @ params["embed"].T, -1).astype(jnp.int32), kept), None

    def step(state):
        return lax.scan(token, state, jnp.arange(256, 272))[0]
    return step, ((jnp.zeros((batch,), jnp.int32), cache),)


@program
def particles():
    """Forces between all pairs of 8,192 bodies."""
    def force(at, others):
        d = others - at
        return (d * ((d * d).sum(-1, keepdims=True) + 1e-2) ** -1.5).sum(0)

    def step(state):
        x, v = state
        v = v + 1e-3 * jax.vmap(force, (0, None))(x, x)
        return x + 1e-3 * v, v
    x = jnp.arange(3 * 8192, dtype=jnp.float32).reshape(8192, 3) / 8192
    return step, ((x, jnp.zeros_like(x)),)


@program
def random_walks():
    """What a million options are worth: 256 steps of each by random numbers."""
    def step(state):
        key, _ = state
        key, used = jax.random.split(key)
        walk = jnp.cumsum(0.01 * jax.random.normal(used, (256, 1 << 20)), 0)
        return key, jnp.maximum(jnp.exp(walk[-1]) - 1, 0).mean()
    return step, ((jax.random.PRNGKey(0), jnp.float32(0)),)


@program
def algebra():
    """A Gaussian process of 4,096 points."""
    points = jnp.arange(4096, dtype=jnp.float32)[:, None] / 4096

    def step(scale):
        kernel = jnp.exp(-(((points - points.T) / scale) ** 2)) + jnp.eye(4096)
        factor = jnp.linalg.cholesky(kernel)
        solved = jax.scipy.linalg.cho_solve((factor, True), points)
        return scale + 0 * (points * solved).sum()
    return step, (jnp.float32(0.1),)


@program
def graph():
    """Sums over the edges of a graph of 262,144 nodes and 4 million edges."""
    nodes, edges = 1 << 18, 1 << 22
    at = jnp.arange(edges, dtype=jnp.int32) * 7919 % nodes
    to = jnp.arange(edges, dtype=jnp.int32) * 104729 % nodes

    def step(x, w):
        return jax.nn.relu(jax.ops.segment_sum(x[at], to, nodes) @ w)
    return step, (normal(nodes, 64), normal(64, 64))


@program
def messages():
    """The same sums, over edges that are data: those of graph() are constants, which XLA compiles into its program."""
    nodes, edges = 1 << 18, 1 << 22
    at = jnp.arange(edges, dtype=jnp.int32) * 7919 % nodes
    to = jnp.arange(edges, dtype=jnp.int32) * 104729 % nodes

    def step(x, w, at, to):
        return jax.nn.relu(jax.ops.segment_sum(x[at], to, nodes) @ w)
    return step, (normal(nodes, 64), normal(64, 64), at, to)


@program
def sorting():
    x = (jnp.arange(1 << 22, dtype=jnp.uint32) * jnp.uint32(2654435761)).astype(jnp.float32)

    def step(x):
        order = jnp.argsort(x)
        best, _ = lax.top_k(x.reshape(1024, -1), 16)
        return x[order[::-1]] + best.sum()
    return step, (x,)


@program
def spectrum():
    """A step of a wave on a grid of 4,096 by 4,096."""
    k = jnp.fft.fftfreq(4096)
    decay = jnp.exp(-(k[:, None] ** 2 + k[None, :2049] ** 2))

    def step(u):
        return jnp.fft.irfft2(jnp.fft.rfft2(u) * decay, s=u.shape)
    return step, (normal(4096, 4096),)


@program
def sharded():
    """Data parallelism over all GPUs of the process."""
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
    import numpy as np
    mesh = Mesh(np.array(jax.devices()), ("data",))
    step, (params,) = mlp()
    everywhere = NamedSharding(mesh, P())
    w = [jax.device_put(p, everywhere) for p in jax.tree.leaves(params)]
    x = jax.device_put(normal(4096 * len(jax.devices()), 784), NamedSharding(mesh, P("data")))

    def loss(w, x):
        for a, b in zip(w[:-2:2], w[1:-2:2]):
            x = jax.nn.relu(x @ a + b)
        return ((x @ w[-2] + w[-1]) ** 2).mean()

    def step(w, x):
        return [p - 1e-3 * g for p, g in zip(w, jax.grad(loss)(w, x))]
    return step, (w, x)


def started(program, steps):
    """Its compiled step, its state after so many of them, and its data."""
    step, (state, *data) = program()
    step = jax.jit(step)
    for _ in range(steps):
        state = step(state, *data)
        jax.block_until_ready(state)
    return step, state, data


def measure(program, steps=20):
    step, state, data = started(program, 4)
    each = []
    for _ in range(steps):
        begin = time.perf_counter()
        state = step(state, *data)
        jax.block_until_ready(state)
        each.append(time.perf_counter() - begin)
    begin = time.perf_counter()
    for _ in range(steps):
        state = step(state, *data)
    jax.block_until_ready(state)
    queued = (time.perf_counter() - begin) / steps
    return dict(program=program.__name__, gpus=len(jax.devices()), jax=jax.__version__,
                median_s=statistics.median(each), queued_s=queued,
                peak_alloc=jax.devices()[0].memory_stats()["peak_bytes_in_use"])


def kernels(program, steps=5):
    """Name, launches and us of each kernel, in the mean of some steps."""
    step, state, data = started(program, 2)
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            for _ in range(steps):
                state = step(state, *data)
            jax.block_until_ready(state)
        events = []
        for file in pathlib.Path(folder).rglob("*.trace.json.gz"):
            events += json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    tracks = {event["pid"] for event in events
              if event.get("name") == "process_name" and re.search("GPU", event["args"]["name"])}
    streams = {(event["pid"], event["tid"]) for event in events if event.get("name") == "thread_name"
               and event["pid"] in tracks and event["args"]["name"].startswith("Stream")}
    found = {}
    for event in events:
        if event.get("ph") == "X" and (event["pid"], event["tid"]) in streams:
            found.setdefault(event["name"], []).append(event["dur"])
    for name, times in found.items():
        yield dict(program=program.__name__, kernel=name, launches=len(times) / steps, us=sum(times) / steps)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    for program in PROGRAMS:
        if options.names and program.__name__ not in options.names:
            continue
        print(json.dumps(measure(program)), flush=True)
        if options.kernels:
            with open(options.kernels, "a") as out:
                for row in kernels(program):
                    out.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
