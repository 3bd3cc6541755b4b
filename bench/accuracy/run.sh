#!/usr/bin/env bash
# The table of simulated against real training steps (README.md in this folder), with the versions
# that the real ones were taken with. Arguments go to training.py, e.g. --only gpt2.
source "$(dirname "${BASH_SOURCE[0]}")/../../examples/setup.sh"
setup
make_venv "$root/build/venv-2.11" "$root/bench/accuracy/requirements.txt"
exec "$root/build/venv-2.11/bin/python" "$root/bench/accuracy/training.py" "$root/build/release/bin/phantora" \
  "$root/build/venv-2.11/bin/python" "$@"
