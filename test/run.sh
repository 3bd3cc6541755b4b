#!/usr/bin/env bash
# All tests, from nothing. `--all` adds the heavy framework runs (label heavy).
source "$(dirname "${BASH_SOURCE[0]}")/../examples/setup.sh"
# A second environment for the bindings, so that neither asks the other for versions.
bindings=$root/build/bindings/venv
packages+=(doxygen)  # ctest documentation
install_packages
make_venv "$bindings" "$root/test/bindings/requirements.txt"
export PHANTORA_CMAKE_ARGUMENTS="${PHANTORA_CMAKE_ARGUMENTS-} -DPHANTORA_PYTHON=ON -DPython_EXECUTABLE=$bindings/bin/python"
setup

select=(-LE heavy)
[ "${1-}" != --all ] || select=()
say "running the tests"
cd "$root"
exec ctest --test-dir build/release --output-on-failure --no-tests=error "${select[@]}"
