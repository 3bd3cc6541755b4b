#!/usr/bin/env python3
"""Measures, on a machine with a GPU, the convolutions of torchvision's models and of diffusion's UNets.

Usage: measure_convolutions.py OUT.jsonl [SECONDS [WORKERS]]

Earlier sweeps drew channels, images and filters apart from one another, so that few of their convolutions are any
model's. Lines are like measure_architectures.py's. A quarter of the cases judges and is never fitted: those whose digest
leaves 1 when it is divided by 4 (make_table.py's is_judge()).
"""
import sys

import torch
import torchvision

import measure_h200
from measure_architectures import a_convolution
from measure_h200 import draw

draw.seed(90)
TYPES = ("bf16", "bf16", "bf16", "bf16", "fp16", "tf32", "tf32", "fp32")
BATCHES = (1, 2, 4, 8, 16, 16, 24, 32, 32, 48, 64, 64, 96, 128, 128, 256)


class Unfilled(torch.overrides.TorchFunctionMode):
    """Leaves the values of new parameters as they are: hundreds of millions of them, which nothing reads."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if getattr(function, "__name__", "") in ("normal_", "uniform_", "trunc_normal_", "erfinv_", "kaiming_uniform_", "kaiming_normal_"):
            return args[0] if args else kwargs["tensor"]
        return function(*args, **(kwargs or {}))


def is_square(layer):
    alike = all(len(set(value)) == 1 for value in (layer.kernel_size, layer.stride, layer.padding, layer.dilation))
    return alike and not isinstance(layer.padding, str)


def described(layer, shape):
    return (layer.in_channels, layer.out_channels, tuple(shape[2:]), layer.kernel_size[0], layer.stride[0], layer.padding[0],
            layer.dilation[0], layer.groups, layer.transposed)


def of_model(build, image):
    """Convolutions of a model: (channels in, out, image, filter, stride, padding, dilation, groups, transposed)."""
    found = set()

    def seen(layer, inputs, _):
        if is_square(layer):
            found.add(described(layer, inputs[0].shape))
    with torch.no_grad():
        with Unfilled():
            net = build().eval().to("meta")
        for layer in net.modules():
            if isinstance(layer, torch.nn.modules.conv._ConvNd):
                layer.register_forward_hook(seen)
        net(torch.empty(2, 3, *image, device="meta"))
    return found


def models():
    for name in torchvision.models.list_models():
        module = torchvision.models.get_model_builder(name).__module__
        if ".detection" in module or ".quantization" in module or ".optical_flow" in module:
            continue
        image = (16, 224, 224) if name == "s3d" or "mvit" in name or "swin3d" in name else (16, 112, 112) if ".video" in module else (299, 299) if "inception" in name else (256, 256) if "segmentation" in module else (224, 224)
        more = dict(weights_backbone=None) if "segmentation" in module else {}
        if "googlenet" in name or "inception" in name:
            more |= dict(init_weights=False, aux_logits=False)
        try:
            yield name, of_model(lambda: torchvision.models.get_model(name, weights=None, **more), image)
        except Exception as error:
            print(name, str(error).splitlines()[0][:100], file=sys.stderr)


def diffusion():
    """3 x 3 and 1 x 1 at the widths and resolutions of latent diffusion, and those of small UNets."""
    return {(c, k, (hw >> level, hw >> level), r, stride, r // 2, 1, 1, False)
            for base in (64, 128, 192, 320) for hw in (32, 64, 96) for level, wide in enumerate((1, 2, 4, 4))
            for c, k, r, stride in ((base * wide, base * wide, 3, 1), (2 * base * wide, base * wide, 3, 1), (2 * base * wide, base * wide, 1, 1), (base * wide, base * wide, 3, 2))}


def drawn(layers, count, last=0.4):
    """`last`: the share that has its channels last."""
    # Each model is drawn from as often as another, however many layers it has.
    for _ in range(count):
        c, k, size, r, stride, padding, dilation, groups, transposed = draw.choice(draw.choice(layers))
        n, dtype = draw.choice(BATCHES), draw.choice(TYPES)
        places = torch.Size(size).numel()
        flop = 2.0 * n * places / stride ** len(size) * c * k * r ** len(size) / groups
        if n * max(c, k / stride ** len(size)) * places > 3e8 or flop > (2e11 if dtype == "fp32" else 1e12):
            continue
        yield from a_convolution(n, c, k, size, r, stride, padding, dilation, groups, dtype, draw.random() < last, transposed, f"conv{len(size)}d")


def main():
    layers = [sorted(found) for _, found in models() if found]
    print(len(layers), "models,", len(set().union(*layers)), "convolutions", file=sys.stderr)
    several = [kept for found in layers if (kept := [layer for layer in found if layer[7] > 1])]
    families = (lambda: drawn(layers, 700), lambda: drawn(several, 350), lambda: drawn([sorted(diffusion())], 150))
    arguments = sys.argv[2:] + ["220", "6"][len(sys.argv) - 2:]
    measure_h200.main(sys.argv[1], float(arguments[0]), families, int(arguments[1]))


if __name__ == "__main__":
    main()
