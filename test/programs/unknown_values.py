"""Whatever a small kernel makes of partly unknown operands and calls known holds for every value of
what is unknown: it equals what the CPU computes, for many random values in the unknown places.

Every operation runs once on a simulated GPU, where some elements of its operands were never
computed, and several times on the CPU. Prints a summary; the exit status is 1 if any known element
differs, or if an operation that the known operands decide is not known.
"""
import sys

import torch
import torch.nn.functional as F

from known_memory import known_bytes

FILLINGS = 12
TYPES = [torch.bool, torch.uint8, torch.int32, torch.int64, torch.bfloat16, torch.float32]
TOLERANCE = {torch.bfloat16: 2e-2, torch.float32: 2e-5, torch.float64: 1e-12}
generator = torch.Generator().manual_seed(3)
# Large tensors are not computed.
source = {dtype: (torch.randn(1 << 20, device="cuda") * 3).to(dtype) for dtype in TYPES}
checked = decided = 0
wrong = []


def random(shape, dtype, finite=True):
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if not dtype.is_floating_point:
        return torch.randint(0, 4, shape, generator=generator).to(dtype)
    # Zeros, ones and equal values are what decides most.
    values = torch.randint(-2, 3, shape, generator=generator).to(dtype)
    if not finite:
        # 1e15: its square is a float. How norms of larger ones overflow differs between CPU and GPU.
        special = torch.tensor([float("inf"), -float("inf"), float("nan"), 0.5, 1e15])
        chosen = special[torch.randint(0, 5, shape, generator=generator)].to(dtype)
        values = torch.where(torch.rand(shape, generator=generator) < 0.4, chosen, values)
    return values


def is_known(tensor):
    flat = tensor.contiguous().flatten()
    size = flat.element_size()
    return torch.tensor([known_bytes(flat.data_ptr() + i * size, size)
                         for i in range(flat.numel())], dtype=torch.bool).reshape(tensor.shape)


def partly(values, hidden):
    """`values` on the GPU, unknown where `hidden`."""
    result = values.cuda()
    if hidden.any():
        unknown = source[values.dtype][:values.numel()].clone().reshape(values.shape)
        result = torch.where(hidden.cuda(), unknown, result)
    assert torch.equal(is_known(result), ~hidden), "the operand is not as it should be"
    return result


def flat(result):
    if isinstance(result, torch.Tensor):
        return [result]
    return [tensor for part in result for tensor in flat(part)]


def check(name, function, *operands, finite=True):
    """operands: (values, hidden) pairs; `finite`: the unknown values are finite."""
    global checked, decided
    try:
        expected = flat(function(*[values for values, _ in operands]))
        got = flat(function(*[partly(*operand) for operand in operands]))
    except (RuntimeError, NotImplementedError, TypeError):
        return  # not defined for these types
    masks = [is_known(tensor) for tensor in got]
    values = [tensor.cpu() for tensor in got]
    checked += 1
    decided += sum(int(mask.sum()) for mask in masks)
    for _ in range(FILLINGS):
        filled = [torch.where(hidden, random(x.shape, x.dtype, finite), x) for x, hidden in operands]
        for e, g, mask in zip(flat(function(*filled)), values, masks):
            tolerance = TOLERANCE.get(e.dtype, 0)
            if e.shape != g.shape or not torch.allclose(
                    e[mask].double(), g[mask].double(), rtol=tolerance, atol=tolerance,
                    equal_nan=True):
                wrong.append(name)
                print("wrong:", name, e.tolist(), g.tolist(), mask.tolist(), file=sys.stderr)
                return


def operand(shape, dtype, share=0.4, finite=True):
    return random(shape, dtype, finite), torch.rand(shape, generator=generator) < share


def elementwise():
    for dtype in TYPES:
        for finite in (True, False):
            x, y, z = (operand((4, 6), dtype, finite=finite) for _ in range(3))
            mask = operand((4, 6), torch.bool)
            for f in (torch.maximum, torch.minimum, torch.eq, torch.ne, torch.logical_and,
                      torch.logical_or, torch.logical_xor, torch.bitwise_and, torch.bitwise_or,
                      torch.bitwise_xor, torch.fmax, torch.fmin, torch.add, torch.sub, torch.atan2):
                check(f"{f.__name__} {dtype}", f, x, y, finite=finite)
                check(f"{f.__name__} 0 {dtype}", lambda a: f(a, 0), x, finite=finite)
            # By choice: what is unknown is neither NaN nor beyond what 16 bits hold.
            for f in (torch.lt, torch.le, torch.gt, torch.ge):
                a, b = operand((4, 6), dtype), operand((4, 6), dtype)
                check(f"{f.__name__} {dtype}", f, a, b)
                check(f"{f.__name__} -1e5 {dtype}", lambda x: f(x, -1e5), a)
            # By choice: 0 times what may be infinite is 0.
            check(f"mul {dtype}", torch.mul, operand((4, 6), dtype), operand((4, 6), dtype))
            check(f"mul 0 {dtype}", lambda a: a * 0, operand((4, 6), dtype))
            check(f"where {dtype}", torch.where, mask, x, y, finite=finite)
            check(f"masked_fill {dtype}", lambda a, m: a.masked_fill(m, 1), x, mask, finite=finite)
            check(f"clamp {dtype}", torch.clamp, x, y, z, finite=finite)
            check(f"clamp limits {dtype}", lambda a: a.clamp(1, 1), x, finite=finite)
            for f in (torch.neg, torch.abs, torch.exp, torch.log, torch.sqrt, torch.isnan,
                      torch.isinf, torch.isfinite, torch.logical_not, torch.sign, torch.relu,
                      torch.nan_to_num):
                check(f"{f.__name__} {dtype}", f, x, finite=finite)
            for other in TYPES:
                check(f"cast {dtype} {other}", lambda a: a.to(other), operand((4, 6), dtype))


def reductions():
    for dtype in TYPES:
        for finite in (True, False):
            for share in (0.1, 0.4):
                x = operand((5, 7), dtype, share, finite)
                for f in (torch.any, torch.all, torch.amax, torch.amin, torch.sum, torch.argmax,
                          torch.argmin):
                    check(f"{f.__name__} {dtype}", f, x, finite=finite)
                    for dim in (0, 1):
                        check(f"{f.__name__} {dim} {dtype}", lambda a: f(a, dim), x, finite=finite)
                check(f"max {dtype}", lambda a: a.max(1).values, x, finite=finite)
                check(f"max index {dtype}", lambda a: a.gather(1, a.max(1, keepdim=True).indices),
                      x, finite=finite)
                check(f"norm {dtype}", lambda a: torch.linalg.vector_norm(a, 2, dim=1), x,
                      finite=finite)
                check(f"softmax {dtype}", lambda a: a.softmax(-1), x, finite=finite)
            check(f"prod {dtype}", lambda a: a.prod(1), operand((5, 7), dtype))
            check(f"mean {dtype}", lambda a: a.mean(1), x, finite=finite)


def moves():
    index = (torch.tensor([2, 0, 1]), torch.zeros(3, dtype=torch.bool))
    for dtype in TYPES:
        for finite in (True, False):
            x, y = operand((3, 5), dtype, finite=finite), operand((3, 5), dtype, finite=finite)
            more = dict(finite=finite)
            check(f"cat {dtype}", lambda a, b: [torch.cat([a, b]), torch.cat([a, b], 1)], x, y, **more)
            check(f"stack {dtype}", lambda a, b: torch.stack([a, b], 1), x, y, **more)
            check(f"index {dtype}", lambda a, i: [a[i], a[:, i]], x, index, **more)
            check(f"select {dtype}", lambda a, i: [a.index_select(0, i)], x, index, **more)
            check(f"gather {dtype}", lambda a, i: a.gather(0, i[:, None].expand(3, 5)), x, index, **more)
            check(f"embedding {dtype}", lambda a, i: F.embedding(i, a), x, index, **more)
            check(f"flip {dtype}", lambda a: [a.flip(0), a.flip(1)], x, **more)
            check(f"roll {dtype}", lambda a: a.roll(1, 0), x, **more)
            check(f"triangle {dtype}", lambda a: [a.tril(), a.triu(1)], x, **more)
            check(f"pad {dtype}", lambda a: F.pad(a, (1, 2)), x, **more)
            check(f"repeat {dtype}", lambda a: [a.repeat(2, 2), a.t().contiguous()], x, **more)
            check(f"copy {dtype}", lambda a, b: a.copy_(b.flip(0)), x, y, **more)
            check(f"cumsum {dtype}", lambda a: a.cumsum(1), operand((3, 5), dtype))
            check(f"sort {dtype}", lambda a: a.sort(dim=1).values, x, **more)
            check(f"topk {dtype}", lambda a: a.topk(2).values, x, **more)
            check(f"index_copy {dtype}", lambda a, i, b: a.index_copy(0, i, b), x, index, y, **more)
            check(f"index_add {dtype}", lambda a, i, b: a.index_add(0, i, b),
                  operand((3, 5), dtype), index, operand((3, 5), dtype))
            check(f"scatter {dtype}", lambda a, i, b: a.scatter(0, i[:, None], b[:, :1]), x, index, y,
                  **more)
            check(f"foreach add {dtype}", lambda a, b: list(torch._foreach_add([a, b], 2)), x, y, **more)
    # Which token was drawn is not known, so that neither is its row.
    table = (random((4, 3), torch.float32), torch.zeros(4, 3, dtype=torch.bool))
    tokens = (torch.tensor([0, 1, 2, 3]), torch.tensor([False, True, False, True]))
    check("embedding of unknown", lambda i, w: F.embedding(i.remainder(4), w), tokens, table)


def expected_known():
    """What a program's control flow needs: decided although something is unknown."""
    hidden = torch.ones(4, dtype=torch.bool)
    token = partly(torch.zeros(4, dtype=torch.int64), hidden)
    loss = partly(torch.zeros(4), hidden)
    true = torch.full((4,), True, device="cuda")
    cases = {
        "or": (true | (token == 2), [True] * 4),
        "and": (~true & (token == 2), [False] * 4),
        "isin": (true | torch.isin(token, torch.tensor([2], device="cuda")), [True] * 4),
        "any": ((token == 2).any() | true.any(), True),
        "any of both": (torch.cat([true, token == 2]).any(), True),
        "all of both": (torch.cat([~true, token == 2]).all(), False),
        "times 0": (token * 0, [0] * 4),
        "times zeros": (loss * torch.zeros(4, device="cuda"), [0.0] * 4),
        "masked": (loss.masked_fill(true, 1.5), [1.5] * 4),
        "where": (torch.where(true, torch.ones(4, device="cuda"), loss), [1.0] * 4),
        "unfinished": ((torch.ones(4, dtype=torch.long, device="cuda")
                        & ~(true | (token == 2))).max() == 0, True),
        # Assumed: losses are numbers, tokens in the vocabulary.
        "nan": (loss.isnan(), [False] * 4),
        "finite": (loss.isfinite(), [True] * 4),
        "in the vocabulary": ((token >= 0) & (token < 100) & (token % 1 == 0), [True] * 4),
    }
    for name, (tensor, value) in cases.items():
        if not is_known(tensor).all() or tensor.tolist() != value:
            wrong.append(name)
            print("wrong:", name, is_known(tensor).tolist(), tensor.tolist(), file=sys.stderr)
    for name, tensor in {"log": loss.log(), "sum": loss.sum(),
                         "argmax": loss.argmax(), "or": ~true | (loss == 2)}.items():
        if is_known(tensor).any():
            wrong.append(name)
            print("wrong: known:", name, file=sys.stderr)
    large = torch.full((1 << 26,), 2.5, device="cuda")
    large[5] = 1
    if [large[i].item() for i in (0, 5, 6, -1)] != [2.5, 1, 2.5, 2.5]:
        wrong.append("a large constant")


def expanded_masks():
    """Masks of tokens, expanded to the tokens' features, are too large to be computed; how many they select is known."""
    tokens = torch.arange(2048).reshape(4, 512)
    mask, features = (tokens % 7 == 3), torch.empty(4, 512, 1024, device="cuda")
    expanded, on_gpu = mask[..., None].expand(4, 512, 1024), mask.cuda()[..., None].expand(4, 512, 1024)
    rows = torch.arange(512) % 3 == 0
    cases = {
        "expanded": (on_gpu, expanded),
        "copied": (on_gpu.contiguous().clone(), expanded),
        "inverted": (~on_gpu.contiguous(), ~expanded),
        "of tokens of 8 bytes": ((torch.arange(200_000) % 5).cuda() == 0, torch.arange(200_000) % 5 == 0),
        "both": (on_gpu & rows.cuda()[:, None], expanded & rows[:, None]),
        "transposed": (on_gpu.transpose(0, 2).contiguous(), expanded.transpose(0, 2)),
    }
    for name, (got, wanted) in cases.items():
        if got.nonzero().shape != wanted.nonzero().shape:
            wrong.append(name)
            print("wrong:", name, got.nonzero().shape, wanted.nonzero().shape, file=sys.stderr)
    if features[on_gpu].numel() != expanded.sum().item() or features.masked_select(on_gpu).numel() != expanded.sum().item():
        wrong.append("x[mask]")
    # That many images' features, written in their place; nothing of what lies beside is lost.
    images = torch.randn(int(mask.sum()), 1024, device="cuda", requires_grad=True)
    features.masked_scatter(on_gpu, images).sum().backward()
    if images.grad.shape != images.shape:
        wrong.append("masked_scatter's gradient")
    if not is_known(on_gpu[..., 0]).all():
        wrong.append("the mask itself")


for part in (elementwise, reductions, moves, expected_known, expanded_masks):
    part()
print(f"{checked} operations, {decided} known elements, {len(wrong)} wrong")
sys.exit(1 if wrong or checked < 700 or decided < 10000 else 0)
