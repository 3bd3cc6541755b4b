#!/usr/bin/env python3
"""Draws benchmarks' output as SVG beside this script: how the network's cost grows, from network_bench's; what an
operation costs, from session_bench's; a price, from cost_bench's; and what intercepted calls cost, from
interception_bench's with measured host time and without.

usage: bench/plot.py network.json | session.json | cost.json
       bench/plot.py measured.json off.json
"""

import json
import math
import pathlib
import sys

WIDTH, HEIGHT = 460, 300
LEFT, RIGHT, TOP, BOTTOM = 62, 130, 34, 46
COLOURS = ["#0b6e99", "#c4492b", "#5b8c2a", "#7a4fa3"]


def ticks(low, high):
    """1, 2 and 5 times powers of ten; powers only where those would crowd."""
    steps = (1,) if high / low > 300 else (1, 2, 5)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [s * 10.0**p for p in powers for s in steps if low <= s * 10.0**p <= high]


def label(value):
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{name}"
    return f"{value:g}"


def plot(title, x_name, y_name, lines):
    """A log-log plot; `lines` maps a name to its points."""
    points = [p for line in lines.values() for p in line]
    low_x, high_x = min(x for x, _ in points) / 1.3, max(x for x, _ in points) * 1.3
    low_y, high_y = min(y for _, y in points) / 1.6, max(y for _, y in points) * 1.6

    def at(value, low, high, begin, end):
        return begin + (end - begin) * math.log(value / low) / math.log(high / low)

    def x_at(x):
        return at(x, low_x, high_x, LEFT, WIDTH - RIGHT)

    def y_at(y):
        return at(y, low_y, high_y, HEIGHT - BOTTOM, TOP)

    svg = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="13">{title}</text>',
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">'
        f"{x_name}</text>",
        f'<text transform="translate(14 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" '
        f'text-anchor="middle">{y_name}</text>',
    ]
    for x in ticks(low_x, high_x):
        svg.append(
            f'<path d="M{x_at(x):.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#ddd"/>'
            f'<text x="{x_at(x):.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">'
            f"{label(x)}</text>"
        )
    for y in ticks(low_y, high_y):
        svg.append(
            f'<path d="M{LEFT} {y_at(y):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
            f'<text x="{LEFT - 6}" y="{y_at(y) + 4:.1f}" text-anchor="end">{label(y)}</text>'
        )
    for i, ((name, line), colour) in enumerate(zip(lines.items(), COLOURS)):
        line = sorted(line)
        path = "L".join(f"{x_at(x):.1f} {y_at(y):.1f}" for x, y in line)
        svg.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        svg += [
            f'<circle cx="{x_at(x):.1f}" cy="{y_at(y):.1f}" r="3" fill="{colour}"/>' for x, y in line
        ]
        y = TOP + 12 + 16 * i
        svg.append(f'<text x="{WIDTH - RIGHT + 10}" y="{y}" fill="{colour}">{name}</text>')
    return "\n".join(svg + ["</svg>", ""])


def bars(title, rows):
    """Horizontal bars on a log axis, some per row; `rows` maps a row's name to its bars by series."""
    left, right, bar, gap = 250, 30, 10, 8
    series = list(next(iter(rows.values())))
    row_height = bar * len(series) + gap
    width, height = left + 300 + right, TOP + row_height * len(rows) + BOTTOM
    values = [value for row in rows.values() for value in row.values()]
    low, high = min(values) / 1.5, max(values) * 1.2

    def x_at(value):
        return left + (width - left - right) * math.log(value / low) / math.log(high / low)

    svg = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="10" y="20" font-size="13">{title}</text>',
    ]
    for i, (name, colour) in enumerate(zip(series, COLOURS) if len(series) > 1 else ()):
        svg.append(f'<text x="{left + 160 * i}" y="20" fill="{colour}">{name}</text>')
    bottom = height - BOTTOM
    for x in ticks(low, high):
        svg.append(
            f'<path d="M{x_at(x):.1f} {TOP}V{bottom}" stroke="#ddd"/>'
            f'<text x="{x_at(x):.1f}" y="{bottom + 15}" text-anchor="middle">{label(x)}</text>'
        )
    for r, (name, row) in enumerate(rows.items()):
        y = TOP + r * row_height + gap / 2
        svg.append(
            f'<text x="{left - 6}" y="{y + row_height / 2}" text-anchor="end">{name}</text>'
        )
        svg += [
            f'<rect x="{left}" y="{y + bar * i:.1f}" width="{x_at(row[s]) - left:.1f}" '
            f'height="{bar - 1}" fill="{colour}"/>'
            for i, (s, colour) in enumerate(zip(series, COLOURS))
        ]
    return "\n".join(svg + ["</svg>", ""])


def plot_interception(folder, measured, off):
    of_calls = {"measured host time": measured, "--host-time off": off}
    rows = {
        call: {series: costs[call]["cpu_ns"] for series, costs in of_calls.items()}
        for call in measured
    }
    (folder / "interception.svg").write_text(bars("ns of CPU per call", rows))


def line(runs, prefix, x, y="us/event"):
    """The points of a benchmark, by its argument or by a counter."""
    chosen = [run for run in runs if run["name"].startswith(prefix + "/")]
    if not chosen:
        sys.exit(f'no run "{prefix}"')
    return [(float(run["name"].split("/")[-1]) if x is None else run[x], run[y]) for run in chosen]


def network_plots(runs):
    workloads = {
        "FT open, 0.3": "ft/open_03",
        "FT open, 0.6": "ft/open_06",
        "FT burst": "ft/burst",
        "TREE open, 0.6": "tree/open_06",
    }
    event = "us per event"
    return {
        "flows": ("Cost by flows", "flows in all", event,
                  {name: line(runs, prefix, None) for name, prefix in workloads.items()}),
        "rates": ("Cost by what an event changes", "rates changed per event", event,
                  {name: line(runs, prefix, "rates/event") for name, prefix in workloads.items()}),
        "links": ("Cost by links of the network", "links, most of them idle", event,
                  {"FT open, 0.3": line(runs, "links", "links")}),
        "route_length": ("Cost by route length", "links per route", event,
                         {"FT open, 0.3": line(runs, "route_length", "links per route")}),
        "late": ("Cost of late flows", "lateness, us", "us per flow",
                 {"TREE open, 0.6": line(runs, "late", "lateness/us", "us/flow")}),
    }  # fmt: skip


def session_plots(runs):
    operation = "us per operation"
    jobs = {"data parallel": "data_parallel", "staggered": "staggered", "16 stages": "pipeline_of_16"}
    return {
        "gpus": ("Cost by GPUs", "GPUs", operation,
                 {name: line(runs, f"gpus/{job}", None, "us/operation") for name, job in jobs.items()}),
        "stages": ("Cost by pipeline depth", "stages on 128 GPUs", operation,
                   {"1F1B": line(runs, "stages", None, "us/operation")}),
        "streams": ("Cost by streams", "streams of each of 16 GPUs", operation,
                    {"staggered": line(runs, "streams", None, "us/operation")}),
    }  # fmt: skip


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    folder = pathlib.Path(__file__).parent / "plots"
    folder.mkdir(exist_ok=True)
    if len(sys.argv) == 3:
        plot_interception(
            folder, *(json.loads(pathlib.Path(path).read_text()) for path in sys.argv[1:])
        )
        return
    runs = json.loads(pathlib.Path(sys.argv[1]).read_text())["benchmarks"]
    names = {run["name"].split("/")[0] for run in runs}
    if "gemm_bf16" in names:
        rows = {f"{run['name']}: {run['label']}": {"estimate": run["cpu_time"]} for run in runs}
        (folder / "cost.svg").write_text(bars("ns of CPU per price", rows))
        return
    plots = session_plots(runs) if "gpus" in names else network_plots(runs)
    for name, (title, x_name, y_name, lines) in plots.items():
        (folder / f"{name}.svg").write_text(plot(title, x_name, y_name, lines))


if __name__ == "__main__":
    main()
