"""Elements of masks and integers that are too many to be computed are computed when they are asked for: sums of their blocks,
slices, copies are what the CPU has of them. Prints a summary; the exit status is 1 if any element that is known differs, if one
that should be is not known, or if one is that cannot be.
"""
import random
import sys

import torch

from known_memory import known_bytes

N = 768  # pairs of as many positions are more than is computed at once
BLOCK = 64
random.seed(5)
generator = torch.Generator().manual_seed(5)
unknown = torch.randn(N * N, device="cuda")
wrong = []
checked = 0


def is_known(tensor):
    return known_bytes(tensor.data_ptr(), tensor.numel() * tensor.element_size())


def check(name, make):
    """make(device) gives a small tensor, which is to be known."""
    global checked
    expected, result = make("cpu"), make("cuda")
    checked += 1
    if not is_known(result):
        wrong.append(f"{name}: not known")
    elif not torch.equal(result.cpu(), expected):
        wrong.append(f"{name}: {result.cpu().flatten()[:8].tolist()}, expected {expected.flatten()[:8].tolist()}")


def pairs(device):
    positions = torch.arange(N, device=device)
    return positions[:, None], positions[None, :]


def causal(device):
    i, j = pairs(device)
    return i >= j


def window(device):
    i, j = pairs(device)
    return (i >= j) & (i - j < 100)


def documents(device, batch=1):
    numbers = torch.arange(N).div(70, rounding_mode="floor").repeat(batch, 1) + torch.arange(batch)[:, None]
    numbers = numbers.to(device)
    return (numbers[:, :, None] == numbers[:, None, :]) & causal(device)


def blocks(mask):
    """How many pairs of each block of positions are set."""
    return mask.view(-1, N // BLOCK, BLOCK, N // BLOCK, BLOCK).permute(0, 1, 3, 2, 4).sum((-1, -2))


def in_place(device):
    mask = causal(device)
    mask &= window(device)
    mask.logical_not_()
    return mask.sum(-1)


def after_its_operands(device):
    positions = torch.arange(N, device=device)
    mask = positions[:, None] >= positions
    positions.zero_()
    return mask.sum(-1)


def over_its_operand(device):
    i, j = pairs(device)
    sums = (i + j).contiguous()
    sums.mul_(3).sub_(j)
    return sums.amax(0)


def where(device):
    i, j = pairs(device)
    return torch.where(i >= j, i - j, -1).to(torch.int32).amax(-1)


for name, mask in dict(causal=causal, window=window, documents=documents).items():
    check(f"{name}, blocks", lambda device: blocks(mask(device)))
    check(f"{name}, cast", lambda device: blocks(mask(device).to(torch.uint8).to(torch.int64)))
    check(f"{name}, rows", lambda device: mask(device).any(-1).sum())
    check(f"{name}, all", lambda device: mask(device).all(-2))
    check(f"{name}, total", lambda device: mask(device).sum())
    check(f"{name}, copied", lambda device: mask(device).clone().sum(-2))
    check(f"{name}, slice", lambda device: mask(device)[..., 300:340, :].contiguous())
    check(f"{name}, element", lambda device: mask(device)[..., 300, 20:40].clone())
    check(f"{name}, selected", lambda device: torch.tensor(mask(device).nonzero().shape))
    checked += 1
    if not torch.equal(mask("cuda").cpu(), mask("cpu")):
        wrong.append(f"{name}: on the host")
check("documents of several sequences", lambda device: blocks(documents(device, 3)))
check("in place", in_place)
check("after its operands", after_its_operands)
check("over its operand", over_its_operand)
check("where", where)
check("index of the greatest", lambda device: (pairs(device)[0] * 7 % 11 * causal(device)).argmax(-1))

# Chains of operations, taken at random.
OPERATIONS = [torch.add, torch.sub, torch.mul, torch.minimum, torch.maximum, torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor,
              torch.eq, torch.lt, torch.ge, lambda x, y: x % 7, lambda x, y: torch.where(x > y, x, y), lambda x, y: -x, lambda x, y: x.to(torch.int16).to(torch.int64)]
for number in range(40):
    rows, columns = (torch.randint(-50, 50, shape, generator=generator) for shape in ((N, 1), (1, N)))
    chosen = [random.choice(OPERATIONS) for _ in range(random.randint(1, 6))]
    axis = random.choice((0, 1))

    def chain(device):
        x, y = rows.to(device), columns.to(device)
        result = x + y
        for operation in chosen:
            result = operation(result, random_operand(x, y, len(chosen))).to(torch.int64)
        return result.sum(axis)

    def random_operand(x, y, length):
        return (x, y, x * y)[length % 3]

    check(f"chain {number}", chain)

# What is written into, or makes room for something else, is not known any more.
for name, change in dict(one=lambda m: m[3].fill_(True), unknown=lambda m: m.copy_(unknown.view(N, N) > 0),
                         part=lambda m: m[5:9].copy_(unknown.view(N, N)[5:9] > 0)).items():
    mask = causal("cuda")
    change(mask)
    checked += 1
    if is_known(mask.sum(-1)):
        wrong.append(f"written into ({name}): still known")
mask = causal("cuda")
assert is_known(mask)
place = mask.data_ptr()
del mask
fresh = unknown > 0
checked += 1
if fresh.data_ptr() == place and is_known(fresh):
    wrong.append("other memory at the same place: still known")
# Transposed, elements are far from each other: nobody computes those.
transposed = window("cuda").t().contiguous()
checked += 1
if is_known(transposed) and not torch.equal(transposed.cpu(), window("cpu").t().contiguous()):
    wrong.append("transposed")

print(f"{checked} results, {len(wrong)} wrong")
for line in wrong[:20]:
    print(line)
sys.exit(bool(wrong))
