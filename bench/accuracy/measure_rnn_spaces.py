#!/usr/bin/env python3
"""What cuDNN asks for a recurrent network: its weight space, workspace and reserve, for configurations as PyTorch passes them.

Usage: measure_rnn_spaces.py OUT.jsonl [--random N]     # with a GPU; takes seconds: nothing runs on it
"""
import argparse
import ctypes
import itertools
import json
import random

import torch

FLOAT, DOUBLE, HALF, BFLOAT16 = 0, 1, 2, 9
TYPES = {"fp32": (FLOAT, FLOAT), "fp64": (DOUBLE, DOUBLE), "fp16": (HALF, FLOAT), "bf16": (BFLOAT16, FLOAT)}  # of data, of arithmetic
MODES = {"relu": 0, "tanh": 1, "lstm": 2, "gru": 3}
BASE = dict(mode="lstm", type="fp32", tf32=False, steps=16, batch=32, input=64, hidden=128, projection=0, layers=1, directions=1, bias=True,
            dropout=0.0, packed=False, algorithm=0)


def configurations(count):
    yield BASE
    one_by_one = dict(mode=["relu", "tanh", "gru"], type=["fp64", "fp16", "bf16"], tf32=[True], steps=[1, 2, 3, 7, 15, 17, 64, 100], batch=[1, 2, 3, 7, 8, 31, 64, 100],
                      input=[1, 3, 28, 63, 65, 128, 200, 512], hidden=[1, 3, 32, 64, 100, 127, 129, 256, 384, 512, 650, 1024],
                      projection=[64, 100], layers=[2, 3, 5], directions=[2], bias=[False], dropout=[0.5], packed=[True])
    for mode, layers, directions in itertools.product(MODES, (1, 2, 3), (1, 2)):
        yield dict(BASE, mode=mode, layers=layers, directions=directions)
    for name, values in one_by_one.items():
        for value, mode, kind in itertools.product(values, ("lstm", "gru", "tanh"), ("fp32", "fp16")):
            if (name == "projection" and mode != "lstm") or (name == "tf32" and kind != "fp32"):
                continue
            yield dict(BASE, **{"mode": mode, "type": kind, name: value})
    draw = random.Random(1)
    for _ in range(count):
        mode = draw.choice(list(MODES))
        hidden = draw.choice((draw.randint(1, 1200), 32 * draw.randint(1, 40)))
        kind = draw.choice(("fp32", "fp32", "fp16", "bf16", "fp64"))
        layers = draw.choice((1, 1, 2, 3, 4))
        yield dict(mode=mode, type=kind, tf32=kind == "fp32" and draw.random() < .5, steps=int(2 ** draw.uniform(0, 9)), batch=int(2 ** draw.uniform(0, 9)),
                   input=draw.randint(1, 800), hidden=hidden, projection=hidden // 2 if mode == "lstm" and hidden > 2 and draw.random() < .1 else 0,
                   layers=layers, directions=draw.choice((1, 1, 2)), bias=draw.random() < .8, dropout=.3 if layers > 1 and draw.random() < .3 else 0.,
                   packed=draw.random() < .2, algorithm=0)
    # What PyTorch asks for where layers have few units (use_rnn_persist_small_h, use_persist_common_heuristics): one kernel a layer.
    for algorithm in (1, 3):
        for configuration in small(algorithm, count // 2):
            yield configuration


def small(algorithm, count):
    kinds = ("fp32", "fp16", "bf16", "fp64") if algorithm == 3 else ("fp16", "fp32")
    for mode, layers, directions, kind in itertools.product(MODES, (1, 2, 3), (1, 2), kinds[:2]):
        yield dict(BASE, mode=mode, layers=layers, directions=directions, type=kind, algorithm=algorithm)
    one_by_one = dict(steps=[1, 2, 3, 7, 17, 64, 300], batch=[1, 2, 7, 31, 64, 100, 300], input=[1, 3, 28, 63, 65, 128, 200, 512], hidden=[1, 3, 16, 32, 48, 64, 96, 100],
                      bias=[False], dropout=[0.5])
    for name, values in one_by_one.items():
        for value, mode, kind in itertools.product(values, ("lstm", "gru", "tanh"), kinds[:2]):
            yield dict(BASE, **{"mode": mode, "type": kind, name: value, "algorithm": algorithm})
    draw = random.Random(2)
    for _ in range(count):
        mode = draw.choice(list(MODES))
        most = 384 if mode in ("relu", "tanh") else 192
        hidden = draw.choice((draw.randint(1, most), 16 * draw.randint(1, most // 16)))
        layers = draw.choice((1, 1, 2, 3))
        yield dict(mode=mode, type=draw.choice(kinds), tf32=draw.random() < .5, steps=int(2 ** draw.uniform(0, 9)), batch=int(2 ** draw.uniform(0, 9)),
                   input=draw.randint(1, 600), hidden=hidden, projection=0, layers=layers, directions=draw.choice((1, 1, 2)), bias=draw.random() < .8,
                   dropout=.3 if layers > 1 and draw.random() < .3 else 0., packed=False, algorithm=algorithm)


class Cudnn:
    def __init__(self):
        torch.backends.cudnn.version()  # loads it
        torch.zeros(1, device="cuda")
        self.library = ctypes.CDLL("libcudnn.so.9")
        self.handle = self.made("cudnnCreate")
        size = ctypes.c_size_t()
        self.call("cudnnDropoutGetStatesSize", self.handle, ctypes.byref(size))
        self.states = torch.empty(size.value, dtype=torch.uint8, device="cuda")

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status != 0:
            raise ValueError(f"{name}: {status}")

    def made(self, name, *arguments):
        out = ctypes.c_void_p()
        self.call(name, ctypes.byref(out), *arguments)
        return out

    def spaces(self, c):
        data, arithmetic = TYPES[c["type"]]
        # As PyTorch chooses: tensor cores for fp16, none for fp32 without TF32.
        math = 1 if c["type"] == "fp16" else 3 if c["type"] == "fp32" and not c["tf32"] else 0
        dropout, network, x = self.made("cudnnCreateDropoutDescriptor"), self.made("cudnnCreateRNNDescriptor"), self.made("cudnnCreateRNNDataDescriptor")
        states = ctypes.c_void_p(self.states.data_ptr()) if c["dropout"] else None
        self.call("cudnnSetDropoutDescriptor", dropout, self.handle, ctypes.c_float(c["dropout"]), states,
                  ctypes.c_size_t(self.states.numel() if c["dropout"] else 0), ctypes.c_ulonglong(1))
        self.call("cudnnSetRNNDescriptor_v8", network, c["algorithm"], MODES[c["mode"]], 2 if c["bias"] else 0, c["directions"] - 1, 0, data, arithmetic, math,
                  c["input"], c["hidden"], c["projection"] or c["hidden"], c["layers"], dropout, 0 if c["packed"] else 1)
        lengths = (ctypes.c_int * c["batch"])(*[c["steps"]] * c["batch"])
        self.call("cudnnSetRNNDataDescriptor", x, data, 1 if c["packed"] else 0, c["steps"], c["batch"], c["input"], lengths, None)
        weights = ctypes.c_size_t()
        self.call("cudnnGetRNNWeightSpaceSize", self.handle, network, ctypes.byref(weights))
        found = dict(weights=weights.value)
        for name, mode in (("inference", 0), ("training", 1)):
            work, reserve = ctypes.c_size_t(), ctypes.c_size_t()
            self.call("cudnnGetRNNTempSpaceSizes", self.handle, network, mode, x, ctypes.byref(work), ctypes.byref(reserve))
            found[name] = [work.value, reserve.value]
        for destroy, what in (("cudnnDestroyRNNDataDescriptor", x), ("cudnnDestroyRNNDescriptor", network), ("cudnnDestroyDropoutDescriptor", dropout)):
            self.call(destroy, what)
        return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--random", type=int, default=2000)
    options = parser.parse_args()
    cudnn = Cudnn()
    with open(options.out, "w") as out:
        for configuration in configurations(options.random):
            try:
                found = cudnn.spaces(configuration)
            except ValueError as error:
                found = dict(refused=str(error))
            out.write(json.dumps(dict(configuration, **found)) + "\n")
    print(torch.__version__, torch.backends.cudnn.version(), torch.cuda.get_device_name())


if __name__ == "__main__":
    main()
