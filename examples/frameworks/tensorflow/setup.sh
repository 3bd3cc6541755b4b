#!/usr/bin/env bash
# TensorFlow's own Python environment, build/frameworks/venv-tensorflow (2.2 GB): no library of NVIDIA's but the compiler
# that TensorFlow calls. Does nothing twice.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../../setup.sh"
make_venv "$root/build/frameworks/venv-tensorflow" "$here/requirements.txt"
