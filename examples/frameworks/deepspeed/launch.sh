#!/bin/sh
# launch.sh DEEPSPEED ARGUMENTS: starts the launcher on each host with a hostfile, as where hosts
# cannot reach each other by ssh. GROUP_RANK is the host's number.
launcher=$1
shift
printf 'host0 slots=2\nhost1 slots=2\n' >"hostfile.$GROUP_RANK"
exec "$launcher" --hostfile "hostfile.$GROUP_RANK" --no_ssh --node_rank "$GROUP_RANK" \
  --master_addr host0 --master_port 29600 "$@"
