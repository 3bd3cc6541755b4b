#!/usr/bin/env bash
# Tests without_toolkit.sh with a toolkit made for the purpose: what it hides, what it keeps, and that
# it stops when something is left.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/toolkit/{bin,include} "$work/other/bin"
touch "$work/toolkit/include/cuda.h"
printf '#!/bin/sh\n' >"$work/toolkit/bin/nvcc"
printf '#!/bin/sh\necho kept\n' >"$work/other/bin/phantora_tool"
chmod +x "$work"/*/bin/*

fail() { echo "without_toolkit_test.sh: $*" >&2; exit 1; }
hidden() { PATH=$work/toolkit/bin:$work/other/bin:$PATH "$here/without_toolkit.sh" "$@"; }

# Found by its compiler on PATH alone, and by a variable alone.
said=$(hidden bash -c 'phantora_tool; echo "${CUDA_HOME-unset}"; ls -A "$1"; type -P nvcc || true' - "$work/toolkit")
[ "$said" = $'kept\nunset' ] || fail "expected the tool, no CUDA_HOME, an empty folder, no nvcc; got: $said"
said=$(CUDA_HOME=$work/toolkit "$here/without_toolkit.sh" ls -A "$work/toolkit")
[ -z "$said" ] || fail "the folder of CUDA_HOME still holds $said"

# Outside nothing has changed, and the status is the command's.
[ -e "$work/toolkit/include/cuda.h" ] || fail "the toolkit is gone outside"
status=0
hidden bash -c 'exit 7' || status=$?
[ "$status" = 7 ] || fail "the command's status 7 came back as $status"

# A header that it does not know how to hide stops it, with its name.
touch "$work/other/bin/nccl.h"
if said=$(hidden true 2>&1); then fail "it went on though nccl.h was in sight"; fi
[[ $said == *"$work/other/bin/nccl.h"* ]] || fail "it does not name what is left: $said"
