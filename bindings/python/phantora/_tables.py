"""Reports as tables and pictures. pandas and matplotlib are asked for only here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from phantora import Report

#: What a rank's time is divided into, with the colours of the plot.
PARTS = {"computing": "#2f7d4f", "exposed": "#c8553d", "waiting": "#e3b23c", "idle": "#c9ccd1"}


def to_pandas(report: Report) -> Any:
    import pandas

    return pandas.DataFrame(report.ranks).rename_axis("rank")


def plot(report: Report) -> Any:
    # Without pyplot: nothing is shown, and no state of the caller's is touched.
    from matplotlib.figure import Figure

    ranks = report.ranks
    numbers = range(len(ranks["gpu"]))
    figure = Figure(figsize=(10, 8), layout="constrained")
    time, memory, path = figure.subplots(3, 1)

    below = 0.0 * ranks["end"]
    for part, colour in PARTS.items():
        time.bar(numbers, 1e3 * ranks[part], bottom=below, width=1, label=part, color=colour)
        below = below + 1e3 * ranks[part]
    time.set(xlabel="rank", ylabel="ms", title=f"step {1e3 * report.step:.1f} ms")
    time.legend(loc="upper left", bbox_to_anchor=(1, 1))

    memory.bar(numbers, ranks["peak_memory"] / 2**30, width=1, color="#4472a8")
    memory.step(numbers, ranks["memory"] / 2**30, where="mid", color="black", label="of the GPU")
    memory.set(xlabel="rank", ylabel="GiB", title=f"peak memory {report.peak_memory / 2**30:.1f} GiB")
    memory.legend(loc="upper left", bbox_to_anchor=(1, 1))

    parts = report.critical_path[:8][::-1]
    path.barh(range(len(parts)), [1e3 * part.time for part in parts], color="#b9aede")
    for row, part in enumerate(parts):
        path.annotate(f" {part.count} x {part.name[:80]}", (0, row), verticalalignment="center")
    path.set(xlabel="ms", yticks=[], title="what the time consists of (critical path)")
    return figure
