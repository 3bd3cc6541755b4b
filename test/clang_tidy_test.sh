#!/usr/bin/env bash
# clang_tidy_test.sh CLANG_TIDY BUILD: whether clang_tidy.sh fails where there is something to find, and only there; and
# whether it finds what has changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
if out=$(./clang_tidy.sh "$1" "$2" test/clang_tidy/finding.cpp 2>&1); then
  echo "clang_tidy.sh is content with test/clang_tidy/finding.cpp"
  exit 1
fi
grep -F "[bugprone-integer-division" <<<"$out" || { echo "$out"; exit 1; }
./clang_tidy.sh "$1" "$2" lib/units.cpp
if git rev-parse --git-dir > /dev/null 2>&1; then
  nothing=$(git hash-object -t tree /dev/null)
  checked=$(./clang_tidy.sh echo "$2" --since "$nothing")
  for file in lib/units.cpp include/phantora/units.hpp; do
    grep -qF " $file" <<<"$checked" || { echo "clang_tidy.sh does not check $file, which is new"; exit 1; }
  done
  ! grep -F README <<<"$checked"
fi
