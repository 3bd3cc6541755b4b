"""Kernels in Triton whose loops run as long as tensors say: attention over pages of a cache and over packed sequences,
products of experts, sums over bags, sparse rows, blocks of a mask.

    triton_lengths.py        # prints a line of JSON for each: what it is, us of the GPU

The same on a GPU and in a simulation (README.md, "Kernels in Triton"). Lengths and indices come from the host, as
schedulers, loaders and samplers make them, and are small enough that a simulation knows them.
"""
import random

import torch
import triton
import triton.language as tl

from graph_times import tell


@triton.jit
def paged_decode(q, k, v, pages, lengths, out, scale, most_pages, HEADS: tl.constexpr, GROUP: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
                 SPLITS: tl.constexpr):
    """One query for each sequence; a program for each key head and part of the keys, which lie in pages of a cache."""
    sequence, head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    length = tl.load(lengths + sequence)
    part = tl.cdiv(tl.cdiv(length, SPLITS), PAGE) * PAGE
    begin, end = split * part, tl.minimum((split + 1) * part, length)
    row, column, key = tl.arange(0, GROUP), tl.arange(0, D), tl.arange(0, PAGE)
    query = tl.load(q + ((sequence * HEADS + head) * GROUP + row[:, None]) * D + column[None, :])
    most, sum = tl.full((GROUP,), -1e30, tl.float32), tl.zeros((GROUP,), tl.float32)
    acc = tl.zeros((GROUP, D), tl.float32)
    for first in range(begin, end, PAGE):
        page = tl.load(pages + sequence * most_pages + first // PAGE).to(tl.int64)
        there = first + key < end
        at = (page * PAGE + key) * HEADS + head
        keys = tl.load(k + at[None, :] * D + column[:, None], there[None, :], 0.0)
        score = tl.where(there[None, :], tl.dot(query, keys) * scale, -1e30)
        new = tl.maximum(most, tl.max(score, 1))
        weight, old = tl.exp(score - new[:, None]), tl.exp(most - new)
        values = tl.load(v + at[:, None] * D + column[None, :], there[:, None], 0.0)
        acc = acc * old[:, None] + tl.dot(weight.to(values.dtype), values)
        sum, most = sum * old + tl.sum(weight, 1), new
    tl.store(out + (((sequence * HEADS + head) * SPLITS + split) * GROUP + row[:, None]) * D + column[None, :], acc / tl.maximum(sum, 1e-30)[:, None])


@triton.jit
def packed_attention(q, k, v, begins, out, scale, HEADS: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr):
    """Causal attention in sequences that lie one behind the other."""
    block, head, sequence = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    begin, end = tl.load(begins + sequence), tl.load(begins + sequence + 1)
    first_row = begin + block * ROWS
    if first_row >= end:
        return
    row, column = first_row + tl.arange(0, ROWS), tl.arange(0, D)
    query = tl.load(q + (row[:, None] * HEADS + head) * D + column[None, :], row[:, None] < end, 0.0)
    most, sum = tl.full((ROWS,), -1e30, tl.float32), tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, D), tl.float32)
    for first in range(begin, tl.minimum(first_row + ROWS, end), KEYS):
        key = first + tl.arange(0, KEYS)
        keys = tl.load(k + (key[None, :] * HEADS + head) * D + column[:, None], key[None, :] < end, 0.0)
        score = tl.where(key[None, :] <= row[:, None], tl.dot(query, keys) * scale, -1e30)
        new = tl.maximum(most, tl.max(score, 1))
        weight, old = tl.exp(score - new[:, None]), tl.exp(most - new)
        values = tl.load(v + (key[:, None] * HEADS + head) * D + column[None, :], key[:, None] < end, 0.0)
        acc = acc * old[:, None] + tl.dot(weight.to(values.dtype), values)
        sum, most = sum * old + tl.sum(weight, 1), new
    tl.store(out + (row[:, None] * HEADS + head) * D + column[None, :], (acc / sum[:, None]).to(out.dtype.element_ty), row[:, None] < end)


@triton.jit
def expert_products(x, w, tokens, expert_of_block, blocks, out, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Rows of x that `tokens` names, by blocks of one expert each; of the grid's blocks only `blocks` have any."""
    block, part = tl.program_id(0), tl.program_id(1)
    if block >= tl.load(blocks):
        return
    expert = tl.load(expert_of_block + block).to(tl.int64)
    row, column = tl.load(tokens + block * M + tl.arange(0, M)), part * N + tl.arange(0, N)
    step, acc = tl.arange(0, K), tl.zeros((M, N), tl.float32)
    for first in range(0, k, K):
        a = tl.load(x + row[:, None] * k + first + step[None, :])
        b = tl.load(w + expert * n * k + column[None, :] * k + first + step[:, None])
        acc = tl.dot(a, b, acc)
    tl.store(out + (block * M + tl.arange(0, M))[:, None] * n + column[None, :], acc.to(out.dtype.element_ty))


@triton.jit
def bag_sums(table, index, begins, out, D: tl.constexpr):
    """Sums of the rows of each bag."""
    bag, column = tl.program_id(0), tl.arange(0, D)
    sum = tl.zeros((D,), tl.float32)
    for i in range(tl.load(begins + bag), tl.load(begins + bag + 1)):
        sum += tl.load(table + tl.load(index + i).to(tl.int64) * D + column)
    tl.store(out + bag * D + column, sum)


@triton.jit
def sparse_rows(value, index, begins, x, out, WIDTH: tl.constexpr):
    """A sparse matrix in rows times a vector: so many elements of a row at once."""
    row, lane = tl.program_id(0), tl.arange(0, WIDTH)
    end, sum = tl.load(begins + row + 1), tl.zeros((WIDTH,), tl.float32)
    for first in range(tl.load(begins + row), end, WIDTH):
        there = first + lane < end
        column = tl.load(index + first + lane, there, 0)
        sum += tl.load(value + first + lane, there, 0.0) * tl.load(x + column, there, 0.0)
    tl.store(out + row, tl.sum(sum, 0))


@triton.jit
def jagged_softmax(x, begins, out, BLOCK: tl.constexpr):
    """Over rows of unlike lengths, one behind the other, in three passes."""
    row, lane = tl.program_id(0), tl.arange(0, BLOCK)
    begin, end = tl.load(begins + row), tl.load(begins + row + 1)
    most = tl.full((BLOCK,), -1e30, tl.float32)
    for first in range(begin, end, BLOCK):
        most = tl.maximum(most, tl.load(x + first + lane, first + lane < end, -1e30))
    top, sum = tl.max(most, 0), tl.zeros((BLOCK,), tl.float32)
    for first in range(begin, end, BLOCK):
        sum += tl.exp(tl.load(x + first + lane, first + lane < end, -1e30) - top)
    total = tl.sum(sum, 0)
    for first in range(begin, end, BLOCK):
        tl.store(out + first + lane, tl.exp(tl.load(x + first + lane, first + lane < end, -1e30) - top) / total, first + lane < end)


@triton.jit
def block_sparse(q, k, v, counts, chosen, out, scale, length, most_blocks, D: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr):
    """Attention to some blocks of keys, which a list for each block of queries names."""
    block, head = tl.program_id(0), tl.program_id(1)
    row, column = block * ROWS + tl.arange(0, ROWS), tl.arange(0, D)
    of_head = head.to(tl.int64) * length * D
    query = tl.load(q + of_head + row[:, None] * D + column[None, :])
    most, sum = tl.full((ROWS,), -1e30, tl.float32), tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, D), tl.float32)
    for i in range(tl.load(counts + block)):
        key = tl.load(chosen + block * most_blocks + i) * KEYS + tl.arange(0, KEYS)
        score = tl.dot(query, tl.load(k + of_head + key[None, :] * D + column[:, None])) * scale
        new = tl.maximum(most, tl.max(score, 1))
        weight, old = tl.exp(score - new[:, None]), tl.exp(most - new)
        values = tl.load(v + of_head + key[:, None] * D + column[None, :])
        acc = acc * old[:, None] + tl.dot(weight.to(values.dtype), values)
        sum, most = sum * old + tl.sum(weight, 1), new
    tl.store(out + of_head + row[:, None] * D + column[None, :], (acc / sum[:, None]).to(out.dtype.element_ty))


def half(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def whole(numbers):
    return torch.tensor(numbers, dtype=torch.int32).cuda()


def lengths_of(kind, count, mean):
    """All alike, evenly spread, or a few long ones among short ones."""
    if kind == "alike":
        return [mean] * count
    if kind == "even":
        return [random.randrange(1, 2 * mean) for _ in range(count)]
    return [8 * mean if i % 16 == 5 else max(1, mean * 8 // 15) for i in range(count)]


def begins_of(lengths):
    begins = [0]
    for length in lengths:
        begins.append(begins[-1] + length)
    return begins


def decode(kind, count, mean, heads=8, group=16, d=128, page=64, splits=1):
    lengths = lengths_of(kind, count, mean)
    most = max(lengths) // page + 2
    needed = [-(-length // page) for length in lengths]
    order = random.sample(range(sum(needed)), sum(needed))
    pages = [[order.pop() for _ in range(n)] + [0] * (most - n) for n in needed]
    k, v = half(sum(needed), page, heads, d), half(sum(needed), page, heads, d)
    q, out = half(count, heads, group, d), torch.empty(count, heads, splits, group, d, device="cuda")
    table, of = whole(pages), whole(lengths)
    tell(f"paged decode {count} of {mean} {kind}, {splits} parts",
         lambda: paged_decode[(count, heads, splits)](q, k, v, table, of, out, d**-0.5, most, HEADS=heads, GROUP=group, D=d, PAGE=page, SPLITS=splits))


def packed(kind, count, mean, heads=16, d=64):
    lengths = lengths_of(kind, count, mean)
    begins = begins_of(lengths)
    q, k, v, out = (half(begins[-1], heads, d) for _ in range(4))
    of, grid = whole(begins), (triton.cdiv(max(lengths), 128), heads, count)
    tell(f"packed attention {count} of {mean} {kind}", lambda: packed_attention[grid](q, k, v, of, out, d**-0.5, HEADS=heads, D=d, ROWS=128, KEYS=64, num_warps=8))


def experts(kind, count, mean, n, k):
    m = 64
    tokens_of = lengths_of(kind, count, mean)
    blocks = [expert for expert, tokens in enumerate(tokens_of) for _ in range(-(-tokens // m))]
    grid_blocks = len(blocks) + count  # as many as there may be
    x, w, out = half(4096, k), half(count, n, k), half(grid_blocks * m, n)
    tokens = torch.randint(0, 4096, (grid_blocks * m,), dtype=torch.int32).cuda()
    of, number = whole(blocks + [0] * count), whole([len(blocks)])
    tell(f"products {n} x {k} of {count} experts with {mean} {kind}",
         lambda: expert_products[(grid_blocks, n // 128)](x, w, tokens, of, number, out, n, k, M=m, N=128, K=64, num_warps=4))


def bags(kind, count, mean, d, rows):
    begins = begins_of(lengths_of(kind, count, mean))
    table, out = torch.randn(rows, d, device="cuda"), torch.empty(count, d, device="cuda")
    index, of = torch.randint(0, rows, (begins[-1],), dtype=torch.int32).cuda(), whole(begins)
    tell(f"{count} bags of {mean} {kind} of {rows} rows of {d}", lambda: bag_sums[(count,)](table, index, of, out, D=d, num_warps=1 if d <= 128 else 4))


def sparse(kind, count, mean):
    begins = begins_of(lengths_of(kind, count, mean))
    index, of = torch.randint(0, 65536, (begins[-1],), dtype=torch.int32).cuda(), whole(begins)
    value, x, out = torch.randn(begins[-1], device="cuda"), torch.randn(65536, device="cuda"), torch.empty(count, device="cuda")
    tell(f"{count} sparse rows of {mean} {kind}", lambda: sparse_rows[(count,)](value, index, of, x, out, WIDTH=32, num_warps=1))


def softmax(kind, count, mean):
    begins = begins_of(lengths_of(kind, count, mean))
    x, out, of = torch.randn(begins[-1], device="cuda"), torch.empty(begins[-1], device="cuda"), whole(begins)
    tell(f"softmax of {count} rows of {mean} {kind}", lambda: jagged_softmax[(count,)](x, of, out, BLOCK=512, num_warps=4))


def mask(kind, length, mean, heads=16, d=64):
    blocks = length // 64
    chosen_of = [min(blocks, n) for n in lengths_of(kind, length // 128, mean)]
    chosen = [random.sample(range(blocks), n) + [0] * (blocks - n) for n in chosen_of]
    q, k, v, out = (half(heads, length, d) for _ in range(4))
    counts, of = whole(chosen_of), whole(chosen)
    tell(f"block-sparse {length} with {mean} blocks {kind}",
         lambda: block_sparse[(length // 128, heads)](q, k, v, counts, of, out, d**-0.5, length, blocks, D=d, ROWS=128, KEYS=64, num_warps=8))


if __name__ == "__main__":
    random.seed(0)
    torch.manual_seed(0)
    for kind in ("alike", "even", "few long"):
        for count, mean, splits in [(32, 256, 1), (64, 2048, 4), (256, 1024, 1), (8, 16384, 16)]:
            decode(kind, count, mean, splits=splits)
        for count, mean in [(16, 1024), (64, 256), (4, 4096)]:
            packed(kind, count, mean)
        for count, mean, n, k in [(8, 512, 4096, 2048), (64, 48, 2048, 1024), (128, 256, 1536, 2048)]:
            experts(kind, count, mean, n, k)
        for count, mean, d, rows in [(16384, 2, 64, 100_000), (4096, 16, 128, 1_000_000), (512, 64, 256, 1_000_000)]:
            bags(kind, count, mean, d, rows)
        for count, mean in [(32768, 2), (4096, 15), (512, 100)]:
            sparse(kind, count, mean)
        for count, mean in [(8192, 100), (2048, 3000), (132, 40_000)]:
            softmax(kind, count, mean)
        for length, mean in [(4096, 8), (8192, 24)]:
            mask(kind, length, mean)
