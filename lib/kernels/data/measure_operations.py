#!/usr/bin/env python3
"""Runs, on a machine with a GPU, PyTorch's operations that no other sweep has: `phantora measure` times their kernels
under the keys that the interception has for them.

Usage: phantora measure --kernels FITTED.db -- python3 measure_operations.py fitted
       phantora measure --kernels JUDGES.db -- python3 measure_operations.py judges
       phantora kernels export FITTED.db FITTED.csv

A third of the cases judges and is never fitted, as in measure_sorting.py. Operations are run forward, and backward
where they have gradients.
"""
import sys

import torch
import torch.nn.functional as F

import measure_sorting
from measure_h200 import draw, pick
from measure_sorting import TYPES

FLOATS = ("fp32", "fp32", "bf16", "bf16", "fp16")


def floats(dtype, *shape, grad=True):
    return torch.randn(*shape, device="cuda").to(TYPES[dtype]).requires_grad_(grad)


def classes(below, *shape):
    return torch.randint(0, below, shape, device="cuda")


def there_and_back(f):
    """A step that runs f and its gradient."""
    out = f()
    out = out[0] if isinstance(out, tuple) else out
    gradient = torch.ones_like(out)
    return lambda: (lambda y: y[0] if isinstance(y, tuple) else y)(f()).backward(gradient)


def images():
    kinds = dict(
        pad_reflect=lambda x: F.pad(x, (3, 3, 3, 3), mode="reflect"), pad_replicate=lambda x: F.pad(x, (2, 2, 2, 2), mode="replicate"),
        pad_circular=lambda x: F.pad(x, (2, 2, 2, 2), mode="circular"), pad_zeros=lambda x: F.pad(x, (1, 2, 1, 2)),
        unfold=lambda x: F.unfold(x, 3, padding=1), pixel_shuffle=lambda x: F.pixel_shuffle(x, 2), pixel_unshuffle=lambda x: F.pixel_unshuffle(x, 2),
        channel_shuffle=lambda x: F.channel_shuffle(x, 4), lp_pool=lambda x: F.lp_pool2d(x, 2, 2), avg_pool=lambda x: F.avg_pool2d(x, 3, 2, 1),
        adaptive_max=lambda x: F.adaptive_max_pool2d(x, 4), adaptive_avg=lambda x: F.adaptive_avg_pool2d(x, 7), max_pool=lambda x: F.max_pool2d(x, 3, 2, 1),
        local_response=lambda x: F.local_response_norm(x, 5), instance_norm=lambda x: F.instance_norm(x), group_norm=lambda x: F.group_norm(x, 8),
        dropout2d=lambda x: F.dropout2d(x, 0.2), mean_hw=lambda x: x.mean((2, 3)), amax_hw=lambda x: x.amax((2, 3)), softmax_c=lambda x: x.softmax(1),
        log_softmax_c=lambda x: x.log_softmax(1), flip=lambda x: x.flip(3), roll=lambda x: x.roll((3, 3), (2, 3)), norm_c=lambda x: F.normalize(x, dim=1),
        permute=lambda x: x.permute(0, 2, 3, 1).contiguous(), grid_sample=None, cross_entropy=None, upsample=lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
        upsample_nearest=lambda x: F.interpolate(x, scale_factor=2), antialias=lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True),
        cumsum_h=lambda x: x.cumsum(2), diff=lambda x: x.diff(dim=3), prelu=None, total_variation=lambda x: (x[..., 1:] - x[..., :-1]).abs().mean())
    for kind in sorted(kinds) * 6:
        dtype, n, c, hw = draw.choice(FLOATS), pick(0, 6), draw.choice((4, 16, 64, 128, 256)), draw.choice((14, 28, 32, 56, 64, 112, 128, 224))
        last = draw.random() < 0.25
        if not 1 << 14 < n * c * hw * hw < 1 << 25:
            continue

        def make(kind=kind, dtype=dtype, n=n, c=c, hw=hw, last=last):
            x = torch.randn(n, c, hw, hw, device="cuda").to(TYPES[dtype])
            x = (x.contiguous(memory_format=torch.channels_last) if last else x).requires_grad_(True)
            if kind == "grid_sample":
                grid = (2 * torch.rand(n, hw, hw, 2, device="cuda") - 1).to(TYPES[dtype]).requires_grad_(True)
                return there_and_back(lambda: F.grid_sample(x, grid, align_corners=False))
            if kind == "cross_entropy":
                target = classes(c, n, hw, hw)
                return there_and_back(lambda: F.cross_entropy(x, target))
            if kind == "prelu":
                weight = torch.full((c,), 0.2, device="cuda", dtype=TYPES[dtype], requires_grad=True)
                return there_and_back(lambda: F.prelu(x, weight))
            return there_and_back(lambda: kinds[kind](x))
        yield dict(op="image_" + kind, dtype=dtype, n=n, c=c, hw=hw, last=last), make


def rows():
    kinds = dict(
        softmax=lambda x: x.softmax(-1), log_softmax=lambda x: x.log_softmax(-1), logsumexp=lambda x: x.logsumexp(-1), layer_norm=lambda x: F.layer_norm(x, x.shape[-1:]),
        rms_norm=lambda x: F.rms_norm(x, x.shape[-1:]), dropout=lambda x: F.dropout(x, 0.1), sum_0=lambda x: x.sum(0), mean_1=lambda x: x.mean(-1), var=lambda x: x.var(-1),
        amax=lambda x: x.amax(-1), norm=lambda x: x.norm(dim=-1), normalize=lambda x: F.normalize(x, dim=-1), std_mean=lambda x: torch.std_mean(x, -1)[0],
        cumsum=lambda x: x.cumsum(-1), cumprod=lambda x: x.cumprod(-1), logcumsumexp=lambda x: x.logcumsumexp(-1), cummax=lambda x: x.cummax(-1)[0],
        prod=lambda x: x.prod(-1), glu=lambda x: F.glu(x), tril=lambda x: x.tril(), softplus=lambda x: F.softplus(x), gelu=lambda x: F.gelu(x), silu=lambda x: F.silu(x),
        mish=lambda x: F.mish(x), hardswish=lambda x: F.hardswish(x), gumbel=lambda x: F.gumbel_softmax(x), max=lambda x: x.max(-1)[0], median=lambda x: x.median(-1)[0],
        flip=lambda x: x.flip(-1), roll=lambda x: x.roll(1, 0), cat=lambda x: torch.cat((x, x), -1), stack=lambda x: torch.stack((x, x)), repeat=lambda x: x.repeat(2, 1),
        repeat_interleave=lambda x: x.repeat_interleave(2, 0), transpose=lambda x: x.t().contiguous(), where=lambda x: torch.where(x > 0, x, 0.1 * x),
        clamp=lambda x: x.clamp(-1, 1), pow=lambda x: x.pow(3), exp=lambda x: x.exp(), renorm=lambda x: x.renorm(2, 0, 1.0), softmin_0=lambda x: x.softmax(0),
        bernoulli=lambda x: x * torch.bernoulli(torch.full_like(x, 0.5)), rrelu=lambda x: F.rrelu(x, training=True), diagonal=lambda x: x.diagonal().clone(),
        split=lambda x: x.chunk(2, -1)[0] * x.chunk(2, -1)[1], quantile=None, masked_fill=None, cdist=None, embedding_bag=None, cosine=None, outer=None, unique_dim=None)
    for kind in sorted(kinds) * 7:
        dtype, n, cols = draw.choice(FLOATS), pick(0, 16), draw.choice((2, 10, 32, 64, 100, 128, 256, 512, 768, 1000, 1024, 2048, 4096, 8192, 32000, 50304))
        if not 1 << 12 < n * cols < 1 << 26 or kind in ("median",) and n * cols > 1 << 23:
            continue

        def make(kind=kind, dtype=dtype, n=n, cols=cols):
            x = floats(dtype, n, cols)
            special = dict(
                quantile=lambda: x.detach().float().flatten()[:1 << 20].quantile(0.5), masked_fill=lambda: x.masked_fill(mask, 0.0),
                cdist=lambda: torch.cdist(x[:1024].float(), x[:1024].float()), cosine=lambda: F.cosine_similarity(x, other, dim=-1), outer=lambda: x[:, :1] * other[:1],
                embedding_bag=lambda: F.embedding_bag(at, x, mode="mean"), unique_dim=lambda: whole.unique(dim=0))
            other, mask = floats(dtype, n, cols), torch.rand(n, cols, device="cuda") > 0.5
            at, whole = classes(n, 1024, 8), classes(2, min(n, 4096), min(cols, 16))
            if kind in ("quantile", "unique_dim"):
                return special[kind]
            return there_and_back(special.get(kind, lambda: kinds[kind](x)))
        yield dict(op="rows_" + kind, dtype=dtype, n=n, cols=cols), make


def losses():
    kinds = dict(
        cross_entropy=lambda x, y, t: F.cross_entropy(x, t), smoothed=lambda x, y, t: F.cross_entropy(x, t, label_smoothing=0.1), nll=lambda x, y, t: F.nll_loss(x.log_softmax(-1), t),
        mse=lambda x, y, t: F.mse_loss(x, y), l1=lambda x, y, t: F.l1_loss(x, y), huber=lambda x, y, t: F.huber_loss(x, y), smooth_l1=lambda x, y, t: F.smooth_l1_loss(x, y),
        bce=lambda x, y, t: F.binary_cross_entropy_with_logits(x, y.sigmoid()), kl=lambda x, y, t: F.kl_div(x.log_softmax(-1), y.softmax(-1)),
        soft=lambda x, y, t: F.cross_entropy(x, y.softmax(-1)), margin=lambda x, y, t: F.multi_margin_loss(x, t), gaussian=lambda x, y, t: F.gaussian_nll_loss(x, y, x.exp()),
        cosine=lambda x, y, t: F.cosine_embedding_loss(x, y, torch.ones_like(t)), triplet=lambda x, y, t: F.triplet_margin_loss(x, y, y.flip(0)), poisson=lambda x, y, t: F.poisson_nll_loss(x, y.exp()))
    for kind in sorted(kinds) * 7:
        dtype, n, cols = draw.choice(("fp32", "fp32", "bf16")), pick(4, 15), draw.choice((2, 10, 100, 512, 1000, 8192, 32000, 50257, 128256))
        if n * cols > 1 << 26 or kind == "margin" and (n * cols > 1 << 23 or dtype == "bf16"):
            continue

        def make(kind=kind, dtype=dtype, n=n, cols=cols):
            x, y, t = floats(dtype, n, cols), floats(dtype, n, cols, grad=False), classes(cols, n)
            return there_and_back(lambda: kinds[kind](x, y, t))
        yield dict(op="loss_" + kind, dtype=dtype, n=n, cols=cols), make
    for _ in range(10):
        n, length, words = pick(2, 6), pick(5, 9), draw.choice((32, 64, 1000))

        def make(n=n, length=length, words=words):
            x, t = floats("fp32", length, n, words), 1 + classes(words - 1, n, length // 3)
            lengths = torch.full((n,), length, device="cuda"), torch.full((n,), length // 3, device="cuda")
            return there_and_back(lambda: F.ctc_loss(x.log_softmax(-1), t, *lengths))
        yield dict(op="loss_ctc", dtype="fp32", n=n, length=length, words=words), make


def places():
    """Elements that indices name."""
    kinds = ("index_add", "index_copy", "index_fill", "scatter", "scatter_add", "scatter_max", "scatter_mean", "gather", "take", "put", "take_along", "index_1d", "index_2d",
             "masked_scatter", "masked_select", "nonzero", "one_hot", "embedding_max_norm", "embedding", "segment_reduce", "histogram", "cross", "tril_indices", "meshgrid", "arange", "linspace")
    for kind in kinds * 6:
        dtype, table, count, width = draw.choice(("fp32", "fp32", "bf16")), pick(6, 19), pick(6, 19), draw.choice((1, 4, 16, 64, 128, 512, 1024))
        if max(table, count) * width > 1 << 26:
            continue

        def make(kind=kind, dtype=dtype, table=table, count=count, width=width):
            x, v = floats(dtype, table, width, grad=False), floats(dtype, count, width, grad=False)
            at = classes(table, count)
            wide, mask = at[:, None].expand(-1, width).contiguous(), torch.rand(table, device="cuda") > 0.5
            flat, some = x.flatten(), classes(table * width, count)
            lengths = torch.full((count // 4,), 4, device="cuda")
            grown = x.clone().requires_grad_(True)
            return {"index_add": lambda: x.index_add_(0, at, v), "index_copy": lambda: x.index_copy_(0, at, v), "index_fill": lambda: x.index_fill_(0, at, 1.0),
                    "scatter": lambda: x.scatter_(0, wide, v), "scatter_add": lambda: x.scatter_add_(0, wide, v), "scatter_max": lambda: x.scatter_reduce_(0, wide, v, "amax"),
                    "scatter_mean": lambda: x.scatter_reduce_(0, wide, v, "mean"), "gather": lambda: x.gather(0, wide), "take": lambda: x.take(some),
                    "put": lambda: x.put_(some, flat[:1].expand(count)), "take_along": lambda: x.take_along_dim(wide, 0), "index_1d": lambda: flat[some],
                    "index_2d": lambda: x[at, 0], "masked_scatter": lambda: x.masked_scatter_(mask[:, None], v[:1].expand(table, width)), "masked_select": lambda: flat.masked_select(flat > 0),
                    "nonzero": lambda: (flat > 0).nonzero(), "one_hot": lambda: F.one_hot(at[:1 << 14] % 1000, 1000), "embedding_max_norm": lambda: F.embedding(at, x, max_norm=1.0),
                    "embedding": lambda: F.embedding(at, grown).backward(v), "segment_reduce": lambda: torch.segment_reduce(v[:count // 4 * 4].float(), "sum", lengths=lengths),
                    "histogram": lambda: flat.float().histc(100), "cross": lambda: torch.linalg.cross(floats(dtype, count, 3, grad=False), floats(dtype, count, 3, grad=False)),
                    "tril_indices": lambda: torch.tril_indices(2000, 2000, device="cuda"), "meshgrid": lambda: torch.stack(torch.meshgrid(flat[:1000], flat[:1000], indexing="ij")),
                    "arange": lambda: torch.arange(count, device="cuda"), "linspace": lambda: torch.linspace(0, 1, count, device="cuda")}[kind]
        yield dict(op="places_" + kind, dtype=dtype, table=table, count=count, width=width), make


def drawn():
    """Random numbers."""
    kinds = dict(normal=lambda x: x.normal_(), uniform=lambda x: x.uniform_(), bernoulli=lambda x: x.bernoulli_(0.3), exponential=lambda x: x.exponential_(), cauchy=lambda x: x.cauchy_(),
                 log_normal=lambda x: x.log_normal_(), geometric=lambda x: x.geometric_(0.5), random=lambda x: x.random_(0, 100), poisson=lambda x: torch.poisson(x.abs()),
                 gamma=lambda x: torch._standard_gamma(x.abs() + 0.5), trunc_normal=lambda x: torch.nn.init.trunc_normal_(x), multinomial=lambda x: x[:1 << 16].abs().view(1, -1).multinomial(16),
                 categorical=lambda x: x[:x.numel() // 64 * 64].view(-1, 64).softmax(-1).multinomial(1))
    for kind in sorted(kinds) * 6:
        dtype, n = draw.choice(("fp32", "fp32", "bf16")), pick(10, 26)
        if kind in ("poisson", "gamma", "multinomial", "categorical", "trunc_normal"):
            dtype, n = "fp32", min(n, 1 << 23)

        def make(kind=kind, dtype=dtype, n=n):
            x = floats(dtype, n, grad=False)
            return lambda: kinds[kind](x)
        yield dict(op="drawn_" + kind, dtype=dtype, n=n), make


def steps():
    """Cells, gradients' norms, scalers and optimizers of many tensors."""
    kinds = ("lstm_cell", "gru_cell", "clip", "adagrad", "adadelta", "rmsprop", "adamax", "nadam", "radam", "lion_like", "adam_single", "sgd_single", "ema", "scaler", "lerp")
    for kind in kinds * 5:
        dtype, width, count = draw.choice(("fp32", "fp32", "bf16")), draw.choice((64, 256, 512, 1024, 2048)), pick(1, 6)
        if width * width * count > 1 << 26:
            continue

        def make(kind=kind, dtype=dtype, width=width, count=count):
            if kind.endswith("_cell"):
                cell = (torch.nn.LSTMCell if kind == "lstm_cell" else torch.nn.GRUCell)(width, width, device="cuda", dtype=TYPES[dtype])
                x, h, c = (floats(dtype, 4 * count, width) for _ in range(3))
                return there_and_back((lambda: cell(x, (h, c))) if kind == "lstm_cell" else (lambda: cell(x, h)))
            tensors = [torch.nn.Parameter(floats(dtype, width, width, grad=False)) for _ in range(count)]
            for tensor in tensors:
                tensor.grad = torch.randn_like(tensor)
            if kind == "clip":
                return lambda: torch.nn.utils.clip_grad_norm_(tensors, 1.0)
            if kind == "ema":
                mean = [tensor.detach().clone() for tensor in tensors]
                return lambda: torch._foreach_lerp_(mean, [t.detach() for t in tensors], 0.01)
            if kind == "lerp":
                mean = [tensor.detach().clone() for tensor in tensors]
                return lambda: [m.lerp_(t.detach(), 0.01) for m, t in zip(mean, tensors)]
            if kind == "lion_like":
                return lambda: torch._foreach_add_([t.data for t in tensors], torch._foreach_sign([t.grad for t in tensors]), alpha=-1e-4)
            if kind == "scaler":
                scaler, optimizer = torch.amp.GradScaler(), torch.optim.SGD(tensors, 0.1)
                scaler.scale(torch.zeros((), device="cuda"))

                def step():
                    scaler.unscale_(optimizer)
                    scaler.step(optimizer)
                    scaler.update()
                return step
            made = dict(adagrad=torch.optim.Adagrad, adadelta=torch.optim.Adadelta, rmsprop=torch.optim.RMSprop, adamax=torch.optim.Adamax, nadam=torch.optim.NAdam, radam=torch.optim.RAdam,
                        adam_single=torch.optim.Adam, sgd_single=torch.optim.SGD)[kind]
            more = dict(foreach=False) if kind.endswith("_single") else {}
            optimizer = made(tensors, lr=1e-3, **more)
            return optimizer.step
        yield dict(op="step_" + kind, dtype=dtype, width=width, count=count), make


if __name__ == "__main__":
    measure_sorting.main(sys.argv[1], (images, rows, losses, places, drawn, steps), seed=1128)
