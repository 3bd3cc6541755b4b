#!/usr/bin/env python3
"""Measures, on a real GPU, the workspace that cuDNN's heuristics ask for, and prints it as
workspaces.inc: what PyTorch allocates during a convolution beside its result.

The convolutions are those of five torchvision models, at batch sizes 17, 64 and 128, in bf16 and fp32
(TF32 allowed, as is PyTorch's default for cuDNN), channels first and last.
"""
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


def shapes():
    found = []

    def note(module, inputs, _):
        found.append((tuple(inputs[0].shape), tuple(module.weight.shape), module.stride,
                      module.padding, module.dilation, module.groups))

    for name in ("resnet50", "vgg11", "resnext50_32x4d", "mobilenet_v2", "densenet121"):
        model = getattr(torchvision.models, name)().eval()
        for module in model.modules():
            if isinstance(module, torch.nn.Conv2d):
                module.register_forward_hook(note)
        with torch.no_grad():
            model(torch.randn(1, 3, 224, 224))
    unique = list(dict.fromkeys(found))
    return [s for i, s in enumerate(unique) if i < 30 or i % 3 == 0]


def main():
    lines = []
    for dtype, type_name in ((torch.bfloat16, "CUDNN_DATA_BFLOAT16"), (torch.float32, "CUDNN_DATA_FLOAT")):
        for layout in (torch.contiguous_format, torch.channels_last):
            for n in (17, 64, 128):
                for x_shape, w_shape, stride, padding, dilation, groups in shapes():
                    if n != 64 and groups > 1:
                        continue
                    x = torch.randn(n, *x_shape[1:], device="cuda").to(dtype, memory_format=layout)
                    w = torch.randn(*w_shape, device="cuda").to(dtype, memory_format=layout)
                    fixed = (stride, padding, dilation, False, [0, 0], groups)
                    dy = torch.randn_like(aten.convolution(x, w, None, *fixed))
                    for name, run in (
                            ("forward", lambda: aten.convolution(x, w, None, *fixed)),
                            ("backward_data", lambda: aten.convolution_backward(
                                dy, x, w, None, *fixed, [True, False, False])),
                            ("backward_filter", lambda: aten.convolution_backward(
                                dy, x, w, None, *fixed, [False, True, False]))):
                        numbers = (*x.shape, *w_shape, *stride, *padding, workspace(run))
                        last = str(layout == torch.channels_last).lower()
                        lines.append(f"PHANTORA_WORKSPACE({name}, {type_name}, {last}, "
                                     f"{', '.join(map(str, numbers))})")
    print("// Workspace of cuDNN 9.19 on an NVIDIA H200, made by measure_workspaces.py: pass, type, channels")
    print("// last, n, c, h, w, k, c per group, r, s, strides, paddings, bytes.")
    print("\n".join(sorted(set(lines))))


if __name__ == "__main__":
    main()
