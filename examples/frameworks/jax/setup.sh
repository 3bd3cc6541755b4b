#!/usr/bin/env bash
# JAX's own Python environment, build/frameworks/venv-jax (1.4 GB): no library of NVIDIA's but the compilers that XLA
# calls. Does nothing twice.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../../setup.sh"
make_venv "$root/build/frameworks/venv-jax" "$here/requirements.txt"
