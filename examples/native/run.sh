#!/usr/bin/env bash
# run.sh DIR [FILTER...]: runs what build.sh has made in DIR/build under `phantora run`, and the programs whose
# name contains a FILTER alone, if any is given; prints one table and leaves it in DIR/build/table.md. Makes
# the release build the first time.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../setup.sh"
need_phantora
exec python3 "$here/run.py" "$@"
