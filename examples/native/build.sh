#!/usr/bin/env bash
# build.sh DIR: builds NVIDIA's cuda-samples and nccl-tests and Karpathy's llm.c, whose sources (git checkouts)
# are in DIR/cuda-samples, DIR/nccl-tests and DIR/llm.c, into DIR/build; what is missing is left out. Needs
# nvcc of CUDA 13 on PATH or in /usr/local/cuda, NCCL's header and library in it, cmake, ninja and Open MPI.
# Sources are changed in three places: one architecture, what finds no library here is left out, and llm.c's
# call of cudaMemAdvise as CUDA 13 has it.
set -euo pipefail
dir=$(cd "$1" && pwd)
cuda=${CUDA_HOME:-/usr/local/cuda}
export PATH="$cuda/bin:$PATH"
jobs=${JOBS:-$(nproc)}
out=$dir/build
hooks=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/build/release/lib/phantora
mkdir -p "$out"

if [ -d "$dir/cuda-samples" ]; then
  samples=$dir/cuda-samples
  grep -rl CMAKE_CUDA_ARCHITECTURES "$samples" --include=CMakeLists.txt |
    xargs sed -i -E 's/set\(CMAKE_CUDA_ARCHITECTURES [0-9 ]+\)/set(CMAKE_CUDA_ARCHITECTURES 90)/'
  : >"$out/cuda-samples.log"
  # leave_out WHY NAME...: run.py reads it in the log.
  leave_out() {
    local why=$1 name
    shift
    for name; do
      sed -i "/add_subdirectory($name)/d" "$samples"/Samples/*/CMakeLists.txt
      echo "left out: $name: $why" >>"$out/cuda-samples.log"
    done
  }
  folders() { for folder in "$samples"/Samples/$1/*/; do basename "$folder"; done; }
  sed -i '/7_libNVVM/d' "$samples/Samples/CMakeLists.txt"
  leave_out "libNVVM and LLVM" $(folders 7_libNVVM)
  leave_out "Tegra's hardware" $(folders 8_Platform_Specific/Tegra)
  leave_out "Windows" simpleD3D11 simpleD3D11Texture simpleD3D12
  [ -e "$cuda/lib64/libnppc.so" ] || leave_out NPP watershedSegmentationNPP
  [ -e "$cuda/lib64/libnvjpeg.so" ] || leave_out nvJPEG nvJPEG nvJPEG_encoder
  [ -e "$cuda/lib64/libcufft_static.a" ] || leave_out "the static cuFFT" simpleCUFFT_callback
  nm -D "$cuda/lib64/stubs/libcuda.so" 2>/dev/null | grep -q cuEGLStreamProducerConnect ||
    leave_out "EGL streams in the driver's library" EGLStream_CUDA_CrossGPU EGLStream_CUDA_Interop
  cmake -S "$samples" -B "$out/cuda-samples" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CUDA_COMPILER="$cuda/bin/nvcc" >>"$out/cuda-samples.log"
  cmake --build "$out/cuda-samples" -j"$jobs" -- -k 0 >>"$out/cuda-samples.log" || echo "some samples did not build: $out/cuda-samples.log"
fi

if [ -d "$dir/nccl-tests" ]; then
  # With the CUDA runtime that nvcc links by default; their own default is the shared one.
  options=(CUDA_HOME="$cuda" NCCL_HOME="$cuda" CUDARTLIB=cudart_static
    NVCC_GENCODE="-gencode=arch=compute_90,code=sm_90")
  make -C "$dir/nccl-tests" -j"$jobs" "${options[@]}" BUILDDIR="$out/nccl-tests" >"$out/nccl-tests.log"
  # Of the MPI variants one: they differ in nothing but how ranks are started.
  make -C "$dir/nccl-tests/src" -j"$jobs" "${options[@]}" MPI=1 \
    MPI_HOME="${MPI_HOME:-/usr/lib/x86_64-linux-gnu/openmpi}" NAME_SUFFIX=_mpi BUILDDIR="$out/nccl-tests" \
    "$out/nccl-tests/all_reduce_perf_mpi" >>"$out/nccl-tests.log"
fi

if [ -d "$dir/llm.c" ]; then
  mkdir -p "$out/llm.c"
  sed -i -E 's/cudaMemAdvise\(([^;]*), cudaCpuDeviceId\)/cudaMemAdvise(\1, cudaMemLocation{cudaMemLocationTypeHost, 0})/' \
    "$dir"/llm.c/llmc/*.h "$dir"/llm.c/llmc/*.cuh "$dir"/llm.c/*.cu
  # NVML comes with the driver; without one and without the toolkit's stub, with the stand-in.
  nvml=(-L"$cuda/lib64/stubs" -lnvidia-ml)
  [ -e "$cuda/lib64/stubs/libnvidia-ml.so" ] || nvml=(-L"$hooks" -l:libnvidia-ml.so.1 -Xlinker --unresolved-symbols=ignore-in-shared-libs)
  options=(-std=c++17 -O3 -t=0 --use_fast_math -arch=sm_90 -I"$dir/llm.c" -lcublas -lcublasLt)
  {
    nvcc "${options[@]}" -DENABLE_BF16 -DMULTI_GPU "$dir/llm.c/train_gpt2.cu" -o "$out/llm.c/train_gpt2cu" -lnccl "${nvml[@]}"
    nvcc "${options[@]}" "$dir/llm.c/train_gpt2_fp32.cu" -o "$out/llm.c/train_gpt2fp32cu"
  } >"$out/llm.c.log" 2>&1
fi
