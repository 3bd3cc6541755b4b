#!/usr/bin/env bash
# Unpacks the headers of CUDA, cuBLAS, cuDNN, CUPTI and NCCL into build/cuda-headers, from NVIDIA's
# wheels of the versions that torch 2.11 is built with. Does nothing where a CUDA 13 toolkit with
# all of them is installed, and nothing twice. `--even-with-toolkit` unpacks them in any case.
#
# The wheels hold the libraries too (1 GB to download); only the headers are kept.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target=$root/build/cuda-headers
wheels=(nvidia-cuda-runtime==13.0.96 nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85
  nvidia-cuda-cupti==13.0.85 nvidia-cublas==13.1.0.3 nvidia-cudnn-cu13==9.19.0.56
  nvidia-nccl-cu13==2.28.9)
needed=(cuda.h cuda_runtime_api.h crt/host_defines.h cublas_v2.h cublasLt.h cudnn.h cupti.h nccl.h)

toolkit_has_all() {
  local nvcc include header
  nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
  [ -x "$nvcc" ] || return 1
  "$nvcc" --version | grep -q 'release 13\.' || return 1
  include=$(dirname "$(dirname "$(readlink -f "$nvcc")")")/include
  for header in "${needed[@]}"; do [ -e "$include/$header" ] || return 1; done
}

[ "${1-}" = --even-with-toolkit ] || ! toolkit_has_all || exit 0
[ "$(cat "$target/versions" 2>/dev/null)" != "${wheels[*]}" ] || exit 0

echo "== fetching the headers of ${wheels[*]} (1 GB, once)"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
pip=$root/build/venv/bin/pip
if [ ! -x "$pip" ]; then
  /usr/bin/python3 -m venv "$scratch/venv"
  pip=$scratch/venv/bin/pip
fi
rm -rf "$target"
mkdir -p "$target/include"
for wheel in "${wheels[@]}"; do  # one at a time, so that only one lies on the disk
  "$pip" download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
    --dest "$scratch/wheels" "$wheel"
  /usr/bin/python3 - "$target/include" "$scratch"/wheels/*.whl <<'PYTHON'
import pathlib, sys, zipfile
target = pathlib.Path(sys.argv[1])
for wheel in sys.argv[2:]:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            _, found, inner = name.partition("/include/")
            if found and not name.endswith("/"):
                path = target / inner
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(name))
PYTHON
  rm -f "$scratch"/wheels/*.whl
done
for header in "${needed[@]}"; do
  [ -e "$target/include/$header" ] || [ -e "$target/include/cccl/$header" ] ||
    { echo "the wheels hold no $header" >&2; exit 1; }
done
echo "${wheels[*]}" >"$target/versions"
