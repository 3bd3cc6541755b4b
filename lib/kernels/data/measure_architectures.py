#!/usr/bin/env python3
"""Measures, on a machine with a GPU, kernels of architectures that are no plain transformers or ResNets.

Usage: measure_architectures.py OUT.jsonl [SECONDS]

Depthwise, grouped, dilated, transposed and one-dimensional convolutions, recurrent networks, group and
instance norms, embedding bags, experts' gathers and scatters, resizing, padding, masked and odd-sized
attention, float64. Lines are like measure_h200.py's. The directions of a convolution's gradient are
measured one by one (`part`), since cuDNN's names do not tell them apart.
"""
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import measure_h200
from measure_h200 import TYPES, draw, pick, tensor

draw.seed(40)
TYPES |= {"fp64": torch.float64, "tf32": torch.float32}


def in_type(dtype, run):
    """`run`, with what its type says of TF32."""
    def runs():
        torch.backends.cudnn.allow_tf32 = dtype == "tf32"
        return run()
    return runs


def format_of(x, last):
    if not last or x.dim() < 4:
        return x
    return x.contiguous(memory_format=torch.channels_last if x.dim() == 4 else torch.channels_last_3d)


def a_convolution(n, c, k, size, r, stride=1, padding=None, dilation=1, groups=1, dtype="bf16",
                  last=False, transposed=False, op="conv2d"):
    """Three cases: forward, gradient of the data, gradient of the filter."""
    dims = len(size)
    padding = dilation * (r // 2) if padding is None else padding
    shape = dict(op=op, dtype=dtype, batch=n, cin=c, cout=k, size=list(size), k=r, stride=stride,
                 padding=padding, dilation=dilation, groups=groups, channels_last=last,
                 transposed=transposed)
    many = [[stride] * dims, [padding] * dims, [dilation] * dims]
    output = [stride - 1 if transposed and r > stride else 0] * dims

    def operands():
        x = format_of(tensor(n, c, *size, dtype=dtype), last)
        w = tensor(c, k // groups, *[r] * dims, dtype=dtype) if transposed else tensor(
            k, c // groups, *[r] * dims, dtype=dtype)
        return x, format_of(w, last)

    def forward():
        x, w = operands()
        return in_type(dtype, lambda: torch.ops.aten.convolution(x, w, None, *many, transposed, output, groups))

    def backward(mask):
        def make():
            x, w = operands()
            y = torch.ops.aten.convolution(x, w, None, *many, transposed, output, groups)
            g = torch.randn_like(y)
            return in_type(dtype, lambda: torch.ops.aten.convolution_backward(
                g, x, w, None, *many, transposed, output, groups, mask))
        return make
    yield shape | dict(part="fwd"), forward
    yield shape | dict(part="bwd_data"), backward([True, False, False])
    yield shape | dict(part="bwd_filter"), backward([False, True, False])


def depthwise():
    for _ in range(170):
        n, hw = pick(2, 7.2), draw.choice((7, 14, 14, 28, 28, 56, 112))
        c = draw.choice((32, 64, 96, 128, 144, 192, 192, 240, 256, 384, 384, 480, 512, 672, 768, 768, 960, 1024, 1536))
        r, stride = draw.choice((3, 3, 5, 7, 7, 9)), draw.choice((1, 1, 1, 2))
        dtype, last = draw.choice(("bf16", "bf16", "fp16", "fp32", "tf32")), draw.random() < 0.6
        if n * c * hw * hw > 2e8:
            continue
        yield from a_convolution(n, c, c, (hw, hw), r, stride, groups=c, dtype=dtype, last=last)


def grouped():
    for _ in range(110):
        n, hw = pick(2, 7.2), draw.choice((7, 14, 28, 56))
        width, groups = draw.choice((4, 8, 16, 24, 32, 40, 64, 112)), draw.choice((2, 4, 8, 16, 32, 64))
        r, stride = draw.choice((3, 3, 3, 1, 5)), draw.choice((1, 1, 2))
        dtype, last = draw.choice(("bf16", "bf16", "tf32")), draw.random() < 0.6
        c = width * groups
        if n * c * hw * hw > 2e8 or c > 4096:
            continue
        yield from a_convolution(n, c, c, (hw, hw), r, stride, groups=groups, dtype=dtype, last=last)


def dilated_and_transposed():
    for _ in range(90):
        n, c, k = pick(1, 6), pick(5, 10, 32), pick(5, 10, 32)
        hw, last = draw.choice((14, 28, 32, 64, 65, 128)), draw.random() < 0.5
        dtype = draw.choice(("bf16", "bf16", "tf32"))
        if n * max(c, k) * hw * hw > 1.5e8:
            continue
        if draw.random() < 0.5:
            yield from a_convolution(n, c, k, (hw, hw), 3, dilation=draw.choice((2, 4, 6, 12, 18)), dtype=dtype, last=last)
        else:
            r, padding = draw.choice(((2, 0), (4, 1), (3, 1)))
            yield from a_convolution(n, c, k, (hw, hw), r, 2, padding, dtype=dtype, last=last, transposed=True)


def odd_convolution():
    """Kernels larger than 3, few input channels, many pixels: networks that are no ResNets."""
    for _ in range(150):
        c, k = draw.choice((1, 3, 4, 16, 48, 64, 80, 96, 160, 192, 320, 384, 512, 640, 1280)), pick(4, 10.4, 8)
        r = draw.choice((1, 3, 3, 3, 5, 7, 11)) if c > 4 else draw.choice((3, 4, 7, 11, 14, 16, 32))
        hw, n = draw.choice((8, 12, 16, 24, 32, 48, 64, 112, 224)), pick(0, 7)
        stride = r if r in (4, 14, 16, 32) else draw.choice((1, 1, 2))
        padding = 0 if r in (4, 14, 16, 32) else None
        if n * max(c, k) * hw * hw > 2e8 or 2.0 * n * hw * hw / stride**2 * c * k * r * r > 2e12:
            continue
        yield from a_convolution(n, c, k, (hw, hw), r, stride, padding, dtype=draw.choice(("bf16", "bf16", "fp16", "tf32")), last=draw.random() < 0.5)


def other_dimensions():
    for _ in range(60):
        n, c, k = pick(1, 6), draw.choice((1, 80, 128, 256, 512, 768, 1024)), draw.choice((64, 128, 256, 512, 768, 1024))
        length, r, stride = pick(7, 13), draw.choice((1, 3, 3, 5, 10, 31)), draw.choice((1, 1, 2, 5))
        groups = c if draw.random() < 0.25 and c > 1 else 1
        if n * max(c, k) * length > 1.5e8:
            continue
        yield from a_convolution(n, c, c if groups > 1 else k, (length,), r, stride, groups=groups, dtype=draw.choice(("bf16", "bf16", "tf32")), op="conv1d")
    for _ in range(20):
        n, c, k, d, hw = pick(0, 3), draw.choice((3, 16, 32, 64, 128)), draw.choice((16, 32, 64, 128)), draw.choice((4, 8, 16, 32)), draw.choice((14, 28, 56))
        if n * max(c, k) * d * hw * hw > 1e8:
            continue
        yield from a_convolution(n, c, k, (d, hw, hw), 3, dtype=draw.choice(("bf16", "tf32")), last=draw.random() < 0.4, op="conv3d")


def a_recurrent(op, kind, dtype, batch, seq, inputs, hidden, layers, bidirectional):
    """A network that is trained, or only run."""
    train = op == "rnn_fwd_bwd"

    def make():
        net = getattr(torch.nn, kind)(inputs, hidden, layers, bidirectional=bidirectional, batch_first=True).to("cuda", TYPES[dtype])
        net.flatten_parameters()
        x = tensor(batch, seq, inputs, dtype=dtype, grad=train)
        if not train:
            net.eval()

            def infer():
                with torch.no_grad():
                    net(x)
            return in_type(dtype, infer)
        g = torch.randn_like(net(x)[0])
        return in_type(dtype, lambda: net(x)[0].backward(g))
    return dict(op=op, kind=kind, dtype=dtype, batch=batch, seq=seq, inputs=inputs, hidden=hidden, layers=layers, bidirectional=bidirectional), make


def recurrent():
    for _ in range(130):
        kind = draw.choice(("LSTM", "LSTM", "GRU", "RNN"))
        batch, length, inputs, hidden = pick(0, 8), pick(3, 9.5), pick(5, 11, 8), pick(5, 11, 8)
        layers, both = draw.choice((1, 1, 2, 4)), draw.random() < 0.25
        dtype, train = draw.choice(("fp32", "tf32", "bf16", "fp16")), draw.random() < 0.6
        if batch * length * hidden * layers > 6e7 or length * layers > 2000:
            continue
        yield a_recurrent("rnn_fwd_bwd" if train else "rnn_fwd", kind, dtype, batch, length, inputs, hidden, layers, both)


def norms():
    for _ in range(80):
        n, c, hw = pick(0, 7), pick(5, 11, 32), draw.choice((7, 14, 16, 28, 32, 56, 64))
        dtype, last, kind = draw.choice(("bf16", "fp16", "fp32")), draw.random() < 0.4, draw.choice(("group", "group", "instance", "batch"))
        if n * c * hw * hw > 2e8:
            continue

        def make(n=n, c=c, hw=hw, dtype=dtype, last=last, kind=kind):
            x = format_of(tensor(n, c, hw, hw, dtype=dtype), last).requires_grad_(True)
            w, b = tensor(c, dtype=dtype, grad=True), tensor(c, dtype=dtype, grad=True)
            f = {"group": lambda: F.group_norm(x, 32, w, b), "instance": lambda: F.instance_norm(x, weight=w, bias=b),
                 "batch": lambda: F.batch_norm(x, torch.zeros(c, device="cuda", dtype=w.dtype), torch.ones(c, device="cuda", dtype=w.dtype), w, b, True)}[kind]
            g = torch.randn_like(x)
            return lambda: f().backward(g)
        yield dict(op=kind + "_norm_fwd_bwd", dtype=dtype, batch=n, cin=c, hw=hw, channels_last=last), make


def by_index():
    for _ in range(130):
        kind = draw.choice(("embedding_bag", "index_select", "gather", "scatter_add", "index_put", "topk", "sort", "cumsum", "argmax", "one_hot", "nonzero", "index_add", "masked_fill", "masked_select"))
        rows, cols, dtype = pick(8, 17), pick(3, 11, 8), draw.choice(("bf16", "fp32"))
        if rows * cols > 2e8:
            continue

        def make(kind=kind, rows=rows, cols=cols, dtype=dtype):
            x = tensor(rows, cols, dtype=dtype)
            some = torch.randint(0, rows, (max(1, rows // 2),), device="cuda")
            place = torch.randint(0, cols, (rows, cols), device="cuda")
            if kind == "embedding_bag":
                w, i = tensor(rows, cols, dtype="fp32", grad=True), torch.randint(0, rows, (max(1, rows // 4), 4), device="cuda")
                return lambda: F.embedding_bag(i, w, mode="sum").sum().backward()
            if kind == "index_put":
                v = tensor(len(some), cols, dtype=dtype)
                return lambda: x.index_put_((some,), v, accumulate=True)
            if kind == "index_add":
                v = tensor(len(some), cols, dtype=dtype)
                return lambda: x.index_add_(0, some, v)
            return {"index_select": lambda: x.index_select(0, some), "gather": lambda: x.gather(1, place),
                    "scatter_add": lambda: torch.zeros_like(x).scatter_add_(1, place, x), "topk": lambda: x.topk(min(8, cols), -1),
                    "sort": lambda: x.sort(-1), "cumsum": lambda: x.cumsum(0), "argmax": lambda: x.argmax(-1),
                    "one_hot": lambda: F.one_hot(some % cols, cols), "nonzero": lambda: (x > 0).nonzero(),
                    "masked_fill": lambda: x.masked_fill(x > 0, 0.0), "masked_select": lambda: x[x > 0]}[kind]
        yield dict(op=kind, dtype=dtype, rows=rows, cols=cols), make


def experts():
    for _ in range(40):
        tokens, hidden, ffn, count = pick(8, 14), pick(8, 12.2, 64), pick(8, 13.8, 64), draw.choice((4, 8, 8, 16, 64))
        if 2.0 * tokens * hidden * ffn > 2e12 or count * hidden * ffn > 1.5e9:
            continue

        def make(tokens=tokens, hidden=hidden, ffn=ffn, count=count):
            x, w = tensor(tokens, hidden), tensor(count, hidden, ffn)
            ends = torch.linspace(tokens / count, tokens, count, device="cuda").to(torch.int32)
            return lambda: torch._grouped_mm(x, w, offs=ends)
        yield dict(op="grouped_mm", dtype="bf16", m=tokens, k=hidden, n=ffn, groups=count), make


def images():
    for _ in range(60):
        kind = draw.choice(("nearest", "bilinear", "bicubic", "pad", "pixel_shuffle", "unfold", "adaptive", "roll", "flip"))
        n, c, hw, dtype, last = pick(0, 6), pick(2, 9, 4), draw.choice((14, 28, 32, 56, 64, 112)), draw.choice(("bf16", "fp32")), draw.random() < 0.4
        if n * c * hw * hw > 5e7:
            continue

        def make(kind=kind, n=n, c=c, hw=hw, dtype=dtype, last=last):
            x = format_of(tensor(n, c, hw, hw, dtype=dtype), last).requires_grad_(True)
            f = {"pad": lambda: F.pad(x, (1, 1, 1, 1)), "pixel_shuffle": lambda: F.pixel_shuffle(x, 2), "unfold": lambda: F.unfold(x, 3, padding=1),
                 "adaptive": lambda: F.adaptive_avg_pool2d(x, 1), "roll": lambda: x.roll((3, 3), (2, 3)), "flip": lambda: x.flip(3)}.get(
                     kind, lambda: F.interpolate(x, scale_factor=2, mode=kind))
            g = torch.randn_like(f())
            return lambda: f().backward(g)
        yield dict(op="image_" + kind, dtype=dtype, batch=n, cin=c, hw=hw, channels_last=last), make


def odd_attention():
    for _ in range(110):
        b, h, s, d = pick(0, 6), draw.choice((1, 4, 5, 8, 10, 12, 16, 20)), draw.choice((49, 64, 144, 196, 200, 256, 512, 1024, 1500, 2048, 4096)), draw.choice((16, 32, 40, 64, 64, 72, 80, 96, 128, 160, 192, 256))
        other, kind = draw.choice((0, 0, 0, 77, 200, 448, 1500)), draw.choice(("flash", "efficient", "efficient", "cudnn", "math"))
        dtype, masked, train = draw.choice(("bf16", "bf16", "fp16", "fp32")), draw.random() < 0.4, draw.random() < 0.6
        keys = other or s
        if b * h * s * d > 1e8 or b * h * s * keys > (4e8 if kind == "math" else 3e9) or (masked and kind == "flash") or (dtype == "fp32" and kind in ("flash", "cudnn")):
            continue

        def make(b=b, h=h, s=s, d=d, keys=keys, kind=kind, dtype=dtype, masked=masked, train=train):
            q, k, v = (tensor(b, n, h, d, dtype=dtype).transpose(1, 2).requires_grad_(train) for n in (s, keys, keys))
            mask = torch.randn(b, 1, s, (keys + 7) // 8 * 8, device="cuda", dtype=q.dtype)[..., :keys] if masked else None
            g = torch.randn_like(q)
            backend = {"flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION, "math": SDPBackend.MATH}[kind]

            def f():
                with sdpa_kernel([backend]):
                    o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
                    if train:
                        o.backward(g)
            return f
        yield dict(op="sdpa_fwd_bwd" if train else "sdpa_fwd", backend=kind, dtype=dtype, batch=b, heads=h, seq=s, keys=keys, head_dim=d, masked=masked, causal=False), make


def precise():
    for _ in range(40):
        m, n, k, dtype = pick(4, 12.5), pick(4, 12.5), pick(4, 12.5), draw.choice(("fp64", "fp64", "fp32"))
        batch = draw.choice((0, 0, 8, 64))
        if 2.0 * max(batch, 1) * m * n * k > 4e11 or max(batch, 1) * (m * n + n * k + m * k) > 3e8:
            continue

        def make(m=m, n=n, k=k, dtype=dtype, batch=batch):
            lead = (batch,) if batch else ()
            a, b = tensor(*lead, m, k, dtype=dtype), tensor(*lead, k, n, dtype=dtype)
            return lambda: torch.matmul(a, b)
        yield dict(op="bmm" if batch else "mm", dtype=dtype, layout="NN", batch=batch, m=m, n=n, k=k), make


FAMILIES = (depthwise, grouped, dilated_and_transposed, odd_convolution, other_dimensions, recurrent, norms,
            by_index, experts, images, odd_attention, precise)

if __name__ == "__main__":
    measure_h200.main(sys.argv[1], *map(float, sys.argv[2:]), families=FAMILIES)
