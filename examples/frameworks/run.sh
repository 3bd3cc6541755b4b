#!/usr/bin/env bash
# run.sh [--heavy] [--patience X] [--list] [FILTER...]: runs the programs whose name contains a FILTER
# (all without one), one after the other, and prints a table. build/frameworks/table.md has the last row
# of each program. Needs the release build; makes the programs' environment the first time.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
"$here/setup.sh"
exec python3 "$here/run.py" "$@"
