"""Kernels in Triton that read and add to rows that a tensor of random indices names, from tables that the L2 cache holds
and from such that no cache holds.

    triton_gathers.py        # prints a line of JSON for each: what it is, us of the GPU

The same on a GPU and in a simulation (README.md, "Kernels in Triton").
"""
import torch
import triton
import triton.language as tl

from graph_times import tell


@triton.jit
def gather(table, index, out, count, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    """Rows of a table, side by side."""
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    at = tl.load(index + row, row < count, 0)
    value = tl.load(table + at[:, None] * WIDTH + column[None, :])
    tl.store(out + row[:, None].to(tl.int64) * WIDTH + column[None, :], value, row[:, None] < count)


@triton.jit
def scatter_add(table, index, x, count, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    """Rows that are added to those of a table."""
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    at = tl.load(index + row, row < count, 0)
    value = tl.load(x + row[:, None].to(tl.int64) * WIDTH + column[None, :], row[:, None] < count, 0)
    tl.atomic_add(table + at[:, None] * WIDTH + column[None, :], value, row[:, None] < count, sem="relaxed")


@triton.jit
def weighted_sum(table, index, weight, out, NEIGHBOURS: tl.constexpr, WIDTH: tl.constexpr):
    """Of some rows of a table for each program, as graph networks and mixtures of experts have them."""
    column = tl.arange(0, WIDTH)
    sum = tl.zeros((WIDTH,), tl.float32)
    for neighbour in range(NEIGHBOURS):
        at = tl.program_id(0) * NEIGHBOURS + neighbour
        row = tl.load(index + at)
        sum += tl.load(weight + at) * tl.load(table + row * WIDTH + column)
    tl.store(out + tl.program_id(0).to(tl.int64) * WIDTH + column, sum)


def rows_of(megabytes, width, count):
    """A table of about so many megabytes and random rows of it."""
    rows = int(megabytes * 1e6) // (4 * width)
    return torch.randn(rows, width, device="cuda"), torch.randint(0, rows, (count,), device="cuda")


def tables(width, count):
    for megabytes in (2, 16, 40, 200, 1000):
        table, index = rows_of(megabytes, width, count)
        x = torch.randn(count, width, device="cuda")
        many = max(1, 1024 // width)
        programs = (triton.cdiv(count, many),)
        tell(f"gather {count} rows of {width} from {megabytes} MB", lambda: gather[programs](table, index, x, count, WIDTH=width, ROWS=many))
        tell(f"scatter_add {count} rows of {width} to {megabytes} MB", lambda: scatter_add[programs](table, index, x, count, WIDTH=width, ROWS=many))
        if width > 1:
            weight = torch.randn(count, device="cuda")
            tell(f"weighted sum {count // 16} times 16 rows of {width} from {megabytes} MB",
                 lambda: weighted_sum[(count // 16,)](table, index, weight, x, NEIGHBOURS=16, WIDTH=width, num_warps=1 if width <= 128 else 4))


if __name__ == "__main__":
    torch.manual_seed(0)
    for shape in [(1, 1 << 22), (16, 1 << 20), (128, 1 << 18), (1024, 1 << 16)]:
        tables(*shape)
