#!/usr/bin/env bash
# The table of simulated against real training steps (README, "How accurate it is").
# Arguments go to training.py, e.g. --only gpt2.
source "$(dirname "${BASH_SOURCE[0]}")/../../examples/setup.sh"
setup
exec "$venv/bin/python" "$root/bench/accuracy/training.py" "$root/build/release/bin/phantora" \
  "$venv/bin/python" "$@"
