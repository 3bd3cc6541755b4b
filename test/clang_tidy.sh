#!/usr/bin/env bash
# clang_tidy.sh CLANG_TIDY BUILD: checks the bodies and headers of the library; .clang-tidy has the rules.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# GCC's own warnings are none of clang's business.
printf '%s\0' lib/*/*.cpp | xargs -0 -P "$(nproc)" -n 1 \
  "$1" -p "$2" --quiet --extra-arg=-Wno-unknown-warning-option
