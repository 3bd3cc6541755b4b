#!/usr/bin/env bash
# run.sh [--heavy] [FILTER...]: runs the programs whose name contains a FILTER (all without one), one
# after the other, prints a table and writes it to build/frameworks/table.md. Needs the release
# build; makes the programs' environment the first time.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
"$here/setup.sh"
exec python3 "$here/run.py" "$@"
