#!/usr/bin/env bash
# vLLM's own Python environment, build/frameworks/venv-vllm (5 GB): it pins another torch than the frameworks'.
# Does nothing twice.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../../setup.sh"
make_venv "$root/build/frameworks/venv-vllm" "$here/requirements.txt"
