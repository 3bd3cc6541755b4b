#!/usr/bin/env bash
# run.sh DIR [FILTER...]: runs what build.sh has made in DIR/build under `phantora run`, and the programs whose
# name contains a FILTER alone, if any is given; prints one table and leaves it in DIR/build/table.md.
set -euo pipefail
exec python3 "$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/run.py" "$@"
