#!/usr/bin/env bash
# Ray's own Python environment, build/frameworks/venv-ray (1.6 GB): PyTorch as in examples/pytorch, and Ray Train. Does
# nothing twice.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../../setup.sh"
make_venv "$root/build/frameworks/venv-ray" "$here/requirements.txt"
