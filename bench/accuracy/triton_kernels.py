"""Kernels in Triton as users write them, which the simulation prices by their machine code.

    triton_kernels.py        # prints a line of JSON for each: what it is, us of the GPU

The same on a GPU and in a simulation (README.md, "Kernels in Triton").
"""
import torch
import triton
import triton.language as tl

from graph_times import tell

BF16 = {"device": "cuda", "dtype": torch.bfloat16}


@triton.jit
def product(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c = a b, row-major, a tile for each program."""
    row, column = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    along = tl.arange(0, BK)
    sum = tl.zeros((BM, BN), tl.float32)
    for step in range(0, k, BK):
        left = tl.load(a + row[:, None] * k + (step + along)[None, :])
        right = tl.load(b + (step + along)[:, None] * n + column[None, :])
        sum = tl.dot(left, right, sum)
    tl.store(c + row[:, None] * n + column[None, :], sum.to(tl.bfloat16))


@triton.jit
def persistent_product(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The same by as many programs as there are SMs, each of which goes from tile to tile."""
    across = n // BN
    along = tl.arange(0, BK)
    for tile in range(tl.program_id(0), (m // BM) * across, tl.num_programs(0)):
        row = tile // across * BM + tl.arange(0, BM)
        column = tile % across * BN + tl.arange(0, BN)
        sum = tl.zeros((BM, BN), tl.float32)
        for step in range(0, k, BK):
            left = tl.load(a + row[:, None] * k + (step + along)[None, :])
            right = tl.load(b + (step + along)[:, None] * n + column[None, :])
            sum = tl.dot(left, right, sum)
        tl.store(c + row[:, None] * n + column[None, :], sum.to(tl.bfloat16))


@triton.jit
def attention(q, k, v, out, length, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    """Softmax of q k^T times v, a block of queries of one head for each program."""
    head = tl.program_id(1).to(tl.int64) * length * D
    queries, width = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    query = tl.load(q + head + queries[:, None] * D + width[None, :])
    most, sum = tl.full((BM,), float("-inf"), tl.float32), tl.zeros((BM,), tl.float32)
    result = tl.zeros((BM, D), tl.float32)
    end = (tl.program_id(0) + 1) * BM if CAUSAL else length
    for begin in range(0, end, BN):
        keys = begin + tl.arange(0, BN)
        key = tl.load(k + head + keys[None, :] * D + width[:, None])
        score = tl.dot(query, key) * scale
        if CAUSAL:
            score = tl.where(queries[:, None] >= keys[None, :], score, float("-inf"))
        now = tl.maximum(most, tl.max(score, 1))
        weight, less = tl.exp2(score - now[:, None]), tl.exp2(most - now)
        sum, most = sum * less + tl.sum(weight, 1), now
        value = tl.load(v + head + keys[:, None] * D + width[None, :])
        result = tl.dot(weight.to(tl.bfloat16), value, result * less[:, None])
    tl.store(out + head + queries[:, None] * D + width[None, :], (result / sum[:, None]).to(tl.bfloat16))


@triton.jit
def layer_norm(x, weight, bias, out, width, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0).to(tl.int64) * width, tl.arange(0, BLOCK)
    inside = columns < width
    values = tl.load(x + row + columns, inside, 0.0).to(tl.float32)
    mean = tl.sum(values, 0) / width
    apart = tl.where(inside, values - mean, 0.0)
    normal = apart * tl.rsqrt(tl.sum(apart * apart, 0) / width + 1e-5)
    result = normal * tl.load(weight + columns, inside, 0.0) + tl.load(bias + columns, inside, 0.0)
    tl.store(out + row + columns, result.to(tl.bfloat16), inside)


@triton.jit
def cross_entropy(logits, target, loss, words, BLOCK: tl.constexpr):
    """Losses of rows too long for registers, read twice."""
    row = tl.program_id(0).to(tl.int64) * words
    most = float("-inf")
    for begin in range(0, words, BLOCK):
        columns = begin + tl.arange(0, BLOCK)
        most = tl.maximum(most, tl.max(tl.load(logits + row + columns, columns < words, float("-inf")).to(tl.float32), 0))
    sum = 0.0
    for begin in range(0, words, BLOCK):
        columns = begin + tl.arange(0, BLOCK)
        sum += tl.sum(tl.exp(tl.load(logits + row + columns, columns < words, float("-inf")).to(tl.float32) - most), 0)
    chosen = tl.load(logits + row + tl.load(target + tl.program_id(0))).to(tl.float32)
    tl.store(loss + tl.program_id(0), tl.log(sum) + most - chosen)


@triton.jit
def quantised_vector(packed, scales, x, out, width, GROUP: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """A matrix of 4-bit weights, two to a byte and a scale for each group, times a vector."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    sum = tl.zeros((ROWS,), tl.float32)
    for begin in range(0, width // 2, BLOCK):
        bytes = begin + tl.arange(0, BLOCK)
        both = tl.load(packed + rows[:, None] * (width // 2) + bytes[None, :])
        scale = tl.load(scales + rows[:, None] * (width // GROUP) + (2 * bytes // GROUP)[None, :]).to(tl.float32)
        low, high = tl.load(x + 2 * bytes).to(tl.float32), tl.load(x + 2 * bytes + 1).to(tl.float32)
        part = ((both & 15).to(tl.float32) - 8) * low[None, :] + ((both >> 4).to(tl.float32) - 8) * high[None, :]
        sum += tl.sum(part * scale, 1)
    tl.store(out + rows, sum.to(tl.bfloat16))


@triton.jit
def gated(x, out, count, BLOCK: tl.constexpr):
    where = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(x + where).to(tl.float32)
    tl.store(out + where, (gate * tl.sigmoid(gate) * tl.load(x + count + where).to(tl.float32)).to(tl.bfloat16))


@triton.jit
def rotate(x, cosine, sine, out, heads, length, HALF: tl.constexpr):
    """Rotary positions: the halves of each head's numbers."""
    token, columns = tl.program_id(0), tl.arange(0, HALF)
    by = (token % length) * HALF + columns
    c, s = tl.load(cosine + by), tl.load(sine + by)
    for head in range(heads):
        place = (token.to(tl.int64) * heads + head) * 2 * HALF + columns
        first, second = tl.load(x + place).to(tl.float32), tl.load(x + place + HALF).to(tl.float32)
        tl.store(out + place, (first * c - second * s).to(tl.bfloat16))
        tl.store(out + place + HALF, (second * c + first * s).to(tl.bfloat16))


@triton.jit
def transpose(x, out, rows, columns, B: tl.constexpr):
    r, c = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * B + tl.arange(0, B)
    tile = tl.load(x + r[:, None] * columns + c[None, :])
    tl.store(out + c[:, None] * rows + r[None, :], tl.trans(tile))


@triton.jit
def column_sums(x, out, rows, columns, BR: tl.constexpr, BC: tl.constexpr):
    """A gradient of biases: sums down the rows."""
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    sum = tl.zeros((BC,), tl.float32)
    for begin in range(0, rows, BR):
        r = begin + tl.arange(0, BR)
        sum += tl.sum(tl.load(x + r[:, None].to(tl.int64) * columns + c[None, :]).to(tl.float32), 0)
    tl.store(out + c, sum)


def products(m, n, k):
    a, b, c = torch.randn(m, k, **BF16), torch.randn(k, n, **BF16), torch.empty(m, n, **BF16)
    for bm, bn, bk, warps, stages in ((128, 256, 64, 8, 3), (128, 128, 64, 4, 3), (64, 64, 64, 4, 4)):
        how = {"BM": bm, "BN": bn, "BK": bk, "num_warps": warps, "num_stages": stages}
        name = f"{m}x{n}x{k} by {bm}x{bn}x{bk}"
        tell(f"product {name}", lambda: product[(m // bm, n // bn)](a, b, c, m, n, k, **how))
        sms = torch.cuda.get_device_properties(0).multi_processor_count
        tell(f"product, persistent, {name}", lambda: persistent_product[(sms,)](a, b, c, m, n, k, **how))


def attentions(batch, heads, length, width):
    q, k, v, out = (torch.randn(batch, heads, length, width, **BF16) for _ in range(4))
    for causal in (True, False):
        for bm, bn, warps, stages in ((128, 64, 8, 3), (128, 128, 8, 2), (64, 64, 4, 3)):
            tell(f"attention {batch}x{heads}x{length}x{width}{' causal' if causal else ''} by {bm}x{bn}",
                 lambda: attention[(length // bm, batch * heads)](q, k, v, out, length, 0.1, D=width, BM=bm, BN=bn,
                                                                 CAUSAL=causal, num_warps=warps, num_stages=stages))


def rows(count, width):
    x, out = torch.randn(count, width, **BF16), torch.empty(count, width, **BF16)
    weight = torch.randn(width, device="cuda")
    block = triton.next_power_of_2(width)
    for warps in (4, 8):
        tell(f"layer norm {count}x{width}, {warps} warps",
             lambda: layer_norm[(count,)](x, weight, weight, out, width, BLOCK=block, num_warps=warps))
    target, loss = torch.zeros(count, device="cuda", dtype=torch.int64), torch.empty(count, device="cuda")
    tell(f"cross-entropy {count}x{width}",
         lambda: cross_entropy[(count,)](x, target, loss, width, BLOCK=2048, num_warps=8))
    tell(f"transpose {count}x{width}", lambda: transpose[(count // 64, width // 64)](x, out, count, width, B=64))
    sums = torch.empty(width, device="cuda")
    tell(f"column sums {count}x{width}",
         lambda: column_sums[(width // 32,)](x, sums, count, width, BR=64, BC=32, num_warps=4))
    half = count * width // 2
    tell(f"gated {count}x{width}", lambda: gated[(half // 1024,)](x, out, half, BLOCK=1024))


def decoding(height, width):
    packed = torch.zeros(height, width // 2, device="cuda", dtype=torch.uint8)
    scales, x = torch.randn(height, width // 128, **BF16), torch.randn(width, **BF16)
    out = torch.empty(height, **BF16)
    for per_program, block in ((4, 512), (16, 256)):
        tell(f"4-bit matrix {height}x{width} times vector by {per_program}x{block}",
             lambda: quantised_vector[(height // per_program,)](packed, scales, x, out, width, GROUP=128,
                                                                ROWS=per_program, BLOCK=block, num_warps=4))


def rotation(tokens, heads, width, length):
    x, out = (torch.randn(tokens, heads, width, **BF16) for _ in range(2))
    angle = torch.rand(length, width // 2, device="cuda")
    tell(f"rotation {tokens}x{heads}x{width}",
         lambda: rotate[(tokens,)](x, angle, angle, out, heads, length, HALF=width // 2, num_warps=1))


if __name__ == "__main__":
    torch.manual_seed(0)
    for shape in [(4096, 4096, 4096), (8192, 2048, 1024), (1024, 8192, 8192)]:
        products(*shape)
    for shape in [(4, 16, 2048, 128), (2, 16, 4096, 64), (16, 12, 512, 64)]:
        attentions(*shape)
    for shape in [(16384, 4096), (65536, 1024), (4096, 32768)]:
        rows(*shape)
    for shape in [(28672, 8192), (8192, 8192)]:
        decoding(*shape)
    for shape in [(16384, 32, 128, 4096), (65536, 8, 64, 2048)]:
        rotation(*shape)
