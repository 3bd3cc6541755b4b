#!/usr/bin/env bash
# Fuzzes every parser for SECONDS each (default 30), or those that are named:
#
#     test/fuzz/run.sh [SECONDS [TARGET...]]
#
# Installs clang-16 and builds what is missing. Inputs that broke something are left in
# build/fuzz/crashes/TARGET, all that were of interest in build/fuzz/corpus/TARGET.
source "$(dirname "${BASH_SOURCE[0]}")/../../examples/setup.sh"

packages+=(clang-16 libclang-rt-16-dev)
install_packages
cd "$root"
say "building (build/fuzz)"
mkdir -p build
cmake --preset fuzz >build/configure-fuzz.log 2>&1 || { cat build/configure-fuzz.log; exit 1; }
cmake --build --preset fuzz
python3 test/fuzz/seeds.py build/fuzz/seeds

seconds=${1:-30}
targets=("${@:2}")
[ ${#targets[@]} -gt 0 ] || targets=($(basename -a build/fuzz/seeds/*))
broken=0
for target in "${targets[@]}"; do
  corpus=build/fuzz/corpus/$target crashes=build/fuzz/crashes/$target
  mkdir -p "$corpus" "$crashes"
  if build/fuzz/bin/"fuzz_$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 \
    -dict=test/fuzz/numbers.dict -artifact_prefix="$crashes/" "$corpus" "build/fuzz/seeds/$target" \
    >"build/fuzz/$target.log" 2>&1; then
    say "$target: $(sed -n 's/^stat::number_of_executed_units: //p' "build/fuzz/$target.log") executions, nothing found"
  else
    broken=1
    say "$target: broken; build/fuzz/bin/fuzz_$target with one of these repeats it"
    ls -1 "$crashes"
    grep -E "does not hold|what\(\)|runtime error|SUMMARY" "build/fuzz/$target.log" || true
  fi
done
exit $broken
