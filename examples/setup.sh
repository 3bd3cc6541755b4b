#!/usr/bin/env bash
# Everything a fresh Debian 12 machine needs: packages, a Python venv with the stock PyTorch wheel,
# and the release build. Does nothing twice. Sourced by quickstart.sh and test/run.sh.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=$root/build/venv

packages=(g++ cmake ninja-build pkg-config python3 python3-dev python3-venv ca-certificates
  libboost-graph-dev libeigen3-dev libfmt-dev libgtest-dev libbenchmark-dev
  nlohmann-json3-dev libcli11-dev libtomlplusplus-dev libzstd-dev libsqlite3-dev)

say() { printf '\n== %s\n' "$*"; }

install_packages() {
  local missing=() package
  for package in "${packages[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  say "installing ${missing[*]}"
  local as_root=()
  [ "$(id -u)" = 0 ] || as_root=(sudo)
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# make_venv DIRECTORY REQUIREMENTS: a Python environment that satisfies a list. The stamp is a copy of
# the list.
make_venv() {
  local directory=$1 wanted=$2
  cmp -s "$wanted" "$directory/requirements.installed" && return 0
  local size=""
  ! grep -q '^torch==' "$wanted" || size=" (the torch wheel is 0.5 GB)"
  say "making the Python environment ${directory#"$root/"}$size"
  mkdir -p "$(dirname "$directory")"
  [ -x "$directory/bin/python" ] || /usr/bin/python3 -m venv "$directory"
  if ! "$directory/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$wanted"; then
    echo "cannot install $wanted into ${directory#"$root/"}: is the package index reachable? PIP_INDEX_URL names another one" >&2
    return 1
  fi
  cp "$wanted" "$directory/requirements.installed"
}

# make_version_venv VERSION: build/venv-VERSION with that torch and what it imports.
make_version_venv() {
  local wanted=$root/build/requirements-$1.txt
  mkdir -p "$root/build"
  sed -E "s/^torch==.*/torch==$1/; /^(torchvision|triton|transformers)==/d" \
    "$root/examples/pytorch/requirements.txt" >"$wanted"
  make_venv "$root/build/venv-$1" "$wanted"
}

build_release() {
  "$venv/bin/python" "$root/cmake/fetch_cuda_headers.py"
  say "building (build/release)"
  (cd "$root" && cmake --preset release ${PHANTORA_CMAKE_ARGUMENTS-} >build/configure.log 2>&1) || { cat "$root/build/configure.log"; return 1; }
  cmake --build "$root/build/release" "$@"
}

setup() {
  install_packages
  make_venv "$venv" "$root/examples/pytorch/requirements.txt"
  build_release
}

# For what only runs `phantora`: builds nothing where there is one, or where PHANTORA names one.
need_phantora() { [ -n "${PHANTORA-}" ] || [ -x "$root/build/release/bin/phantora" ] || setup; }
