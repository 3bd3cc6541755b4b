#!/usr/bin/env python3
"""PyTorch's operators, one after the other: what the GPU does in each, with its kernels' names.

    operators.py [--part fitted|judges] [--only TEXT ...] [--share K/N]     # prints a line of JSON for each case

The same on a GPU and in a simulation (README.md, "Operators of PyTorch"). A name tells operator, type and size; "both ways"
is with the gradient, where PyTorch has one. A half of the cases judges: those whose digest is odd, which nobody looks
at while rules are made.
"""
import argparse
import json
import sys

import torch
import torch.nn.functional as F
from torchvision import ops

from kernel_errors import judges
from profiled import times_by_kernel

TYPES = dict(bf16=torch.bfloat16, fp32=torch.float32)
CALLS = 4


class Inputs:
    """Operands of one size, and of one type where their maker does not ask for another."""

    def __init__(self, size, dtype, differentiable):
        self.size, self.dtype, self.differentiable, self.made, self.typed = size, dtype, differentiable, [], False

    @property
    def single(self):
        """The same in fp32, whatever the type."""
        other = Inputs(self.size, torch.float32, self.differentiable)
        other.made = self.made
        return other

    def learned(self, tensor):
        """With a gradient, where these are asked for."""
        if self.differentiable and tensor.is_floating_point():
            tensor.requires_grad_(True)
            self.made.append(tensor)
        return tensor

    def randn(self, *shape):
        self.typed = True
        return self.learned(torch.randn(*shape, device="cuda").to(self.dtype))

    def rand(self, *shape):
        """Between 0.05 and 0.95, where all functions are defined."""
        self.typed = True
        return self.learned((torch.rand(*shape, device="cuda") * 0.9 + 0.05).to(self.dtype))

    def ints(self, high, *shape, dtype=torch.int64):
        return torch.randint(0, high, shape, device="cuda", dtype=dtype)

    @property
    def rows(self):
        return {"large": 8192, "medium": 2048, "small": 512}[self.size]

    @property
    def cols(self):
        return {"large": 4096, "medium": 2048, "small": 1024}[self.size]

    @property
    def matrix(self):
        return self.randn(self.rows, self.cols)

    @property
    def unit(self):
        return self.rand(self.rows, self.cols)

    @property
    def row(self):
        return self.randn(self.cols)

    @property
    def whole(self):
        return self.ints(self.cols, self.rows, self.cols, dtype=torch.int32)

    @property
    def places(self):
        """A place in each row's columns for each element."""
        return self.ints(self.cols, self.rows, self.cols)

    @property
    def mask(self):
        return torch.rand(self.rows, self.cols, device="cuda") < 0.5

    @property
    def images(self):
        return self.randn(*{"large": (32, 64, 112, 112), "medium": (8, 128, 56, 56), "small": (4, 32, 28, 28)}[self.size])

    @property
    def volumes(self):
        return self.randn(*{"large": (4, 32, 32, 56, 56), "medium": (4, 16, 16, 28, 28), "small": (2, 16, 8, 14, 14)}[self.size])

    @property
    def signals(self):
        return self.randn(*{"large": (32, 256, 4000), "medium": (16, 128, 1500), "small": (4, 64, 500)}[self.size])

    @property
    def square(self):
        """A batch of well-conditioned matrices."""
        count, side = {"large": (64, 256), "medium": (32, 128), "small": (4, 64)}[self.size]
        x = torch.randn(count, side, side, device="cuda", dtype=torch.float32)
        return self.learned(x @ x.mT + side * torch.eye(side, device="cuda"))


def unary():
    for name in ("abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 floor frac isfinite isnan lgamma log log10 log1p log2 logit neg "
                 "positive reciprocal round rsqrt sgn sigmoid sign signbit sin sinc sinh sqrt square tan tanh trunc nan_to_num angle").split():
        yield name, lambda i, f=getattr(torch, name): (lambda x: lambda: f(x))(i.unit)
    for name in "entr erfcx i0 i0e i1 i1e log_ndtr ndtri bessel_j0 bessel_j1 bessel_y0 airy_ai modified_bessel_k0 spherical_bessel_j0".split():
        yield "special " + name, lambda i, f=getattr(torch.special, name): (lambda x: lambda: f(x))(i.single.rand(i.rows, i.cols))
    for name in ("gelu silu mish hardswish hardsigmoid elu celu selu softplus logsigmoid hardtanh relu relu6 leaky_relu softshrink hardshrink softsign tanhshrink rrelu dropout alpha_dropout").split():
        yield name, lambda i, f=getattr(F, name): (lambda x: lambda: f(x))(i.matrix)
    yield "gelu tanh", lambda i: (lambda x: lambda: F.gelu(x, approximate="tanh"))(i.matrix)
    yield "threshold", lambda i: (lambda x: lambda: F.threshold(x, 0.1, 20))(i.matrix)
    yield "glu", lambda i: (lambda x: lambda: F.glu(x))(i.matrix)
    yield "prelu", lambda i: (lambda x, w: lambda: F.prelu(x, w))(i.images, i.randn(i.images.shape[1]))
    yield "dropout2d", lambda i: (lambda x: lambda: F.dropout2d(x))(i.images)
    yield "polygamma", lambda i: (lambda x: lambda: torch.polygamma(1, x))(i.unit)
    yield "clamp", lambda i: (lambda x: lambda: x.clamp(-1, 1))(i.matrix)
    yield "pow 3", lambda i: (lambda x: lambda: x ** 3)(i.unit)
    yield "pow 1.7", lambda i: (lambda x: lambda: x ** 1.7)(i.unit)
    yield "to half", lambda i: (lambda x: lambda: x.half())(i.matrix)
    yield "to int64", lambda i: (lambda x: lambda: x.long())(i.matrix)
    yield "to double", lambda i: (lambda x: lambda: x.double())(i.matrix)
    yield "bernoulli", lambda i: (lambda x: lambda: torch.bernoulli(x))(i.unit.detach())
    yield "poisson", lambda i: (lambda x: lambda: torch.poisson(x))(i.single.unit.detach())
    yield "fake_quantize", lambda i: (lambda x: lambda: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127))(i.single.matrix)
    yield "fake_quantize channels", lambda i: (lambda x, s: lambda: torch.fake_quantize_per_channel_affine(x, s, torch.zeros_like(s, dtype=torch.int32), 0, -128, 127))(
        i.single.matrix, torch.rand(i.rows, device="cuda") + 0.1)


def binary():
    for name in "add sub mul div maximum minimum atan2 copysign fmod remainder hypot logaddexp logaddexp2 pow fmax xlogy floor_divide".split():
        yield name, lambda i, f=getattr(torch, name): (lambda x, y: lambda: f(x, y))(i.unit, i.unit)
    for name in "eq lt ge logical_and isclose".split():
        yield name, lambda i, f=getattr(torch, name): (lambda x, y: lambda: f(x, y))(i.matrix.detach(), i.matrix.detach())
    for name in "bitwise_and bitwise_xor bitwise_left_shift floor_divide remainder gcd mul add".split():
        yield "integers " + name, lambda i, f=getattr(torch, name): (lambda x, y: lambda: f(x, y))(i.whole, i.ints(7, i.rows, i.cols, dtype=torch.int32) + 1)
    for name in "zeta".split():
        yield "special zeta", lambda i: (lambda x, y: lambda: torch.special.zeta(x, y))(i.single.rand(i.rows, i.cols) + 1.1, i.single.rand(i.rows, i.cols))
    yield "special gammainc", lambda i: (lambda x, y: lambda: torch.special.gammainc(x, y))(i.single.rand(i.rows, i.cols).detach(), i.single.rand(i.rows, i.cols))
    yield "add row", lambda i: (lambda x, y: lambda: x + y)(i.matrix, i.row)
    yield "add column", lambda i: (lambda x, y: lambda: x + y)(i.matrix, i.randn(i.rows, 1))
    yield "add transposed", lambda i: (lambda x, y: lambda: x + y.t())(i.randn(i.cols, i.cols), i.randn(i.cols, i.cols))
    yield "outer", lambda i: (lambda x, y: lambda: torch.outer(x, y))(i.randn(i.rows), i.row)
    yield "kron", lambda i: (lambda x, y: lambda: torch.kron(x, y))(i.randn(i.rows // 64, i.cols // 64), i.randn(64, 64))
    yield "where", lambda i: (lambda m, x, y: lambda: torch.where(m, x, y))(i.mask, i.matrix, i.matrix)
    yield "lerp", lambda i: (lambda x, y, z: lambda: torch.lerp(x, y, z))(i.matrix, i.matrix, i.unit)
    yield "addcmul", lambda i: (lambda x, y, z: lambda: torch.addcmul(x, y, z, value=0.5))(i.matrix, i.matrix, i.unit)
    yield "addcdiv", lambda i: (lambda x, y, z: lambda: torch.addcdiv(x, y, z, value=0.5))(i.matrix, i.matrix, i.unit)
    yield "masked_fill", lambda i: (lambda x, m: lambda: x.masked_fill(m, 0))(i.matrix, i.mask)
    yield "complex mul", lambda i: (lambda x, y: lambda: x * y)(torch.randn(i.rows, i.cols // 2, device="cuda", dtype=torch.complex64), torch.randn(i.rows, i.cols // 2, device="cuda", dtype=torch.complex64))
    yield "complex abs", lambda i: (lambda x: lambda: x.abs())(torch.randn(i.rows, i.cols // 2, device="cuda", dtype=torch.complex64))
    yield "polar", lambda i: (lambda x, y: lambda: torch.polar(x, y))(i.single.rand(i.rows, i.cols), i.single.randn(i.rows, i.cols))
    yield "cross", lambda i: (lambda x, y: lambda: torch.linalg.cross(x, y))(i.randn(i.rows * i.cols // 4, 3), i.randn(i.rows * i.cols // 4, 3))


def reductions():
    for name in "sum mean prod amax amin std var logsumexp".split():
        for dim in (0, 1):
            yield f"{name} of dimension {dim}", lambda i, f=getattr(torch, name), dim=dim: (lambda x: lambda: f(x, dim))(i.unit)
    for name in "argmax argmin any all count_nonzero nansum aminmax".split():
        for dim in (0, 1):
            yield f"{name} of dimension {dim}", lambda i, f=getattr(torch, name), dim=dim: (lambda x: lambda: f(x, dim=dim))(i.unit.detach())
    for name in "max min median nanmedian".split():
        for dim in (0, 1):
            yield f"{name} with index of dimension {dim}", lambda i, f=getattr(torch, name), dim=dim: (lambda x: lambda: f(x, dim)[0])(i.unit)
    for name in "sum mean prod max argmax median std".split():
        yield f"{name} of all", lambda i, f=getattr(torch, name): (lambda x: lambda: f(x))(i.unit)
    for p in (1, 2, 3, float("inf")):
        yield f"vector_norm {p}", lambda i, p=p: (lambda x: lambda: torch.linalg.vector_norm(x, p, -1))(i.matrix)
    yield "sum of middle", lambda i: (lambda x: lambda: x.sum((0, 2, 3)))(i.images)
    yield "mean of places", lambda i: (lambda x: lambda: x.mean((2, 3)))(i.images)
    yield "mode", lambda i: (lambda x: lambda: x.mode(-1)[0])(i.randn(i.rows, i.cols // 4))
    yield "kthvalue", lambda i: (lambda x: lambda: x.kthvalue(7, -1)[0])(i.matrix)
    yield "quantile", lambda i: (lambda x: lambda: torch.quantile(x, 0.9, -1))(i.single.randn(i.rows // 8, i.cols))
    yield "sum of integers", lambda i: (lambda x: lambda: x.sum(-1))(i.whole)
    yield "sum of truths", lambda i: (lambda x: lambda: x.sum())(i.mask)
    yield "normalize", lambda i: (lambda x: lambda: F.normalize(x, dim=-1))(i.matrix)
    for dim in (0, 1):
        for name in "softmax log_softmax".split():
            yield f"{name} of dimension {dim}", lambda i, f=getattr(F, name), dim=dim: (lambda x: lambda: f(x, dim))(i.matrix)
        for name in "cumsum cumprod logcumsumexp".split():
            yield f"{name} of dimension {dim}", lambda i, f=getattr(torch, name), dim=dim: (lambda x: lambda: f(x, dim))(i.unit)
        for name in "cummax cummin".split():
            yield f"{name} of dimension {dim}", lambda i, f=getattr(torch, name), dim=dim: (lambda x: lambda: f(x, dim)[0])(i.unit)
    yield "cumsum of all", lambda i: (lambda x: lambda: x.cumsum(0))(i.randn(i.rows * i.cols))
    yield "softmax of long rows", lambda i: (lambda x: lambda: x.softmax(-1))(i.randn(i.rows // 64, 64 * i.cols))
    yield "gumbel_softmax", lambda i: (lambda x: lambda: F.gumbel_softmax(x))(i.matrix)
    yield "cosine_similarity", lambda i: (lambda x, y: lambda: F.cosine_similarity(x, y))(i.matrix, i.matrix)
    yield "pairwise_distance", lambda i: (lambda x, y: lambda: F.pairwise_distance(x, y))(i.matrix, i.matrix)
    yield "trapezoid", lambda i: (lambda x: lambda: torch.trapezoid(x))(i.matrix)
    yield "diff", lambda i: (lambda x: lambda: x.diff())(i.matrix)
    yield "renorm", lambda i: (lambda x: lambda: torch.renorm(x, 2, 0, 1.0))(i.matrix)


def order():
    for dtype in ("float", "integers"):
        def of(i, dtype=dtype):
            return i.matrix if dtype == "float" else i.whole
        yield f"sort of rows, {dtype}", lambda i, of=of: (lambda x: lambda: x.sort(-1)[0])(of(i))
        yield f"topk 8, {dtype}", lambda i, of=of: (lambda x: lambda: x.topk(8)[0])(of(i))
        yield f"topk 100, {dtype}", lambda i, of=of: (lambda x: lambda: x.topk(100)[0])(of(i))
        yield f"sort of all, {dtype}", lambda i, of=of: (lambda x: lambda: x.sort()[0])(of(i).detach().reshape(-1)[:4_000_000])
        yield f"unique, {dtype}", lambda i, of=of: (lambda x: lambda: x.unique())(of(i).detach().reshape(-1)[:4_000_000])
    yield "argsort of columns", lambda i: (lambda x: lambda: x.argsort(0))(i.matrix.detach())
    yield "unique_consecutive", lambda i: (lambda x: lambda: x.unique_consecutive())(i.ints(3, i.rows * 100))
    yield "bincount", lambda i: (lambda x: lambda: torch.bincount(x, minlength=1000))(i.ints(1000, i.rows * 100))
    yield "histc", lambda i: (lambda x: lambda: torch.histc(x, 100, 0, 1))(i.single.rand(i.rows, i.cols).detach())
    yield "searchsorted", lambda i: (lambda x, y: lambda: torch.searchsorted(x, y))(torch.arange(10000, device="cuda").float(), i.single.rand(i.rows, i.cols).detach())
    yield "bucketize", lambda i: (lambda x, y: lambda: torch.bucketize(y, x))(torch.arange(64, device="cuda").float() / 64, i.single.rand(i.rows, i.cols).detach())
    yield "isin", lambda i: (lambda x, y: lambda: torch.isin(x, y))(i.ints(100000, i.rows * 100), i.ints(100000, 5000))
    yield "nonzero", lambda i: (lambda m: lambda: m.nonzero())(i.mask)
    yield "masked_select", lambda i: (lambda x, m: lambda: x.masked_select(m))(i.matrix, i.mask)
    yield "masked_scatter", lambda i: (lambda x, m, y: lambda: x.masked_scatter(m, y))(i.matrix, i.mask, i.matrix)
    yield "randperm", lambda i: (lambda: torch.randperm(i.rows * 100, device="cuda"))
    yield "multinomial", lambda i: (lambda x: lambda: torch.multinomial(x, 1))(i.single.rand(i.rows, i.cols).detach())
    yield "multinomial 64 anew", lambda i: (lambda x: lambda: torch.multinomial(x, 64, replacement=True))(i.single.rand(i.rows, i.cols).detach())
    for name in "exponential_ normal_ cauchy_ log_normal_ geometric_ uniform_ random_".split():
        yield "random " + name[:-1], lambda i, name=name: (lambda x: lambda: getattr(x, name)(*([0.5] if name == "geometric_" else [])))(i.single.matrix.detach())
    yield "random gamma", lambda i: (lambda x: lambda: torch._standard_gamma(x))(i.single.rand(i.rows, i.cols).detach())
    yield "random dirichlet", lambda i: (lambda x: lambda: torch._sample_dirichlet(x))(i.single.rand(i.rows, i.cols).detach())
    yield "random binomial", lambda i: (lambda n, p: lambda: torch.binomial(n, p))(torch.full((i.rows, i.cols), 20.0, device="cuda"), i.single.rand(i.rows, i.cols).detach())


def places():
    yield "gather", lambda i: (lambda x, p: lambda: x.gather(1, p))(i.matrix, i.places)
    yield "gather of rows", lambda i: (lambda x, p: lambda: x.gather(0, p))(i.matrix, i.ints(i.rows, i.rows, i.cols))
    yield "scatter", lambda i: (lambda x, p, y: lambda: x.scatter(1, p, y))(i.matrix, i.places, i.matrix)
    yield "scatter_add", lambda i: (lambda x, p, y: lambda: x.scatter_add(1, p, y))(i.matrix, i.places, i.matrix)
    yield "scatter_reduce amax", lambda i: (lambda x, p, y: lambda: x.scatter_reduce(1, p, y, "amax"))(i.matrix, i.places, i.matrix.detach())
    yield "take_along_dim", lambda i: (lambda x, p: lambda: torch.take_along_dim(x, p, 1))(i.matrix, i.ints(i.cols, i.rows, 64))
    yield "take", lambda i: (lambda x, p: lambda: x.take(p))(i.matrix, i.ints(i.rows * i.cols, i.rows * 64))
    yield "put", lambda i: (lambda x, p, y: lambda: x.put(p, y))(i.matrix, torch.randperm(i.rows * i.cols, device="cuda")[:i.rows * 64], i.randn(i.rows * 64))
    yield "index_select", lambda i: (lambda x, p: lambda: x.index_select(0, p))(i.matrix, i.ints(i.rows, i.rows))
    yield "index_select of columns", lambda i: (lambda x, p: lambda: x.index_select(1, p))(i.matrix, i.ints(i.cols, i.cols))
    yield "index_add", lambda i: (lambda x, p, y: lambda: x.index_add(0, p, y))(i.matrix, i.ints(i.rows, i.rows), i.matrix)
    yield "index_copy", lambda i: (lambda x, p, y: lambda: x.index_copy(0, p, y))(i.matrix, torch.randperm(i.rows, device="cuda"), i.matrix)
    yield "index_fill", lambda i: (lambda x, p: lambda: x.index_fill(0, p, 1.0))(i.matrix, i.ints(i.rows, i.rows // 2))
    yield "index_reduce", lambda i: (lambda x, p, y: lambda: x.index_reduce(0, p, y, "mean"))(i.matrix.detach(), i.ints(i.rows, i.rows), i.matrix.detach())
    yield "index by two", lambda i: (lambda x, p, q: lambda: x[p, q])(i.matrix, i.ints(i.rows, i.rows * 64), i.ints(i.cols, i.rows * 64))
    yield "index_put added", lambda i: (lambda x, p, q, y: lambda: x.index_put((p, q), y, accumulate=True))(i.matrix, i.ints(i.rows, i.rows * 16), i.ints(i.cols, i.rows * 16), i.randn(i.rows * 16))
    yield "embedding", lambda i: (lambda w, p: lambda: F.embedding(p, w))(i.randn(50000, i.cols), i.ints(50000, i.rows))
    for mode in "sum mean max".split():
        yield f"embedding_bag {mode}", lambda i, mode=mode: (lambda w, p: lambda: F.embedding_bag(p, w, mode=mode))(i.single.randn(50000, 128), i.ints(50000, i.rows, 20))
    yield "one_hot", lambda i: (lambda p: lambda: F.one_hot(p, 1000))(i.ints(1000, i.rows))
    yield "repeat_interleave", lambda i: (lambda x: lambda: x.repeat_interleave(4, 0))(i.randn(i.rows // 4, i.cols))
    yield "repeat_interleave of counts", lambda i: (lambda x, n: lambda: x.repeat_interleave(n, 0))(i.randn(i.rows // 4, i.cols), i.ints(8, i.rows // 4))
    for name in "tril triu".split():
        yield name, lambda i, f=getattr(torch, name): (lambda x: lambda: f(x))(i.matrix)
    yield "tril_indices", lambda i: (lambda: torch.tril_indices(i.cols, i.cols, device="cuda"))
    yield "roll", lambda i: (lambda x: lambda: x.roll(17, 1))(i.matrix)
    yield "roll of windows", lambda i: (lambda x: lambda: x.roll((3, 3), (2, 3)))(i.images)
    yield "flip", lambda i: (lambda x: lambda: x.flip(1))(i.matrix)
    yield "rot90", lambda i: (lambda x: lambda: x.rot90())(i.matrix)
    yield "tile", lambda i: (lambda x: lambda: x.tile(4, 1))(i.randn(i.rows // 4, i.cols))
    yield "transposed copy", lambda i: (lambda x: lambda: x.t().contiguous())(i.matrix)
    yield "permuted copy", lambda i: (lambda x: lambda: x.permute(0, 2, 3, 1).contiguous())(i.images)
    yield "heads", lambda i: (lambda x: lambda: x.view(-1, 128, 16, i.cols // 16).transpose(1, 2).contiguous())(i.matrix)
    yield "cat of columns", lambda i: (lambda x, y: lambda: torch.cat((x, y), 1))(i.matrix, i.matrix)
    yield "cat of rows", lambda i: (lambda x, y: lambda: torch.cat((x, y), 0))(i.matrix, i.matrix)
    yield "cat of many", lambda i: (lambda x: lambda: torch.cat(x, 1))([i.randn(i.rows, i.cols // 32) for _ in range(32)])
    yield "stack", lambda i: (lambda x, y: lambda: torch.stack((x, y), -1))(i.matrix, i.matrix)
    yield "split copied", lambda i: (lambda x: lambda: [part.contiguous() for part in x.chunk(3, 1)][0])(i.randn(i.rows, 3 * (i.cols // 3)))
    for mode in "constant reflect replicate circular".split():
        yield f"pad {mode}", lambda i, mode=mode: (lambda x: lambda: F.pad(x, (3, 3, 3, 3), mode))(i.images)
    yield "pad of rows", lambda i: (lambda x: lambda: F.pad(x, (0, 64)))(i.matrix)
    yield "unfold", lambda i: (lambda x: lambda: F.unfold(x, 3, padding=1))(i.images[:4])
    yield "fold", lambda i: (lambda x: lambda: F.fold(x, (112, 112), 3, padding=1))(i.randn(4, 9 * {"large": 64, "medium": 16, "small": 4}[i.size], 112 * 112))
    yield "unfold of signals", lambda i: (lambda x: lambda: x.unfold(-1, 400, 100).contiguous())(i.randn(i.rows // 64, 16000))
    yield "pixel_shuffle", lambda i: (lambda x: lambda: F.pixel_shuffle(x, 2))(i.images)
    yield "pixel_unshuffle", lambda i: (lambda x: lambda: F.pixel_unshuffle(x, 2))(i.images)
    yield "channel_shuffle", lambda i: (lambda x: lambda: F.channel_shuffle(x, 8))(i.images)
    yield "meshgrid", lambda i: (lambda x, y: lambda: torch.stack(torch.meshgrid(x, y, indexing="ij"), -1))(i.randn(i.rows), i.row)
    yield "diag_embed", lambda i: (lambda x: lambda: torch.diag_embed(x))(i.randn(64, i.cols // 4))
    yield "block_diag", lambda i: (lambda x: lambda: torch.block_diag(*x))([i.randn(64, 64) for _ in range(16)])


def images():
    for name, args in (("max_pool2d", (3, 2, 1)), ("avg_pool2d", (3, 2, 1)), ("adaptive_avg_pool2d", (7,)), ("adaptive_max_pool2d", (7,)), ("lp_pool2d", (2, 3, 2))):
        yield name, lambda i, f=getattr(F, name), a=args: (lambda x: lambda: f(x, *a))(i.images)
    for name, args in (("max_pool1d", (4, 2)), ("avg_pool1d", (4, 2)), ("adaptive_avg_pool1d", (16,)), ("adaptive_max_pool1d", (16,))):
        yield name, lambda i, f=getattr(F, name), a=args: (lambda x: lambda: f(x, *a))(i.signals)
    for name, args in (("max_pool3d", (2, 2)), ("avg_pool3d", (2, 2)), ("adaptive_avg_pool3d", (4,)), ("adaptive_max_pool3d", (4,))):
        yield name, lambda i, f=getattr(F, name), a=args: (lambda x: lambda: f(x, *a))(i.volumes)
    yield "fractional_max_pool2d", lambda i: (lambda x: lambda: F.fractional_max_pool2d(x, 2, output_ratio=(0.6, 0.6)))(i.images)
    yield "max_unpool2d", lambda i: (lambda x: (lambda pooled: lambda: F.max_unpool2d(pooled[0], pooled[1], 2))(F.max_pool2d(x.detach(), 2, return_indices=True)))(i.images)
    for mode in "nearest nearest-exact bilinear bicubic area".split():
        for factor in (2, 0.5):
            yield f"interpolate {mode} by {factor}", lambda i, mode=mode, factor=factor: (lambda x: lambda: F.interpolate(x, scale_factor=factor, mode=mode))(i.images)
    for mode in "bilinear bicubic".split():
        yield f"interpolate {mode} antialiased", lambda i, mode=mode: (lambda x: lambda: F.interpolate(x, scale_factor=0.4, mode=mode, antialias=True))(i.images)
    for mode in "nearest trilinear".split():
        yield f"interpolate of volumes {mode}", lambda i, mode=mode: (lambda x: lambda: F.interpolate(x, scale_factor=2, mode=mode))(i.volumes)
    yield "interpolate of signals linear", lambda i: (lambda x: lambda: F.interpolate(x, scale_factor=2, mode="linear"))(i.signals)
    for mode in "bilinear nearest bicubic".split():
        for padding in ("zeros", "border"):
            yield f"grid_sample {mode} {padding}", lambda i, mode=mode, padding=padding: (lambda x: (lambda g: lambda: F.grid_sample(x, g, mode, padding, False))(i.learned((torch.rand(*x.shape[:1], *x.shape[2:], 2, device="cuda") * 2 - 1).to(x.dtype))))(i.images)
    yield "grid_sample of few channels", lambda i: (lambda x: (lambda g: lambda: F.grid_sample(x, g, align_corners=False))(i.learned((torch.rand(x.shape[0], *x.shape[2:], 2, device="cuda") * 2 - 1).to(x.dtype))))(i.randn(*{"large": (32, 3, 224, 224), "medium": (16, 3, 112, 112), "small": (4, 3, 56, 56)}[i.size]))
    yield "grid_sample of smooth flow", lambda i: (lambda x: (lambda g: lambda: F.grid_sample(x, g.to(x.dtype), align_corners=False))(F.affine_grid(torch.eye(2, 3, device="cuda").repeat(x.shape[0], 1, 1), list(x.shape), align_corners=False)))(i.images)
    yield "grid_sample of volumes", lambda i: (lambda x: (lambda g: lambda: F.grid_sample(x, g, align_corners=False))(i.learned((torch.rand(x.shape[0], *x.shape[2:], 3, device="cuda") * 2 - 1).to(x.dtype))))(i.volumes)
    yield "affine_grid", lambda i: (lambda t: lambda: F.affine_grid(t, (32, 3, 112, 112), align_corners=False))(i.single.randn(32, 2, 3))
    yield "batch_norm", lambda i: (lambda x, w: lambda: F.batch_norm(x, None, None, w, w, training=True))(i.images, i.randn(i.images.shape[1]))
    yield "instance_norm", lambda i: (lambda x: lambda: F.instance_norm(x))(i.images)
    yield "group_norm", lambda i: (lambda x: lambda: F.group_norm(x, 8))(i.images)
    yield "group_norm channels last", lambda i: (lambda x: lambda: F.group_norm(x, 8))(i.learned(i.images.detach().to(memory_format=torch.channels_last)))
    yield "local_response_norm", lambda i: (lambda x: lambda: F.local_response_norm(x, 5))(i.images)
    yield "layer_norm", lambda i: (lambda x, w: lambda: F.layer_norm(x, (i.cols,), w, w))(i.matrix, i.row)
    yield "layer_norm of channels", lambda i: (lambda x: lambda: F.layer_norm(x.permute(0, 2, 3, 1), (x.shape[1],)).permute(0, 3, 1, 2))(i.images)
    yield "rms_norm", lambda i: (lambda x, w: lambda: F.rms_norm(x, (i.cols,), w))(i.matrix, i.row)
    yield "nms", lambda i: (lambda b, s: lambda: ops.nms(b, s, 0.5))((lambda c: torch.cat((c, c + torch.rand_like(c) * 50 + 1), 1))(torch.rand(i.rows // 2, 2, device="cuda") * 500), torch.rand(i.rows // 2, device="cuda"))
    yield "box_iou", lambda i: (lambda b: lambda: ops.box_iou(b, b))((lambda c: torch.cat((c, c + torch.rand_like(c) * 50 + 1), 1))(torch.rand(i.rows // 4, 2, device="cuda") * 500))
    def boxes(i):
        c = torch.rand({"large": 512, "medium": 128, "small": 32}[i.size], 2, device="cuda") * 60 * i.images.shape[-1] / 112
        return torch.cat((torch.zeros(len(c), 1, device="cuda"), c, c + torch.rand_like(c) * 40 * i.images.shape[-1] / 112 + 2), 1)
    yield "roi_align", lambda i: (lambda x, b: lambda: ops.roi_align(x, b, 7, sampling_ratio=2))(i.single.images, boxes(i))
    yield "roi_pool", lambda i: (lambda x, b: lambda: ops.roi_pool(x, b, 7))(i.single.images, boxes(i))
    yield "deform_conv2d", lambda i: (lambda x: (lambda o, w: lambda: ops.deform_conv2d(x, o, w, padding=1))(i.single.randn(x.shape[0], 18, *x.shape[2:]), i.single.randn(64, x.shape[1], 3, 3)))(i.single.images[:4])


def losses():
    for name in "mse_loss l1_loss smooth_l1_loss huber_loss soft_margin_loss poisson_nll_loss".split():
        yield name, lambda i, f=getattr(F, name): (lambda x, y: lambda: f(x, y))(i.matrix, i.matrix.detach())
    for name in "binary_cross_entropy_with_logits hinge_embedding_loss multilabel_soft_margin_loss".split():
        yield name, lambda i, f=getattr(F, name): (lambda x, y: lambda: f(x, y))(i.matrix, i.mask.to(i.dtype))
    yield "binary_cross_entropy", lambda i: (lambda x, y: lambda: F.binary_cross_entropy(x, y))(i.unit, i.mask.to(i.dtype))
    yield "kl_div", lambda i: (lambda x, y: lambda: F.kl_div(x, y, reduction="batchmean"))(i.matrix, i.unit.detach())
    yield "gaussian_nll_loss", lambda i: (lambda x, y, v: lambda: F.gaussian_nll_loss(x, y, v))(i.matrix, i.matrix.detach(), i.unit.detach())
    yield "cross_entropy", lambda i: (lambda x, y: lambda: F.cross_entropy(x, y))(i.matrix, i.ints(i.cols, i.rows))
    yield "cross_entropy smoothed", lambda i: (lambda x, y: lambda: F.cross_entropy(x, y, label_smoothing=0.1))(i.matrix, i.ints(i.cols, i.rows))
    yield "cross_entropy of pixels", lambda i: (lambda x: (lambda y: lambda: F.cross_entropy(x, y))(i.ints(x.shape[1], x.shape[0], *x.shape[2:])))(i.images)
    yield "multi_margin_loss", lambda i: (lambda x, y: lambda: F.multi_margin_loss(x, y))(i.single.randn(i.rows, i.cols), i.ints(i.cols, i.rows))
    yield "multilabel_margin_loss", lambda i: (lambda x, y: lambda: F.multilabel_margin_loss(x, y))(i.single.randn(i.rows // 8, i.cols // 8), i.ints(i.cols // 8, i.rows // 8, i.cols // 8))
    yield "cosine_embedding_loss", lambda i: (lambda x, y, s: lambda: F.cosine_embedding_loss(x, y, s))(i.matrix, i.matrix, i.ints(2, i.rows) * 2 - 1)
    yield "triplet_margin_loss", lambda i: (lambda x, y, z: lambda: F.triplet_margin_loss(x, y, z))(i.matrix, i.matrix, i.matrix)
    yield "ctc_loss", lambda i: (lambda x, y: lambda: F.ctc_loss(x.log_softmax(-1), y, [x.shape[0]] * x.shape[1], [40] * x.shape[1]))(i.single.randn({"large": 400, "medium": 200, "small": 100}[i.size], 32, 1000), i.ints(999, 32, 40) + 1)


def algebra():
    for name in "cholesky inv det slogdet qr eigh svdvals eigvalsh matrix_exp pinv lu_factor".split():
        yield "linalg " + name, lambda i, f=getattr(torch.linalg, name): (lambda x: lambda: (lambda out: out[0] if isinstance(out, tuple) else out)(f(x)))(i.square)
    yield "linalg solve", lambda i: (lambda x: (lambda b: lambda: torch.linalg.solve(x, b))(i.single.randn(x.shape[0], x.shape[1], 16)))(i.square)
    yield "linalg solve_triangular", lambda i: (lambda x: (lambda b: lambda: torch.linalg.solve_triangular(x, b, upper=True))(i.single.randn(x.shape[0], x.shape[1], 16)))(i.square)
    for p in (1.0, 2.0, float("inf")):
        yield f"cdist {p}", lambda i, p=p: (lambda x, y: lambda: torch.cdist(x, y, p))(i.single.randn(i.rows // 4, 64), i.single.randn(i.rows // 4, 64))
    yield "pdist", lambda i: (lambda x: lambda: F.pdist(x))(i.single.randn(i.rows // 8, 64))
    yield "bilinear", lambda i: (lambda x, y, w: lambda: F.bilinear(x, y, w))(i.randn(i.rows, 64), i.randn(i.rows, 64), i.randn(32, 64, 64))
    yield "mv", lambda i: (lambda x, v: lambda: x @ v)(i.matrix, i.row)
    yield "dot", lambda i: (lambda x, y: lambda: torch.dot(x, y))(i.randn(i.rows * i.cols // 4), i.randn(i.rows * i.cols // 4))
    yield "einsum of three", lambda i: (lambda x, y: lambda: torch.einsum("bij,bkj->bik", x, y))(i.randn(64, 256, 128), i.randn(64, 256, 128))
    yield "einsum of outer", lambda i: (lambda x, y: lambda: torch.einsum("bi,bj->bij", x, y))(i.randn(64, i.cols // 4), i.randn(64, i.cols // 4))
    for name in "fft rfft fft2 rfft2".split():
        yield name, lambda i, f=getattr(torch.fft, name): (lambda x: lambda: f(x))(i.single.randn(i.rows // 4, i.cols) if "2" not in name else i.single.images)
    yield "irfft", lambda i: (lambda x: lambda: torch.fft.irfft(x))(torch.randn(i.rows // 4, i.cols // 2 + 1, device="cuda", dtype=torch.complex64))
    yield "fftshift", lambda i: (lambda x: lambda: torch.fft.fftshift(x))(torch.randn(i.rows // 4, i.cols, device="cuda", dtype=torch.complex64))
    yield "stft", lambda i: (lambda x, w: lambda: torch.stft(x, 400, 160, window=w, return_complex=True).abs())(i.single.randn(i.rows // 256, 160000), torch.hann_window(400, device="cuda"))
    yield "sparse mm", lambda i: (lambda a, x: lambda: torch.sparse.mm(a, x))((lambda n: torch.sparse_coo_tensor(i.ints(n, 2, n * 16), torch.rand(n * 16, device="cuda"), (n, n)).coalesce().to_sparse_csr())(i.rows), i.single.randn(i.rows, 128).detach())
    yield "coalesce", lambda i: (lambda at, v: lambda: torch.sparse_coo_tensor(at, v, (i.rows, i.rows)).coalesce())(i.ints(i.rows, 2, i.rows * 16), torch.rand(i.rows * 16, device="cuda"))
    yield "int_mm", lambda i: (lambda x, y: lambda: torch._int_mm(x, y.t()))(i.ints(100, 1024, i.cols, dtype=torch.int8), i.ints(100, 2048, i.cols, dtype=torch.int8))


def optimizers():
    for name in "SGD Adam AdamW RMSprop Adagrad Adadelta NAdam RAdam Adamax ASGD Rprop Adafactor".split():
        for kind in (("foreach", "fused") if name in ("SGD", "Adam", "AdamW", "Adagrad") else ("foreach", "each") if name == "RMSprop" else ("foreach",)):
            def make(i, name=name, kind=kind):
                i.typed = True
                parameters = [torch.nn.Parameter(torch.randn(i.cols, side, device="cuda", dtype=i.dtype)) for side in (i.cols, 1, i.cols // 2, 1, 64, 1)]
                for p in parameters:
                    p.grad = torch.randn_like(p) * 0.01
                flags = {} if kind == "each" else {kind: True}
                optimizer = getattr(torch.optim, name)(parameters, **({"momentum": 0.9} if name == "SGD" else {}), **(flags if kind != "each" else dict(foreach=False)))
                return lambda: optimizer.step()
            yield f"{name} {kind}", make

    def clip(i):
        i.typed = True
        parameters = [torch.nn.Parameter(torch.randn(i.cols, side, device="cuda", dtype=i.dtype)) for side in (i.cols, 1, i.cols // 2, 1, 64, 1)]
        for p in parameters:
            p.grad = torch.randn_like(p) * 0.01
        return lambda: torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    yield "clip_grad_norm", clip


FAMILIES = dict(unary=unary, binary=binary, reductions=reductions, order=order, places=places, images=images, losses=losses, algebra=algebra, optimizers=optimizers)


def cases(only):
    """Name and call of each case with the operands that have gradients, None if none is asked for."""
    for family, operators in FAMILIES.items():
        for operator, make in operators():
            if only and not any(text in operator for text in only):
                continue
            for size in ("large", "medium", "small"):
                for ways in ("", " both ways"):
                    for dtype in TYPES:
                        torch.manual_seed(0)
                        inputs = Inputs(size, TYPES[dtype], bool(ways))
                        try:
                            call = make(inputs)
                        except Exception as error:  # not every operator has every type
                            print(f"{operator} {dtype} {size}: {error}", file=sys.stderr)
                            continue
                        if inputs.typed or dtype == "fp32":
                            yield f"{operator}{ways}{f' {dtype}' * inputs.typed} {size}", call, inputs.made if ways else None


def kernels_of(call, differentiated):
    """Microseconds and count of each kernel in one call, by name; None where there is no gradient."""
    def once():
        out = call()
        if differentiated is not None:
            torch.autograd.grad(out, differentiated, torch.ones_like(out), allow_unused=True)
    if differentiated is not None and not (differentiated and isinstance(out := call(), torch.Tensor) and out.requires_grad):
        return None
    for _ in range(2):
        once()
    return {name: (len(times) / CALLS, sum(times) / CALLS) for name, times in times_by_kernel(once, CALLS).items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("fitted", "judges"))
    parser.add_argument("--only", nargs="+", help="parts of operators' names")
    parser.add_argument("--share", default="0/1", help="K/N: every N-th case from the K-th")
    options = parser.parse_args()
    first, of = map(int, options.share.split("/"))
    for number, (name, call, differentiated) in enumerate(cases(options.only)):
        if number % of == first and (not options.part or judges(name) == (options.part == "judges")):
            try:
                kernels = kernels_of(call, differentiated)
                if kernels is not None:
                    print(json.dumps(dict(kernel=name, us=round(sum(us for _, us in kernels.values()), 3), kernels={k[:300]: (round(n, 2), round(us, 3)) for k, (n, us) in kernels.items()})), flush=True)
            except Exception as error:  # the others are still of interest
                print(json.dumps(dict(kernel=name, error=f"{type(error).__name__}: {str(error)[:150]}")), flush=True)
        call = differentiated = None
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
