#!/usr/bin/env bash
# The frameworks' own Python environment, build/frameworks/venv, and what their programs read:
# a tokenizer and a text, both made here. Does nothing twice.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(cd "$here/../.." && pwd)/build/frameworks
venv=$build/venv

mkdir -p "$build"
if ! cmp -s "$here/requirements.txt" "$venv/requirements.installed"; then
  echo "making the Python environment in build/frameworks/venv (2.8 GB)"
  [ -x "$venv/bin/python" ] || /usr/bin/python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$here/requirements.txt"
  cp "$here/requirements.txt" "$venv/requirements.installed"
fi
[ -e "$build/data/text/text.json" ] || "$venv/bin/python" "$here/make_data.py" "$build/data"
