#!/usr/bin/env python3
"""Measures, on a machine with a GPU, convolutions, batch norms and products as timm's models have them.

Usage: measure_timm.py OUT.jsonl [SECONDS [WORKERS]]

Up to five models of each of timm's modules, from the smallest name to the greatest: torchvision's, which measure_convolutions.py
measured, are a tenth of the families that are trained. Lines are like measure_architectures.py's. A quarter of the cases judges and
is never fitted: those whose digest leaves 1 when it is divided by 4 (make_table.py's is_judge()).
"""
import multiprocessing
import re
import sys

import timm
import torch
import torch.nn.functional as F

import measure_convolutions
import measure_h200
from measure_convolutions import BATCHES, Unfilled, described, drawn, is_square
from measure_h200 import batch_norm_case, draw, tensor

OF_A_MODULE = 5
TOO_LARGE = re.compile("giant|huge|gigantic|enormous|xxlarge|_7b|_so400m|_so150m|e5_|deit3_h|_1b|_2b|_3b|_8b")


def names():
    for module in timm.list_modules():
        models = [name for name in timm.list_models(module=module) if not TOO_LARGE.search(name)]
        yield from {models[i * (len(models) - 1) // (OF_A_MODULE - 1)] for i in range(OF_A_MODULE)} if models else ()


def layers_of(name):
    """Layers of a model by their kind; nothing of one that cannot be made or run so."""
    found = dict(convolution=set(), batch_norm=set(), product=set())

    def seen(layer, inputs, _):
        shape = inputs[0].shape
        if isinstance(layer, torch.nn.modules.conv._ConvNd):
            if is_square(layer) and not layer.transposed and len(shape) == 4:
                found["convolution"].add(described(layer, shape))
        elif isinstance(layer, torch.nn.Linear):
            found["product"].add((shape.numel() // shape[-1] // 2, layer.in_features, layer.out_features))
        elif len(shape) == 4:
            found["batch_norm"].add((shape[1], shape[2]))
    try:
        with torch.no_grad():
            with Unfilled():
                net = timm.create_model(name, pretrained=False).eval().to("meta")
            for layer in net.modules():
                if isinstance(layer, (torch.nn.modules.conv._ConvNd, torch.nn.Linear, torch.nn.BatchNorm2d)):
                    layer.register_forward_hook(seen)
            net(torch.empty(2, *net.default_cfg["input_size"], device="meta"))
    except Exception as error:
        print(name, str(error).splitlines()[:1], file=sys.stderr)
    return {kind: sorted(layers) for kind, layers in found.items()}


def batch_norms(models):
    for _ in range(450):
        c, hw = draw.choice(draw.choice(models))
        n, dtype, last = draw.choice(BATCHES), draw.choice(("bf16", "fp16", "fp16", "fp16", "fp32")), draw.random() < 0.5
        if not 1e4 < n * c * hw * hw < 2e8:
            continue
        yield batch_norm_case(n, c, hw, dtype, last)


def products(models):
    for _ in range(900):
        tokens, inner, outer = draw.choice(draw.choice(models))
        dtype, kind = draw.choice(("bf16", "bf16", "fp16", "fp16", "tf32")), draw.choice(("biased", "forward", "data", "weights"))
        rows = tokens * draw.choice(BATCHES)
        m, n, k, layout = {"biased": (rows, outer, inner, "NT"), "forward": (rows, outer, inner, "NT"), "data": (rows, inner, outer, "NN"),
                           "weights": (outer, inner, rows, "TN")}[kind]
        if rows * max(inner, outer) > 3e8 or 2.0 * m * n * k > 1e12:
            continue

        def make(m=m, n=n, k=k, layout=layout, dtype=dtype, kind=kind):
            plain = "fp32" if dtype == "tf32" else dtype
            a = tensor(*((m, k) if layout[0] == "N" else (k, m)), dtype=plain)
            b = tensor(*((k, n) if layout[1] == "N" else (n, k)), dtype=plain)
            a, b, bias = a if layout[0] == "N" else a.mT, b if layout[1] == "N" else b.mT, tensor(n, dtype=plain)

            def run():
                torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
                return F.linear(a, b.mT, bias) if kind == "biased" else torch.mm(a, b)
            return run
        yield dict(op="linear_bias" if kind == "biased" else "mm", dtype=dtype, layout=layout, m=m, n=n, k=k), make


def main():
    # Threads of OpenMP do not outlive a fork: a child that waits for them would wait for ever.
    torch.set_num_threads(1)
    with multiprocessing.get_context("fork").Pool(14) as pool:
        found = pool.map(layers_of, sorted(names()), chunksize=1)
    of_kind = {kind: [layers[kind] for layers in found if layers[kind]] for kind in found[0]}
    print({kind: (len(models), len(set().union(*models))) for kind, models in of_kind.items()}, file=sys.stderr)
    draw.seed(193)
    measure_convolutions.TYPES = ("bf16", "bf16", "bf16", "fp16", "fp16", "tf32", "tf32", "fp32")
    families = (lambda: drawn(of_kind["convolution"], 1650, 0.45), lambda: batch_norms(of_kind["batch_norm"]), lambda: products(of_kind["product"]))
    arguments = sys.argv[2:] + ["250", "6"][len(sys.argv) - 2:]
    measure_h200.main(sys.argv[1], float(arguments[0]), families, int(arguments[1]))


if __name__ == "__main__":
    main()
