#!/bin/bash
# Runs SimGrid (from Debian), the naive oracle and us on the same flows, one core, and prints the
# ratios of their CPU times and the largest differences between their completion times.
# usage: bench/peers/run.sh [ROWS...]    ROWS: short (default), long (SimGrid needs minutes), late, huge
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$root/build/bench
work=$build/peers
mkdir -p "$work"
[ -e /usr/include/simgrid/s4u.hpp ] || { apt-get update -q && apt-get install -y -q libsimgrid-dev; }
cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DPHANTORA_ADAPTERS=OFF \
  -DPHANTORA_TESTS=OFF -DPHANTORA_BENCH=ON > "$work/cmake.log"
cmake --build "$build" --target peers_ours peers_oracle peers_simgrid > "$work/build.log"
max_min="--cfg=network/model:CM02 --cfg=network/TCP-gamma:0 --cfg=network/crosstraffic:0 --log=root.thres:error"
core=$(($(nproc) - 1))

# Seconds of the core: a busy machine stretches wall time.
cpu() { sed -n 's/.*cpu_s=\([0-9.]*\).*/\1/p' <<< "$1"; }

# The least CPU time of ten runs of ours: these take milliseconds.
least() {
  for _ in {1..10}; do cpu "$(taskset -c "$core" "$build/bin/peers_ours" "$@")"; done | sort -g | head -n 1
}

# Largest and mean relative difference of two columns of durations; absolute ones below 2 ns are 0.
difference() {
  paste "$1" "$2" | awk '{ d = $1 - $2; if (d < 0) d = -d; r = d < 2e-9 ? 0 : d / $2; s += r
    if (r > m) m = r } END { printf "max %.1e, mean %.1e", m, s / NR }'
}

# row WITH_SIMGRID NETWORK KIND COUNT LOAD
row() {
  local simgrid=$1; shift
  local ours oracle peer
  ours=$(FCT_OUT=$work/ours.txt taskset -c "$core" "$build/bin/peers_ours" "$@")
  oracle=$(FCT_OUT=$work/oracle.txt taskset -c "$core" "$build/bin/peers_oracle" "$@")
  echo "$ours"
  echo "  oracle $(cpu "$oracle") s: $(awk "BEGIN { printf \"%.1f\", $(cpu "$oracle") / $(cpu "$ours") }")x," \
    "completion times differ $(difference "$work/ours.txt" "$work/oracle.txt")"
  [ "$simgrid" = yes ] || return 0
  # shellcheck disable=SC2086
  peer=$(FCT_OUT=$work/simgrid.txt taskset -c "$core" "$build/bin/peers_simgrid" "$@" $max_min 2> "$work/simgrid.log")
  echo "  simgrid $(cpu "$peer") s: $(awk "BEGIN { printf \"%.1f\", $(cpu "$peer") / $(cpu "$ours") }")x," \
    "completion times differ $(difference "$work/ours.txt" "$work/simgrid.txt")"
}

for rows in "${@:-short}"; do
  case $rows in
    short)
      for kind in open burst; do row yes ft $kind 1000 0.6; row yes tree $kind 1000 0.6; done
      row yes ft open 10000 0.3 ;;
    long)
      row yes tree open 10000 0.6
      row yes ft open 10000 0.6
      row yes ft burst 10000 0.6
      row yes ft open 100000 0.3 ;;
    huge)
      row no ft burst 100000 0.6 ;;
    late)
      in_order=$(least tree open 1000 0.6)
      FCT_OUT=$work/in_order.txt "$build/bin/peers_ours" tree open 1000 0.6 > "$work/in_order.log"
      for lateness in 10000 100000 1000000; do
        FCT_OUT=$work/late.txt "$build/bin/peers_ours" tree open 1000 0.6 $lateness
        cmp "$work/in_order.txt" "$work/late.txt" &&
          echo "  equal to the bit; $(awk "BEGIN { printf \"%.1f\", $(least tree open 1000 0.6 $lateness) / $in_order }")x the in-order time"
      done ;;
    *) echo "unknown rows \"$rows\": expected short, long, huge or late" >&2; exit 2 ;;
  esac
done
