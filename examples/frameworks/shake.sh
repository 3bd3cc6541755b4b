#!/usr/bin/env bash
# shake.sh [--runs N] [--at-once N] [--seed N] [FILTER...]: runs small programs of the list in random order,
# several at once, each with a random --runnable, affinity and priority, while all cores are kept busy.
# Fails if one hangs or fails, or if two runs of a program write different reports (--host-time off).
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../setup.sh"
need_phantora
"$here/setup.sh"
exec python3 "$here/shake.py" "$@"
