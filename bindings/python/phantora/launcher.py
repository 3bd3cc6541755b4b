"""Real programs on simulated GPUs: the `phantora` program from Python."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

#: The program; its hook libraries lie beside it.
PROGRAM = pathlib.Path(__file__).parent / "bin" / "phantora"


class RunError(RuntimeError):
    """A run that did not end well. `status` is what the program ended with, `report` what was simulated
    until then (None where nothing was)."""

    def __init__(self, status: int, report: dict[str, Any] | None) -> None:
        super().__init__(f"phantora run ended with status {status}; what it said is on stderr")
        self.status = status
        self.report = report


def run(
    command: Sequence[str | os.PathLike[str]],
    cluster: str,
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    record: str | os.PathLike[str] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Runs a program once per simulated GPU, as `phantora run --cluster CLUSTER -- COMMAND` does.

        report = phantora.run([sys.executable, "train.py"], "h200:2x8", host_time="off")

    Options are those of `phantora run --help`, with _ for -: gpu_memory="80GB", trace="trace.json".
    record: where to write what the ranks do, for Workload.load(); a relative path is one of this process.
    True gives a flag; None and False leave an option out. What the program prints appears where this
    program's output does.

    Gives the JSON report. Raises RunError if the run fails."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(options.pop("report", None) or pathlib.Path(folder) / "report.json")
        arguments = [str(PROGRAM), "run", "--cluster", cluster, "--report", str(path.absolute())]
        if record is not None:
            arguments += ["--record", os.path.abspath(record)]
        for name, value in options.items():
            if value is None or value is False:
                continue
            arguments.append("--" + name.replace("_", "-"))
            if value is not True:
                arguments.append(str(value))
        path.unlink(missing_ok=True)
        sys.stdout.flush()
        status = subprocess.run([*arguments, "--", *map(os.fspath, command)], env=env, cwd=cwd).returncode
        report = json.loads(path.read_text()) if path.exists() else None
    if status != 0 or report is None:
        raise RunError(status, report)
    return report


def main() -> None:
    """The `phantora` command."""
    os.execv(PROGRAM, [str(PROGRAM), *sys.argv[1:]])
