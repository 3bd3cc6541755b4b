#!/usr/bin/env bash
# All tests, from nothing. `--all` adds the heavy framework runs (label heavy).
source "$(dirname "${BASH_SOURCE[0]}")/../examples/setup.sh"
setup

select=(-LE heavy)
[ "${1-}" != --all ] || select=()
say "running the tests"
cd "$root"
exec ctest --test-dir build/release --output-on-failure --no-tests=error "${select[@]}"
