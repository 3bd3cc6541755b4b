#!/usr/bin/env bash
# clang_tidy.sh CLANG_TIDY BUILD [FILES...]: checks the bodies (all, or FILES) and headers of the library; .clang-tidy
# has the rules.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tidy=$1 build=$2
shift 2
[ $# -gt 0 ] || set -- lib/*/*.cpp
# GCC's own warnings are none of clang's business.
printf '%s\0' "$@" | xargs -0 -P "$(nproc)" -n 1 \
  "$tidy" -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option
