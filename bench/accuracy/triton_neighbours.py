"""How much of each other's waits blocks of products hide that share an SM: attention, its backward pass, and products whose
operands are made on the way, in Triton, by grids of one to six blocks for each of 132 SMs.

    triton_neighbours.py     # prints a line of JSON for each: what it is, us of the GPU

The same on a GPU and in a simulation (README.md, "Kernels in Triton"). All blocks read the same few tiles, so that
memory does not matter.
"""
import torch
import triton
import triton.language as tl

from graph_times import tell

SMS = 132


@triton.jit
def attention(q, k, v, out, trips, ROWS: tl.constexpr, KEYS: tl.constexpr, DEPTH: tl.constexpr, STAGES: tl.constexpr):
    rows, keys, depth = tl.arange(0, ROWS), tl.arange(0, KEYS), tl.arange(0, DEPTH)
    q += tl.program_id(0) % 8 * ROWS * DEPTH
    tile = tl.load(q + rows[:, None] * DEPTH + depth)
    total, largest, y = tl.zeros((ROWS,), tl.float32), tl.full((ROWS,), -1e30, tl.float32), tl.zeros((ROWS, DEPTH), tl.float32)
    for step in tl.range(trips, num_stages=STAGES):
        at = step * KEYS
        scores = tl.dot(tile, tl.load(k + (at + keys[None, :]) * DEPTH + depth[:, None])) * 0.18
        above = tl.maximum(largest, tl.max(scores, 1))
        p, shrunk = tl.exp2(scores - above[:, None]), tl.exp2(largest - above)
        total, largest = total * shrunk + tl.sum(p, 1), above
        y = tl.dot(p.to(tl.bfloat16), tl.load(v + (at + keys[:, None]) * DEPTH + depth), y * shrunk[:, None])
    tl.store(out + (tl.program_id(0) * ROWS + rows[:, None]) * DEPTH + depth, (y / total[:, None]).to(tl.bfloat16))


@triton.jit
def attention_backward(q, k, v, dy, most, delta, dk, dv, trips, ROWS: tl.constexpr, KEYS: tl.constexpr, DEPTH: tl.constexpr, STAGES: tl.constexpr):
    rows, keys, depth = tl.arange(0, ROWS), tl.arange(0, KEYS), tl.arange(0, DEPTH)
    own = tl.program_id(0) % 8 * KEYS * DEPTH + keys[:, None] * DEPTH + depth
    key, value = tl.load(k + own), tl.load(v + own)
    gk, gv = tl.zeros((KEYS, DEPTH), tl.float32), tl.zeros((KEYS, DEPTH), tl.float32)
    for step in tl.range(trips, num_stages=STAGES):
        at = step * ROWS + rows
        query = tl.load(q + at[None, :] * DEPTH + depth[:, None])
        p = tl.exp2(tl.dot(key, query) - tl.load(most + at)[None, :])
        gradient = tl.load(dy + at[:, None] * DEPTH + depth)
        gv = tl.dot(p.to(tl.bfloat16), gradient, gv)
        ds = p * (tl.dot(value, tl.trans(gradient)) - tl.load(delta + at)[None, :])
        gk = tl.dot(ds.to(tl.bfloat16), tl.trans(query), gk)
    tl.store(dk + tl.program_id(0) * KEYS * DEPTH + keys[:, None] * DEPTH + depth, gk.to(tl.bfloat16))
    tl.store(dv + tl.program_id(0) * KEYS * DEPTH + keys[:, None] * DEPTH + depth, gv.to(tl.bfloat16))


@triton.jit
def product(a, b, out, trips, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, STAGES: tl.constexpr, WIDENED: tl.constexpr):
    rows, columns, depth = tl.arange(0, ROWS), tl.arange(0, COLUMNS), tl.arange(0, DEPTH)
    width = trips * DEPTH
    a += tl.program_id(0) % 8 * ROWS * width
    y = tl.zeros((ROWS, COLUMNS), tl.float32)
    for step in tl.range(trips, num_stages=STAGES):
        at = step * DEPTH + depth
        x = tl.load(a + rows[:, None] * width + at)
        w = tl.load(b + at[:, None] * COLUMNS + columns)
        if WIDENED:
            w = (w.to(tl.float32) * 0.01).to(tl.bfloat16)
        y = tl.dot(x, w, y)
    tl.store(out + tl.program_id(0) * ROWS * COLUMNS + rows[:, None] * COLUMNS + columns, y.to(tl.bfloat16))


# Rows, keys, depth, warps, stages.
ATTENTION = [(64, 64, 64, 4, 3), (128, 64, 64, 4, 3), (128, 64, 64, 8, 3), (128, 128, 64, 8, 2), (64, 64, 128, 4, 2), (128, 64, 128, 8, 3), (128, 128, 128, 8, 2), (64, 128, 64, 4, 2), (128, 32, 128, 4, 3), (64, 32, 128, 4, 3), (32, 64, 64, 4, 2)]
BACKWARD = [(32, 128, 64, 4, 3), (64, 64, 64, 4, 3), (64, 128, 64, 8, 3), (32, 64, 128, 4, 2), (64, 128, 128, 8, 2), (64, 64, 128, 4, 2), (128, 128, 64, 8, 1)]
PRODUCTS = [(64, 64, 64, 4, 4, False), (128, 128, 64, 4, 3, False), (128, 128, 64, 8, 3, False), (128, 256, 64, 8, 3, False), (64, 128, 64, 4, 3, False), (32, 64, 64, 4, 3, False), (64, 64, 64, 4, 4, True), (128, 128, 64, 8, 3, True), (64, 128, 64, 4, 3, True)]


def main():
    def noise(*shape):
        return torch.randn(*shape, device="cuda").bfloat16()
    most = max(6 * SMS, 128)
    q, k, v = noise(128 * 128 * 8), noise(128 * 128 * 64), noise(128 * 128 * 64)
    wide, out, second = noise(128 * 64 * 64 * 8), noise(most * 128 * 256), noise(most * 128 * 128)
    logs, delta = torch.zeros(128 * 64, device="cuda"), torch.zeros(128 * 64, device="cuda")
    small = torch.randint(-100, 100, (64 * 64 * 256,), device="cuda").to(torch.int8)
    for each in (1, 2, 3, 4, 6):
        for trips in (8, 64):
            what = f"{each} x {trips}"
            for rows, keys, depth, warps, stages in ATTENTION:
                tell(f"attention {rows} {keys} {depth} by {warps} warps {stages} stages, {what}", lambda: attention[(each * SMS,)](q, k, v, out, trips, rows, keys, depth, stages, num_warps=warps))
            for rows, keys, depth, warps, stages in BACKWARD:
                tell(f"backward {rows} {keys} {depth} by {warps} warps {stages} stages, {what}", lambda: attention_backward[(each * SMS,)](q, k, v, wide, logs, delta, out, second, trips, rows, keys, depth, stages, num_warps=warps))
            for rows, columns, depth, warps, stages, widened in PRODUCTS:
                b = small if widened else wide
                tell(f"product {rows} {columns} {depth} by {warps} warps {stages} stages{' widened' if widened else ''}, {what}", lambda: product[(each * SMS,)](wide, b, out, trips, rows, columns, depth, stages, widened, num_warps=warps))


if __name__ == "__main__":
    main()
