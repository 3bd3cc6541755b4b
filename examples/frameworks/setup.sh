#!/usr/bin/env bash
# The frameworks' own Python environment, build/frameworks/venv (2.8 GB), and what their programs read:
# a tokenizer and a text, both made here. Does nothing twice.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../setup.sh"
build=$root/build/frameworks
make_venv "$build/venv" "$here/requirements.txt"
[ -e "$build/data/text/text.json" ] || "$build/venv/bin/python" "$here/make_data.py" "$build/data"
