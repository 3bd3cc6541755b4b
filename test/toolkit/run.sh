#!/usr/bin/env bash
# Compares the finished build (build/release) with an installed CUDA 13 toolkit. Does nothing, and says
# so, where none is.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
if ! [ -x "$nvcc" ] || ! "$nvcc" --version | grep -q 'release 13\.'; then
  echo "== no CUDA 13 toolkit here: nothing to compare with"
  exit 0
fi
echo "== comparing with the toolkit of $nvcc"
cmake -S "$root/test/toolkit" -B "$root/build/toolkit" -G Ninja >"$root/build/toolkit.log" || { cat "$root/build/toolkit.log"; exit 1; }
cmake --build "$root/build/toolkit"
ctest --test-dir "$root/build/toolkit" --output-on-failure --no-tests=error
