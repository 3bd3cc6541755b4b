#!/usr/bin/env bash
# Real against simulated training steps, one after the other on this host, which has GPUs: see
# same_host.py. Takes the `python3` of the environment, with PyTorch 2.11, torchvision and Transformers.
#
# Usage: same_host.sh [--gpus N] [--json OUT]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
exec python3 "$root/bench/accuracy/same_host.py" "${PHANTORA:-$root/build/release/bin/phantora}" "$@"
