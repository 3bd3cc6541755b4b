#pragma once

#include <array>

/// How launchers tell a process which rank it is: names of environment variables, nullptr where a
/// launcher has none.
namespace phantora::channel {

struct RankVariables {
  const char* rank;        ///< among all
  const char* ranks;       ///< how many there are
  const char* local_rank;  ///< among those of its host
  const char* local_ranks;
};

/// In the order in which they are believed: PyTorch's (torchrun, and phantora itself), Open MPI's,
/// MVAPICH2's, PMIx's and PMI's (Hydra: MPICH, Intel MPI), Slurm's.
inline constexpr std::array<RankVariables, 6> rank_variables = {{
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
     "MV2_COMM_WORLD_LOCAL_SIZE"},
    {"PMIX_RANK", nullptr, nullptr, nullptr},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", nullptr},
}};

/// Set with `--per run`: the GPUs of each host, between commas, as GPUS:MODEL:MEMORY, which become
/// the three variables below. Whoever knows its rank among all is on the host that has the GPU of
/// that number.
inline constexpr const char* host_gpus_variable = "PHANTORA_HOST_GPUS";
/// Names of all simulated hosts, between commas, and of the process's own.
inline constexpr const char* host_names_variable = "PHANTORA_HOST_NAMES";
inline constexpr const char* host_name_variable = "PHANTORA_HOST_NAME";

/// What a process can be told about its GPUs without taking part in the simulation: how many its
/// host has, their model's key and the memory of each in bytes.
inline constexpr const char* gpus_variable = "PHANTORA_GPUS";
inline constexpr const char* gpu_model_variable = "PHANTORA_GPU_MODEL";
inline constexpr const char* gpu_memory_variable = "PHANTORA_GPU_MEMORY";

}  // namespace phantora::channel
