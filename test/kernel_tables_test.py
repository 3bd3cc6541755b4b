"""The kernel data is what its script makes of the recorded sweeps."""
import filecmp
import pathlib
import subprocess
import sys
import tempfile

data = pathlib.Path(__file__).resolve().parents[1] / "lib/kernels/data"
with tempfile.TemporaryDirectory() as folder:
    for gpu in ("h200", "h100"):
        made = pathlib.Path(folder) / f"{gpu}.tsv"
        subprocess.run([sys.executable, data / "make_table.py", gpu, made], check=True)
        if not filecmp.cmp(made, data / f"{gpu}.tsv", shallow=False):
            sys.exit(f"lib/kernels/data/{gpu}.tsv is not what make_table.py makes: run "
                     f"lib/kernels/data/make_table.py {gpu} lib/kernels/data/{gpu}.tsv")
