"""Small tensors computed by simulated GPU kernels equal those that the CPU computes.

Every expression runs on both devices, on the same operands: random values, shapes and strides in
every element type. Prints a summary; the exit status is 1 if any pair differs.

Not covered here, since their values are not modelled: matrix products, convolutions, fused
optimizers, layer normalisation (see LIMITATIONS).
"""
import sys

import torch
import torch.nn.functional as F

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COMPLEX = [torch.complex32, torch.complex64, torch.complex128]
FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2]
TYPES = [torch.bool, *INTEGERS, *FLOATS]
# Relative and absolute: a few units in the last place; the device's own order of summation, and its
# fast logarithms, differ by as much.
TOLERANCE = {torch.bfloat16: 2e-2, torch.float16: 4e-3, torch.float32: 2e-5, torch.float64: 1e-12,
             torch.float8_e4m3fn: 0, torch.float8_e5m2: 0}

generator = torch.Generator().manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
compared = 0
different = []


def random(shape, dtype, low=0, high=5):
    if dtype.is_complex or dtype.is_floating_point:
        exact = torch.complex128 if dtype.is_complex else torch.float32
        return (torch.randn(shape, generator=generator, dtype=exact) * 2).to(dtype)
    return torch.randint(low, high, shape, generator=generator).to(dtype)


def flat(result):
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, (list, tuple)):
        return [tensor for part in result for tensor in flat(part)]
    return [torch.as_tensor(result)]


def same(expected, actual):
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        return False
    if expected.dtype.is_complex:
        expected, actual = torch.view_as_real(expected), torch.view_as_real(actual)
    if not expected.dtype.is_floating_point:
        return torch.equal(expected, actual)
    tolerance = TOLERANCE[expected.dtype]
    return torch.allclose(expected.double(), actual.double(), rtol=tolerance, atol=tolerance,
                          equal_nan=True)


def check(name, function, *operands):
    """`function` gets copies of `operands` (nested lists of tensors) on one device, twice."""
    global compared

    def on(device, value):
        if isinstance(value, torch.Tensor):
            # A copy with the same strides.
            moved = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype,
                                        device=device)
            return moved.copy_(value)
        return [on(device, part) for part in value]

    try:
        expected = flat(function(*[on("cpu", operand) for operand in operands]))
    except (RuntimeError, TypeError, NotImplementedError):
        return  # not defined for these types
    try:
        actual = [tensor.cpu() for tensor in flat(function(*[on("cuda", o) for o in operands]))]
    except NotImplementedError:
        return  # not defined for these types on a GPU
    except RuntimeError as error:
        if "not implemented for" in str(error) or "not supported" in str(error):
            return
        raise
    compared += 1
    if len(expected) != len(actual) or not all(map(same, expected, actual)):
        different.append(name)
        print("differs:", name, [t.flatten()[:4].tolist() for t in expected],
              [t.flatten()[:4].tolist() for t in actual], file=sys.stderr)


def layouts(dtype, shape=(3, 5)):
    """The same kind of operand, contiguous, transposed, broadcast and sliced."""
    yield "", random(shape, dtype)
    yield "transposed ", random(shape[::-1], dtype).t()
    yield "expanded ", random((1, shape[1]), dtype).expand(shape)
    yield "sliced ", random((shape[0] * 2, shape[1] + 3), dtype)[::2, 1:1 + shape[1]]


def elementwise():
    for dtype in TYPES:
        for layout, x in layouts(dtype):
            y = random((3, 5), dtype)
            divisor = torch.where(y == 0, torch.ones_like(y), y)
            positive = x.abs() + 1 if dtype != torch.bool else x
            mask = random((3, 5), torch.bool)
            name = f"{layout}{dtype}"
            for other in TYPES:
                # To unsigned and bool only what they can hold: else the CPU's result is undefined.
                check(f"cast {name} to {other}", lambda a: a.to(other), positive)
                check(f"add {name} and {other}", torch.add, positive, random((3, 5), other).abs()
                      if other != torch.bool else random((3, 5), other))
            for f in (torch.add, torch.sub, torch.mul, torch.maximum, torch.minimum, torch.eq,
                      torch.ne, torch.lt, torch.le, torch.gt, torch.ge, torch.logical_and,
                      torch.logical_or, torch.logical_xor, torch.bitwise_and, torch.bitwise_or,
                      torch.bitwise_xor, torch.atan2, torch.hypot, torch.fmax, torch.fmin):
                check(f"{f.__name__} {name}", f, x, y)
                check(f"{f.__name__} row {name}", f, x, y[0])
                check(f"{f.__name__} scalar {name}", lambda a: f(a, 2), x)
            for f in (torch.div, torch.remainder, torch.fmod, torch.floor_divide):
                check(f"{f.__name__} {name}", f, x, divisor)
                check(f"{f.__name__} scalar {name}", lambda a: f(a, 2), x)
                check(f"{f.__name__} real {name}", lambda a: f(a, 1.5), x)
            check(f"pow {name}", torch.pow, positive, y.abs() if dtype != torch.bool else y)
            for exponent in (0, 0.5, 1, 2, 3, -1, -2, -0.5, 2.5):
                check(f"pow {exponent} {name}", lambda a: a.pow(exponent), positive)
            for f in (torch.neg, torch.abs, torch.sqrt, torch.rsqrt, torch.reciprocal, torch.exp,
                      torch.log, torch.log1p, torch.expm1, torch.sin, torch.cos, torch.tanh,
                      torch.sigmoid, torch.erf, torch.floor, torch.ceil, torch.round, torch.trunc,
                      torch.sign, torch.square, torch.isnan, torch.isinf, torch.isfinite,
                      torch.logical_not, torch.bitwise_not, torch.relu, F.gelu, F.silu,
                      F.softplus, F.leaky_relu, F.elu, F.hardtanh):
                check(f"{f.__name__} {name}", f, x if f in (torch.neg, torch.abs) else positive)
            check(f"clamp {name}", lambda a: torch.clamp(a, 1, 2), x)
            check(f"clamp below {name}", lambda a: torch.clamp(a, min=1), x)
            check(f"where {name}", torch.where, mask, x, y)
            check(f"masked_fill {name}", lambda a, m: a.masked_fill(m, 1), x, mask)
            check(f"lerp {name}", lambda a, b: torch.lerp(a, b, 0.3), x, y)
            check(f"addcmul {name}", lambda a, b: torch.addcmul(a, b, b, value=2), x, y)
            check(f"add in place {name}", lambda a: a.clone().add_(1).mul_(2), x)
            check(f"fill {name}", lambda a: a.contiguous()[:, ::2].fill_(1), x)
            check(f"contiguous {name}", lambda a: a.contiguous(), x)


def complex_numbers():
    """What PyTorch has compiled beforehand: the rest needs its run-time compiler."""
    for dtype in COMPLEX:
        for layout, x in layouts(dtype):
            y, mask = random((3, 5), dtype), random((3, 5), torch.bool)
            name = f"{layout}{dtype}"
            for other in (*TYPES, *COMPLEX):
                check(f"cast {name} to {other}", lambda a: a.to(other), x * 0 + 3)
                if other != torch.complex32:  # else compiled at run time
                    check(f"add {name} and {other}", torch.add, x, random((3, 5), other))
            for f in (torch.add, torch.sub, torch.eq, torch.ne):
                check(f"{f.__name__} {name}", f, x, y)
                check(f"{f.__name__} row {name}", f, x, y[0])
                check(f"{f.__name__} scalar {name}", lambda a: f(a, 2 - 1j), x)
            check(f"eq self {name}", lambda a: [a == a.clone(), a != a.clone()], x)
            check(f"where {name}", torch.where, mask, x, y)
            check(f"masked_fill {name}", lambda a, m: a.masked_fill(m, 1 + 2j), x, mask)
            check(f"fill {name}", lambda a: a.contiguous()[:, ::2].fill_(1 - 1j), x)
            check(f"full {name}", lambda a: torch.full_like(a, 2 + 3j), x)
            check(f"contiguous {name}", lambda a: a.contiguous(), x)
            check(f"cat {name}", lambda a, b: torch.cat([a, b]), x, y)
            check(f"rows {name}", lambda a, i: a.index_select(0, i), x, torch.tensor([2, 0]))
            for f in (torch.tan, torch.tanh, torch.acos, torch.asin, torch.acosh, torch.asinh):
                check(f"{f.__name__} {name}", f, x)
            if dtype == torch.complex32:
                continue
            for f in (torch.mul, torch.div):
                check(f"{f.__name__} {name}", f, x, y)
                check(f"{f.__name__} row {name}", f, x, y[0])
                check(f"{f.__name__} scalar {name}", lambda a: f(a, 2 - 1j), x)
                check(f"{f.__name__} of scalar {name}", lambda a: f(torch.tensor(2j), a), x)
            for f in (torch.sum, torch.mean, torch.any, torch.all):
                check(f"{f.__name__} {name}", f, x)
                check(f"{f.__name__} 1 {name}", lambda a: f(a, 1), x)
            for order in (0, 1, 2, 3, float("inf")):
                check(f"norm {order} {name}", lambda a: torch.linalg.vector_norm(a, order), x)
                check(f"norm {order} 0 {name}",
                      lambda a: torch.linalg.vector_norm(a, order, dim=0), x)
            # What a lazy conjugate becomes when somebody needs it.
            check(f"conj {name}", lambda a: a.conj().resolve_conj(), x)
            check(f"negative conj {name}", lambda a: torch._neg_view(a.conj()).clone(), x)
            check(f"mul conj {name}", lambda a, b: a * b.conj(), x, y)
            for f in (torch.reciprocal, torch.expm1, torch.log1p, torch.logical_not, F.silu,
                      torch.square):
                check(f"{f.__name__} {name}", f, x)
            check(f"pow {name}", torch.pow, x, y)
            check(f"pow scalar {name}", lambda a: [a ** 2, a ** 3, a ** (1 + 1j), 2 ** a], x)
            real, imaginary = (random((3, 5), y.real.dtype) for _ in range(2))
            check(f"complex {name}", torch.complex, real, imaginary)
            check(f"polar {name}", torch.polar, real, imaginary)
    # Rotary embeddings, as Llama's.
    angles = torch.outer(torch.arange(6.0), 1 / 10 ** torch.arange(4.0))
    check("rotary", lambda a, q: torch.view_as_real(torch.view_as_complex(
        q.reshape(2, 6, 3, 4, 2)) * torch.polar(torch.ones_like(a), a)[None, :, None]).flatten(3),
        angles, random((2, 6, 3, 8), torch.float32))


def narrow_floats():
    everything = torch.arange(256).to(torch.uint8)
    for dtype in FLOAT8:
        every = everything.view(dtype)
        for other in FLOATS:
            check(f"{dtype} to {other}", lambda a: a.to(other), every)
            if torch.__version__ < "2.15" and other != torch.float64:
                continue  # the kernels' names do not tell which kind of float8 they make
            # All that is representable, halfway between and a little beside; within the range.
            near = every.double().nan_to_num(0, 0, 0)
            middle = (near + near.roll(1)) / 2
            for values in (near, middle, middle * (1 + 2 ** -8), middle * (1 - 2 ** -8)):
                check(f"{other} to {dtype}", lambda a: a.to(dtype), values.to(other))
                check(f"strided {other} to {dtype}", lambda a: a.to(dtype),
                      values.to(other).view(2, 128).t())
        check(f"fill {dtype}", lambda a: torch.full_like(a, 1.5), every)
        check(f"{dtype} where", lambda a, m: torch.where(m, a, a.flip(0)).view(torch.uint8), every,
              random((256,), torch.bool))
        if torch.__version__ < "2.15":
            continue
        check(f"scale {dtype}", lambda a: (a * (448 / a.abs().amax(-1, True)).clamp(-448, 448))
              .to(dtype).float(), random((5, 7), torch.float32))


def reductions():
    for dtype in TYPES:
        for shape in ((3, 5), (1, 1), (70, 13), (7, 300)):
            for layout, x in layouts(dtype, shape):
                name = f"{layout}{shape} {dtype}"
                for f in (torch.sum, torch.mean, torch.amax, torch.amin, torch.all, torch.any,
                          torch.std):
                    check(f"{f.__name__} {name}", f, x)
                    for dim in (0, 1):
                        check(f"{f.__name__} {dim} {name}", lambda a: f(a, dim), x)
                for f in (torch.argmax, torch.argmin):
                    # Of equal extremes either device may name any.
                    for dim in (0, 1):
                        check(f"{f.__name__} {dim} {name}",
                              lambda a: a.gather(dim, f(a, dim, keepdim=True)), x)
                check(f"max {name}", lambda a: a.max(1).values, x)
                check(f"min {name}", lambda a: a.min(0).values, x)
                for p in (0, 1, 2, 3, float("inf"), -float("inf")):
                    check(f"norm {p} {name}", lambda a: torch.linalg.vector_norm(a, p), x)
                    check(f"norm {p} rows {name}",
                          lambda a: torch.linalg.vector_norm(a, p, dim=1), x)
                check(f"softmax {name}", lambda a: a.softmax(-1), x)
                check(f"softmax columns {name}", lambda a: a.softmax(0), x)
                check(f"log_softmax {name}", lambda a: a.log_softmax(-1), x)
        x, y = random((4, 6), dtype), random((4, 6), dtype)
        target = torch.tensor([2, 0, 5, 1])
        check(f"cross entropy {dtype}", F.cross_entropy, x, target)
        check(f"mse {dtype}", F.mse_loss, x, y)
        check(f"equal {dtype}", lambda a, b: [torch.equal(a, a.clone()), torch.equal(a, b)], x, y)


def moves():
    index = torch.tensor([2, 0, 1])
    along = torch.tensor([[0, 1, 2, 1, 0], [1, 1, 0, 0, 2]])
    for dtype in TYPES:
        for layout, x in layouts(dtype):
            y, mask = random((3, 5), dtype), random((3, 5), torch.bool)
            name = f"{layout}{dtype}"
            check(f"cat {name}", lambda a, b: [torch.cat([a, b]), torch.cat([a, b, a], 1)], x, y)
            check(f"cat many {name}",
                  lambda a: torch.cat([a.flatten()[:k] for k in range(1, 15)] * 12), x)
            check(f"stack {name}", lambda a, b: [torch.stack([a, b], d) for d in range(3)], x, y)
            check(f"index {name}", lambda a, i: [a[i], a[i - 3], a[i, i], a[:, i]], x, index)
            check(f"select {name}", lambda a, m: [a[m], a.masked_select(m)], x, mask)
            check(f"nonzero {name}", torch.nonzero, x)
            check(f"gather {name}", lambda a, i: a.gather(0, i), x, along)
            check(f"index_select {name}",
                  lambda a, i: [a.index_select(0, i), a.index_select(1, i)], x, index)
            check(f"embedding {name}", lambda a, i: F.embedding(i, a), x, index)
            check(f"take {name}", lambda a, i: a.take(i), x, index)
            check(f"flip {name}", lambda a: [a.flip(0), a.flip(1), a.flip(0, 1)], x)
            check(f"roll {name}", lambda a: [a.roll(1, 0), a.flatten().roll(2)], x)
            check(f"triangles {name}", lambda a: [a.tril(), a.triu(1), a.tril(-1)], x)
            check(f"repeat {name}",
                  lambda a: [a.repeat(2, 2), a.repeat_interleave(2, 0), F.pad(a, (1, 2))], x)
            check(f"sort {name}", lambda a: a.sort(stable=True), x)
            check(f"sort down {name}",
                  lambda a: [a.sort(dim=0, descending=True).values, a.flatten().sort().values], x)
            check(f"topk {name}", lambda a: [a.topk(2).values, a.topk(2, 0, False).values], x)
            for f in (torch.cumsum, torch.cumprod):
                # In the 16-bit types every partial sum is rounded, in an order of the device's own.
                wide = x.double() if dtype in (torch.float16, torch.bfloat16) else x
                check(f"{f.__name__} {name}", lambda a: [f(a, 0), f(a, 1), f(a.flatten(), 0)], wide)
            check(f"bincount {name}", lambda a: a.flatten().bincount(minlength=3), x.abs() if dtype != torch.bool else x)
            check(f"histc {name}", lambda a: torch.histc(a, 4, -3, 3), x)
            check(f"cummax {name}", lambda a: [a.cummax(0), a.cummin(1)], x)
            writable = x.contiguous()
            check(f"index_put {name}", lambda a, i, b: a.index_put((i,), b), writable, index, y)
            check(f"index_copy {name}", lambda a, i, b: a.index_copy(0, i, b), writable, index, y)
            check(f"index_fill {name}", lambda a, i: a.index_fill(0, i, 1), writable, index)
            check(f"index_add {name}", lambda a, i, b: a.index_add(0, i, b), writable, index, y)
            check(f"scatter {name}", lambda a, i, b: a.scatter(0, i[:, None], b[:, :1]), writable,
                  index, y)
            check(f"scatter_add {name}", lambda a, i, b: a.scatter_add(0, i, b[:2]), writable,
                  along, y)
        for n in (3000, 20000):
            x = random((n,), dtype, 0, 2 if dtype == torch.bool else 100)
            check(f"sort {n} {dtype}", lambda a: a.sort(stable=True), x)
            check(f"nonzero {n} {dtype}", torch.nonzero, x)
            check(f"cumsum {n} {dtype}", lambda a: a.cumsum(0),
                  x.double() if dtype.is_floating_point else x)
        check(f"arange {dtype}", lambda a: [
            torch.arange(7, dtype=dtype, device=a.device),
            torch.arange(1, 9, 3, dtype=dtype, device=a.device),
            torch.linspace(0, 5, 6, dtype=dtype, device=a.device),
            torch.eye(3, dtype=dtype, device=a.device)], x)


def lists():
    for dtype in TYPES:
        a = [random((3, 5), dtype), random((15,), dtype)]
        b = [random((3, 5), dtype), random((15,), dtype)]
        c = [t.abs() + 1 if dtype != torch.bool else t for t in b]
        for name in ("add", "sub", "mul", "div"):
            operation = getattr(torch, f"_foreach_{name}")
            check(f"foreach {name} {dtype}", lambda x, y: list(operation(x, y)), a, c)
            check(f"foreach {name} scalar {dtype}", lambda x: list(operation(x, 2)), a)
            check(f"foreach {name} scalars {dtype}", lambda x: list(operation(x, [2, 1])), a)
        check(f"foreach norm {dtype}",
              lambda x: [list(torch._foreach_norm(x, p)) for p in (1, 2, float("inf"))], a)
        check(f"foreach sqrt {dtype}", lambda x: list(torch._foreach_sqrt(x)), c)
        check(f"foreach lerp {dtype}", lambda x, y: list(torch._foreach_lerp(x, y, 0.1)), a, b)
        check(f"foreach addcmul {dtype}",
              lambda x, y: list(torch._foreach_addcmul(x, y, y, 2)), a, b)
        check(f"foreach addcdiv {dtype}",
              lambda x, y: list(torch._foreach_addcdiv(x, y, y, [2, 3])), a, c)
        check(f"foreach maximum {dtype}", lambda x, y: list(torch._foreach_maximum(x, y)), a, b)


def training():
    for dtype in (torch.float32, torch.float64):
        start = [random((3, 5), dtype), random((7,), dtype)]
        steps = [[random((3, 5), dtype), random((7,), dtype)] for _ in range(3)]
        for optimizer, options in ((torch.optim.SGD, {"momentum": 0.9, "weight_decay": 0.1}),
                                   (torch.optim.Adam, {}), (torch.optim.AdamW, {}),
                                   (torch.optim.Adam, {"foreach": False}),
                                   (torch.optim.RMSprop, {}), (torch.optim.Adagrad, {})):
            def train(values, gradients):
                parameters = [torch.nn.Parameter(v) for v in values]
                o = optimizer(parameters, lr=0.1, **options)
                norms = []
                for step in gradients:
                    for parameter, gradient in zip(parameters, step):
                        parameter.grad = gradient
                    norms.append(torch.nn.utils.clip_grad_norm_(parameters, 1.0))
                    o.step()
                return [p.detach() for p in parameters] + norms
            check(f"{optimizer.__name__} {options} {dtype}", train, start, steps)
    for infinite in (False, True):
        def scaled(values):
            parameter = torch.nn.Parameter(values[0])
            scaler = torch.amp.GradScaler(parameter.device.type, init_scale=8.0, growth_interval=2)
            o = torch.optim.SGD([parameter], lr=0.5)
            scales = []
            for step in range(3):
                loss = scaler.scale(torch.zeros((), device=parameter.device))
                parameter.grad = values[1].clone() + loss
                if infinite and step == 1:
                    parameter.grad[0, 0] = float("inf")
                scaler.step(o)
                scaler.update()
                scales.append(float(scaler.get_scale()))
            return [parameter.detach(), torch.tensor(scales)]
        check(f"GradScaler inf={infinite}", scaled, [random((3, 5), torch.float32),
                                                     random((3, 5), torch.float32)])


def randomness():
    """Distributions have no CPU counterpart, but CUDA's generator is documented: its first numbers
    for seed 0, and invariants of permutations and samples."""
    global compared
    torch.manual_seed(0)
    facts = {
        "uniform": torch.allclose(torch.rand(5, device="cuda").cpu(), torch.tensor(
            [0.3990, 0.5167, 0.0249, 0.9401, 0.9459]), atol=5e-5),
        "permutations": all(torch.equal(torch.randperm(n, device="cuda").sort().values.cpu(),
                                        torch.arange(n)) for n in (1, 7, 100, 3000)),
        "seeds": None,
        "samples": set(torch.multinomial(torch.tensor([0., 0, 1, 0, 1], device="cuda"),
                                         2).tolist()) == {2, 4},
        "range": bool(((0 <= (r := torch.randint(3, 9, (500,), device="cuda"))) & (3 <= r)
                       & (r < 9)).all()),
        "normal": abs(torch.randn(5000, device="cuda").mean().item()) < 0.1
                  and abs(torch.randn(5000, device="cuda").std().item() - 1) < 0.1,
    }
    torch.manual_seed(5)
    first = torch.randn(100, device="cuda")
    torch.manual_seed(5)
    facts["seeds"] = torch.equal(first, torch.randn(100, device="cuda"))
    for name, holds in facts.items():
        compared += 1
        if not holds:
            different.append(name)


for part in (elementwise, complex_numbers, narrow_floats, reductions, moves, lists, training, randomness):
    part()
print(f"{compared} results compared, {len(different)} differ")
sys.exit(1 if different or compared < 9000 else 0)
