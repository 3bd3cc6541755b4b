#!/usr/bin/env bash
# What a user does: pip install ./bindings/python into an empty environment, and nothing else is needed.
#
#   wheel_test.sh PYTHON WORK TORCH_PYTHON
#
# WORK is a scratch folder, of which the build is kept. TORCH_PYTHON is one that has torch, if there is one.
set -euo pipefail
python=$1 work=$2 torch_python=$3
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
unset PYTHONPATH PHANTORA_DATA
mkdir -p "$work"
rm -rf "$work/venv"
"$python" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check --config-settings=build-dir="$work/build" "$root/bindings/python"
cd "$work"

# The version is that of the header.
venv/bin/python -c "
import importlib.metadata, phantora
assert importlib.metadata.version('phantora') == phantora.__version__
step = phantora.training_steps(phantora.TransformerShape(layers=2), phantora.Parallelism(tensor=8))
print(phantora.Simulation('h100:1x8').run(step))"

# Nothing but the C and C++ runtimes and one another; what measures on a real GPU, the machine's SQLite too.
package=$(venv/bin/python -c "import pathlib, phantora; print(pathlib.Path(phantora.__file__).parent)")
for file in "$package"/bin/phantora "$package"/*.so "$package"/lib/phantora/*.so* "$package"/lib/phantora/*/*.so*; do
  foreign=$(readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE '^(ld-linux.*|lib(c|m|gcc_s|stdc\+\+|phantora_[a-z]*)\.so.*)$' || true)
  [ "${file##*/}" != libphantora_measure.so ] || foreign=$(grep -v '^libsqlite3\.so\.0$' <<<"$foreign" || true)
  for needed in $foreign; do  # cuDNN's parts need cuDNN: ours, of the same package
    [ ! -e "$package/lib/phantora/$needed" ] || foreign=$(grep -vxF "$needed" <<<"$foreign" || true)
  done
  [ -z "$foreign" ] || { echo "$file needs $foreign"; exit 1; }
done

venv/bin/phantora run --cluster h200:1x2 -- venv/bin/python -c "
import ctypes
pointer = ctypes.c_void_p()
assert ctypes.CDLL('libcudart.so.13').cudaMalloc(ctypes.byref(pointer), 1 << 20) == 0"
if [ -x "$torch_python" ]; then
  venv/bin/phantora run --cluster h200:1x2 --host-time off -- \
    "$torch_python" "$root/test/programs/train.py" --model llama-tiny --steps 3 --warmup 1
fi
