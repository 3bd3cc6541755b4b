#!/usr/bin/env bash
# SGLang's own Python environment, build/frameworks/venv-sglang: it pins another torch than the frameworks'.
# Does nothing twice.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
venv=$(cd "$here/../../.." && pwd)/build/frameworks/venv-sglang

if ! cmp -s "$here/requirements.txt" "$venv/requirements.installed"; then
  echo "making the Python environment in build/frameworks/venv-sglang (5 GB)"
  [ -x "$venv/bin/python" ] || /usr/bin/python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$here/requirements.txt"
  cp "$here/requirements.txt" "$venv/requirements.installed"
fi
