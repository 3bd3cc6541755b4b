#!/usr/bin/env bash
# From nothing to the main job: an unmodified distributed PyTorch training on a simulated cluster of
# 2 hosts x 8 H200, on this machine. Writes build/report.json and build/trace.json.
# Arguments are passed on to `phantora run`, e.g. --host-time off.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
setup

say "running examples/pytorch/train_gpt.py on 16 simulated H200s"
cd "$root"
exec build/release/bin/phantora run --cluster h200:2x8 \
  --report build/report.json --trace build/trace.json "$@" \
  -- build/venv/bin/python examples/pytorch/train_gpt.py
