#!/usr/bin/env bash
# Runs COMMAND as if no CUDA toolkit were installed here: what a user's machine looks like.
#
#   test/without_toolkit.sh COMMAND...
#
# In a mount namespace of its own (a user namespace too where you are not root), an empty directory
# lies over each toolkit, and folders that a toolkit shares with others (/usr/local/bin, /usr/include
# ...) are shown without what belongs to it: links into it, scripts that call it, and files named as
# its own are. Nothing on the disk changes. Stops with status 1 if something of a toolkit can still
# be seen, or where namespaces are not permitted.
set -euo pipefail
shopt -s nullglob

fail() { printf 'without_toolkit.sh: %s\n' "$@" >&2; exit 1; }

[ $# -gt 0 ] || fail "usage: test/without_toolkit.sh COMMAND..."

if [ "${PHANTORA_TOOLKIT_NAMESPACE-}" = "" ]; then
  export PHANTORA_TOOLKIT_NAMESPACE=new
  if [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
    exec unshare --mount --propagation private "$BASH" "${BASH_SOURCE[0]}" "$@"
  elif unshare --map-root-user --mount true 2>/dev/null; then
    exec unshare --map-root-user --mount --propagation private "$BASH" "${BASH_SOURCE[0]}" "$@"
  fi
  fail "mount namespaces are not permitted here (unshare --mount, with --map-root-user or without):" \
    "a CUDA toolkit cannot be hidden, so COMMAND was not run"
fi

# Names under which a toolkit's files lie in folders that it shares with others.
own_names='((cuda|cublas|cudnn|cufft|cufile|cupti|curand|cusolver|cusparse|nccl|nvml|nvrtc|nvJitLink|nvshmem).*\.h(pp)?|crt|nv|nvcc.*|ptxas|fatbinary|nvlink|cicc|cudafe\+\+|bin2c|lib(cuda|cudart|cudadevrt|cublas|cublasLt|cudnn|cufft|cufile|cupti|curand|cusolver|cusparse|nccl|nvrtc|nvJitLink|nvidia-ml|nvshmem)([_-].*)?\.(a|so.*))'

# Whether a folder is one that programs of all kinds share, so that it cannot be hidden whole.
shared() {
  case $1 in / | /bin | /lib | /lib64 | /opt | /usr | /usr/bin | /usr/lib | /usr/lib64 | /usr/local) return 0 ;; esac
  return 1
}

roots=()
add_root() {
  local root known
  root=$(readlink -f -- "$1") && [ -d "$root" ] && ! shared "$root" || return 0
  for known in ${roots[@]+"${roots[@]}"}; do [[ $root/ != "$known"/* ]] || return 0; done
  roots+=("$root")
}
for place in /usr/local/cuda* /opt/cuda* "${CUDA_HOME-}" "${CUDA_PATH-}" "${CUDA_ROOT-}" "${CUDAToolkit_ROOT-}"; do
  [ -z "$place" ] || add_root "$place"
done
# Where each nvcc on PATH lies, or where the script of that name says that it does.
for nvcc in $(type -ap nvcc); do
  add_root "$(dirname "$(dirname "$(readlink -f "$nvcc")")")"
  for called in $(head -c 4096 "$nvcc" | LC_ALL=C grep -aoE '^exec +"?/[^ "]+/bin/nvcc' | grep -oE '/.*'); do
    add_root "$(dirname "$(dirname "$(readlink -f "$called")")")"
  done
done
for folder in /usr/local/nvvm /usr/local/targets; do [ ! -d "$folder" ] || add_root "$folder"; done

for root in ${roots[@]+"${roots[@]}"}; do mount -t tmpfs -o size=1m,mode=755 toolkit-hidden "$root"; done

# What of a shared folder belongs to a toolkit: files named so, links that lead nowhere now, and
# scripts that name a toolkit's folder.
toolkits_entries() {
  find "$1" -mindepth 1 -maxdepth 1 -regextype posix-extended -regex ".*/$own_names"
  find "$1" -mindepth 1 -maxdepth 1 -xtype l
  [[ $1 != */bin ]] || [ ${#roots[@]} = 0 ] ||
    find "$1" -mindepth 1 -maxdepth 1 -type f -size -8 -exec grep -lFs "${roots[@]/#/-e}" -- {} + || true
}

# The shared folders that hold any of it: a copy of each without. Links stay links, everything else is
# bound to where it was.
scratch=$(mktemp -d)
mount -t tmpfs toolkit-hidden "$scratch"
number=0
for folder in /usr/local/bin /usr/local/include /usr/local/lib /usr/local/lib64 /usr/bin /usr/include \
  /usr/lib /usr/lib64 /usr/lib/*-linux-gnu; do
  [ -d "$folder" ] && [ "$(readlink -f "$folder")" = "$folder" ] || continue
  declare -A theirs=()
  while read -r entry; do theirs[$entry]=1; done < <(toolkits_entries "$folder")
  [[ "${!theirs[*]} " =~ /$own_names\  ]] || continue  # links that lead nowhere are harmless
  number=$((number + 1))
  before=$scratch/$number.before after=$scratch/$number.after
  mkdir "$before" "$after"
  mount --rbind "$folder" "$before"
  for entry in "$folder"/* "$folder"/.[!.]*; do
    [ "${theirs[$entry]-}" = "" ] || continue
    name=${entry##*/}
    if [ -L "$entry" ]; then cp -P "$before/$name" "$after/$name"; continue; fi
    if [ -d "$entry" ]; then mkdir "$after/$name"; else : >"$after/$name"; fi
    mount --rbind "$before/$name" "$after/$name"
  done
  mount --rbind "$after" "$folder"
done
umount --lazy "$scratch"  # what is bound stays
rmdir "$scratch"

unset CUDA_HOME CUDA_PATH CUDA_ROOT CUDA_BIN_PATH CUDAToolkit_ROOT CUDACXX CUDAHOSTCXX NVCC_PREPEND_FLAGS \
  NVCC_APPEND_FLAGS CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH LD_LIBRARY_PATH CMAKE_PREFIX_PATH \
  CMAKE_INCLUDE_PATH CMAKE_LIBRARY_PATH
path=
IFS=: read -ra folders <<<"$PATH"
for folder in "${folders[@]}"; do
  for root in ${roots[@]+"${roots[@]}"}; do
    [[ $(readlink -m -- "$folder")/ != "$root"/* ]] || continue 2
  done
  path+=${path:+:}$folder
done
export PATH=$path

# Nothing is taken on trust.
left=()
for folder in "${folders[@]}" /usr/{,local/}{include,lib,lib64} /lib /lib64 /usr/lib/*-linux-gnu /usr/local/cuda*/{include,lib64,bin} \
  /opt/cuda*/{include,lib64,bin}; do
  for name in cuda.h cuda_runtime_api.h cudnn.h nccl.h nvcc libcudart.so* libcuda.so* libnvrtc.so* libcudnn.so* libnccl.so*; do
    for found in "$folder"/$name; do [ ! -e "$found" ] || left+=("$found"); done
  done
done
[ ${#left[@]} = 0 ] || fail "a toolkit can still be seen:" "${left[@]}"

unset PHANTORA_TOOLKIT_NAMESPACE
exec "$@"
