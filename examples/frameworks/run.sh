#!/usr/bin/env bash
# run.sh [--heavy] [--patience X] [--list] [FILTER...]: runs the programs whose name contains a FILTER
# (all without one), one after the other, and prints a table. build/frameworks/table.md has the last row
# of each program. Makes the release build and the programs' environment the first time.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../setup.sh"
need_phantora
"$here/setup.sh"
exec python3 "$here/run.py" "$@"
