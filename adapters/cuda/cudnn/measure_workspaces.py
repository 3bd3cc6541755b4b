#!/usr/bin/env python3
"""Measures, on a real GPU, the workspace that cuDNN's heuristics ask for, and prints it as
workspaces.inc: what PyTorch allocates during a convolution beside its result.

The convolutions are those of torchvision models at several batch sizes, in bf16 and fp32 (TF32
allowed, as is PyTorch's default for cuDNN), channels first and last; the commonest first, as many as
fit the time. Usage: measure_workspaces.py [SECONDS [INC]]; what INC holds already is taken from it.
"""
import re
import sys
import time

import torch
import torchvision

aten = torch.ops.aten


def requested(kind):
    return torch.cuda.memory_stats()[f"requested_bytes.all.{kind}"]


def workspace(run):
    """Bytes that `run` allocated at its peak, without its results; of the second of two calls."""
    for _ in range(2):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = requested("current")
        result = run()
        torch.cuda.synchronize()
        peak = requested("peak") - before
    tensors = result if isinstance(result, (tuple, list)) else [result]
    return peak - sum(t.untyped_storage().nbytes() for t in tensors if isinstance(t, torch.Tensor))


def shapes(model_name):
    found = []

    def note(module, inputs, _):
        found.append((tuple(inputs[0].shape), tuple(module.weight.shape), module.stride,
                      module.padding, module.dilation, module.groups))

    model = getattr(torchvision.models, model_name)().eval()
    for module in model.modules():
        if isinstance(module, torch.nn.Conv2d):
            module.register_forward_hook(note)
    with torch.no_grad():
        model(torch.randn(1, 3, 224, 224))
    return list(dict.fromkeys(found))


def passes(x, w, dy, fixed):
    return (("forward", lambda: aten.convolution(x, w, None, *fixed)),
            ("backward_data", lambda: aten.convolution_backward(
                dy, x, w, None, *fixed, [True, False, False])),
            ("backward_filter", lambda: aten.convolution_backward(
                dy, x, w, None, *fixed, [False, True, False])))


PLAN = [  # commonest first: models, types, layouts, batch sizes
    (("resnet18", "resnet50", "vgg16"), ("bf16",), (False,), (32, 64, 128, 256, 16, 8, 17)),
    (("resnet18", "resnet50", "vgg16"), ("bf16",), (True,), (64, 128, 32, 256)),
    (("resnet18", "resnet50", "vgg16"), ("fp32",), (False,), (64, 32, 128, 17)),
    (("wide_resnet50_2", "vgg11", "densenet121", "mobilenet_v2", "resnext50_32x4d"), ("bf16",),
     (False,), (64, 128)),
    (("vgg11", "densenet121", "mobilenet_v2", "resnext50_32x4d"), ("fp32", "bf16"),
     (False, True), (64, 128, 17)),
]
TYPES = {"bf16": (torch.bfloat16, "CUDNN_DATA_BFLOAT16"), "fp32": (torch.float32, "CUDNN_DATA_FLOAT")}


def main():
    end = time.monotonic() + float(sys.argv[1]) if len(sys.argv) > 1 else float("inf")
    lines = {}  # by all but the bytes
    if len(sys.argv) > 2:
        for line in re.findall(r"PHANTORA_WORKSPACE\(.*\)", open(sys.argv[2]).read()):
            lines[line.rsplit(",", 1)[0]] = line
    torch.backends.cuda.matmul.allow_tf32 = True
    for models, types, layouts, batches in PLAN:
        for n in batches:
            for model in models:
                for type_name in types:
                    for last in layouts:
                        for x_shape, w_shape, stride, padding, dilation, groups in shapes(model):
                            if time.monotonic() > end:
                                break
                            dtype, enumerator = TYPES[type_name]
                            layout = torch.channels_last if last else torch.contiguous_format
                            numbers = (n, *x_shape[1:], *w_shape, *stride, *padding)
                            key = lambda name: (f"PHANTORA_WORKSPACE({name}, {enumerator}, "
                                                f"{str(last).lower()}, {', '.join(map(str, numbers))}")
                            if key("forward") in lines:
                                continue
                            x = torch.randn(n, *x_shape[1:], device="cuda").to(dtype, memory_format=layout)
                            w = torch.randn(*w_shape, device="cuda").to(dtype, memory_format=layout)
                            fixed = (stride, padding, dilation, False, [0, 0], groups)
                            dy = torch.randn_like(aten.convolution(x, w, None, *fixed))
                            for name, run in passes(x, w, dy, fixed):
                                lines[key(name)] = f"{key(name)}, {workspace(run)})"
    print("// Workspace of cuDNN 9.19 on an NVIDIA H200, made by measure_workspaces.py: pass, type, channels")
    print("// last, n, c, h, w, k, c per group, r, s, strides, paddings, bytes.")
    print("\n".join(sorted(lines.values())))


if __name__ == "__main__":
    main()
