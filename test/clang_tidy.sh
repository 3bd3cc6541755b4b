#!/usr/bin/env bash
# clang_tidy.sh CLANG_TIDY BUILD [FILES... | --since COMMIT]: checks the library (all of it, FILES, or what has changed
# since COMMIT): bodies, the public headers that they include, and those that nothing of the library includes.
# .clang-tidy has the rules.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tidy=$1 build=$2
shift 2

if [ "${1-}" = --since ]; then
  commit=$2
  mapfile -t files < <(git diff --name-only --diff-filter=d "$commit" -- 'lib/*.[ch]pp' 'include/*.hpp')
  [ ${#files[@]} -gt 0 ] || { echo "clang_tidy.sh: nothing of the library has changed since $commit"; exit 0; }
  set -- "${files[@]}"
fi
if [ $# -eq 0 ]; then
  mapfile -t files < <(git ls-files "lib/*.cpp")
  set -- "${files[@]}"
  for header in include/phantora/*.hpp include/phantora/*/*.hpp; do
    grep -qFr --include='*.[ch]pp' "<${header#include/}>" lib || set -- "$@" "$header"
  done
fi
# GCC's own warnings are none of clang's business.
printf '%s\0' "$@" | xargs -0 -P "$(nproc)" -n 1 \
  "$tidy" -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option
